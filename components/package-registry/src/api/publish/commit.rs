//! Adds a version to its package.

use super::claim::VersionClaim;
use super::error::PublishError;
use super::release::Release;
use super::tags::DocumentTags;
use crate::api::access::ownership::{self, NameClaim};
use crate::api::access::{self, PublishGrant};
use crate::api::error::same_text;
use crate::api::request::RegistryRequest;
use crate::api::{latest, limits, tag};
use crate::integrity::ComputedDigests;
use crate::name::PackageName;
use crate::package::Package;
use crate::store::{self, NewVersion, Staging, StoredVersion};
use crate::version::Version;
use crate::version_run::{self, IndexEntry, VersionRun, VersionState};
use directory::project::ProjectKey;
use http::StatusCode;
use kit::root::Decision;
use kit::{Env, Error};
use serde_json::{Value, json};

/// A version that was received and checked.
pub struct Publication<'a> {
    pub request: &'a RegistryRequest,
    /// The request's environment, at the time at which the file began.
    pub env: &'a Env,
    pub grant: PublishGrant,
    pub name: &'a PackageName,
    pub version: &'a Version,
    pub computed: &'a ComputedDigests,
    /// Its error is returned, unless the version exists with another file.
    pub release: Result<Release, Error>,
}

/// The body of the answer, and whether the staged file is used.
pub enum Committed {
    /// The staged file belongs to the package.
    Added(Value),
    /// An earlier request published an equal file; the staged file is not needed.
    Repeated(Value),
}

