//! The report at the end of a run.

use crate::suites::Suite;
use std::path::Path;
use std::process::ExitCode;

/// How many of the longest tests are named.
const LONGEST: usize = 15;

/// The outcome of one suite.
pub struct Outcome {
    passed: usize,
    failed: usize,
    pub skipped: usize,
    /// Seconds, suite, test.
    times: Vec<(f64, String)>,
    failures: Vec<String>,
}

impl Outcome {
    /// From nextest's `Summary` line, which is missing if it ran no test, and its report of each test.
    pub fn new(suite: &str, success: bool, summary: Option<&str>, junit: &Path) -> Self {
        let count = |word: &str| -> usize {
            let words: Vec<&str> =
                summary.unwrap_or_default().split([' ', ',']).filter(|word| !word.is_empty()).collect();
            let pairs = words.windows(2).find(|pair| pair.get(1).is_some_and(|next| *next == word));
            pairs.and_then(|pair| pair.first()?.split('/').next()?.parse().ok()).unwrap_or(0)
        };
        let (run, passed, skipped) = (count("tests").max(count("test")), count("passed"), count("skipped"));
        // A suite whose build failed, or that ended early, has failed, too.
        let failed = (run - passed.min(run)).max(usize::from(!success));
        let report = match summary {
            Some(_) => std::fs::read_to_string(junit).unwrap_or_default(),
            None => String::new(),
        };
        let (mut times, mut failures) = (Vec::new(), Vec::new());
        for case in report.split("<testcase ").skip(1) {
            let field = |name: &str| case.split_once(&format!("{name}=\""))?.1.split('"').next();
            let (Some(name), Some(binary)) = (field("name"), field("classname")) else { continue };
            let seconds = field("time").and_then(|time| time.parse().ok()).unwrap_or(0.0);
            let test = format!("{binary} {name} ({suite})");
            if case.contains("<failure") || case.contains("<error") {
                failures.push(test.clone());
            }
            times.push((seconds, test));
        }
        if !success && failures.is_empty() {
            failures.push(format!("{suite}: cargo nextest failed; its output is above"));
        }
        Self { passed, failed, skipped, times, failures }
    }
}

#[derive(Default)]
pub struct Report {
    outcomes: Vec<Outcome>,
}

impl Report {
    pub fn add(&mut self, outcome: Outcome) {
        self.outcomes.push(outcome);
    }

    fn sum(&self, number: impl Fn(&Outcome) -> usize) -> usize {
        self.outcomes.iter().map(number).sum()
    }

    /// Prints the longest tests, the tests that were left out, the failures, and the line of numbers.
    pub fn print(&self, suites: &[Suite]) -> ExitCode {
        let mut times: Vec<&(f64, String)> = self.outcomes.iter().flat_map(|outcome| &outcome.times).collect();
        times.sort_by(|one, other| other.0.total_cmp(&one.0));
        println!("\nWhat took longest:");
        for (seconds, test) in times.iter().take(LONGEST) {
            println!("  {seconds:6.1} s  {test}");
        }
        println!("Left out (`make test-all` runs all of it):");
        for (filter, why) in suites.iter().flat_map(|suite| &suite.left_out) {
            println!("  {why}  {filter}");
        }
        let failed = self.sum(|outcome| outcome.failed);
        for failure in self.outcomes.iter().flat_map(|outcome| &outcome.failures) {
            println!("FAILED  {failure}");
        }
        let line = format!(
            "{} passed, {failed} failed, {} skipped",
            self.sum(|outcome| outcome.passed),
            self.sum(|outcome| outcome.skipped)
        );
        if let Some(file) = std::env::var_os("HEXAD_TEST_SUMMARY") {
            std::fs::write(file, &line).expect("the summary is written");
        }
        println!("{line}");
        if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}
