//! The cost of cached responses with one, two and four hosts on one PostgreSQL, in processor time, which other programs
//! of the machine distort least.

use hexad_tests::forge;
use hexad_tests::operator::Operator;
use hexad_tests::postgres::Postgres;
use hexad_tests::processor_time::processor_time_of;
use hexad_tests::server::Server;
use std::time::{Duration, Instant};

use super::{metadata, publish};
use crate::load::{self, Load};

/// The same rate for each host, which four of them can serve on two cores.
const RATE: f64 = 1000.0;

/// At this rate of requests per second, a host begins its next barrier as soon as one is over.
const BUSY_HOST: f64 = 50_000.0;

/// Connections of the client, each with one request.
const CONNECTIONS: usize = 16;

const EXACT: &str = "exact";
const BOUNDED: &str = "bounded to 500 ms";

/// Barriers per second of a host with bounded staleness, including the one for its health.
const BOUNDED_RATE: f64 = 3.0;

/// The hosts' changes of the last minutes, and the planner's statistics of them.
const CHANGES: &str = "insert into hexad.change (xid, store, keys)
                       select n::text::xid8, 'default', array['k' || n] from generate_series(1, 500) n; analyze;";

/// How often the duration of the last barrier is sampled.
const SAMPLES: usize = 100;

/// The resources that were used while requests were answered.
struct Usage {
    requests: f64,
    took: Duration,
    barriers: f64,
    hosts: Duration,
    database: Duration,
}

impl Usage {
    /// Microseconds of processor time of the hosts and of PostgreSQL for a request.
    fn per_request(&self) -> (f64, f64) {
        (micros(self.hosts) / self.requests, micros(self.database) / self.requests)
    }

    fn total(&self) -> f64 {
        let (hosts, database) = self.per_request();
        hosts + database
    }

    fn print(&self, name: &str, hosts: usize) {
        let (of_hosts, of_database) = self.per_request();
        println!(
            "  {name:<22} {hosts:>5} {:>9.0} {:>11.0} {of_hosts:>13.1} {of_database:>13.1}",
            self.requests / self.took.as_secs_f64(),
            self.barriers / self.took.as_secs_f64(),
        );
    }
}

pub fn run(database: &Postgres) {
    println!("Hosts on one PostgreSQL: remembered answers, {RATE} a second for each host; processor time");
    println!(
        "  {:<22} {:>5} {:>9} {:>11} {:>13} {:>13}",
        "", "hosts", "req/s", "barriers/s", "hosts µs/req", "server µs/req"
    );
    for (name, options) in [(EXACT, &[][..]), (BOUNDED, &["--max-staleness", "500ms"])] {
        let store_name = format!("scaling{}", options.len());
        let store = database.new_database(&store_name);
        let folders = [(); 4].map(|()| tempfile::tempdir().expect("a temporary folder"));
        let mut hosts = Vec::new();
        let mut usages = Vec::new();
        for folder in &folders {
            let start = || super::host(folder.path(), &[&["--store", store.as_str()], options].concat());
            if hosts.is_empty() {
                let first = start();
                forge::seed(&first);
                load::each_once(&first.url, vec![publish(0)], 1);
                assert_eq!(first.stop(), Some(0));
                // Runs before the hosts connect, because their statements are planned then.
                database.sql_in(&store_name, CHANGES);
            }
            hosts.push(start());
            if hosts.len() != 3 {
                eprintln!("{name}, {} hosts…", hosts.len());
                let usage = measure(database, &hosts, |hosts| {
                    std::thread::scope(|scope| {
                        for host in hosts {
                            scope.spawn(move || Load::paced(&host.url, &metadata(), RATE));
                        }
                    });
                });
                usage.print(name, hosts.len());
                usages.push(usage);
            }
        }
        let (one, four) = (usages[0].total(), usages[2].total());
        println!("  {name}: {:+.0} % processor time for a request from one host to four", 100.0 * (four / one - 1.0));
        if name == EXACT {
            hosts.truncate(1);
            carried(database, &hosts);
        }
    }
    println!();
}

/// How many hosts of 50,000 requests per second one core of PostgreSQL carries. `exact` is computed with the barriers
/// of a saturated host, and with barriers back to back, because one barrier serves all requests that arrived before it.
/// Bounded staleness allows a fixed rate of barriers, whatever the requests are.
fn carried(database: &Postgres, hosts: &[Server]) {
    let operator = Operator::of(&hosts[0]);
    let mut round_trip = f64::NAN;
    let usage = measure(database, hosts, |hosts| {
        std::thread::scope(|scope| {
            let sample = || operator.value("hexad_postgres_round_trip_seconds");
            let sampler = scope.spawn(move || {
                let mut samples: Vec<f64> = (0..SAMPLES).map(|_| sample()).collect();
                samples.sort_by(f64::total_cmp);
                samples[SAMPLES / 2]
            });
            Load::on(&hosts[0].url, &metadata(), CONNECTIONS);
            round_trip = sampler.join().expect("samples");
        });
    });
    let cost = usage.database.as_secs_f64() / usage.barriers;
    println!(
        "  one host at {:.0} requests/s: {:.0} barriers/s of {:.1} µs of PostgreSQL each; one takes {:.0} µs from its \
         beginning to its end",
        usage.requests / usage.took.as_secs_f64(),
        usage.barriers / usage.took.as_secs_f64(),
        cost * 1e6,
        round_trip * 1e6,
    );
    let measured = (usage.barriers / usage.took.as_secs_f64()).min(BUSY_HOST);
    let bound = measured.max(1.0 / round_trip).min(BUSY_HOST);
    for (name, rate) in [(EXACT, measured), ("exact, without a pause", bound), (BOUNDED, BOUNDED_RATE)] {
        println!(
            "  {name}: a core of PostgreSQL carries {:.1} hosts of {BUSY_HOST} requests/s, with {rate:.0} barriers/s each",
            1.0 / (cost * rate)
        );
    }
}

/// Runs a load on each host at once, and measures the usage of the hosts and of PostgreSQL meanwhile.
fn measure(database: &Postgres, hosts: &[Server], mut run: impl FnMut(&[Server])) -> Usage {
    for host in hosts {
        load::each_once(&host.url, vec![metadata(); 2], 1);
    }
    let operators: Vec<Operator> = hosts.iter().map(Operator::of).collect();
    let sum = |name: &str| operators.iter().map(|operator| operator.value(name)).sum::<f64>();
    // When a process ends, its time is added to that of the first process.
    let of_database = || database.processes().into_iter().map(processor_time_of).sum::<Duration>();
    let figures = || {
        let used: Duration = hosts.iter().map(Server::processor_time).sum();
        (sum("hexad_response_cache_hits_total"), sum("hexad_postgres_barriers_total"), used, of_database())
    };
    let started = Instant::now();
    let before = figures();
    run(hosts);
    let after = figures();
    Usage {
        requests: after.0 - before.0,
        took: started.elapsed(),
        barriers: after.1 - before.1,
        hosts: after.2 - before.2,
        database: after.3 - before.3,
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
