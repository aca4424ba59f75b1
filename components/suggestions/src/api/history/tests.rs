//! Histories whose commits are dated before their parents.

use super::{MergeBase, added, merge_base, since};
use crate::git::{Object, ObjectId, ObjectKind};
use crate::repository_id::RepositoryId;
use crate::store::history::History;
use crate::store::new_pack::{self, NewObject};
use kit::Env;
use kit::testing::{self, MemoryStore};
use std::collections::BTreeSet;

/// Commits, each with its time and the numbers of its parents, which come before it.
struct Commits {
    env: Env,
    ids: Vec<ObjectId>,
    parents: Vec<Vec<usize>>,
}

impl Commits {
    fn new(commits: &[(i64, &[usize])]) -> Self {
        let (mut ids, mut new): (Vec<ObjectId>, Vec<NewObject>) = (Vec::new(), Vec::new());
        for (number, (seconds, parents)) in commits.iter().enumerate() {
            let parents: String = parents.iter().map(|parent| format!("parent {}\n", ids[*parent])).collect();
            let person = format!("A <a@x> {seconds} +0000");
            let tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
            let contents = format!("tree {tree}\n{parents}author {person}\ncommitter {person}\n\n{number}\n");
            let object = Object::new(ObjectKind::Commit, contents.into_bytes());
            ids.push(object.id);
            new.push(NewObject { object, previous: None });
        }
        let env = testing::env(MemoryStore::default(), &[]);
        new_pack::save(&env, RepositoryId::first(7), &new).unwrap();
        Commits { env, ids, parents: commits.iter().map(|(_, parents)| parents.to_vec()).collect() }
    }

    fn history(&self) -> History<'_> {
        History::new(&self.env, &[RepositoryId::first(7)])
    }

    fn number(&self, id: ObjectId) -> usize {
        self.ids.iter().position(|known| *known == id).unwrap()
    }

    fn since(&self, new: usize, old: usize) -> Vec<usize> {
        let commits = since(&mut self.history(), self.ids[new], self.ids[old]).unwrap();
        assert!(!commits.is_truncated);
        commits.ids.into_iter().map(|id| self.number(id)).collect()
    }

    fn merge_base(&self, one: usize, other: usize) -> Option<usize> {
        match merge_base(&mut self.history(), self.ids[one], self.ids[other]).unwrap() {
            MergeBase::Commit(id) => Some(self.number(id)),
            MergeBase::Unrelated | MergeBase::Unknown => None,
        }
    }

    /// A commit and its ancestors.
    fn contained(&self, commit: usize) -> BTreeSet<usize> {
        let parents = self.parents[commit].iter().flat_map(|parent| self.contained(*parent));
        parents.chain([commit]).collect()
    }
}

#[test]
fn ancestors_of_a_target_that_is_dated_before_them_are_not_new() {
    // root, Q, R, the target's head, A on the topic, and the merge of R into the topic.
    let commits: [(i64, &[usize]); 6] = [(10, &[]), (100, &[0]), (110, &[1]), (20, &[2]), (120, &[0]), (130, &[4, 2])];
    let commits = Commits::new(&commits);
    assert_eq!(commits.since(5, 3), [5, 4]);
    assert_eq!(commits.merge_base(5, 3), Some(2));
    let wanted: BTreeSet<ObjectId> = commits.ids.iter().copied().collect();
    let new = added(&mut commits.history(), commits.ids[5], commits.ids[3], &wanted).unwrap();
    assert_eq!(new, BTreeSet::from([commits.ids[4], commits.ids[5]]));
}

#[test]
fn a_common_commit_that_is_dated_before_its_parents_is_the_merge_base() {
    // The second commit is newer by its time than the third, which contains it.
    let commits = Commits::new(&[(10, &[]), (100, &[0]), (20, &[1]), (110, &[2, 1]), (120, &[1, 2])]);
    assert_eq!(commits.merge_base(3, 4), Some(2));
    assert_eq!(commits.since(4, 3), [4]);
}

#[test]
fn a_commit_that_common_ones_pass_on_late_is_not_new() {
    // Common commits whose times are older than that of their ancestor, which the topic reaches directly, too.
    let commits = Commits::new(&[(10, &[]), (500, &[0]), (30, &[1]), (25, &[2]), (600, &[3, 1]), (610, &[3])]);
    assert_eq!((commits.since(4, 5), commits.since(5, 4)), (vec![4], vec![5]));
    assert_eq!(commits.merge_base(4, 5), Some(3));
}

#[test]
fn random_histories_are_walked_correctly_whatever_their_dates() {
    let mut rng = fastrand::Rng::with_seed(7);
    for round in 0..300 {
        let mut graph: Vec<(i64, Vec<usize>)> = vec![(1000, Vec::new())];
        while graph.len() < 7 {
            let parents: BTreeSet<usize> = (0..rng.u64(1..=2)).map(|_| rng.usize(..graph.len())).collect();
            graph.push((rng.i64(1..=2000), parents.into_iter().collect()));
        }
        let commits: Vec<(i64, &[usize])> = graph.iter().map(|(time, parents)| (*time, parents.as_slice())).collect();
        let commits = Commits::new(&commits);
        for (one, other) in [(6, 5), (5, 6), (6, 4), (3, 5)] {
            let (in_one, in_other) = (commits.contained(one), commits.contained(other));
            let new: BTreeSet<usize> = commits.since(one, other).into_iter().collect();
            assert_eq!(new, in_one.difference(&in_other).copied().collect(), "{round}: {one} {other} {graph:?}");
            let common: BTreeSet<usize> = in_one.intersection(&in_other).copied().collect();
            let is_latest = |base: &usize| !common.iter().any(|c| c != base && commits.contained(*c).contains(base));
            let latest: BTreeSet<usize> = common.iter().copied().filter(is_latest).collect();
            let base = commits.merge_base(one, other);
            assert!(base.is_some_and(|base| latest.contains(&base)), "{round}: {base:?} of {latest:?} {graph:?}");
        }
    }
}
