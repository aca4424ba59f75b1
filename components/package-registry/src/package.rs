//! A package: its tags and its version runs. It is small and replaced as a whole, so a change is visible entirely or
//! not at all.

mod events;
mod messages;

use crate::checksum::Checksum;
use crate::package_list;
use crate::version::Version;
pub use events::Events;
use kit::Timestamp;
pub use messages::{MessageChange, MessageChanges, SentMessage};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The event ids that a package keeps. A change whose outcome was lost is recognised as long as fewer changes than this
/// have followed it.
const REMEMBERED_EVENTS: usize = 32;

/// Most tags a package can have, so that it stays small.
pub const MAX_TAGS: usize = 1000;

/// Most bytes of one version run. It is read as a whole, and the store takes values of up to 32 MiB.
pub const MAX_RUN: u64 = 16 << 20;

/// The tag that installers use when none is named.
pub const LATEST: &str = "latest";

#[derive(Debug, Clone, PartialEq)]
pub struct Package {
    /// Counts the changes.
    pub revision: u64,
    /// The last changes.
    pub events: Events,
    pub created: Timestamp,
    /// The last change of any kind.
    pub modified: Timestamp,
    /// The last publication.
    pub published: Timestamp,
    /// Oldest first.
    pub runs: Vec<RunRef>,
    /// Tags that were set; [`Package::dist_tags`] adds a computed `latest`.
    pub tags: BTreeMap<String, Tag>,
    /// The highest listed version.
    pub highest: Option<Version>,
    /// The highest listed version that is no prerelease. Old builds did not store it, so it may be unknown while the
    /// highest version is a prerelease.
    pub highest_stable: Option<Version>,
    pub messages: MessageChanges,
    /// The upload of the latest version. Metadata shows its package-level fields.
    pub latest_upload: Option<String>,
    pub ids: VersionIds,
}

/// The numeric ids of a package's versions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VersionIds {
    /// Whether the index of ids has every listed version.
    pub are_indexed: bool,
    /// By upload, the ids of versions whose usual id another version had first.
    pub drawn: BTreeMap<String, u64>,
}

impl VersionIds {
    /// Adds the ids that maintenance has indexed meanwhile.
    pub fn extend(&mut self, other: &VersionIds) {
        self.are_indexed |= other.are_indexed;
        self.drawn.extend(other.drawn.clone());
    }

    /// The id of the version with this upload; `None` if the upload's own id is malformed.
    pub fn of(&self, upload: &str) -> Option<u64> {
        self.drawn.get(upload).copied().or_else(|| package_list::number(upload))
    }
}

/// A package's reference to a version run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRef {
    pub id: String,
    /// Versions that it lists.
    pub listed: u64,
    /// Its size as [`crate::version_run::VersionRun::size`] counts it.
    pub size: u64,
    /// The checksums of its blobs, in the order of [`crate::version_run::VersionRun::to_blobs`]. `None` if an earlier
    /// build wrote the run, and no publication has added them since.
    pub checksums: Option<[Checksum; 3]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    pub version: String,
    pub at: Timestamp,
}

/// Why a tag cannot be set or removed.
#[derive(Debug, PartialEq, Eq)]
pub enum TagError {
    /// The package has [`MAX_TAGS`] tags.
    TooManyTags,
    NoSuchTag,
}

impl Package {
    /// A package without versions.
    pub fn new(now: Timestamp) -> Self {
        Package {
            revision: 0,
            events: Events::default(),
            created: now,
            modified: now,
            published: now,
            runs: Vec::new(),
            tags: BTreeMap::new(),
            highest: None,
            highest_stable: None,
            messages: MessageChanges::default(),
            latest_upload: None,
            ids: VersionIds::default(),
        }
    }

    /// Whether the change with this event id was made.
    pub fn has_applied(&self, event: &str) -> bool {
        self.events.iter().any(|seen| seen == event)
    }

    /// `_rev`: unique among all revisions, including those of an earlier, removed package of the same name.
    pub fn revision_id(&self) -> String {
        let mut id = String::new();
        self.write_revision_id(&mut id);
        id
    }

