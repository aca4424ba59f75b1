//! Adds a version to its package.

use super::error::PublishError;
use super::release::Release;
use crate::api::access::PublishGrant;
use crate::api::error::same_text;
use crate::api::tag;
use crate::integrity::ComputedDigests;
use crate::name::PackageName;
use crate::package::Package;
use crate::segment::{self, IndexEntry, Segment, VersionState};
use crate::store::{self, Staging, StoredVersion};
use crate::version::Version;
use directory::project;
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
                && let Some(outcome) = self.existing(package, &event, staging.id())?
            {
                return Ok(Decision::Done(outcome));
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

    /// The outcome if the package has the version already.
    fn existing(&self, package: &Package, event: &str, upload: &str) -> Result<Option<Committed>, PublishError> {
        if package.has_applied(event) {
            return Ok(Some(Committed::Added(self.row(upload))));
        }
        match store::find(self.env, package, self.version.as_str())? {
            None => Ok(None),
            Some(version) if version.upload == upload => Ok(Some(Committed::Added(self.row(upload)))),
            Some(version) => self.repeated(&version).map(Some),
        }
    }

    /// The answer to a version that exists. Clients repeat a request whose answer was lost, so the
    /// same bytes from the same publisher are no error.
    fn repeated(&self, version: &StoredVersion) -> Result<Committed, PublishError> {
        if version.state == VersionState::Listed {
            let upload = store::upload(self.env, &version.upload)?;
            if upload.integrity == self.computed.integrity && upload.publisher == self.grant.publisher {
                return Ok(Committed::Repeated(self.row(&version.upload)));
            }
        }
        Err(same_text(StatusCode::FORBIDDEN, "Package already exists.").into())
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
        if current.is_none() {
            store::add_project_with_name(env, self.name, &self.grant.project.key())?;
        }
        staging.commit(self.computed.integrity, &self.grant.publisher)?;
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
        let segment = store::save_segment(env, &Segment::merge(older.into_iter().chain([new])))?;
        Ok(package.publish(version, &release.tag, upload, merged, segment, env.now).map_err(tag::tag_error)?)
    }

    /// Whether another project below the same top-level namespace has this version of a package whose
    /// scope is that namespace's path. At instance level the two would be indistinguishable.
    fn exists_in_sibling(&self) -> Result<bool, StoreError> {
        let Publication { env, name, version, .. } = self;
        let project = &self.grant.project;
        let root = project.root_namespace().path.as_str();
        if name.scope() != Some(root) {
            return Ok(false);
        }
        for id in store::projects_with_name(env, name)?.into_iter().filter(|id| *id != project.id) {
            let sibling = project::by_id(env, id)?.filter(|other| other.root_namespace().path == root);
            if let Some(sibling) = sibling
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
