//! Questions about the history of a repository.

use crate::git::{Commit, ObjectId};
use crate::repository_id::RepositoryId;
use crate::store::objects;
use kit::Env;
use kit::store::StoreError;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// The most commits that one question reads.
const MAX_COMMITS: usize = 20_000;

/// The commits of one or two repositories of a fork network.
pub struct History<'a> {
    env: &'a Env,
    /// A commit is read from the first one that has it.
    repositories: Vec<RepositoryId>,
}

/// Which of the two commits that a walk begins at reach a commit.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct ReachedBy {
    one: bool,
    other: bool,
}

impl ReachedBy {
    fn both(self) -> bool {
        self.one && self.other
    }

    fn joined(self, more: Self) -> Self {
        ReachedBy { one: self.one || more.one, other: self.other || more.other }
    }
}

struct WalkedCommit {
    reached: ReachedBy,
    parents: Vec<ObjectId>,
    seconds: i64,
}

impl<'a> History<'a> {
    pub fn new(env: &'a Env, repositories: &[RepositoryId]) -> Self {
        History { env, repositories: repositories.to_vec() }
    }

    /// The latest commit that both of these contain; `None` if there is none, or too many would be read.
    pub fn merge_base(&self, one: ObjectId, other: ObjectId) -> Result<Option<ObjectId>, StoreError> {
        let mut base = None;
        self.walk(one, other, |id, reached| {
            base = reached.both().then_some(id);
            base.is_some()
        })?;
        Ok(base)
    }

    /// Those of `wanted` that `new` contains and `old` does not; none if too many commits would be read.
    pub fn added(
        &self,
        new: ObjectId,
        old: ObjectId,
        wanted: &BTreeSet<ObjectId>,
    ) -> Result<BTreeSet<ObjectId>, StoreError> {
        let walked = self.walk(new, old, |_, _| false)?;
        let is_new = |id: &&ObjectId| walked.get(id).is_some_and(|commit| commit.reached.one && !commit.reached.other);
        Ok(wanted.iter().filter(is_new).copied().collect())
    }

    /// The commits that `new` contains and `old` does not, the latest first; none if too
    /// many would be read.
    pub fn since(&self, new: ObjectId, old: ObjectId) -> Result<Vec<ObjectId>, StoreError> {
        let walked = self.walk(new, old, |_, _| false)?;
        let find = |id: &ObjectId| walked.get(id).filter(|commit| commit.reached.one && !commit.reached.other);
        let mut pending: BinaryHeap<(i64, ObjectId)> =
            find(&new).map(|commit| (commit.seconds, new)).into_iter().collect();
        let (mut seen, mut commits) = (BTreeSet::from([new]), Vec::new());
        while let Some((_, id)) = pending.pop() {
            commits.push(id);
            let parents = find(&id).map(|commit| commit.parents.as_slice()).unwrap_or_default();
            for parent in parents {
                if let Some(commit) = find(parent)
                    && seen.insert(*parent)
                {
                    pending.push((commit.seconds, *parent));
                }
            }
        }
        Ok(commits)
    }

    /// Visits commits that one of these reaches, the latest first, until `visit` returns true, or only commits
    /// that both reach are left. Returns what it has read; nothing if that would be too much.
    fn walk(
        &self,
        one: ObjectId,
        other: ObjectId,
        mut visit: impl FnMut(ObjectId, ReachedBy) -> bool,
    ) -> Result<BTreeMap<ObjectId, WalkedCommit>, StoreError> {
        let mut commits: BTreeMap<ObjectId, WalkedCommit> = BTreeMap::new();
        let mut pending = BinaryHeap::new();
        let mut reach =
            vec![(one, ReachedBy { one: true, other: false }), (other, ReachedBy { one: false, other: true })];
        loop {
            for (id, by) in reach.drain(..) {
                if let Some(known) = commits.get_mut(&id) {
                    let joined = known.reached.joined(by);
                    if known.reached != joined {
                        known.reached = joined;
                        // Its parents are reached anew.
                        pending.push((known.seconds, id));
                    }
                    continue;
                }
                // A shallow history ends at a missing parent.
                let Some(Commit { parents, seconds, .. }) = self.read(id)? else { continue };
                if commits.len() >= MAX_COMMITS {
                    return Ok(BTreeMap::new());
                }
                pending.push((seconds, id));
                commits.insert(id, WalkedCommit { reached: by, parents, seconds });
            }
            let is_common = |(_, id): &(i64, ObjectId)| commits.get(id).is_none_or(|commit| commit.reached.both());
            let is_last = pending.iter().all(is_common);
            let Some((_, id)) = pending.pop() else { return Ok(commits) };
            let Some(commit) = commits.get(&id) else { continue };
            if visit(id, commit.reached) || is_last {
                return Ok(commits);
            }
            reach.extend(commit.parents.iter().map(|parent| (*parent, commit.reached)));
        }
    }

    fn read(&self, id: ObjectId) -> Result<Option<Commit>, StoreError> {
        for repository in &self.repositories {
            if let Some(commit) = objects::read_commit(self.env, *repository, id)? {
                return Ok(Some(commit));
            }
        }
        Ok(None)
    }
}
