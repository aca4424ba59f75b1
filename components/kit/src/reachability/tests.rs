use super::*;
use crate::env::Env;
use crate::fsck::{self, CheckReport};
use crate::gc::{self, GcRequest};
use crate::store::Store;
use crate::testing::{self, CountingEntropy, FailingStore, MemoryStore, NOW};
use std::rc::Rc;

/// An area whose blobs name other blobs by number. The key `root` is a root.
struct Graph {
    store: Rc<dyn Store>,
}

fn name(number: u64) -> String {
    format!("{:012x}{number:020x}", NOW.millis() - GRACE * 2)
}

impl GcSource for Graph {
    fn layout(&self) -> KeyLayout {
        KeyLayout { roots: vec!["root/".into()], records: vec![], blobs: vec!["blob/".into()], marks: "walk/".into() }
    }

    fn visit(&self, node: Node, tracer: &mut Tracer) -> Result<bool, StoreError> {
        let key = match node {
            Node::Root(key) => key.to_owned(),
            Node::Blob(mark) => format!("blob/{:032x}", mark.id().unwrap_or_default()),
        };
        let names = self.store.get(&key)?.ok_or_else(|| StoreError::corrupt(&key, "it is missing"))?;
        tracer.read(names.len());
        let names: Vec<u64> = serde_json::from_slice(&names).map_err(|why| StoreError::corrupt(&key, why))?;
        names.iter().for_each(|number| tracer.mark_id(&name(*number)));
        Ok(true)
    }

    fn follows(&self) -> bool {
        true
    }
}

struct Forest {
    store: MemoryStore,
    entropy: Rc<CountingEntropy>,
}

impl Forest {
    fn new() -> Self {
        Forest { store: MemoryStore::default(), entropy: Rc::default() }
    }

    fn root(&self, names: &[u64]) {
        self.store.set("root/x", &serde_json::to_vec(names).unwrap()).unwrap();
    }

    fn blob(&self, number: u64, names: &[u64]) {
        self.store.set(&format!("blob/{}", name(number)), &serde_json::to_vec(names).unwrap()).unwrap();
    }

    fn blobs(&self) -> Vec<u64> {
        let number = |key: &String| u64::from_str_radix(key.strip_prefix("blob/")?.get(12..)?, 16).ok();
        self.store.keys().iter().filter_map(number).collect()
    }

    fn env(&self, store: impl Store + 'static) -> Env {
        Env { entropy: self.entropy.clone(), ..testing::env(store, &[]) }
    }

    /// Runs a whole garbage collection and returns the number of its steps.
    fn sweep(&self) -> Result<u64, StepError> {
        self.sweep_on(self.store.clone())
    }

    fn sweep_on(&self, store: impl Store + 'static) -> Result<u64, StepError> {
        let env = self.env(store);
        let graph = Graph { store: env.store.clone() };
        let mut wanted = GcRequest { no_wait: true, ..GcRequest::default() };
        for steps in 1.. {
            wanted.cursor = gc::step(&env, &graph, &wanted)?.cursor;
            if wanted.cursor.is_none() {
                return Ok(steps);
            }
        }
        unreachable!()
    }

    fn check(&self) -> (u64, u64, Vec<String>) {
        let env = self.env(self.store.clone());
        let graph = Graph { store: env.store.clone() };
        let (mut cursor, mut sum) = (None, CheckReport::default());
        loop {
            let checked = fsck::step(&env, &graph, cursor.as_deref()).unwrap();
            cursor = checked.cursor.clone();
            sum.extend(checked);
            if cursor.is_none() {
                return (sum.roots, sum.blobs, sum.problems.into_iter().map(|problem| problem.problem).collect());
            }
        }
    }
}

