//! `make soak`: mixed requests for half an hour, with publishes, imports, swaps and gc at the same time. It prints the
//! memory of the process every few minutes, and the number of server errors. `MINUTES=30` is the default.
//!
//! It fails if an answer has a status of 500 or more, if a connection breaks, or if the memory grows too much. At the
//! end, the memory may be 1.1 times the memory after five minutes (or after a sixth of the time, if that is shorter).

use hexad_tests::forge::{self, ADMIN, DEVELOPER, MAINTAINER, PUBLIC};
use hexad_tests::http::agent;
use hexad_tests::operator::{Operator, variant};
use hexad_tests::package::tarball;
use hexad_tests::registry::Registry;
use hexad_tests::server::{BOOTSTRAP_TOKEN, Server, program};
use hexad_tests::wait::pause;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const MINUTES: u64 = 30;
/// Clients that send requests without a pause.
const CLIENTS: usize = 8;
/// The maximum ratio of the memory at the end to that at the beginning.
const GROWTH: f64 = 1.1;

/// Packages, and the bytes of a tarball.
const PACKAGES: u64 = 20;
const TARBALL: usize = 50_000;

/// Versions that stay besides the first ones, and issues. Older versions and issues are unpublished or replaced, so the
/// data keeps its size, and growing memory has another cause.
const VERSIONS: u64 = 100;
const ISSUES: u64 = 2_000;

/// How often each kind of work is done during the requests.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);
const IMPORT_EVERY: Duration = Duration::from_secs(5);
const SWAP_EVERY: Duration = Duration::from_secs(10);
const GC_EVERY: Duration = Duration::from_secs(60);

/// Counts of requests and operations so far.
#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    errors: AtomicU64,
    swaps: AtomicU64,
    imports: AtomicU64,
    publishes: AtomicU64,
    gcs: AtomicU64,
    is_over: AtomicBool,
}

impl Counts {
    fn record(&self, operation: &str, status: Option<u16>) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if status.is_none_or(|status| status >= 500) {
            self.errors.fetch_add(1, Ordering::Relaxed);
            eprintln!("{operation}: {status:?}");
        }
    }

    /// Does `work` every `period` until the time is over.
    fn every(&self, period: Duration, mut work: impl FnMut(u64)) {
        let mut next = Instant::now();
        for number in 0.. {
            next += period;
            loop {
                if self.is_over.load(Ordering::Relaxed) {
                    return;
                }
                if Instant::now() >= next {
                    break;
                }
                pause(Duration::from_millis(50));
            }
            work(number);
        }
    }
}

fn main() {
    let minutes = std::env::var("MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(MINUTES);
    let duration = Duration::from_secs(60 * minutes);
    let data = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(data.path());
    forge::seed(&server);
    let registry = Registry::new(&server, PUBLIC, DEVELOPER);
    for number in 0..PACKAGES {
        let name = format!("p{number}");
        let answer = registry.publish(&name, "1.0.0", &tarball(&name, "1.0.0", TARBALL, number)).expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let counts = Counts::default();
    let started = Instant::now();
    println!("{CLIENTS} clients for {minutes} minutes");
    println!("  {:>8} {:>10} {:>12} {:>8}", "minute", "MB", "requests", "errors");
    let (early, late) = std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (counts, url) = (&counts, &server.url);
            scope.spawn(move || send_requests(url, client as u64, counts));
        }
        scope.spawn(|| {
            counts.every(PUBLISH_EVERY, |number| {
                publish(&registry, number, &counts);
                if let Some(old) = number.checked_sub(VERSIONS) {
                    unpublish(&server, old, &counts);
                }
            });
        });
        scope.spawn(|| counts.every(IMPORT_EVERY, |number| import(&server, number, &counts)));
        scope.spawn(|| counts.every(SWAP_EVERY, |number| swap(&server, number, &counts)));
        scope.spawn(|| counts.every(GC_EVERY, |_| collect_garbage(&server, &counts)));
        let row = |at: Duration| {
            pause(at.saturating_sub(started.elapsed()));
            let bytes = server.memory().0;
            let (requests, errors) = (counts.requests.load(Ordering::Relaxed), counts.errors.load(Ordering::Relaxed));
            println!("  {:>8.1} {:>10.1} {requests:>12} {errors:>8}", at.as_secs_f64() / 60.0, bytes as f64 / 1e6);
            bytes
        };
        let rows: Vec<u64> = (1..=6).map(|part| row(duration * part / 6)).collect();
        counts.is_over.store(true, Ordering::Relaxed);
        (rows[0], rows[5])
    });
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!(
        "  {} publishes, {} imports, {} swaps, {} gc\n",
        count(&counts.publishes),
        count(&counts.imports),
        count(&counts.swaps),
        count(&counts.gcs)
    );
    let growth = late as f64 / early as f64;
    let requests = count(&counts.requests);
    println!(
        "  {requests} requests; the memory at the end is {growth:.2} × that of the first row (at most {GROWTH})\n"
    );
    assert_eq!(count(&counts.errors), 0, "server errors and broken connections");
    assert!(growth <= GROWTH, "the memory at the end is {growth:.2} times that of the beginning");
}

