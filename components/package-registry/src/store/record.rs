//! The stored records. Their JSON names are a wire format. Optional fields can be added, and unknown fields are
//! ignored. Any other change is a new format below a new prefix.

use crate::checksum::Checksum;
use crate::package::{Events, MessageChange, MessageChanges, Package, RunRef, Tag, VersionIds};
use crate::version::Version;
use directory::project::{Incarnation, ProjectKey};
use kit::Timestamp;
use kit::store::StoreError;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Serialize, Deserialize)]
pub struct PackageRecord {
    revision: u64,
    #[serde(with = "events")]
    events: Events,
    created: Timestamp,
    modified: Timestamp,
    published: Timestamp,
    #[serde(rename = "segments")]
    runs: Vec<RunRecord>,
    #[serde(default)]
    tags: BTreeMap<String, TagRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    highest: Option<String>,
    /// Stored only if the highest version is a prerelease; otherwise both are equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    highest_stable: Option<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    messages_changed: u64,
    /// Earlier builds do not store it, and drop it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message_changes: Option<MessageChangesRecord>,
    #[serde(rename = "about", default, skip_serializing_if = "Option::is_none")]
    latest_upload: Option<String>,
    /// Earlier builds index no ids, and drop both fields.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    ids_indexed: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    drawn_ids: BTreeMap<String, u64>,
}

#[derive(Serialize, Deserialize)]
struct RunRecord {
    id: String,
    listed: u64,
    size: u64,
    /// Earlier builds stored none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checksums: Option<[Checksum; 3]>,
}

#[derive(Serialize, Deserialize)]
struct MessageChangesRecord {
    known_since: u64,
    changes: Vec<MessageChangeRecord>,
}

#[derive(Serialize, Deserialize)]
struct MessageChangeRecord {
    revision: u64,
    version: String,
    before: Checksum,
}

#[derive(Serialize, Deserialize)]
struct TagRecord {
    version: String,
    at: Timestamp,
}

impl PackageRecord {
    /// `key` is the record's key, for errors.
    pub fn read(self, key: &str) -> Result<Package, StoreError> {
        let version = |text: Option<String>| {
            let parsed = text.map(|text| Version::parse(&text).ok_or(text)).transpose();
            parsed.map_err(|text| StoreError::corrupt(key, format!("its highest version is `{text}`")))
        };
        let highest = version(self.highest)?;
        let is_stable = |version: &&Version| !version.is_prerelease();
        let highest_stable = match version(self.highest_stable)? {
            None => highest.as_ref().filter(is_stable).cloned(),
            known => known,
        };
        let run = |RunRecord { id, listed, size, checksums }| RunRef { id, listed, size, checksums };
        let tag = |(tag, record): (String, TagRecord)| (tag, Tag { version: record.version, at: record.at });
        Ok(Package {
            revision: self.revision,
            events: self.events,
            created: self.created,
            modified: self.modified,
            published: self.published,
            runs: self.runs.into_iter().map(run).collect(),
            tags: self.tags.into_iter().map(tag).collect(),
            highest,
            highest_stable,
            messages: match self.message_changes {
                Some(known) => known.read(self.messages_changed),
                None => MessageChanges {
                    last: self.messages_changed,
                    known_since: self.messages_changed,
                    changes: Vec::new(),
                },
            },
            latest_upload: self.latest_upload,
            ids: VersionIds { are_indexed: self.ids_indexed, drawn: self.drawn_ids },
        })
    }
}

impl From<&Package> for PackageRecord {
    fn from(package: &Package) -> Self {
        let run = |run: &RunRef| {
            let RunRef { id, listed, size, checksums } = run.clone();
            RunRecord { id, listed, size, checksums }
        };
        let tag = |(tag, set): (&String, &Tag)| (tag.clone(), TagRecord { version: set.version.clone(), at: set.at });
        PackageRecord {
            revision: package.revision,
            events: package.events.clone(),
            created: package.created,
            modified: package.modified,
            published: package.published,
            runs: package.runs.iter().map(run).collect(),
            tags: package.tags.iter().map(tag).collect(),
            highest: package.highest.as_ref().map(Version::to_string),
            highest_stable: package
                .highest_stable
                .as_ref()
                .filter(|stable| package.highest.as_ref() != Some(stable))
                .map(Version::to_string),
            messages_changed: package.messages.last,
            message_changes: MessageChangesRecord::of(&package.messages),
            latest_upload: package.latest_upload.clone(),
            ids_indexed: package.ids.are_indexed,
            drawn_ids: package.ids.drawn.clone(),
        }
    }
}

impl MessageChangesRecord {
    /// `None` if no change is known.
    fn of(messages: &MessageChanges) -> Option<Self> {
        let record = |change: &MessageChange| {
            let MessageChange { revision, version, before } = change.clone();
            MessageChangeRecord { revision, version, before }
        };
        let changes: Vec<MessageChangeRecord> = messages.changes.iter().map(record).collect();
        (!changes.is_empty()).then_some(MessageChangesRecord { known_since: messages.known_since, changes })
    }

