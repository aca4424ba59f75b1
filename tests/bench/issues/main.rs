//! `make bench-issues`: a million issues, beside PostgreSQL with the same ones. Both are asked the
//! same questions over their own wire, warm, by one client, as three callers, and have to count the
//! same. Nothing else is asserted; ratios say more than the numbers of a shared machine.
//!
//! `ISSUES=100000` takes fewer; `DATA=folder` keeps what was generated and PostgreSQL's tables for
//! the next time.

mod postgres;
mod questions;

use hexad_tests::server::{BOOTSTRAP_TOKEN, Server, binary, root};
use postgres::Postgres;
use questions::{CALLERS, Caller, Question};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How often each question is asked.
const TIMES: usize = 31;

/// A slower question is asked less often: about so long in all.
const PATIENCE: Duration = Duration::from_secs(8);

fn main() {
    let issues = std::env::var("ISSUES").unwrap_or_else(|_| "1000000".into());
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let data = std::env::var_os("DATA").map_or(temporary.path().to_owned(), PathBuf::from);
    let forge = generated(&data, &issues);
    let lines = std::fs::metadata(&forge).expect("what was generated").len();
    let postgres = Postgres::start(&data);

    let store = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(store.path());
    let started = Instant::now();
    run(Command::new(binary())
        .arg("import")
        .arg(&forge)
        .env("HEXAD_URL", &server.url)
        .env("HEXAD_TOKEN", BOOTSTRAP_TOKEN));
    let seconds = started.elapsed().as_secs_f64();
    let (_, peak) = server.memory();
    println!(
        "\nimport: {:.0} issues/s, {:.1} s; the process had {} MiB at most",
        count(&issues) / seconds,
        seconds,
        peak >> 20
    );

    server.stop();
    let index = std::fs::metadata(store.path().join("sqlite_key_value.db")).expect("the store").len();
    println!(
        "index: {} MB of {} MB, {:.0} %",
        index / 1_000_000,
        lines / 1_000_000,
        100.0 * index as f64 / lines as f64
    );
    let server = Server::start(store.path());
    let (first, _) = asked(&server, &CALLERS[1], "groups/1/issues_statistics?labels=bug");
    println!("first question after a start: {:.1} ms\n", millis(first));

    println!(
        "{:<54} {:<9} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>7}",
        "", "", "count", "first", "median", "p99", "pg median", "pg p99", "ratio"
    );
    let mut ratios: [Vec<f64>; 2] = Default::default();
    for question in questions::all() {
        for caller in &CALLERS {
            let ratio = compare(&server, &postgres, &question, caller);
            ratios[usize::from(question.path.contains("search="))].push(ratio);
        }
    }
    for (what, ratios) in ["without search", "with search"].iter().zip(&mut ratios) {
        ratios.sort_by(f64::total_cmp);
        let median = ratios.get(ratios.len() / 2).copied().unwrap_or_default();
        println!(
            "{what}: in the median {median:.0} times as fast as PostgreSQL, at least {:.1} times",
            ratios.first().copied().unwrap_or_default()
        );
    }
    println!("the process had {} MiB at most", server.memory().1 >> 20);
}

/// The file of records, generated if it is not there yet.
fn generated(data: &Path, issues: &str) -> PathBuf {
    let forge = data.join("forge.ndjson");
    if !forge.exists() {
        let generator = root().join("tests/bench/issues/generate.py");
        run(Command::new("python3").arg(generator).arg(data).args(["--issues", issues]));
    }
    forge
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|why| panic!("{command:?}: {why}"));
    assert!(status.success(), "{command:?}");
}

fn count(text: &str) -> f64 {
    text.parse().expect("ISSUES is a number")
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Asks both; how many times as fast this one is.
fn compare(server: &Server, postgres: &Postgres, question: &Question, caller: &Caller) -> f64 {
    let (first, counted) = asked(server, caller, question.path);
    let mut ours = Times::default();
    for number in 0..TIMES {
        // A parameter that is not known, so that nobody answers from memory of the same request.
        let separator = if question.path.contains('?') { '&' } else { '?' };
        ours.add(asked(server, caller, &format!("{}{separator}n={number}", question.path)).0);
    }
    let sql = question.sql(caller);
    let (_, expected) = postgres.asked(&sql);
    if let Some(counted) = counted {
        assert_eq!(counted, expected, "{} as {}", question.path, caller.name);
    }
    let mut theirs = Times::default();
    let started = Instant::now();
    while theirs.0.len() < TIMES && (theirs.0.len() < 3 || started.elapsed() < PATIENCE) {
        theirs.add(postgres.asked(&sql).0);
    }
    let ratio = theirs.at(0.5) / ours.at(0.5);
    println!(
        "{:<54} {:<9} {:>8} {:>8.2} {:>8.2} {:>8.2} {:>9.2} {:>9.2} {:>7.1}",
        question.path.replace("issues_statistics", "…"),
        caller.name,
        counted.unwrap_or_default(),
        millis(first),
        ours.at(0.5),
        ours.at(0.99),
        theirs.at(0.5),
        theirs.at(0.99),
        ratio,
    );
    ratio
}

/// The time of a question, and the count; none if the caller may not see what it is about.
fn asked(server: &Server, caller: &Caller, path: &str) -> (Duration, Option<u64>) {
    thread_local!(static AGENT: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into());
    let url = format!("{}/api/v4/{}", server.url, path.replace('"', "%22"));
    AGENT.with(|agent| {
        let started = Instant::now();
        let mut answer = agent.get(&url).header("private-token", caller.token).call().expect("an answer");
        let text = answer.body_mut().read_to_string().expect("text");
        let time = started.elapsed();
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        (time, json["statistics"]["counts"]["all"].as_u64())
    })
}

/// In milliseconds.
#[derive(Default)]
struct Times(Vec<f64>);

impl Times {
    fn add(&mut self, time: Duration) {
        self.0.push(millis(time));
        self.0.sort_by(f64::total_cmp);
    }

    fn at(&self, share: f64) -> f64 {
        let at = (self.0.len() as f64 * share) as usize;
        self.0.get(at.min(self.0.len().saturating_sub(1))).copied().unwrap_or_default()
    }
}
