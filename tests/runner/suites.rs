//! The tests that run, and the tests that are left out.

use crate::report::Outcome;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Tests that `make test` leaves out: a filter of nextest, and the reason.
const SELDOM: &[(&str, &str)] = &[
    ("package(hexad-store-postgres) & test(/^torture::/)", "hosts on PostgreSQL under seeded faults: minutes"),
    ("test(/^host::deploy::/)", "the example in deploy/: minutes, and programs that nothing else needs"),
];

/// The areas' tests that run on PostgreSQL, too, because they depend on the store: flushes, swaps of roots and blobs,
/// and caches that follow the store's changes.
const OF_STORES: &str = "binary(hexad) & test(/^areas::(package_registry|shared_caches|swap)::/)";

/// Tests that need a data folder: its file, its backup and its commands. Also tests of numbers that differ when hosts
/// swap a component through the store.
const OF_FOLDERS: &str = "test(/^host::(backup|locked_store|maintenance|deploy|fleet|many_hosts|store_reader)::/) \
    + test(/^(health|restart)::/) + test(/^foreign::asynchronous_calls_are_within_the_grants/) \
    + test(/^key_value::(a_response_is_replaced_if_its_writes|grants_are_enforced|listings_come_in_pages)/) \
    + test(/^loading::a_store_that_the_area_cannot_read/) + test(/^memory::a_request_for_which_no_memory_is_left/) \
    + test(/^areas::package_registry::packages_api::ids_of_an_earlier_store/) + test(/^swap_load::no_request_fails/) + test(/^canary::a_store_that_cannot_be_written/) + test(/^(contracts|tutorials)::/)";

/// One run of `cargo nextest`.
pub struct Suite {
    pub name: &'static str,
    filter: String,
    environment: Vec<(&'static str, &'static str)>,
    /// Whether the tests that do not match count as skipped. They do only in the first suite.
    counts_skipped: bool,
    /// Filters of the tests that are left out, and the reasons.
    pub left_out: Vec<(&'static str, &'static str)>,
}

/// Whether the user has left out the tests that need this.
fn is_off(variable: &str) -> bool {
    std::env::var(variable).as_deref() == Ok("no")
}

pub fn of(all: bool) -> Vec<Suite> {
    let mut left_out: Vec<(&str, &str)> = Vec::new();
    if !all {
        left_out.extend(SELDOM);
    }
    for (variable, filter, why) in [
        (
            "HEXAD_CLIENTS",
            "test(/^clients::/) + test(/^tutorials::first_package/)",
            "package managers and other clients: CLIENTS=no",
        ),
        ("HEXAD_BROWSER", "test(/^console::/)", "the pages in Chromium: BROWSER=no"),
        (
            "HEXAD_POSTGRES",
            "(package(hexad-store-postgres) & test(/^(tests|torture)::/)) + test(/^host::(fleet|many_hosts|deploy)::/) + test(/^tutorials::two_hosts/)",
            "hosts on PostgreSQL: POSTGRES=no",
        ),
    ] {
        if is_off(variable) {
            left_out.push((filter, why));
        }
    }
    let without: Vec<String> = left_out.iter().map(|(filter, _)| format!("({filter})")).collect();
    let filter = match without.is_empty() {
        true => "all()".to_owned(),
        false => format!("not ({})", without.join(" + ")),
    };
    let environment = if all { vec![("HEXAD_FAILOVER", "yes")] } else { Vec::new() };
    let mut suites =
        vec![Suite { name: "all tests on a data folder", filter, environment, counts_skipped: true, left_out }];
    if !is_off("HEXAD_POSTGRES") {
        let environment = vec![("HEXAD_TEST_STORE", "postgres")];
        suites.push(match all {
            false => Suite {
                name: "areas on PostgreSQL",
                filter: format!("({OF_STORES}) - ({OF_FOLDERS})"),
                environment,
                counts_skipped: false,
                left_out: vec![("", "the other tests on PostgreSQL, whose outcome no store decides")],
            },
            true => Suite {
                name: "tests on PostgreSQL",
                filter: format!("(binary(hexad) + binary(host)) - ({OF_FOLDERS})"),
                environment,
                counts_skipped: false,
                left_out: vec![("", "on PostgreSQL: what a data folder alone has")],
            },
        });
    }
    suites
}

impl Suite {
    /// Runs it to its end. `postgres` is the variable that names the server of the run.
    pub fn run(&self, postgres: Option<&(&str, String)>) -> Outcome {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let mut command = Command::new(cargo);
        command.args(["nextest", "run", "--locked", "--release", "-E", &self.filter]);
        command.envs(self.environment.iter().copied()).stdin(Stdio::null()).stderr(Stdio::piped());
        if let Some((name, value)) = postgres {
            command.env(name, value);
        }
        let mut nextest = command.spawn().expect("cargo runs");
        let mut summary = None;
        let lines = BufReader::new(nextest.stderr.take().expect("piped")).lines();
        for line in lines.map_while(Result::ok) {
            if line.trim_start().starts_with("Summary [") {
                summary = Some(line.clone());
            }
            eprintln!("{line}");
        }
        let success = nextest.wait().expect("a child").success();
        let mut outcome = Outcome::new(self.name, success, summary.as_deref(), &junit());
        if !self.counts_skipped {
            outcome.skipped = 0;
        }
        outcome
    }
}

/// The file in which nextest reports each test. It is below the workspace's folder, wherever cargo's target folder is.
fn junit() -> PathBuf {
    hexad_tests::server::root().join("target/nextest/default/junit.xml")
}