    fn read(self, last: u64) -> MessageChanges {
        let change = |record: MessageChangeRecord| {
            let MessageChangeRecord { revision, version, before } = record;
            MessageChange { revision, version, before }
        };
        let changes = self.changes.into_iter().map(change).collect();
        MessageChanges { last, known_since: self.known_since, changes }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// [`Events`] as a list of texts.
mod events {
    use crate::package::Events;
    use serde::de::{DeserializeSeed, Error, SeqAccess, Visitor};
    use serde::{Deserializer, Serializer};
    use std::fmt;

    pub fn serialize<S: Serializer>(events: &Events, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(events.iter())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Events, D::Error> {
        let mut events = Events::default();
        deserializer.deserialize_seq(List(&mut events))?;
        Ok(events)
    }

    struct List<'a>(&'a mut Events);

    impl<'de> Visitor<'de> for List<'_> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("a list of events")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
            while list.next_element_seed(Event(self.0))?.is_some() {}
            Ok(())
        }
    }

    struct Event<'a>(&'a mut Events);

    impl<'de> DeserializeSeed<'de> for Event<'_> {
        type Value = ();

        fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
            deserializer.deserialize_str(self)
        }
    }

    impl Visitor<'_> for Event<'_> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("an event")
        }

        fn visit_str<E: Error>(self, event: &str) -> Result<(), E> {
            if event.contains('\n') {
                return Err(E::custom("an event of two lines"));
            }
            self.0.push(event);
            Ok(())
        }
    }
}

/// A list of the projects that may have packages, or a package of one name, or one version of a name.
#[derive(Default, Serialize, Deserialize)]
pub struct ProjectsRecord {
    pub projects: Vec<u64>,
    /// Whether the projects are in the order of their last publications. Earlier builds did not reorder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_publication: bool,
    /// The incarnations of projects that are not the first with their ids.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    incarnations: BTreeMap<u64, Incarnation>,
    /// In a list by scoped name: the projects that have versions without a list of their own, because earlier builds
    /// wrote none. Absent: all projects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_version_lists: Option<BTreeSet<u64>>,
    /// In a list by version: the publication that claimed the version last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimRecord>,
}

/// A project's claim: it is about to publish a version, or did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRecord {
    pub project: u64,
    /// Unique for each claim.
    pub id: String,
}

impl ProjectsRecord {
    /// Begins the lists by version: from now on, every version of an added project has a list.
    pub fn begin_version_lists(&mut self) {
        let listed = || self.projects.iter().copied().collect();
        self.without_version_lists = Some(self.without_version_lists.take().unwrap_or_else(listed));
    }

    fn has(&self, project: &ProjectKey) -> bool {
        let listed = self.incarnations.get(&project.id).cloned().unwrap_or_default();
        self.projects.contains(&project.id) && listed == project.incarnation
    }

    /// Adds a project at the end, in place of a deleted project with its id. False if it is listed already.
    pub fn add(&mut self, project: &ProjectKey) -> bool {
        if self.has(project) {
            return false;
        }
        self.put_last(project);
        true
    }

    /// Moves a project to the end, in place of a deleted project with its id.
    pub fn put_last(&mut self, project: &ProjectKey) {
        self.forget(project.id);
        self.projects.push(project.id);
        if !project.incarnation.is_first() {
            self.incarnations.insert(project.id, project.incarnation.clone());
        }
    }

    pub fn is_last(&self, project: &ProjectKey) -> bool {
        self.projects.last() == Some(&project.id) && self.has(project)
    }

    pub fn key(&self, id: u64) -> ProjectKey {
        ProjectKey { id, incarnation: self.incarnations.get(&id).cloned().unwrap_or_default() }
    }

    /// A list of one project is in every order.
    pub fn is_by_publication(&self) -> bool {
        self.by_publication || self.projects.len() <= 1
    }

    /// Removes a project; false if it is not listed.
    pub fn remove(&mut self, project: &ProjectKey) -> bool {
        let is_there = self.has(project);
        if is_there {
            self.forget(project.id);
        }
        is_there
    }

    fn forget(&mut self, id: u64) {
        self.projects.retain(|listed| *listed != id);
        self.incarnations.remove(&id);
    }
}

/// A list of names of a project's packages (see [`super::package_names`]).
#[derive(Default, Serialize, Deserialize)]
pub struct PackageNamesRecord {
    pub packages: BTreeSet<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_a_list_of_texts() {
        for events in [vec![], vec!["a"], vec!["a", "", "b"]] {
            let record = serde_json::json!({
                "revision": 1, "events": events, "created": 0, "modified": 0, "published": 0, "segments": [], "tags": {},
            });
            let text = record.to_string();
            let read: PackageRecord = serde_json::from_str(&text).unwrap();
            assert_eq!(read.events.iter().collect::<Vec<_>>(), events);
            assert_eq!(serde_json::to_value(&read).unwrap(), record);
        }
    }

    #[test]
    fn lists_of_projects_are_written_as_they_were() {
        for text in [
            r#"{"projects":[]}"#,
            r#"{"projects":[7,8]}"#,
            r#"{"projects":[8,7],"by_publication":true,"incarnations":{"7":"01a0c4e1a80000000000000000000009"}}"#,
            r#"{"projects":[8,7],"by_publication":true,"without_version_lists":[8]}"#,
            r#"{"projects":[8,7],"claim":{"project":7,"id":"01a0c4e1a80000000000000000000009"}}"#,
        ] {
            let read: ProjectsRecord = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), text);
        }
    }

    #[test]
    fn events_of_another_type_are_refused() {
        for events in ["null", "{}", "\"a\"", "[1]", "[\"a\\nb\"]"] {
            let text = format!(
                "{{\"revision\":1,\"events\":{events},\"created\":0,\"modified\":0,\"published\":0,\"segments\":[]}}"
            );
            assert!(serde_json::from_str::<PackageRecord>(&text).is_err(), "{events}");
        }
    }
}
