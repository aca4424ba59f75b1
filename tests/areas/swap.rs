//! One area is replaced while another one serves.

use super::*;
use hexad_tests::operator::variant;
use hexad_tests::wait::{SOON, wait_until};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Requests `path` until `stop` is set. A number in the query keeps answers out of the response cache.
fn keep_requesting(forge: &Forge, path: &str, expected: &[u8], stop: &AtomicBool, answered: &AtomicU64) {
    while !stop.load(Ordering::Relaxed) {
        let number = answered.load(Ordering::Relaxed);
        let answer = forge.get(&format!("{path}?number={number}"), DEVELOPER);
        assert_eq!((answer.status, answer.body.as_slice()), (200, expected), "{path}: {}", answer.text());
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn namespaces_and_experiments_are_replaced_while_both_serve() {
    let forge = Forge::seeded();
    let settings = r#"{"kind":"setting","name":"operator_group","value":"acme"}"#;
    forge.import(settings);
    let definition = r#"{"kind":"experiment","name":"sign_up","milestone":"16.2"}"#;
    assert_eq!(forge.send("POST", "/api/v4/import/experiments", ADMIN, definition).status, 200);
    let paths = ["/api/v4/namespaces", "/api/v4/experiments"];
    let expected = paths.map(|path| forge.get(path, DEVELOPER).body);
    let operator = forge.operator();
    let stop = AtomicBool::new(false);
    let answered = [const { AtomicU64::new(0) }; 2];
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..2)
            .map(|at| {
                let (forge, stop, answered) = (&forge, &stop, &answered[at]);
                let (path, expected) = (paths[at], &expected[at]);
                scope.spawn(move || keep_requesting(forge, path, expected, stop, answered))
            })
            .collect();
        // Waits until each path was answered 20 more times.
        let wait_for_answers = || {
            let before = [0, 1].map(|at| answered[at].load(Ordering::Relaxed));
            let is_behind = |at: usize| answered[at].load(Ordering::Relaxed) < before[at] + 20;
            let has_ended = || clients.iter().any(|client| client.is_finished());
            wait_until(SOON, "20 answers of each area", || !(0..2).any(is_behind) || has_ended());
        };
        wait_for_answers();
        for (area, mark) in [("namespaces", 1), ("experiments", 1), ("namespaces", 2), ("experiments", 2)] {
            let wasm = variant(area, mark);
            let before = answered.iter().map(|count| count.load(Ordering::Relaxed)).sum::<u64>();
            let swapped = operator.swap(area, &wasm);
            assert_eq!(swapped.status, 200, "{area}: {}", swapped.text());
            let report = swapped.json();
            assert_eq!((&report["component"], &report["canary"]), (&json!(area), &json!(false)));
            assert!(answered.iter().map(|count| count.load(Ordering::Relaxed)).sum::<u64>() > before, "{area}");
            wait_for_answers();
        }
        stop.store(true, Ordering::Relaxed);
    });
}
