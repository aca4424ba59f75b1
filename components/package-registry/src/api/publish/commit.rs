//! Adds a version to its package.

use super::error::PublishError;
use super::release::Release;
use crate::api::access::{self, PublishGrant};
use crate::api::error::same_text;
use crate::api::{latest, tag};
use crate::integrity::ComputedDigests;
use crate::name::PackageName;
use crate::package::{LATEST, Package};
use crate::segment::{self, IndexEntry, Segment, VersionState};
use crate::store::{self, Staging, StoredVersion};
use crate::version::Version;
use http::StatusCode;
use kit::root::Decision;
use kit::store::StoreError;
use kit::{Env, Error};
use serde_json::{Value, json};

/// A version that was received and checked.
pub struct Publication<'a> {
    pub env: &'a Env,
    pub grant: PublishGrant,
    pub name: &'a PackageName,
    pub version: &'a Version,
    pub computed: &'a ComputedDigests,
    /// The tag in the document. Its error is returned unless the version exists with another file.
    pub tag: Result<String, Error>,
    /// The error is returned only if the version does not exist yet.
    pub release: Result<Release, Error>,
}

/// The body of the answer, and whether the staged file is used.
pub enum Committed {
    /// The staged file belongs to the package.
    Added(Value),
    /// An earlier request published the same file; the staged one is not needed.
    Repeated(Value),
}

