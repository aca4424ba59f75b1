//! `make bench-issues`: a million issues, beside PostgreSQL with the same issues. Both answer the same queries over
//! their own protocol, warm, for one client, as three callers. The benchmark asserts only that both counts are equal.
//! On a shared machine the ratios are more stable than the numbers.
//!
//! `ISSUES=100000` uses fewer issues. `DATA=folder` keeps the generated issues, PostgreSQL's tables and the index
//! (`folder/index`) for the next run. `ONLY=load` ends when they are there, so that the next run measures the queries
//! alone. At the end, counts are measured while issues change, and without changes. `ONLY=texts` measures imports of
//! other texts, and `ONLY=live` counts while issues change, both without PostgreSQL.

mod live;
mod postgres;
mod queries;
mod table;
mod texts;

use hexad_tests::http::patient_agent;
use hexad_tests::server::{BOOTSTRAP_TOKEN, Server, program, root};
use postgres::Postgres;
use queries::{CALLERS, Caller};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use table::Table;

/// How often each query is sent.
const TIMES: usize = 201;

/// The time limit for one query. A slow query is sent less often, but at least twice.
const TIME_LIMIT: Duration = Duration::from_secs(1);

fn main() {
    let only = std::env::var("ONLY").unwrap_or_default();
    if only != "load" && only != "live" {
        texts::measure();
    }
    if only == "texts" {
        return;
    }
    let issues = std::env::var("ISSUES").unwrap_or_else(|_| "1000000".into());
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let data = std::env::var_os("DATA").map_or(temporary.path().to_owned(), PathBuf::from);
    let forge = generated(&data, &issues);
    let postgres = (only != "live").then(|| Postgres::start(&data));
    let store = data.join("index");
    if !store.join("sqlite_key_value.db").exists() {
        import(&forge, &store, count(&issues));
    }
    if only == "load" {
        return;
    }
    if let Some(postgres) = postgres {
        let server = Server::start(&store);
        let (first, _) = measure(&server, &CALLERS[1], "groups/1/issues_statistics?labels=bug");
        println!("first query after a start: {:.1} ms\n", millis(first));
        Table::measure(&server, &postgres).print();
        println!("the process had {} MiB at most", server.memory().1 >> 20);
        server.stop();
    }
    // Updates go to a copy, because the next run compares the index with PostgreSQL, too.
    let copy = tempfile::tempdir().expect("a temporary folder");
    for file in std::fs::read_dir(&store).expect("the index").flatten() {
        if file.path().is_file() {
            std::fs::copy(file.path(), copy.path().join(file.file_name())).expect("copied");
        }
    }
    live::compare(&Server::start(copy.path()), count(&issues) as u64);
}

/// Imports into an empty store, and prints how long that took and how large the index is.
fn import(forge: &Path, store: &Path, issues: f64) {
    let unfinished = store.with_extension("unfinished");
    let _ = std::fs::remove_dir_all(&unfinished);
    std::fs::create_dir_all(&unfinished).expect("a folder");
    let server = Server::start(&unfinished);
    let started = Instant::now();
    run(Command::new(program())
        .arg("import")
        .arg(forge)
        .env("HEXAD_URL", &server.url)
        .env("HEXAD_TOKEN", BOOTSTRAP_TOKEN));
    let seconds = started.elapsed().as_secs_f64();
    let (_, peak) = server.memory();
    server.stop();
    std::fs::rename(&unfinished, store).expect("the finished store has its name");
    println!("\nimport: {:.0} issues/s, {seconds:.1} s; the process had {} MiB at most", issues / seconds, peak >> 20);
    let size = |path: &Path| std::fs::metadata(path).expect("a file").len() as f64;
    let (index, lines) = (size(&store.join("sqlite_key_value.db")), size(forge));
    println!("index: {:.0} MB of {:.0} MB, {:.0} %", index / 1e6, lines / 1e6, 100.0 * index / lines);
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

/// The time of a query, and the count. `None` if the caller may not see the project or group.
fn measure(server: &Server, caller: &Caller, path: &str) -> (Duration, Option<u64>) {
    thread_local!(static AGENT: ureq::Agent = patient_agent());
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
