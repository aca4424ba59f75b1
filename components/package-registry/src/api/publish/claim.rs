//! Claims of versions. Of the projects below the top-level namespace that is the scope of a name, one may have a
//! version: at instance level two would be indistinguishable. Their packages are different roots, so the winner of two
//! publications at the same time is decided in the list of the projects with the version, which is one.
//!
//! A publication claims the version in that list before it writes anything else. Another one that finds the claim waits
//! until the claimant's package has the version. If that takes longer than its patience, it takes the claimant for dead
//! and claims the version itself. A claimant that was only slow must not write its package after that, so its claim is
//! valid for a shorter time, counted from before it was made, and it claims the version anew if the time is over right
//! before it writes the package. It is the same election as that of a root's creator ([`kit::root`]).

use super::error::PublishError;
use crate::api::access;
use crate::name::PackageName;
use crate::store::{self, Holders, VersionHolders};
use crate::version::Version;
use directory::project::Project;
use kit::root::Backoff;
use kit::store::StoreError;
use kit::{Env, Timestamp};
use std::rc::Rc;
use std::time::Duration;

/// For how long a publication waits for another one, at least, and on a slow store: the sum of its pauses, so that it
/// does not end early if the whole machine stops for a while.
const PATIENCE: Duration = Duration::from_secs(2);
const PATIENCE_PER_WRITE: u32 = 16;

/// For how long a claim is valid, at least, and on a slow store. If the package is created, the claim of its creation
/// comes after the last look at this one, and is valid for up to a second, or four writes, as well.
const LEASE: Duration = Duration::from_millis(500);
const LEASE_PER_CLAIM: u32 = 2;

/// How many claims a publication makes or waits for, before it gives up.
const ATTEMPTS: u32 = 16;

/// The part of one publication in the election.
pub struct VersionClaim<'a> {
    env: &'a Env,
    project: &'a Project,
    name: &'a PackageName,
    version: &'a Version,
    held: Option<HeldClaim>,
    /// How long each claim of this publication took.
    took: Vec<Duration>,
    attempts_left: u32,
}

struct HeldClaim {
    /// Right before it was written.
    began: Timestamp,
    lease: Duration,
}

/// Why a version cannot be claimed now.
enum Obstacle {
    /// Another project has it.
    Version,
    /// Another project may be about to publish it; the id of its claim.
    Claim(String),
}

impl<'a> VersionClaim<'a> {
    pub fn new(env: &'a Env, project: &'a Project, name: &'a PackageName, version: &'a Version) -> Self {
        VersionClaim { env, project, name, version, held: None, took: Vec::new(), attempts_left: ATTEMPTS }
    }

    /// Claims the version unless that was done, and is still valid. The error is 400 if another project has it. Reads
    /// the projects with the name, and the packages of those with the version. A version that cannot be confused is
    /// only listed, for the case that its project moves.
    pub fn hold(&mut self) -> Result<(), PublishError> {
        if self.name.scope().is_none() {
            return Ok(());
        }
        if !self.name.is_below(&self.project.root_namespace().path) {
            return match self.held.is_some() {
                true => Ok(()),
                false => self.list(),
            };
        }
        while !self.is_valid() {
            self.claim()?;
        }
        Ok(())
    }

    fn list(&mut self) -> Result<(), PublishError> {
        store::add_project_with_version(self.env, self.name, self.version, &self.project.key())?;
        self.held = Some(HeldClaim { began: self.env.clock.now(), lease: Duration::MAX });
        Ok(())
    }

    fn is_valid(&self) -> bool {
        // A clock that was set back makes every claim old.
        self.held.as_ref().is_some_and(|held| {
            let age = self.env.clock.now().millis() - held.began.millis();
            u128::try_from(age).is_ok_and(|age| age <= held.lease.as_millis())
        })
    }

    fn claim(&mut self) -> Result<(), PublishError> {
        let holders = store::holders(self.env, self.name)?;
        let mut overtaken: Option<String> = None;
        loop {
            self.attempts_left = self
                .attempts_left
                .checked_sub(1)
                .ok_or_else(|| PublishError::invalid("Could not obtain package lease. Please try again."))?;
            let (id, mut began) = (self.env.id(), self.env.clock.now());
            let obstacle =
                store::claim_version(self.env, self.name, self.version, &self.project.key(), &id, |listed| {
                    began = self.env.clock.now();
                    self.obstacle(&holders, listed, overtaken.as_deref())
                })?;
            match obstacle {
                None => {
                    // A claim is not made valid for longer by its own delay, nor by that of a single one, which may
                    // have stalled.
                    let usual = self.took.iter().min().filter(|_| self.took.len() > 1).copied().unwrap_or_default();
                    let lease = LEASE.max(usual * LEASE_PER_CLAIM);
                    let took = self.env.clock.now().millis() - began.millis();
                    self.took.push(Duration::from_millis(took.unsigned_abs()));
                    self.held = Some(HeldClaim { began, lease });
                    return Ok(());
                }
                Some(Obstacle::Version) => {
                    return Err(PublishError::invalid("Validation failed: Package already exists"));
                }
                Some(Obstacle::Claim(other)) => {
                    if self.outlasts(&holders, &other)? {
                        overtaken = Some(other);
                    }
                }
            }
        }
    }

    /// Waits for the end of another publication, or of the patience; whether its claim is still an obstacle. It is
    /// looked at without a compare-and-swap, for which some hosts open a connection.
    fn outlasts(&self, holders: &Rc<Holders>, claim: &str) -> Result<bool, StoreError> {
        let write = store::time_version_write(self.env, self.name, self.version)?;
        let patience = PATIENCE.max(write * PATIENCE_PER_WRITE);
        let (mut waited, mut backoff) = (Duration::ZERO, Backoff::new(self.env));
        while waited < patience {
            waited += backoff.pause();
            let listed = store::projects_with_version(self.env, self.name, self.version)?;
            match self.obstacle(holders, &listed, None)? {
                Some(Obstacle::Claim(other)) if other == claim => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// The obstacle to a claim of this publication, if there is one. The claim with the id `overtaken` is none.
    fn obstacle(
        &self,
        holders: &Rc<Holders>,
        listed: &VersionHolders,
        overtaken: Option<&str>,
    ) -> Result<Option<Obstacle>, StoreError> {
        let VersionClaim { env, project, name, version, .. } = *self;
        let unlisted = holders.without_version_lists().filter(|id| !listed.projects.contains(id));
        let others: Vec<u64> = listed.projects.iter().copied().chain(unlisted).filter(|id| *id != project.id).collect();
        let mut claimed = None;
        for id in access::projects_below(env, &others, project.root_namespace().id)? {
            let Some(sibling) = directory::project::by_id(env, id)? else { continue };
            let package = store::package(env, &sibling.key(), name)?;
            let stored = package.map(|package| store::find(env, &package, version.as_str())).transpose()?.flatten();
            match stored {
                Some(stored) if stored.is_listed() => return Ok(Some(Obstacle::Version)),
                // It was unpublished.
                Some(_) => {}
                None => {
                    let claim = listed.claim.as_ref().filter(|claim| claim.project == id);
                    claimed = claimed.or(claim.filter(|claim| Some(claim.id.as_str()) != overtaken));
                }
            }
        }
        Ok(claimed.map(|claim| Obstacle::Claim(claim.id.clone())))
    }
}
