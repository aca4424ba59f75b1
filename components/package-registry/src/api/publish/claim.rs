//! Claims of versions. Of the projects below a top-level namespace that may publish a name, only one may have a given
//! version: at group and instance level two would be indistinguishable. The projects' packages are different roots. So
//! the list of projects by version, a single root, decides between concurrent publications. If names are shared, this
//! holds for names whose scope is the path of the namespace.
//!
//! A publication claims the version in this list before it writes anything else. Another publication that finds the
//! claim waits until the claimant's package has the version. After [`CLAIM_TIMEOUT`], it takes the claimant for dead
//! and claims the version itself. A slow claimant must not write its package after that. So a claim is valid for
//! [`LEASE`] only, which is shorter and starts before the claim is written. If the lease has expired right before the
//! package is written, the claimant claims the version again. The election of a root's creator works alike
//! ([`kit::root`]).

use super::error::PublishError;
use crate::api::access;
use crate::name::PackageName;
use crate::store::{self, ProjectsByName, ProjectsByVersion, RootKey, VersionListing};
use crate::version::Version;
use directory::project::{Project, ProjectKey};
use kit::root::Backoff;
use kit::store::StoreError;
use kit::{Env, Timestamp};
use std::rc::Rc;
use std::time::Duration;

/// How long a publication waits for another publication's claim, at least; on a slow store, so many times a write. Only
/// pauses count, so that the wait does not end early if the whole machine stops for a while.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(2);
const CLAIM_TIMEOUT_PER_WRITE: u32 = 16;

/// How long a claim is valid, at least; on a slow store, so many times a claim. A new package's creation is claimed
/// after this claim was last checked. The creation claim is valid for up to a second, or four writes, too.
const LEASE: Duration = Duration::from_millis(500);
const LEASE_PER_CLAIM: u32 = 2;

/// How many claims a publication makes or waits for, before it gives up.
const ATTEMPTS: u32 = 16;

/// One publication's part in the election.
pub struct VersionClaim<'a> {
    env: &'a Env,
    project: &'a Project,
    list: VersionListing<'a>,
    /// The other projects that may publish the name. `None` if names are shared.
    others: Option<Vec<ProjectKey>>,
    held: Option<HeldClaim>,
    /// How long each claim of this publication took.
    took: Vec<Duration>,
    attempts_left: u32,
}

struct HeldClaim {
    /// The time right before the claim was written.
    began: Timestamp,
    lease: Duration,
}

/// Why a version cannot be claimed now.
enum Conflict {
    /// Another project has the version.
    Version,
    /// Another project may be about to publish it; the id of its claim.
    Claim(String),
}

impl<'a> VersionClaim<'a> {
    pub fn new(env: &'a Env, project: &'a Project, name: &'a PackageName, version: &'a Version) -> Self {
        let list = VersionListing { name, version, root: None };
        VersionClaim { env, project, list, others: None, held: None, took: Vec::new(), attempts_left: ATTEMPTS }
    }

    /// Sets the other projects that may publish the name.
    pub fn compete_with(&mut self, others: Vec<ProjectKey>) {
        // Another namespace may have the name, too, and a list has one claim.
        let has_own_list = !self.is_of_namespace() && !others.is_empty();
        self.list.root = has_own_list.then(|| RootKey::from(self.project.root_namespace()));
        self.others = Some(others);
    }

    /// Whether the name's scope is the path of the top-level namespace.
    fn is_of_namespace(&self) -> bool {
        self.list.name.is_below(&self.project.root_namespace().path)
    }

    /// Claims the version, unless this publication holds a valid claim. The error is 400 if another project has the
    /// version. Reads: the projects by name, and the packages of the projects by version. If no other project may have
    /// the version, it cannot be confused. A scoped name's is listed in any case, because its project may move.
    pub fn ensure_valid(&mut self) -> Result<(), PublishError> {
        if self.list.root.is_none() && !self.is_of_namespace() {
            return match self.held.is_some() || self.list.name.scope().is_none() {
                true => Ok(()),
                false => self.list(),
            };
        }
        if self.list.root.is_some() && self.held.is_none() && self.list.name.scope().is_some() {
            let of_all = VersionListing { root: None, ..self.list };
            store::add_project_with_version(self.env, &of_all, &self.project.key())?;
        }
        while !self.is_valid() {
            self.claim()?;
        }
        Ok(())
    }

    fn list(&mut self) -> Result<(), PublishError> {
        store::add_project_with_version(self.env, &self.list, &self.project.key())?;
        self.held = Some(HeldClaim { began: self.env.clock.now(), lease: Duration::MAX });
        Ok(())
    }

