//! Walks over a history: merge bases, and commits that another commit does not reach.

use crate::git::{Commit, ObjectId};
use crate::store::history::History;
use kit::store::StoreError;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::rc::Rc;

/// The most commits that a walk reads. Beyond it, a difference has only its latest commits, and a merge base is
/// unknown.
const MAX_OF_DIFFERENCE: usize = 20_000;
const MAX_TO_MERGE_BASE: usize = 50_000;

/// How many more commits a walk reads once only uninteresting ones are left (`SLOP` in git's revision.c). A commit that
/// is dated before its parents may reach a commit that was taken for new, or for the latest.
const SLOP: usize = 5;

/// Which of a walk's two starting commits reach a commit.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct ReachedBy {
    one: bool,
    other: bool,
    /// Whether a commit that both reach descends from it.
    common_descendant: bool,
}

impl ReachedBy {
    fn both(self) -> bool {
        self.one && self.other
    }

    fn is_new(self) -> bool {
        self.one && !self.other
    }

    fn joined(self, more: Self) -> Self {
        ReachedBy {
            one: self.one || more.one,
            other: self.other || more.other,
            common_descendant: self.common_descendant || more.common_descendant,
        }
    }

    /// How the commit's parents are reached through it.
    fn of_parents(self) -> Self {
        ReachedBy { common_descendant: self.both(), ..self }
    }
}

struct WalkedCommit {
    reached: ReachedBy,
    commit: Rc<Commit>,
}

impl WalkedCommit {
    /// Whether both starting commits reach it and, as far as the walk knows, no common commit descends from it.
    fn is_base(&self) -> bool {
        self.reached.both() && !self.reached.common_descendant
    }
}

/// The question that a walk answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Question {
    /// The commits that only one of the two reaches.
    Difference,
    /// The latest commits that both reach.
    LatestCommon,
}

impl Question {
    fn max_commits(self) -> usize {
        match self {
            Question::Difference => MAX_OF_DIFFERENCE,
            Question::LatestCommon => MAX_TO_MERGE_BASE,
        }
    }

    /// Whether the history of a commit cannot change the answer, unless the commit is dated before its parents.
    fn is_uninteresting(self, reached: ReachedBy) -> bool {
        match self {
            Question::Difference => reached.both(),
            Question::LatestCommon => reached.common_descendant,
        }
    }
}

/// Where two histories parted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeBase {
    Commit(ObjectId),
    /// They have no commit in common.
    Unrelated,
    /// More than 50,000 commits would be read.
    Unknown,
}

/// The latest commit that both reach; of several that are no ancestors of each other, the newest.
pub fn merge_base(history: &mut History, one: ObjectId, other: ObjectId) -> Result<MergeBase, StoreError> {
    let Walked { commits: walked, is_truncated } = walk(history, one, other, Question::LatestCommon)?;
    let latest = walked.iter().filter(|(_, walked)| walked.is_base());
    Ok(match latest.max_by_key(|(id, walked)| (walked.commit.seconds, **id)) {
        Some((id, _)) => MergeBase::Commit(*id),
        None if is_truncated => MergeBase::Unknown,
        None => MergeBase::Unrelated,
    })
}

/// The commits of `wanted` that `new` reaches and `old` does not. Of too many commits, only the latest are searched.
pub fn added(
    history: &mut History,
    new: ObjectId,
    old: ObjectId,
    wanted: &BTreeSet<ObjectId>,
) -> Result<BTreeSet<ObjectId>, StoreError> {
    let walked = walk(history, new, old, Question::Difference)?.commits;
    let is_new = |id: &&ObjectId| walked.get(id).is_some_and(|commit| commit.reached.is_new());
    Ok(wanted.iter().filter(is_new).copied().collect())
}

/// Commits that one commit reaches and another does not.
pub struct NewCommits {
    /// The latest first.
    pub ids: Vec<ObjectId>,
    /// Whether older commits are left out, because the walk would read too many.
    pub is_truncated: bool,
}

/// The commits that `new` reaches and `old` does not, as `git log old..new`.
pub fn since(history: &mut History, new: ObjectId, old: ObjectId) -> Result<NewCommits, StoreError> {
    let Walked { commits: walked, is_truncated } = walk(history, new, old, Question::Difference)?;
    let find = |id: &ObjectId| walked.get(id).filter(|commit| commit.reached.is_new());
    let mut pending: BinaryHeap<(i64, ObjectId)> =
        find(&new).map(|walked| (walked.commit.seconds, new)).into_iter().collect();
    let (mut seen, mut ids) = (BTreeSet::from([new]), Vec::new());
    while let Some((_, id)) = pending.pop() {
        ids.push(id);
        let parents = find(&id).map(|walked| walked.commit.parents.as_slice()).unwrap_or_default();
        for parent in parents {
            if let Some(walked) = find(parent)
                && seen.insert(*parent)
            {
                pending.push((walked.commit.seconds, *parent));
            }
        }
    }
    Ok(NewCommits { ids, is_truncated })
}