    pub fn write_revision_id(&self, out: &mut String) {
        // Writing to a `String` does not fail.
        let _ = write!(out, "{}-{}", self.revision, self.events.last());
    }

    /// The number in a revision's id; `None` if the package never had the revision. If the revision's event is
    /// forgotten, the id is accepted unless a message has changed since.
    pub fn number_of(&self, revision_id: &str) -> Option<u64> {
        let (number, event) = revision_id.split_once('-')?;
        let number = number.parse().ok()?;
        let age = usize::try_from(self.revision.checked_sub(number)?).ok();
        // An earlier, removed package of the same name had other events.
        let is_own = match age.and_then(|age| self.events.before_last(age)) {
            Some(own) => own == event,
            None => number >= self.messages.last,
        };
        is_own.then_some(number)
    }

    /// Records that the current change sets the deprecation messages of these versions. `changed` has each version's
    /// message before.
    pub fn change_messages(&mut self, changed: Vec<(String, String)>) {
        self.messages.record(self.revision + 1, changed);
    }

    /// The number of versions that metadata lists.
    pub fn listed(&self) -> u64 {
        self.runs.iter().map(|run| run.listed).sum()
    }

    /// The total size of its version runs, in bytes.
    pub fn stored(&self) -> u64 {
        self.runs.iter().map(|run| run.size).sum()
    }

    /// The version of `latest` if the tag was not set: the highest version that is no prerelease, or else the highest.
    pub fn computed_latest(&self) -> Option<&Version> {
        self.highest_stable.as_ref().or(self.highest.as_ref())
    }

    /// Every tag and its version. `latest` is present as long as a version is listed.
    pub fn dist_tags(&self) -> BTreeMap<&str, &str> {
        let computed = self.computed_latest().into_iter().map(|version| (LATEST, version.as_str()));
        let tags = self.tags.iter().map(|(tag, set)| (tag.as_str(), set.version.as_str()));
        computed.chain(tags).collect()
    }

    pub fn latest(&self) -> Option<&str> {
        let set = self.tags.get(LATEST).map(|tag| tag.version.as_str());
        set.or(self.computed_latest().map(Version::as_str))
    }

    /// Records a change that is made now.
    pub fn record_change(&mut self, event: &str, now: Timestamp) {
        self.revision += 1;
        self.modified = self.modified.max(now);
        self.events.push(event);
        self.events.keep(REMEMBERED_EVENTS);
    }

    /// Adds a version. `run` has it, and the versions of the newest `merged` runs, which it replaces.
    pub fn publish(
        &mut self,
        version: &Version,
        tag: &str,
        upload: &str,
        merged: usize,
        run: RunRef,
        now: Timestamp,
    ) -> Result<(), TagError> {
        self.set_tag(tag, version.as_str(), upload, now)?;
        self.runs.truncate(self.runs.len().saturating_sub(merged));
        self.runs.push(run);
        if self.highest.as_ref().is_none_or(|highest| highest < version) {
            self.highest = Some(version.clone());
        }
        if !version.is_prerelease() && self.highest_stable.as_ref().is_none_or(|highest| highest < version) {
            self.highest_stable = Some(version.clone());
        }
        if self.latest() == Some(version.as_str()) {
            self.latest_upload = Some(upload.to_owned());
        }
        self.published = self.published.max(now);
        Ok(())
    }

    /// Points `tag` at a version of this package, whose file is in `upload`.
    pub fn set_tag(&mut self, tag: &str, version: &str, upload: &str, now: Timestamp) -> Result<(), TagError> {
        if self.tags.len() >= MAX_TAGS && !self.tags.contains_key(tag) {
            return Err(TagError::TooManyTags);
        }
        self.tags.insert(tag.to_owned(), Tag { version: version.to_owned(), at: now });
        if tag == LATEST {
            self.latest_upload = Some(upload.to_owned());
        }
        Ok(())
    }

