use super::*;
use crate::reachability::{Node, Tracer};
use crate::root;
use crate::store::Store;
use crate::testing::{self, CountingEntropy, CountingStore, FailingStore, MemoryStore, NOW};
use std::rc::Rc;

/// An area whose roots are lists of ids.
struct Area {
    store: MemoryStore,
    /// One source for all steps, so that all ids are different.
    entropy: Rc<CountingEntropy>,
    now: Timestamp,
}

/// A source whose roots list the ids of blobs.
struct ListSource(Rc<dyn Store>);

impl GcSource for ListSource {
    fn layout(&self) -> KeyLayout {
        let below = |kinds: &[&str]| kinds.iter().map(|kind| format!("a/{kind}/")).collect();
        KeyLayout { roots: below(&["root"]), records: vec![], blobs: below(&["blob", "log"]), marks: "a/gc/".into() }
    }

    fn visit(&self, node: Node, tracer: &mut Tracer) -> Result<bool, StoreError> {
        if let Node::Root(key) = node {
            let ids: Vec<String> = root::read(&*self.0, key)?.unwrap_or_default();
            ids.iter().for_each(|id| tracer.mark_id(id));
        }
        Ok(true)
    }
}

fn id(age: i64, number: u64) -> String {
    format!("{:012x}{number:020x}", NOW.millis() - age)
}

impl Area {
    fn new() -> Self {
        Area { store: MemoryStore::default(), entropy: Rc::default(), now: NOW }
    }

    fn set(&self, key: &str, value: impl AsRef<[u8]>) {
        self.store.set(key, value.as_ref()).unwrap();
    }

    /// Writes a blob of two keys, of this age.
    fn blob(&self, age: i64, number: u64) -> String {
        let id = id(age, number);
        self.set(&format!("a/blob/{id}"), b"12345");
        self.set(&format!("a/blob/{id}/more"), b"123");
        id
    }

    fn root(&self, name: &str, ids: &[&str]) {
        self.set(&format!("a/root/{name}"), serde_json::to_vec(ids).unwrap());
    }

    fn step(&self, request: &GcRequest) -> Result<GcReport, StepError> {
        let mut env = testing::env(self.store.clone(), &[]);
        (env.entropy, env.now) = (self.entropy.clone(), self.now);
        step(&env, &ListSource(env.store.clone()), request)
    }

    /// Does a whole run and returns roots, keys, removed, bytes.
    fn run(&mut self, dry_run: bool) -> [u64; 4] {
        let mut request = GcRequest { dry_run, ..GcRequest::default() };
        let mut sum = [0; 4];
        loop {
            let step = self.step(&request).unwrap();
            for (sum, part) in sum.iter_mut().zip([step.roots, step.keys, step.removed, step.removed_bytes]) {
                *sum += part;
            }
            self.now = Timestamp::from_millis(self.now.millis() + step.wait_seconds as i64 * 1000);
            if step.cursor.is_none() {
                return sum;
            }
            request.cursor = step.cursor;
        }
    }

    fn has(&self, id: &str) -> bool {
        let has = |more: &str| self.store.exists(&format!("a/blob/{id}{more}")).unwrap();
        assert_eq!(has(""), has("/more"), "they live and die together");
        has("")
    }
}

#[test]
fn only_old_unreachable_keys_are_removed() {
    let mut area = Area::new();
    let [reached, young, old] =
        [(GRACE * 9, 1), (GRACE - 600_000, 2), (GRACE + 60_000, 3)].map(|(a, n)| area.blob(a, n));
    area.root("one", &[&reached]);
    area.set("a/blob/not-an-id", "x");
    area.set("a/blobs/0", "x");
    area.set(&format!("a/log/{}", id(GRACE * 2, 4)), "1");
    assert_eq!(area.run(true), [1, 12, 3, 9], "two of the three are of one blob, four of the keys are the run's");
    assert!(area.has(&old));
    assert_eq!(area.run(false), [1, 12, 3, 9]);
    assert_eq!((area.has(&reached), area.has(&young), area.has(&old)), (true, true, false));
    assert_eq!(area.store.keys().len(), 7, "a run leaves nothing of its own: {:?}", area.store.keys());
    assert_eq!(area.run(false), [1, 9, 0, 0]);
}