    fn is_valid(&self) -> bool {
        // If the clock was set back, the claim counts as expired.
        self.held.as_ref().is_some_and(|held| {
            let age = self.env.clock.now().millis() - held.began.millis();
            u128::try_from(age).is_ok_and(|age| age <= held.lease.as_millis())
        })
    }

    fn claim(&mut self) -> Result<(), PublishError> {
        let by_name = match &self.others {
            Some(_) if self.list.root.is_some() => Rc::default(),
            _ => store::projects_by_name(self.env, self.list.name)?,
        };
        let mut taken_over: Option<String> = None;
        loop {
            self.attempts_left = self
                .attempts_left
                .checked_sub(1)
                .ok_or_else(|| PublishError::invalid("Could not obtain package lease. Please try again."))?;
            let (id, mut began) = (self.env.id(), self.env.clock.now());
            let conflict = store::claim_version(self.env, &self.list, &self.project.key(), &id, |by_version| {
                began = self.env.clock.now();
                self.conflict(&by_name, by_version, taken_over.as_deref())
            })?;
            match conflict {
                None => {
                    // The lease follows the fastest of at least two earlier claims. This claim's own delay must not
                    // extend it, and a single earlier claim may have stalled.
                    let usual = self.took.iter().min().filter(|_| self.took.len() > 1).copied().unwrap_or_default();
                    let lease = LEASE.max(usual * LEASE_PER_CLAIM);
                    let took = self.env.clock.now().millis() - began.millis();
                    self.took.push(Duration::from_millis(took.unsigned_abs()));
                    self.held = Some(HeldClaim { began, lease });
                    return Ok(());
                }
                Some(Conflict::Version) => {
                    return Err(PublishError::invalid("Validation failed: Package already exists"));
                }
                Some(Conflict::Claim(other)) => {
                    if self.wait_for_lease(&by_name, &other)? {
                        taken_over = Some(other);
                    }
                }
            }
        }
    }

    /// Waits until another publication's claim ends, at most for the timeout. True if the claim is still a conflict.
    /// Reads without a compare-and-swap, for which some hosts open a connection.
    fn wait_for_lease(&self, by_name: &Rc<ProjectsByName>, claim: &str) -> Result<bool, StoreError> {
        let write = store::time_version_write(self.env, &self.list)?;
        let timeout = CLAIM_TIMEOUT.max(write * CLAIM_TIMEOUT_PER_WRITE);
        let (mut waited, mut backoff) = (Duration::ZERO, Backoff::new(self.env));
        while waited < timeout {
            waited += backoff.pause();
            let by_version = store::projects_by_version(self.env, &self.list)?;
            match self.conflict(by_name, &by_version, None)? {
                Some(Conflict::Claim(other)) if other == claim => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The projects that may have the version. A namespace's own list has only versions that several projects could
    /// publish, so all of them count.
    fn rivals(&self, by_name: &ProjectsByName, by_version: &ProjectsByVersion) -> Vec<u64> {
        match &self.others {
            Some(others) if self.list.root.is_some() => others.iter().map(|other| other.id).collect(),
            _ => {
                let unlisted = by_name.without_version_lists().filter(|id| !by_version.projects.contains(id));
                let listed = by_version.projects.iter().copied();
                listed.chain(unlisted).filter(|id| *id != self.project.id).collect()
            }
        }
    }

    /// The conflict that prevents a claim, if any. The claim with the id `taken_over` does not count.
    fn conflict(
        &self,
        by_name: &Rc<ProjectsByName>,
        by_version: &ProjectsByVersion,
        taken_over: Option<&str>,
    ) -> Result<Option<Conflict>, StoreError> {
        let VersionClaim { env, project, .. } = *self;
        let mut claimed = None;
        for id in access::projects_below(env, &self.rivals(by_name, by_version), project.root_namespace().id)? {
            let Some(sibling) = directory::project::by_id(env, id)? else { continue };
            if self.others.as_ref().is_some_and(|others| !others.contains(&sibling.key())) {
                continue;
            }
            let package = store::package(env, &sibling.key(), self.list.name)?;
            let version = self.list.version.as_str();
            let stored = package.map(|package| store::find(env, &package, version)).transpose()?.flatten();
            match stored {
                Some(stored) if stored.is_listed() => return Ok(Some(Conflict::Version)),
                // The sibling has unpublished the version.
                Some(_) => {}
                None => {
                    let claim = by_version.claim.as_ref().filter(|claim| claim.project == id);
                    claimed = claimed.or(claim.filter(|claim| Some(claim.id.as_str()) != taken_over));
                }
            }
        }
        Ok(claimed.map(|claim| Conflict::Claim(claim.id.clone())))
    }
}
