//! Counts while issues change: 200 updates of random issues a second, and one change of a membership.

use crate::queries::{CALLERS, Caller};
use crate::*;
use hexad_tests::http::agent;
use hexad_tests::wait::pause;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const UPDATES_A_SECOND: u64 = 200;

/// How long counts are measured, quiet and live.
const MEASURED: Duration = Duration::from_secs(10);

const QUERIES: [&str; 4] = [
    "groups/1/issues_statistics?labels=bug",
    "issues_statistics?scope=all&labels=bug&not[labels]=ux",
    "issues_statistics?scope=all&search=pipeline",
    "issues_statistics?scope=all&search=%22login+timeout%22",
];

pub fn compare(server: &Server, issues: u64) {
    let quiet = latencies(server);
    let (stopped, updates) = (AtomicBool::new(false), AtomicU64::new(0));
    let live = std::thread::scope(|scope| {
        scope.spawn(|| update(server, issues, &stopped, &updates));
        let live = latencies(server);
        stopped.store(true, Ordering::Relaxed);
        live
    });
    let rate = updates.into_inner() as f64 / MEASURED.as_secs_f64();
    println!("\ncounts with {rate:.0} updates a second and a change of a membership a second, beside quiet ones:");
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        let of = |times: &[f64]| times.get((times.len() as f64 * share) as usize).copied().unwrap_or_default();
        println!("  {name} {:.2} ms, {:.2} times the quiet {:.2} ms", of(&live), of(&live) / of(&quiet), of(&quiet));
    }
}

/// The times of counts, in milliseconds, sorted.
fn latencies(server: &Server) -> Vec<f64> {
    let started = Instant::now();
    let (mut times, mut number) = (Vec::new(), 0);
    let caller = |number: usize| -> &Caller { &CALLERS[number % CALLERS.len()] };
    while started.elapsed() < MEASURED {
        number += 1;
        // An unknown parameter keeps answers out of the response cache.
        let path = format!("{}&n={number}", QUERIES[number % QUERIES.len()]);
        let (time, count) = measure(server, caller(number / QUERIES.len()), &path);
        if count.is_some() {
            times.push(millis(time));
        }
    }
    times.sort_by(f64::total_cmp);
    times
}

fn update(server: &Server, issues: u64, stopped: &AtomicBool, updates: &AtomicU64) {
    let agent = agent();
    let post = |area: &str, line: String| {
        let url = format!("{}/api/v4/import/{area}", server.url);
        let answer = agent.post(url).header("private-token", BOOTSTRAP_TOKEN).send(line.into_bytes());
        assert_eq!(answer.expect("an answer").status(), 200);
    };
    let started = Instant::now();
    let mut id = 1;
    for number in 0.. {
        if stopped.load(Ordering::Relaxed) {
            return;
        }
        id = (id * 1_103_515_245 + 12_345) % issues + 1;
        post(
            "issues",
            format!(
                r#"{{"kind":"issue","id":{id},"iid":{id},"project_id":{},"title":"pipeline {number}","labels":["bug"]}}"#,
                id % 400 + 1
            ),
        );
        if number % UPDATES_A_SECOND == 0 {
            let level = 10 + number / UPDATES_A_SECOND % 4 * 10;
            post(
                "directory",
                format!(
                    r#"{{"kind":"member","source_type":"project","source_id":1,"user_id":40,"access_level":{level}}}"#
                ),
            );
        }
        updates.store(number + 1, Ordering::Relaxed);
        let due = started + Duration::from_micros(1_000_000 / UPDATES_A_SECOND * (number + 1));
        pause(due.saturating_duration_since(Instant::now()));
    }
}
