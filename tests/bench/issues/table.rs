//! What both take for each question and caller, and the table of that.

use crate::postgres::Postgres;
use crate::questions::{self, CALLERS, Caller, Question};
use crate::{PATIENCE, TIMES, asked, millis};
use hexad_tests::server::Server;
use std::time::{Duration, Instant};

/// All comparisons. They are printed as they are made, and summed up at the end.
pub struct Table(Vec<Row>);

/// Times are in milliseconds.
struct Row {
    is_search: bool,
    first: f64,
    ours: Times,
    theirs: Times,
}

impl Table {
    /// Asks both every question.
    pub fn asked(server: &Server, postgres: &Postgres) -> Self {
        println!(
            "{:<66} {:<9} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>7}",
            "", "", "count", "first", "median", "p99", "pg median", "pg p99", "ratio"
        );
        let questions = questions::all();
        let pairs = questions.iter().flat_map(|question| CALLERS.iter().map(move |caller| (question, caller)));
        Table(pairs.map(|(question, caller)| compare(server, postgres, question, caller)).collect())
    }

    pub fn print(&self) {
        for (what, is_search) in [("without search", false), ("with search", true)] {
            let rows = || self.0.iter().filter(move |row| row.is_search == is_search);
            let highest = |of: fn(&Row) -> f64| rows().map(of).fold(f64::MIN, f64::max);
            let ratios = Times(rows().map(Row::ratio).collect());
            println!(
                "{what}: in the median {:.0} times as fast as PostgreSQL, at least {:.1} times and {:+.2} ms; \
                 at most {:.1} ms the first time, {:.2} ms in the median",
                ratios.at(0.5),
                ratios.at(0.0),
                highest(|row| row.ours.at(0.5) - row.theirs.at(0.5)),
                highest(|row| row.first),
                highest(|row| row.ours.at(0.5)),
            );
        }
    }
}

impl Row {
    /// How many times as fast this one is, in the median.
    fn ratio(&self) -> f64 {
        self.theirs.at(0.5) / self.ours.at(0.5)
    }
}

fn compare(server: &Server, postgres: &Postgres, question: &Question, caller: &Caller) -> Row {
    let (first, counted) = asked(server, caller, question.path);
    // A parameter that is not known, so that nobody answers from memory of the same request.
    let separator = if question.path.contains('?') { '&' } else { '?' };
    let ours = Times::of(|number| asked(server, caller, &format!("{}{separator}n={number}", question.path)).0);
    let sql = question.sql(caller);
    let (_, expected) = postgres.asked(&sql);
    if let Some(counted) = counted {
        assert_eq!(counted, expected, "{} as {}", question.path, caller.name);
    }
    let theirs = Times::of(|_| postgres.asked(&sql).0);
    let row = Row { is_search: question.path.contains("search="), first: millis(first), ours, theirs };
    println!(
        "{:<66} {:<9} {:>8} {:>8.2} {:>8.2} {:>8.2} {:>9.2} {:>9.2} {:>7.1}",
        question.path.replace("issues_statistics", "…"),
        caller.name,
        counted.unwrap_or_default(),
        row.first,
        row.ours.at(0.5),
        row.ours.at(0.99),
        row.theirs.at(0.5),
        row.theirs.at(0.99),
        row.ratio(),
    );
    row
}

struct Times(Vec<f64>);

impl Times {
    /// Takes the time of a question again and again; it gets a number.
    fn of(mut ask: impl FnMut(usize) -> Duration) -> Self {
        let started = Instant::now();
        let mut times = Vec::new();
        while times.len() < TIMES && (times.len() < 2 || started.elapsed() < PATIENCE) {
            times.push(millis(ask(times.len())));
        }
        Times(times)
    }

    /// The time that this share of all is below.
    fn at(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let at = (sorted.len() as f64 * share) as usize;
        sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
    }
}