/// One client's requests, one after the other.
fn send_requests(url: &str, client: u64, counts: &Counts) {
    let agent = agent();
    for number in client.. {
        if counts.is_over.load(Ordering::Relaxed) {
            return;
        }
        let package = number.wrapping_mul(7) % PACKAGES;
        let path = match number % 10 {
            0..=3 => format!("projects/{PUBLIC}/packages/npm/p{package}"),
            4 => format!("projects/{PUBLIC}/packages/npm/p{package}/-/p{package}-1.0.0.tgz"),
            5 => format!("projects?search=e&page={}", 1 + number % 3),
            6 => "namespaces?per_page=5".to_owned(),
            7 => format!("issues_statistics?scope=all&search=word{}", number % 50),
            8 => format!("groups/acme/-/packages/npm/p{package}"),
            _ => format!("users/{}", 1 + number % 5),
        };
        let request = agent.get(format!("{url}/api/v4/{path}")).header("private-token", ADMIN);
        let answer = request.call().and_then(hexad_tests::http::read);
        counts.record(&path, answer.ok().map(|answer| answer.status));
    }
}

/// The package and the version that a publish makes.
fn published(number: u64) -> (String, String) {
    (format!("p{}", number % PACKAGES), format!("1.{}.0", 1 + number))
}

fn publish(registry: &Registry, number: u64, counts: &Counts) {
    let (name, version) = published(number);
    let answer = registry.publish(&name, &version, &tarball(&name, &version, TARBALL, number));
    counts.record("publish", answer.ok().map(|answer| answer.status));
    counts.publishes.fetch_add(1, Ordering::Relaxed);
}

/// Removes a version as npm does, by a document without the version.
fn unpublish(server: &Server, number: u64, counts: &Counts) {
    let (name, version) = published(number);
    let url = format!("{}/api/v4/projects/{PUBLIC}/packages/npm/{name}", server.url);
    let maintainer = ("authorization", format!("Bearer {MAINTAINER}"));
    let document = agent().get(&url).header(maintainer.0, &maintainer.1).call().and_then(hexad_tests::http::read);
    let mut document: serde_json::Value =
        serde_json::from_str(&document.expect("an answer").text()).expect("a document");
    let removed = document["versions"].as_object_mut().and_then(|versions| versions.remove(&version));
    assert!(removed.is_some(), "{name} has {version}");
    let revision = document["_rev"].as_str().expect("a revision");
    let request = agent().put(format!("{url}/-rev/{revision}")).header(maintainer.0, &maintainer.1);
    let answer = request.content_type("application/json").send(document.to_string());
    let status = answer.and_then(hexad_tests::http::read).ok().map(|answer| answer.status);
    assert_eq!(status, Some(200), "{version} of {name} is unpublished");
    counts.record("unpublish", status);
}

/// Imports the directory again, and some issues, of which a part was imported before.
fn import(server: &Server, number: u64, counts: &Counts) {
    let issues: String = (0..200)
        .map(|index| {
            let id = (number * 100 + index) % ISSUES + 1;
            format!(
                "{{\"kind\":\"issue\",\"id\":{id},\"iid\":{id},\"project_id\":{PUBLIC},\"author_id\":3,\
                 \"state\":\"opened\",\"title\":\"word{} of issue {id}\",\"created_at\":\"2026-01-01T00:00:00Z\"}}\n",
                id % 50
            )
        })
        .collect();
    for (area, records) in [("directory", forge::RECORDS), ("issues", &*issues)] {
        let request = agent().post(format!("{}/api/v4/import/{area}", server.url));
        let request = request.header("private-token", BOOTSTRAP_TOKEN).content_type("application/x-ndjson");
        let answer = request.send(records).and_then(hexad_tests::http::read);
        counts.record(area, answer.ok().map(|answer| answer.status));
    }
    counts.imports.fetch_add(1, Ordering::Relaxed);
}

/// Swaps a component to another build. Two builds, which differ in a custom section, take turns.
fn swap(server: &Server, number: u64, counts: &Counts) {
    let component = ["package-registry", "namespaces", "issue-statistics"][number as usize % 3];
    Operator::of(server).swap(component, &variant(component, (number / 3 % 2) as u8)).expect(200);
    counts.swaps.fetch_add(1, Ordering::Relaxed);
}

fn collect_garbage(server: &Server, counts: &Counts) {
    let mut command = Command::new(program());
    command.arg("gc").env("HEXAD_URL", &server.url).env("HEXAD_TOKEN", ADMIN);
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    counts.gcs.fetch_add(1, Ordering::Relaxed);
}