#[test]
fn many_roots_and_blobs_take_many_steps() {
    let mut area = Area::new();
    let mut reached = Vec::new();
    for number in 0..1000 {
        let id = area.blob(GRACE * 2, number);
        area.root(&format!("{number}"), &[&id]);
        reached.push(id);
    }
    for number in 1000..7000 {
        area.blob(GRACE * 2, number);
    }
    let [roots, keys, removed, bytes] = area.run(false);
    assert_eq!((roots, removed, bytes), (1000, 12_000, 6000 * 8));
    assert!(keys > 14_000, "those of the run's marks as well: {keys}");
    assert!(reached.iter().all(|id| area.has(id)));
}

#[test]
fn nothing_is_swept_before_reads_under_way_are_over() {
    let mut area = Area::new();
    let old = area.blob(GRACE * 2, 1);
    let marked = area.step(&GcRequest::default()).unwrap();
    assert_eq!(marked.wait_seconds, 120);
    let next = GcRequest { cursor: marked.cursor.clone(), ..GcRequest::default() };
    area.now = Timestamp::from_millis(NOW.millis() + 119_001);
    let early = area.step(&next).unwrap();
    assert_eq!(early, GcReport { cursor: marked.cursor, wait_seconds: 1, ..GcReport::default() });
    assert!(area.has(&old));
    assert_eq!(area.step(&GcRequest { no_wait: true, ..next }).unwrap().removed, 2, "unless there are none");
}

#[test]
fn blobs_that_a_root_reaches_during_a_run_stay() {
    let mut area = Area::new();
    let (first, second) = (area.blob(GRACE * 2, 1), area.blob(GRACE * 2, 2));
    area.root("b", &[&first, &second]);
    let marked = area.step(&GcRequest::default()).unwrap();
    // One blob of a publication that began before the run, and one of a merge.
    let young = area.blob(LONGEST_WRITE, 3);
    area.root("a", &[&young]);
    area.root("b", &[&second, &young]);
    area.now = Timestamp::from_millis(NOW.millis() + SETTLE);
    let request = GcRequest { cursor: marked.cursor, ..GcRequest::default() };
    assert_eq!(area.step(&request).unwrap().removed, 0, "blobs reached at its beginning are for the next run");
    assert_eq!(area.run(false)[2], 2);
    assert_eq!((area.has(&first), area.has(&second), area.has(&young)), (false, true, true));
}

#[test]
fn a_root_that_cannot_be_read_ends_the_run() {
    let area = Area::new();
    area.set("a/root/bad", "{");
    assert!(
        matches!(area.step(&GcRequest::default()), Err(StepError::Store(StoreError::Corrupt { key, .. })) if key == "a/root/bad")
    );
}

#[test]
fn a_run_without_its_marks_sweeps_nothing() {
    let area = Area::new();
    let reached = area.blob(GRACE * 2, 1);
    area.root("a", &[&reached]);
    let marked = area.step(&GcRequest { no_wait: true, ..GcRequest::default() }).unwrap();
    let sweep = GcRequest { cursor: marked.cursor, no_wait: true, ..GcRequest::default() };
    let run: Vec<String> = area.store.keys().into_iter().filter(|key| key.starts_with("a/gc/")).collect();
    let unsorted = sweep.cursor.as_ref().map(|cursor| format!("{}:w:", cursor.split(':').next().unwrap()));
    assert_eq!(area.step(&GcRequest { cursor: unsorted, ..sweep.clone() }), Err(StepError::Cursor));
    for lost in ["/sorted/", "/marked"] {
        run.iter().filter(|key| key.contains(lost)).for_each(|key| area.store.delete(key).unwrap());
        assert_eq!(area.step(&sweep), Err(StepError::Cursor), "{lost}");
    }
    assert!(area.has(&reached));
}