/// The commits that a walk has read.
struct Walked {
    commits: BTreeMap<ObjectId, WalkedCommit>,
    /// Whether the walk ended before it had the answer, because there are too many commits.
    is_truncated: bool,
}

/// Reads commits that `one` or `other` reaches, the latest first, until the rest cannot change the answer. If they are
/// too many, a difference keeps the visited commits, of which it is known which of the two reach them. A merge base
/// then has no answer.
fn walk(history: &mut History, one: ObjectId, other: ObjectId, question: Question) -> Result<Walked, StoreError> {
    let mut walk = Walk { history, question, commits: BTreeMap::new(), pending: BTreeSet::new(), interesting: 0 };
    walk.reach(one, ReachedBy { one: true, ..ReachedBy::default() })?;
    walk.reach(other, ReachedBy { other: true, ..ReachedBy::default() })?;
    // The time of the oldest commit of the answer so far.
    let mut oldest = i64::MAX;
    let mut left = SLOP;
    let mut bases: Option<Vec<ObjectId>> = None;
    while let Some((seconds, id)) = walk.pending.pop_last() {
        if walk.commits.len() > question.max_commits() {
            match question {
                Question::Difference => {
                    walk.commits.retain(|id, walked| !walk.pending.contains(&(walked.commit.seconds, *id)))
                }
                // To find the latest of several bases is not worth more commits.
                Question::LatestCommon if bases.is_some() => {}
                Question::LatestCommon => walk.commits.clear(),
            }
            return Ok(Walked { commits: walk.commits, is_truncated: true });
        }
        let Some((reached, parents)) = walk.find(id) else { continue };
        let is_uninteresting = question.is_uninteresting(reached);
        walk.interesting -= usize::from(!is_uninteresting);
        if !is_uninteresting || walk.interesting > 0 {
            if question == Question::Difference && reached.is_new() {
                (oldest, left) = (seconds, SLOP);
            }
        } else {
            if question == Question::LatestCommon {
                let found = walk.keep_bases(bases.take());
                if found.len() < 2 {
                    break;
                }
                oldest = walk.oldest(&found);
                bases = Some(found);
            }
            if seconds < oldest {
                let Some(fewer) = left.checked_sub(1) else { break };
                left = fewer;
            }
        }
        for parent in parents {
            walk.reach(parent, reached.of_parents())?;
        }
    }
    Ok(Walked { commits: walk.commits, is_truncated: false })
}

struct Walk<'a, 'h> {
    history: &'a mut History<'h>,
    commits: BTreeMap<ObjectId, WalkedCommit>,
    question: Question,
    /// The commits whose parents were not reached yet, by their time.
    pending: BTreeSet<(i64, ObjectId)>,
    /// How many pending commits are interesting. An uninteresting commit stays so.
    interesting: usize,
}

impl Walk<'_, '_> {
    fn find(&self, id: ObjectId) -> Option<(ReachedBy, Vec<ObjectId>)> {
        self.commits.get(&id).map(|walked| (walked.reached, walked.commit.parents.clone()))
    }

    /// The merge bases among `known`, or among all commits.
    fn keep_bases(&self, known: Option<Vec<ObjectId>>) -> Vec<ObjectId> {
        let mut bases = known.unwrap_or_else(|| self.commits.keys().copied().collect());
        bases.retain(|id| self.commits.get(id).is_some_and(WalkedCommit::is_base));
        bases
    }

    fn oldest(&self, ids: &[ObjectId]) -> i64 {
        let times = ids.iter().filter_map(|id| self.commits.get(id)).map(|walked| walked.commit.seconds);
        times.min().unwrap_or(i64::MAX)
    }

    /// Records how a commit is reached. If its parents were reached before, they are updated at once.
    fn reach(&mut self, id: ObjectId, by: ReachedBy) -> Result<(), StoreError> {
        let mut stack = vec![(id, by)];
        while let Some((id, by)) = stack.pop() {
            let Some(known) = self.commits.get_mut(&id) else {
                // A shallow history ends at a missing parent.
                if let Some(commit) = self.history.commit(id)? {
                    self.pending.insert((commit.seconds, id));
                    self.interesting += usize::from(!self.question.is_uninteresting(by));
                    self.commits.insert(id, WalkedCommit { reached: by, commit });
                }
                continue;
            };
            let joined = known.reached.joined(by);
            if known.reached == joined {
                continue;
            }
            let becomes_uninteresting =
                self.question.is_uninteresting(joined) && !self.question.is_uninteresting(known.reached);
            known.reached = joined;
            if self.pending.contains(&(known.commit.seconds, id)) {
                self.interesting -= usize::from(becomes_uninteresting);
            } else {
                stack.extend(known.commit.parents.iter().map(|parent| (*parent, joined.of_parents())));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