impl Publication<'_> {
    /// Writes the file's records and the version run, and then the package, which makes them visible.
    pub fn commit(&self, staging: &mut Staging) -> Result<Committed, PublishError> {
        let event = self.env.id();
        // The package that was prepared for a revision, in case the swap of that revision is retried.
        let mut prepared: Option<(Option<String>, Package)> = None;
        let mut claim = VersionClaim::new(self.env, &self.grant.project, self.name, self.version);
        store::update_package(self.env, &self.grant.project.key(), self.name, |current| {
            if let Some(package) = &current
                && let Some(decision) = self.existing(package, &event, staging.id())?
            {
                return Ok(decision);
            }
            let release = self.release.as_ref().map_err(Error::clone)?;
            let revision = current.as_ref().map(Package::revision_id);
            let package = match prepared.take().filter(|(basis, _)| *basis == revision) {
                Some((_, mut package)) => {
                    // Maintenance adds ids without a revision.
                    current.iter().for_each(|current| package.ids.extend(&current.ids));
                    package
                }
                None => self.prepare(current, release, &event, staging, &mut claim)?,
            };
            claim.ensure_valid()?;
            prepared = Some((revision, package.clone()));
            let answer = self.row(&package, staging.id());
            Ok(Decision::Replace(package, Committed::Added(answer)))
        })
    }

    /// The decision if the package has the version, or had it.
    fn existing(
        &self,
        package: &Package,
        event: &str,
        upload: &str,
    ) -> Result<Option<Decision<Package, Committed>>, PublishError> {
        let added = || Some(Decision::Keep(Committed::Added(self.row(package, upload))));
        match store::find(self.env, package, self.version.as_str())? {
            None if package.has_applied(event) => Ok(added()),
            None => Ok(None),
            Some(version) if version.upload == upload => Ok(added()),
            Some(version) => self.repeated(package, &version, event).map(Some),
        }
    }

    /// The decision on a version that exists. Clients repeat a request whose answer was lost. So equal bytes from the
    /// same publisher are no error, unless the rest of the document is one. Tags that the first request lacked are set.
    /// Its own tags are not set again: the repetition may be late, and they may have moved since.
    fn repeated(
        &self,
        package: &Package,
        version: &StoredVersion,
        event: &str,
    ) -> Result<Decision<Package, Committed>, PublishError> {
        if !version.is_listed() {
            let text = format!(
                "{}@{} was unpublished, and its number is not used again: publish another version",
                self.name, self.version
            );
            return Err(same_text(StatusCode::FORBIDDEN, text).into());
        }
        let exists = || same_text(StatusCode::FORBIDDEN, "Package already exists.");
        let upload = store::upload(self.env, &version.upload)?;
        if upload.integrity != self.computed.integrity || !upload.publisher.is(&self.grant.publisher) {
            return Err(exists().into());
        }
        let release = self.release.as_ref().map_err(Error::clone)?;
        let answer = Committed::Repeated(self.row(package, &version.upload));
        if package.has_applied(event) {
            return Ok(Decision::Keep(answer));
        }
        let mut changed = package.clone();
        self.check_first_tag(package, release)?;
        self.set_tags(&mut changed, release, &version.upload, |tag| !upload.was_published_with(tag))?;
        if changed.tags == package.tags {
            return Ok(Decision::Keep(answer));
        }
        changed.record_change(event, self.env.now);
        Ok(Decision::Replace(changed, answer))
    }

    /// Sets the document's tags for which `is_new` is true, unless they are at these versions already. `upload` has the
    /// file of this publication.
    fn set_tags(
        &self,
        package: &mut Package,
        release: &Release,
        upload: &str,
        is_new: impl Fn(&str) -> bool,
    ) -> Result<(), PublishError> {
        for (tag, version) in release.tags.iter(self.version).filter(|(tag, _)| is_new(tag)) {
            if package.tags.get(tag).is_some_and(|set| set.version == version) {
                continue;
            }
            let upload = match version == self.version.as_str() {
                true => upload.to_owned(),
                false => self.upload_of(package, tag, version)?,
            };
            package.set_tag(tag, version, &upload, self.env.now).map_err(tag::tag_error)?;
        }
        Ok(())
    }

    /// The upload of another version, which a tag names.
    fn upload_of(&self, package: &Package, tag: &str, version: &str) -> Result<String, PublishError> {
        let found = store::find_listed(self.env, package, version)?;
        let missing = || {
            let text =
                format!("Validation failed: Tag {tag} is for version {version}, which the package does not have");
            PublishError::invalid(text)
        };
        found.map(|found| found.upload).ok_or_else(missing)
    }

    /// Writes everything but the package, and returns the package with the new version.
    fn prepare(
        &self,
        current: Option<Package>,
        release: &Release,
        event: &str,
        staging: &mut Staging,
        claim: &mut VersionClaim,
    ) -> Result<Package, PublishError> {
        let env = self.env;
        let (is_new, mut package) = (current.is_none(), current.unwrap_or_else(|| Package::new(env.now)));
        // The size, the older runs and the tags are checked before anything is written.
        self.check_size(&package, release)?;
        package.runs.iter_mut().try_for_each(|run_ref| store::add_checksums(env, run_ref))?;
        self.check_first_tag(&package, release)?;
        self.set_tags(&mut package, release, staging.id(), |_| true)?;
        if ownership::has_owners(env) {
            claim.compete_with(self.claim_name()?);
        }
        claim.ensure_valid()?;
        match is_new {
            true => store::add_project_with_name(env, self.name, &self.grant.project.key())?,
            false => store::record_publication(env, self.name, &self.grant.project.key())?,
        }
        let further_tags = release.tags.further.iter().map(|(tag, _)| tag.clone()).collect();
        staging.commit(self.computed.integrity, &self.grant.publisher, &release.tags.first, further_tags)?;
        store::save_package_level_fields(env, staging.id(), &release.package_level_fields)?;
        if let Some(document) = &release.attestations {
            store::save_attestations(env, staging.id(), document)?;
        }
        let (project, version) = (&self.grant.project.key(), self.version.as_str());
        let new = NewVersion { project, name: self.name, version, upload: staging.id() };
        package.ids.are_indexed |= is_new;
        store::index_version(env, &new, &mut package.ids)?;
        self.add(&mut package, release, staging.id())?;
        package.record_change(event, env.now);
        Ok(package)
    }

    /// Claims the name for the project, unless it may publish the name already. Returns the other projects that may.
    /// The error is 403 if the name is another project's or reserved.
    fn claim_name(&self) -> Result<Vec<ProjectKey>, PublishError> {
        let (PublishGrant { project, .. }, request, name) = (&self.grant, self.request, self.name);
        let why = match ownership::claim(self.env, Some(&request.caller), project, name)? {
            NameClaim::Granted(others) => return Ok(others),
            NameClaim::Reserved => format!("the name {name} is reserved for another project"),
            NameClaim::Owned(owner) => {
                let root = project.root_namespace();
                match ownership::present(self.env, root, &owner)? {
                    None => format!("the name {name} is kept for the owners of {}, who may transfer it", root.path),
                    Some(owner) => {
                        let is_visible = access::may_read(request, &owner)?;
                        let owner = if is_visible {
                            format!("the project {}", owner.full_path())
                        } else {
                            "another project".into()
                        };
                        format!(
                            "the name {name} belongs to {owner}, whose Maintainers may allow this project to publish it"
                        )
                    }
                }
            }
        };
        Err(same_text(StatusCode::FORBIDDEN, format!("403 Forbidden - {why}")).into())
    }

    /// Checks the version that the document's first tag names, if it is another one. The tag is for the published
    /// version in any case, as in the reference service.
    fn check_first_tag(&self, package: &Package, release: &Release) -> Result<(), PublishError> {
        let DocumentTags { first, first_names, .. } = &release.tags;
        match first_names {
            Some(version) => self.upload_of(package, first, version).map(drop),
            None => Ok(()),
        }
    }

    /// Checks that metadata can still be rendered with the version.
    fn check_size(&self, package: &Package, release: &Release) -> Result<(), PublishError> {
        let (size, most) = (package.stored() + release.full.len() as u64, limits::metadata(self.env));
        if size <= most {
            return Ok(());
        }
        let name = self.name;
        Err(PublishError::invalid(format!(
            "Validation failed: With this version, the metadata of {name} would have {size} bytes; at most \
             {most} are allowed by the variable {}. Unpublish versions that are not needed, or shorten the package.json",
            limits::MAX_METADATA
        )))
    }

    /// Writes the version's run, merged with some of the package's runs, and lists it.
    fn add(&self, package: &mut Package, release: &Release, upload: &str) -> Result<(), PublishError> {
        let Publication { env, version, .. } = self;
        let entry = IndexEntry { version: version.as_str(), upload, at: env.now, state: VersionState::Listed };
        let new = VersionRun::of(&entry, &release.full, &release.abbreviated);
        let sizes: Vec<u64> = package.runs.iter().map(|run| run.size).collect();
        let merged = version_run::to_merge(&sizes, new.size());
        let (_, newest) = package.runs.split_at(package.runs.len() - merged);
        let older: Vec<VersionRun> =
            newest.iter().map(|run_ref| store::version_run(env, run_ref)).collect::<Result<_, _>>()?;
        latest::complete(env, package)?;
        let run = store::save_run(env, &VersionRun::merge(older.into_iter().chain([new])))?;
        Ok(package.publish(version, &release.tags.first, upload, merged, run, env.now).map_err(tag::tag_error)?)
    }

    /// The body of a successful answer: the row that the reference service keeps for a version.
    fn row(&self, package: &Package, upload: &str) -> Value {
        let now = self.env.now.to_iso();
        json!({
            "id": package.ids.of(upload),
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