impl Publication<'_> {
    /// Writes the file's records and the segment, and then the package, which makes them visible.
    pub fn commit(&self, staging: &mut Staging) -> Result<Committed, PublishError> {
        let event = self.env.id();
        // The package that was prepared for a revision, in case the swap of that revision is retried.
        let mut prepared: Option<(Option<String>, Package)> = None;
        store::update_package(self.env, &self.grant.project.key(), self.name, |current| {
            if let Some(package) = &current
                && let Some(decision) = self.existing(package, &event, staging.id())?
            {
                return Ok(decision);
            }
            let release = self.release.as_ref().map_err(Error::clone)?;
            let revision = current.as_ref().map(Package::revision_id);
            let package = match prepared.take().filter(|(basis, _)| *basis == revision) {
                Some((_, package)) => package,
                None => self.prepare(current, release, &event, staging)?,
            };
            prepared = Some((revision, package.clone()));
            Ok(Decision::Write(package, Committed::Added(self.row(staging.id()))))
        })
    }

    /// The decision if the package has the version already, or had it.
    fn existing(
        &self,
        package: &Package,
        event: &str,
        upload: &str,
    ) -> Result<Option<Decision<Package, Committed>>, PublishError> {
        let added = || Some(Decision::Done(Committed::Added(self.row(upload))));
        match store::find(self.env, package, self.version.as_str())? {
            None if package.has_applied(event) => Ok(added()),
            None => Ok(None),
            Some(version) if version.upload == upload => Ok(added()),
            Some(version) => self.repeated(package, &version, event).map(Some),
        }
    }

    /// The decision on a version that exists. Clients repeat a request whose answer was lost, so the same bytes
    /// from the same publisher are no error. With another tag than at first they set that tag. With the same
    /// one they do not: the request may be late, and the tag may have moved since.
    fn repeated(
        &self,
        package: &Package,
        version: &StoredVersion,
        event: &str,
    ) -> Result<Decision<Package, Committed>, PublishError> {
        let exists = || same_text(StatusCode::FORBIDDEN, "Package already exists.");
        if version.state != VersionState::Listed {
            return Err(exists().into());
        }
        let upload = store::upload(self.env, &version.upload)?;
        if upload.integrity != self.computed.integrity || upload.publisher != self.grant.publisher {
            return Err(exists().into());
        }
        let answer = Committed::Repeated(self.row(&version.upload));
        let is_set = |tag: &str| package.tags.get(tag).is_some_and(|set| set.version == self.version.as_str());
        // Old builds did not store the first tag.
        let first_tag = upload.tag.as_deref().unwrap_or(LATEST);
        let tag = self.tag.as_deref().map_err(Error::clone)?;
        match Some(tag).filter(|tag| *tag != first_tag && !is_set(tag)) {
            Some(tag) if !package.has_applied(event) => {
                let mut package = package.clone();
                let set = package.set_tag(tag, self.version.as_str(), &version.upload, self.env.now);
                set.map_err(tag::tag_error)?;
                package.record_change(event, self.env.now);
                Ok(Decision::Write(package, answer))
            }
            _ => Ok(Decision::Done(answer)),
        }
    }

    /// Writes everything but the package, and returns the package with the new version.
    fn prepare(
        &self,
        current: Option<Package>,
        release: &Release,
        event: &str,
        staging: &mut Staging,
    ) -> Result<Package, PublishError> {
        let env = self.env;
        if self.exists_in_sibling()? {
            return Err(PublishError::invalid("Validation failed: Package already exists"));
        }
        match &current {
            None => store::add_project_with_name(env, self.name, &self.grant.project.key())?,
            Some(_) => store::record_publication(env, self.name, &self.grant.project.key())?,
        }
        if self.name.scope().is_some() {
            store::add_project_with_version(env, self.name, self.version, &self.grant.project.key())?;
        }
        staging.commit(self.computed.integrity, &self.grant.publisher, &release.tag)?;
        store::save_latest_fields(env, staging.id(), &release.latest_fields)?;
        if let Some(document) = &release.attestations {
            store::save_attestations(env, staging.id(), document)?;
        }
        let mut package = current.unwrap_or_else(|| Package::new(env.now));
        self.add(&mut package, release, staging.id())?;
        package.record_change(event, env.now);
        Ok(package)
    }

    /// Writes the segment of the version, merged with some of the package's, and lists it.
    fn add(&self, package: &mut Package, release: &Release, upload: &str) -> Result<(), PublishError> {
        let Publication { env, version, .. } = self;
        let entry = IndexEntry { version: version.as_str(), upload, at: env.now, state: VersionState::Listed };
        let new = Segment::of(&entry, &release.full, &release.abbreviated);
        let sizes: Vec<u64> = package.segments.iter().map(|segment| segment.size).collect();
        let merged = segment::to_merge(&sizes, new.size());
        let (_, newest) = package.segments.split_at(package.segments.len() - merged);
        let older: Vec<Segment> =
            newest.iter().map(|segment| store::segment(env, &segment.id)).collect::<Result<_, _>>()?;
        latest::complete(env, package)?;
        let segment = store::save_segment(env, &Segment::merge(older.into_iter().chain([new])))?;
        Ok(package.publish(version, &release.tag, upload, merged, segment, env.now).map_err(tag::tag_error)?)
    }

    /// Whether another project below the same top-level namespace has this version of a package whose
    /// scope is that namespace's path. At instance level the two would be indistinguishable. Reads the list of
    /// the projects with the name, and that of those with the version, which are few.
    fn exists_in_sibling(&self) -> Result<bool, StoreError> {
        let Publication { env, name, version, .. } = self;
        let project = &self.grant.project;
        let root = project.root_namespace().path.as_str();
        if name.scope() != Some(root) {
            return Ok(false);
        }
        let siblings = access::projects_with_name_below(env, name, project.root_namespace().id)?;
        let listed = store::projects_with_version(env, name, version)?;
        for id in siblings.with_version(&listed).filter(|id| *id != project.id) {
            if let Some(sibling) = directory::project::by_id(env, id)?
                && let Some(package) = store::package(env, &sibling.key(), name)?
                && store::find_listed(env, &package, version.as_str())?.is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The body of a successful answer: the row that the reference service keeps for a version. No
    /// client reads it.
    fn row(&self, upload: &str) -> Value {
        let now = self.env.now.to_iso();
        json!({
            "id": upload,
            "project_id": self.grant.project.id,
            "name": self.name.as_str(),
            "version": self.version.as_str(),
            "package_type": "npm",
            "status": "default",
            "status_message": null,
            "creator_id": self.grant.creator,
            "created_at": now,
            "updated_at": now,
            "last_downloaded_at": null,
        })
    }
}