    /// Removes a tag that was set. `computed_upload` has the file of the version that `latest` falls back
    /// to.
    pub fn remove_tag(&mut self, tag: &str, computed_upload: Option<&str>) -> Result<(), TagError> {
        self.tags.remove(tag).ok_or(TagError::NoSuchTag)?;
        if tag == LATEST {
            self.latest_upload = computed_upload.map(str::to_owned);
        }
        Ok(())
    }

    /// Updates the tags after an unpublication; `listed` are the remaining versions. A tag of an unpublished version
    /// moves to its version in `requested_tags`, or is removed. `latest` does not move to a prerelease while another
    /// version is listed, although npm asks for the highest of all.
    pub fn remove_unpublished(
        &mut self,
        listed: &BTreeSet<String>,
        requested_tags: impl Fn(&str) -> Option<String>,
        now: Timestamp,
    ) {
        let versions = || listed.iter().filter_map(|version| Version::parse(version));
        self.highest = versions().max();
        self.highest_stable = versions().filter(|version| !version.is_prerelease()).max();
        let is_listed = |version: &str| listed.contains(version);
        let has_stable = self.highest_stable.is_some();
        let may_be_latest =
            |version: &str| !has_stable || Version::parse(version).is_some_and(|version| !version.is_prerelease());
        self.tags.retain(|tag, set| {
            if !is_listed(&set.version) {
                let requested = requested_tags(tag).filter(|version| is_listed(version));
                let Some(version) = requested.filter(|version| tag != LATEST || may_be_latest(version)) else {
                    return false;
                };
                *set = Tag { version, at: now };
            }
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1000);

    fn run(id: &str, listed: u64) -> RunRef {
        RunRef { id: id.into(), listed, size: listed, checksums: None }
    }

    fn publish(package: &mut Package, version: &str, tag: &str) {
        let upload = format!("u{version}");
        let version = Version::parse(version).unwrap();
        package.publish(&version, tag, &upload, 0, run(version.as_str(), 1), NOW).unwrap();
    }

    #[test]
    fn latest_is_computed_until_it_is_set() {
        let mut package = Package::new(NOW);
        assert_eq!((package.latest(), package.dist_tags().len()), (None, 0));
        publish(&mut package, "1.9.0", "beta");
        publish(&mut package, "1.10.0", "beta");
        publish(&mut package, "1.10.0-rc.1", "next");
        assert_eq!(
            package.dist_tags(),
            BTreeMap::from([("latest", "1.10.0"), ("beta", "1.10.0"), ("next", "1.10.0-rc.1")])
        );
        assert_eq!(package.latest_upload.as_deref(), Some("u1.10.0"));
        package.set_tag(LATEST, "1.9.0", "u1.9.0", NOW).unwrap();
        assert_eq!((package.latest(), package.latest_upload.as_deref()), (Some("1.9.0"), Some("u1.9.0")));
        publish(&mut package, "2.0.0", "beta");
        assert_eq!((package.latest(), package.latest_upload.as_deref()), (Some("1.9.0"), Some("u1.9.0")));
        package.remove_tag(LATEST, Some("u2.0.0")).unwrap();
        assert_eq!((package.latest(), package.latest_upload.as_deref()), (Some("2.0.0"), Some("u2.0.0")));
        assert_eq!(package.remove_tag(LATEST, None), Err(TagError::NoSuchTag));
    }

    #[test]
    fn a_prerelease_is_computed_as_latest_only_without_a_stable_version() {
        let mut package = Package::new(NOW);
        publish(&mut package, "2.0.0-rc.1", "next");
        assert_eq!((package.latest(), package.latest_upload.as_deref()), (Some("2.0.0-rc.1"), Some("u2.0.0-rc.1")));
        publish(&mut package, "1.0.0", "old");
        assert_eq!((package.latest(), package.latest_upload.as_deref()), (Some("1.0.0"), Some("u1.0.0")));
        publish(&mut package, "2.0.0-rc.2", "next");
        assert_eq!((package.latest(), package.latest_upload.as_deref()), (Some("1.0.0"), Some("u1.0.0")));
        package.remove_unpublished(&["1.0.0", "2.0.0-rc.2"].map(str::to_owned).into(), |_| None, NOW);
        assert_eq!(package.latest(), Some("1.0.0"));
        package.remove_unpublished(&["2.0.0-rc.1", "2.0.0-rc.2"].map(str::to_owned).into(), |_| None, NOW);
        assert_eq!(package.latest(), Some("2.0.0-rc.2"));
    }

    #[test]
    fn a_lower_version_published_as_latest_is_latest() {
        let mut package = Package::new(NOW);
        publish(&mut package, "2.0.0", "latest");
        publish(&mut package, "1.0.1", "latest");
        assert_eq!((package.latest(), package.latest_upload.as_deref()), (Some("1.0.1"), Some("u1.0.1")));
    }

    #[test]
    fn merging_replaces_the_newest_runs() {
        let mut package = Package::new(NOW);
        for version in ["1.0.0", "1.0.1", "1.0.2"] {
            publish(&mut package, version, "latest");
        }
        let version = Version::parse("1.0.3").unwrap();
        package.publish(&version, "latest", "u", 2, run("merged", 3), NOW).unwrap();
        let ids: Vec<&str> = package.runs.iter().map(|run| run.id.as_str()).collect();
        assert_eq!((ids, package.listed()), (vec!["1.0.0", "merged"], 4));
    }

    #[test]
    fn the_last_changes_are_recognised() {
        let mut package = Package::new(NOW);
        for event in 0..100 {
            assert!(!package.has_applied(&event.to_string()));
            package.record_change(&event.to_string(), NOW);
        }
        assert!(package.has_applied("99") && package.has_applied("68") && !package.has_applied("67"));
        assert_eq!((package.revision, package.revision_id().as_str()), (100, "100-99"));
    }

    #[test]
    fn time_never_runs_backwards() {
        let mut package = Package::new(NOW);
        package.record_change("a", Timestamp::from_millis(1));
        assert_eq!(package.modified, NOW);
    }

    #[test]
    fn tags_of_unpublished_versions_move_or_are_removed() {
        let mut package = Package::new(NOW);
        for (version, tag) in [("1.0.0", "old"), ("1.1.0", "beta"), ("2.0.0", "latest")] {
            publish(&mut package, version, tag);
        }
        let requested_tags = |tag: &str| Some(if tag == "latest" { "1.0.0" } else { "3.0.0" }.to_owned());
        package.remove_unpublished(&["1.0.0".to_owned()].into(), requested_tags, NOW);
        assert_eq!(package.dist_tags(), BTreeMap::from([("latest", "1.0.0"), ("old", "1.0.0")]));
        package.remove_unpublished(&BTreeSet::new(), |_| None, NOW);
        assert_eq!((package.dist_tags(), package.latest()), (BTreeMap::new(), None));
    }

    #[test]
    fn latest_moves_to_no_prerelease_while_there_is_another_version() {
        let mut package = Package::new(NOW);
        for (version, tag) in [("1.0.0", "latest"), ("2.0.0-rc.1", "next"), ("1.1.0", "latest")] {
            publish(&mut package, version, tag);
        }
        // As npm asks for it.
        let highest = |_: &str| Some("2.0.0-rc.1".to_owned());
        package.remove_unpublished(&["1.0.0", "2.0.0-rc.1"].map(str::to_owned).into(), highest, NOW);
        assert_eq!(package.dist_tags(), BTreeMap::from([("latest", "1.0.0"), ("next", "2.0.0-rc.1")]));
        package.remove_unpublished(&["2.0.0-rc.1".to_owned()].into(), highest, NOW);
        assert_eq!(package.latest(), Some("2.0.0-rc.1"));
    }

    #[test]
    fn the_number_of_tags_is_bounded_but_a_tag_can_always_move() {
        let mut package = Package::new(NOW);
        for tag in 0..MAX_TAGS {
            package.set_tag(&tag.to_string(), "1.0.0", "u", NOW).unwrap();
        }
        assert_eq!(package.set_tag("one more", "1.0.0", "u", NOW), Err(TagError::TooManyTags));
        assert_eq!(package.set_tag("0", "1.0.1", "u", NOW), Ok(()));
    }
}