#[test]
fn marks_that_are_lost_before_they_are_sorted_end_the_run() {
    let area = Area::new();
    let reached: Vec<String> = (0..250).map(|number| area.blob(GRACE * 2, number)).collect();
    reached.iter().enumerate().for_each(|(number, id)| area.root(&format!("{number:03}"), &[id]));
    let begun = area.step(&GcRequest { no_wait: true, ..GcRequest::default() }).unwrap();
    let log: Vec<String> = area.store.keys().into_iter().filter(|key| key.contains("/log/")).collect();
    log.iter().for_each(|key| area.store.delete(key).unwrap());
    let next = GcRequest { cursor: begun.cursor, no_wait: true, ..GcRequest::default() };
    assert_eq!((log.len(), area.step(&next)), (1, Err(StepError::Cursor)));
}

/// The cost of a whole run for each key, in operations and bytes of the store.
fn cost_per_key(keys: u64) -> (f64, f64) {
    let area = Area::new();
    for number in 0..keys {
        area.set(&format!("a/blob/{}", id(GRACE * 2, number)), b"1");
    }
    for root in 0..keys / 200 {
        let names: Vec<String> = (0..100).map(|at| id(GRACE * 2, root * 200 + at * 2)).collect();
        area.root(&format!("{root}"), &names.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let counting = CountingStore::over(area.store.clone());
    let mut env = testing::env(counting.clone(), &[]);
    env.entropy = area.entropy.clone();
    let (mut request, mut removed) = (GcRequest { no_wait: true, ..GcRequest::default() }, 0);
    loop {
        // Another instance may do the next step.
        env.blobs = Rc::new(crate::blob::BlobCache::new(1 << 20));
        let report = step(&env, &ListSource(env.store.clone()), &request).unwrap();
        removed += report.removed;
        request.cursor = report.cursor;
        if request.cursor.is_none() {
            break;
        }
    }
    assert_eq!(removed, keys / 2);
    (counting.operations() as f64 / keys as f64, counting.bytes() as f64 / keys as f64)
}

#[test]
fn a_key_costs_the_same_however_many_there_are() {
    let few = cost_per_key(10_000);
    for keys in [20_000, 40_000, 80_000] {
        let many = cost_per_key(keys);
        assert!(many.0 < few.0 * 1.1 && many.1 < few.1 * 1.1, "{keys}: {many:?} instead of {few:?}");
    }
}

#[test]
fn cursors_that_are_none_are_refused() {
    let mut area = Area::new();
    let begun = area.step(&GcRequest::default()).unwrap().cursor;
    for text in [
        "",
        "x",
        "::",
        "0:sweep:",
        &format!("{}:x:", id(0, 1)),
        &format!("{}:sweep:", id(0, 1)),
        &format!("{}:s1:", id(0, 1)),
        &format!("{}:s1.x:", id(0, 1)),
        &format!("{}:wx:", id(0, 1)),
        &format!("{}:w:", id(0, 1)),
        &format!("{}:é:", id(0, 1)),
    ] {
        let request = GcRequest { cursor: Some(text.to_owned()), ..GcRequest::default() };
        assert_eq!(area.step(&request), Err(StepError::Cursor), "{text}");
    }
    area.now = Timestamp::from_millis(NOW.millis() + LONGEST_RUN + 1);
    assert_eq!(area.step(&GcRequest { cursor: begun, ..GcRequest::default() }), Err(StepError::Cursor), "too old");
}

#[test]
fn marks_of_an_abandoned_run_are_removed_by_a_later_one() {
    let mut area = Area::new();
    area.root("a", &[&area.blob(0, 1)]);
    area.step(&GcRequest::default()).unwrap();
    area.now = Timestamp::from_millis(NOW.millis() + GRACE + LONGEST_RUN + 60_000);
    assert_eq!(area.run(false)[2], 4, "marks, sorted ones with their index, and that they are complete");
    assert!(area.store.keys().iter().all(|key| !key.starts_with("a/gc/")));
}

#[test]
fn storage_that_fails_anywhere_costs_nothing_that_is_reached() {
    for operations in 0..40 {
        let area = Area::new();
        let (reached, _) = (area.blob(GRACE * 2, 1), area.blob(GRACE * 2, 2));
        area.root("a", &[&reached]);
        let failing = FailingStore::after(operations, area.store.clone());
        let env = testing::env(failing.clone(), &[]);
        let mut request = GcRequest { no_wait: true, ..GcRequest::default() };
        let outcome = loop {
            match step(&env, &ListSource(env.store.clone()), &request) {
                Ok(step) if step.cursor.is_some() => request.cursor = step.cursor,
                outcome => break outcome,
            }
        };
        assert_eq!(outcome.is_err(), failing.failed(), "{operations}");
        assert!(area.has(&reached), "{operations}");
    }
}

#[test]
fn a_request_that_took_too_long_or_whose_clock_jumped_is_too_late() {
    let mut env = testing::env(MemoryStore::default(), &[]);
    for (passed, expected) in
        [(0, false), (LONGEST_WRITE, false), (LONGEST_WRITE + 1, true), (-LONGEST_WRITE - 1, true)]
    {
        env.clock = std::rc::Rc::new(Timestamp::from_millis(NOW.millis() + passed));
        assert_eq!(is_too_late(&env), expected, "{passed}");
    }
}

/// An area with one orphaned root of many records.
struct Orphaned {
    store: Rc<dyn Store>,
    records: usize,
    removed: std::cell::RefCell<Vec<usize>>,
}

impl GcSource for Orphaned {
    fn layout(&self) -> KeyLayout {
        KeyLayout { roots: vec!["root/".into()], records: vec![], blobs: vec!["blob/".into()], marks: "gc/".into() }
    }

    fn visit(&self, _node: Node, _tracer: &mut Tracer) -> Result<bool, StoreError> {
        Ok(true)
    }

    fn is_orphaned(&self, key: &str) -> Result<bool, StoreError> {
        Ok(key == "root/b")
    }

    fn remove_orphaned(&self, key: &str, tracer: &mut Tracer) -> Result<(), StoreError> {
        let first = tracer.resume().map_or(0, |position| position.parse().unwrap());
        for number in first..self.records {
            if tracer.is_full() {
                tracer.suspend(number.to_string());
                return Ok(());
            }
            tracer.count_change();
            self.removed.borrow_mut().push(number);
        }
        self.store.delete(key)
    }
}

#[test]
fn a_root_that_takes_more_than_a_step_is_removed_in_parts() {
    let store = MemoryStore::default();
    for root in ["root/a", "root/b", "root/c"] {
        store.set(root, b"[]").unwrap();
    }
    let env = testing::env(store.clone(), &[]);
    let area = Orphaned { store: env.store.clone(), records: 2_500, removed: Default::default() };
    let dry = step(&env, &area, &GcRequest { dry_run: true, ..GcRequest::default() }).unwrap();
    assert_eq!((dry.roots, dry.removed, dry.removed_bytes), (2, 1, 2));
    assert_eq!(area.removed.take(), [0; 0]);

    let mut request = GcRequest { no_wait: true, ..GcRequest::default() };
    let mut steps = Vec::new();
    while steps.is_empty() || request.cursor.is_some() {
        let before = area.removed.borrow().len();
        let report = step(&env, &area, &request).unwrap();
        request.cursor = report.cursor;
        let has_root = store.exists("root/b").unwrap();
        steps.push((area.removed.borrow().len() - before, report.roots, report.removed, has_root));
    }
    let parts = [(1024, 1, 0, true), (1024, 0, 0, true), (452, 1, 1, false), (0, 0, 0, false)];
    assert_eq!(steps, parts, "records, roots that stay, roots that go");
    assert!(area.removed.take().into_iter().eq(0..2_500), "each once");
    let roots: Vec<String> = store.keys().into_iter().filter(|key| key.starts_with("root/")).collect();
    assert_eq!(roots, ["root/a", "root/c"]);
}

#[test]
fn a_cursor_of_an_earlier_build_goes_on() {
    let store = MemoryStore::default();
    store.set("root/b", b"[]").unwrap();
    store.set("root/c", b"[]").unwrap();
    let env = testing::env(store.clone(), &[]);
    let area = Orphaned { store: env.store.clone(), records: 1, removed: Default::default() };
    let cursor = Some(format!("{}:r0:root/b", env.id()));
    let report = step(&env, &area, &GcRequest { cursor, no_wait: true, ..GcRequest::default() }).unwrap();
    assert_eq!((report.roots, report.removed), (1, 0), "after its last key");
    assert!(store.exists("root/b").unwrap());
}
