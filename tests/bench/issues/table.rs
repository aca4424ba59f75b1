//! The times of both servers for each query and caller, as a table.

use crate::postgres::Postgres;
use crate::queries::{CALLERS, Caller, Query};
use crate::*;

/// All comparisons. Each is printed at once, and a summary at the end.
pub struct Table(Vec<Row>);

/// Times are in milliseconds.
struct Row {
    is_search: bool,
    first: f64,
    ours: Times,
    theirs: Times,
}

impl Table {
    /// Sends every query to both servers.
    pub fn measure(server: &Server, postgres: &Postgres) -> Self {
        println!(
            "{:<66} {:<9} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>7}",
            "", "", "count", "first", "median", "p99", "pg median", "pg p99", "ratio"
        );
        let queries = queries::all();
        let pairs = queries.iter().flat_map(|query| CALLERS.iter().map(move |caller| (query, caller)));
        Table(pairs.map(|(query, caller)| compare(server, postgres, query, caller)).collect())
    }

    pub fn print(&self) {
        for (name, is_search) in [("without search", false), ("with search", true)] {
            let rows = || self.0.iter().filter(move |row| row.is_search == is_search);
            let highest = |of: fn(&Row) -> f64| rows().map(of).fold(f64::MIN, f64::max);
            let ratios = Times(rows().map(Row::ratio).collect());
            println!(
                "{name}: in the median {:.0} times as fast as PostgreSQL, at least {:.1} times and {:+.2} ms; \
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

fn compare(server: &Server, postgres: &Postgres, query: &Query, caller: &Caller) -> Row {
    let (first, counted) = measure(server, caller, query.path);
    // An unknown parameter keeps answers out of the response cache.
    let separator = if query.path.contains('?') { '&' } else { '?' };
    let ours = Times::of(|number| measure(server, caller, &format!("{}{separator}n={number}", query.path)).0);
    let sql = query.sql(caller);
    let (_, expected) = postgres.measure(&sql);
    if let Some(counted) = counted {
        assert_eq!(counted, expected, "{} as {}", query.path, caller.name);
    }
    let theirs = Times::of(|_| postgres.measure(&sql).0);
    let row = Row { is_search: query.path.contains("search="), first: millis(first), ours, theirs };
    println!(
        "{:<66} {:<9} {:>8} {:>8.2} {:>8.2} {:>8.2} {:>9.2} {:>9.2} {:>7.1}",
        query.path.replace("issues_statistics", "…"),
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
    /// Measures a query repeatedly. `send` gets the number of the attempt.
    fn of(mut send: impl FnMut(usize) -> Duration) -> Self {
        let started = Instant::now();
        let mut times = Vec::new();
        while times.len() < TIMES && (times.len() < 2 || started.elapsed() < TIME_LIMIT) {
            times.push(millis(send(times.len())));
        }
        Times(times)
    }

    /// The time that this share of the queries stays below.
    fn at(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let at = (sorted.len() as f64 * share) as usize;
        sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
    }
}
