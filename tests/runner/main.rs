//! Runs the tests: `make test` and, with `--all`, `make test-all`. `cargo nextest` runs each test in its own process,
//! and ends it at its time-out. This program starts the shared servers of a run. At the end, it reports the longest
//! tests, the tests that were left out, and how many passed.
//!
//! The last line, `N passed, N failed, N skipped`, is also in the file that `HEXAD_TEST_SUMMARY` names.

mod report;
mod suites;

use hexad_tests::databases;
use hexad_tests::postgres::{self, Postgres};
use report::Report;
use std::process::ExitCode;

fn main() -> ExitCode {
    let all = std::env::args().any(|argument| argument == "--all");
    // PostgreSQL ends with this process.
    let postgres = postgres::is_enabled().then(|| Postgres::until_exit(databases::SETTINGS).as_shared());
    let mut report = Report::default();
    let suites = suites::of(all);
    for suite in &suites {
        eprintln!("\n== {}", suite.name);
        report.add(suite.run(postgres.as_ref()));
    }
    report.print(&suites)
}