#[test]
fn references_between_blobs_are_followed_even_in_cycles() {
    let forest = Forest::new();
    forest.root(&[1]);
    for (number, names) in [(1, &[2, 3][..]), (2, &[4, 1]), (3, &[4]), (4, &[]), (5, &[6, 4]), (6, &[5])] {
        forest.blob(number, names);
    }
    forest.sweep().unwrap();
    assert_eq!(forest.blobs(), [1, 2, 3, 4], "5 and 6 only name one another");
    assert_eq!(forest.store.keys().len(), 5, "a run leaves nothing of its own");
}

#[test]
fn a_chain_and_a_wide_blob_take_many_steps_and_every_blob_is_visited_once() {
    let forest = Forest::new();
    forest.root(&[0, 200_000]);
    let wide: Vec<u64> = (200_001..252_000).collect();
    forest.blob(200_000, &wide);
    wide.iter().for_each(|number| forest.blob(*number, &[0, *number - 1]));
    (0..100).for_each(|number| forest.blob(number, &[number + 1]));
    forest.blob(100, &[]);
    forest.blob(101, &[0]);
    assert_eq!(forest.check(), (1, 1 + 101 + 52_000, vec![]));
    assert!((10..40).contains(&forest.sweep().unwrap()), "and a long chain does not take a step for each link");
    assert_eq!(forest.blobs().len(), 101 + 52_000);
}

#[test]
fn damage_is_told_and_the_check_goes_on_but_nothing_is_swept() {
    let forest = Forest::new();
    forest.root(&[1, 2]);
    forest.blob(1, &[3]);
    forest.blob(9, &[]);
    forest.store.set(&format!("blob/{}", name(2)), b"{").unwrap();
    let (roots, _, problems) = forest.check();
    assert_eq!((roots, problems.len()), (1, 2), "2 is damaged, 3 is missing: {problems:?}");
    assert!(matches!(forest.sweep(), Err(StepError::Store(StoreError::Corrupt { .. }))));
    assert_eq!(forest.blobs(), [1, 2, 9]);
}

#[test]
fn a_repeated_step_and_one_after_concurrent_steps_are_refused() {
    let forest = Forest::new();
    forest.root(&[1]);
    forest.blob(1, &[2]);
    forest.blob(2, &[]);
    let env = forest.env(forest.store.clone());
    let graph = Graph { store: env.store.clone() };
    let step = |cursor: &Option<String>| {
        let wanted = GcRequest { no_wait: true, cursor: cursor.clone(), ..GcRequest::default() };
        gc::step(&env, &graph, &wanted).map(|step| step.cursor)
    };
    let first = step(&None).unwrap();
    let twin = forest.store.keys().into_iter().find(|key| key.contains("/log/0000000000-")).unwrap();
    let twin = twin.replacen("0000000000-", "0000000000-+", 1);
    forest.store.set(&twin, &BlobId::of_id(&name(2)).unwrap().0).unwrap();
    assert_eq!(step(&first), Err(StepError::Cursor));
    forest.store.delete(&twin).unwrap();
    assert!(step(&first).unwrap().is_some());
    assert_eq!(step(&first), Err(StepError::Cursor));
}

#[test]
fn storage_that_fails_anywhere_costs_nothing_that_is_reached() {
    for operations in 0..60 {
        let forest = Forest::new();
        forest.root(&[1]);
        for (number, names) in [(1, &[2][..]), (2, &[3]), (3, &[]), (4, &[])] {
            forest.blob(number, names);
        }
        let failing = FailingStore::after(operations, forest.store.clone());
        let outcome = forest.sweep_on(failing.clone());
        assert_eq!(outcome.is_err(), failing.failed(), "{operations}");
        assert_eq!(forest.blobs().get(..3), Some(&[1, 2, 3][..]), "{operations}");
    }
}

#[test]
fn marks_of_ids() {
    let id = name(7);
    let mark = BlobId::of_id(&id).unwrap();
    assert_eq!(mark.id().map(|id| format!("{id:032x}")), Some(id));
    assert!(mark.is_older(NOW, GRACE) && !mark.is_older(NOW, GRACE * 2));
    assert_eq!(BlobId([1; BlobId::LENGTH]).id(), None);
    assert_eq!(BlobId::of_id("x"), None);
}
