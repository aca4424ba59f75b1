//! An import of issues on PostgreSQL beside one on SQLite, and counts of a host while another one imports.

use hexad_tests::forge::ADMIN;
use hexad_tests::http;
use hexad_tests::postgres::Postgres;
use hexad_tests::server::{BOOTSTRAP_TOKEN, Server, program, root};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Issues of each import.
const ISSUES: usize = 100_000;

/// How long counts are measured without an import.
const QUIET: Duration = Duration::from_secs(10);

const QUERIES: [&str; 4] = [
    "groups/1/issues_statistics?labels=bug",
    "issues_statistics?scope=all&labels=bug&not[labels]=ux",
    "issues_statistics?scope=all&search=pipeline",
    "issues_statistics?scope=all&search=%22login+timeout%22",
];

/// Files of records.
struct Records {
    directory: PathBuf,
    first: PathBuf,
    second: PathBuf,
}

impl Records {
    /// The forge of `make bench-issues`, in three parts.
    fn generate(folder: &Path) -> Self {
        let generator = root().join("tests/bench/issues/generate.py");
        let mut command = Command::new("python3");
        command.arg(generator).arg(folder).args(["--issues", &(2 * ISSUES).to_string()]);
        assert!(command.status().expect("python3 runs").success());
        let text = std::fs::read_to_string(folder.join("forge.ndjson")).expect("the records");
        let (issues, directory): (Vec<&str>, Vec<&str>) =
            text.split_inclusive('\n').partition(|line| line.starts_with("{\"kind\":\"issue\""));
        let (first, second) = issues.split_at(ISSUES);
        let file = |name: &str, lines: &[&str]| {
            let path = folder.join(name);
            let mut file = std::fs::File::create(&path).expect("a file");
            file.write_all(lines.concat().as_bytes()).expect("a file");
            path
        };
        Self {
            directory: file("directory.ndjson", &directory),
            first: file("first.ndjson", first),
            second: file("second.ndjson", second),
        }
    }
}

pub fn run(database: &Postgres) {
    eprintln!("imports…");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let records = Records::generate(folder.path());
    // PostgreSQL flushes each record of a directory separately, so the directory is imported into a folder and copied.
    let (data, store) = (folder.path().join("alone"), database.new_database("imports"));
    let alone = super::host(&data, &[]);
    import(&alone, &records.directory);
    assert_eq!(alone.stop(), Some(0));
    let mut copy = Command::new(program());
    copy.args(["store", "copy", "--from"]).arg(&data).args(["--to", store.as_str()]).stderr(Stdio::null());
    assert!(copy.stdout(Stdio::null()).status().expect("the program runs").success(), "the store is copied");
    let alone = super::host(&data, &[]);
    let peer = import(&alone, &records.first);
    drop(alone);

    let [first, second] = ["one", "two"].map(|name| super::host(&folder.path().join(name), &["--store", &store]));
    let took = import(&first, &records.first);
    println!("Imports into PostgreSQL on this machine");
    println!(
        "  {ISSUES} issues: {:.0} a second, {:.2} × SQLite ({:.0} a second)",
        ISSUES as f64 / took.as_secs_f64(),
        peer.as_secs_f64() / took.as_secs_f64(),
        ISSUES as f64 / peer.as_secs_f64(),
    );

    let started = Instant::now();
    let quiet = counts(&second, || started.elapsed() >= QUIET);
    let is_over = AtomicBool::new(false);
    let meanwhile = std::thread::scope(|scope| {
        scope.spawn(|| {
            import(&first, &records.second);
            is_over.store(true, Ordering::Relaxed);
        });
        counts(&second, || is_over.load(Ordering::Relaxed))
    });
    println!("  counts on one host while {ISSUES} issues are imported through another:");
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        let of = |times: &[f64]| times.get((times.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN);
        let (busy, quiet) = (of(&meanwhile), of(&quiet));
        println!("    {name} {busy:.2} ms, {:.2} times the quiet {quiet:.2} ms", busy / quiet);
    }
    println!();
}

fn import(server: &Server, records: &Path) -> Duration {
    let started = Instant::now();
    let mut command = Command::new(program());
    command.arg("import").arg(records).env("HEXAD_URL", &server.url).env("HEXAD_TOKEN", BOOTSTRAP_TOKEN);
    assert!(command.stdout(Stdio::null()).status().expect("the program runs").success(), "{}", records.display());
    started.elapsed()
}

/// The times of counts of one client until `is_over`, in milliseconds, sorted.
fn counts(server: &Server, is_over: impl Fn() -> bool) -> Vec<f64> {
    let agent = http::agent();
    let mut times = Vec::new();
    while !is_over() {
        // An unknown parameter keeps answers out of the response cache.
        let url = format!("{}/api/v4/{}&n={}", server.url, QUERIES[times.len() % QUERIES.len()], times.len());
        let started = Instant::now();
        let answer = agent.get(url).header("private-token", ADMIN).call().and_then(http::read).expect("an answer");
        times.push(started.elapsed().as_secs_f64() * 1000.0);
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    times.sort_by(f64::total_cmp);
    times
}
