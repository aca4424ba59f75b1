//! Questions about a history.

use crate::git::{Commit, ObjectId};
use crate::store::history::History;
use kit::store::StoreError;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::rc::Rc;

/// The most commits that one question reads.
const MAX_COMMITS: usize = 20_000;

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

    fn is_new(self) -> bool {
        self.one && !self.other
    }

    fn joined(self, more: Self) -> Self {
        ReachedBy { one: self.one || more.one, other: self.other || more.other }
    }
}

struct WalkedCommit {
    reached: ReachedBy,
    commit: Rc<Commit>,
}

/// The latest commit that both of these contain; `None` if there is none, or too many would be read.
pub fn merge_base(history: &mut History, one: ObjectId, other: ObjectId) -> Result<Option<ObjectId>, StoreError> {
    let mut base = None;
    walk(history, one, other, |id, reached| {
        base = reached.both().then_some(id);
        base.is_some()
    })?;
    Ok(base)
}

/// Those of `wanted` that `new` contains and `old` does not; none if too many commits would be read.
pub fn added(
    history: &mut History,
    new: ObjectId,
    old: ObjectId,
    wanted: &BTreeSet<ObjectId>,
) -> Result<BTreeSet<ObjectId>, StoreError> {
    let walked = walk(history, new, old, |_, _| false)?;
    let is_new = |id: &&ObjectId| walked.get(id).is_some_and(|commit| commit.reached.is_new());
    Ok(wanted.iter().filter(is_new).copied().collect())
}

/// The commits that `new` contains and `old` does not, the latest first; none if too
/// many would be read.
pub fn since(history: &mut History, new: ObjectId, old: ObjectId) -> Result<Vec<ObjectId>, StoreError> {
    let walked = walk(history, new, old, |_, _| false)?;
    let find = |id: &ObjectId| walked.get(id).filter(|commit| commit.reached.is_new());
    let mut pending: BinaryHeap<(i64, ObjectId)> =
        find(&new).map(|walked| (walked.commit.seconds, new)).into_iter().collect();
    let (mut seen, mut commits) = (BTreeSet::from([new]), Vec::new());
    while let Some((_, id)) = pending.pop() {
        commits.push(id);
        let parents = find(&id).map(|walked| walked.commit.parents.as_slice()).unwrap_or_default();
        for parent in parents {
            if let Some(walked) = find(parent)
                && seen.insert(*parent)
            {
                pending.push((walked.commit.seconds, *parent));
            }
        }
    }
    Ok(commits)
}

/// Visits commits that one of these reaches, the latest first, until `visit` returns true, or only commits
/// that both reach are left. Returns what it has read; nothing if that would be too much.
fn walk(
    history: &mut History,
    one: ObjectId,
    other: ObjectId,
    mut visit: impl FnMut(ObjectId, ReachedBy) -> bool,
) -> Result<BTreeMap<ObjectId, WalkedCommit>, StoreError> {
    let mut commits: BTreeMap<ObjectId, WalkedCommit> = BTreeMap::new();
    let mut pending = BinaryHeap::new();
    let mut reach = vec![(one, ReachedBy { one: true, other: false }), (other, ReachedBy { one: false, other: true })];
    loop {
        for (id, by) in reach.drain(..) {
            if let Some(known) = commits.get_mut(&id) {
                let joined = known.reached.joined(by);
                if known.reached != joined {
                    known.reached = joined;
                    // Its parents are reached anew.
                    pending.push((known.commit.seconds, id));
                }
                continue;
            }
            // A shallow history ends at a missing parent.
            let Some(commit) = history.commit(id)? else { continue };
            if commits.len() >= MAX_COMMITS {
                return Ok(BTreeMap::new());
            }
            pending.push((commit.seconds, id));
            commits.insert(id, WalkedCommit { reached: by, commit });
        }
        let is_common = |(_, id): &(i64, ObjectId)| commits.get(id).is_none_or(|walked| walked.reached.both());
        let is_last = pending.iter().all(is_common);
        let Some((_, id)) = pending.pop() else { return Ok(commits) };
        let Some(walked) = commits.get(&id) else { continue };
        if visit(id, walked.reached) || is_last {
            return Ok(commits);
        }
        reach.extend(walked.commit.parents.iter().map(|parent| (*parent, walked.reached)));
    }
}
