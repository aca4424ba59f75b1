//! One host on PostgreSQL beside the same host on SQLite, on the same machine in the same run.

mod imports;
mod scaling;

use crate::load::{Load, Request};
use crate::registry::Registry;
use crate::*;
use hexad_tests::postgres::{self, Postgres};
use hexad_tests::server;

const GROUP: &str = "postgres";

/// Measurements besides the rows.
const SCALING: &str = "hosts on one PostgreSQL";
const IMPORTS: &str = "imports into PostgreSQL";

/// Publishes, how many of them are under way, and in how many turns they are made.
const PUBLISHES: u64 = 400;
const AT_ONCE: usize = 8;
const TURNS: u64 = 4;

struct Row {
    name: &'static str,
    work: Work,
    /// Options of the host on PostgreSQL.
    options: &'static [&'static str],
}

enum Work {
    /// Metadata of a package on a number of connections.
    Reads { is_cached: bool, connections: usize },
    /// Publishes of 100 kB.
    Publishes,
}

const ROWS: [Row; 5] = [
    Row { name: "remembered, 16 connections", work: Work::Reads { is_cached: true, connections: 16 }, options: &[] },
    Row { name: "remembered, 256 connections", work: Work::Reads { is_cached: true, connections: 256 }, options: &[] },
    Row {
        name: "remembered, bounded to 500 ms",
        work: Work::Reads { is_cached: true, connections: 16 },
        options: &["--max-staleness", "500ms"],
    },
    Row { name: "by the component", work: Work::Reads { is_cached: false, connections: 16 }, options: &[] },
    Row { name: "durable publishes, 8 at once", work: Work::Publishes, options: &[] },
];

impl Work {
    /// Measures two hosts with these options, in turns.
    fn measure(&self, options: [&[&str]; 2]) -> [Load; 2] {
        let folders = options.map(|_| tempfile::tempdir().expect("a temporary folder"));
        let [first, second] = [0, 1].map(|host| {
            let data = folders[host].path();
            let manifest = match self {
                Work::Reads { is_cached: false, .. } => uncached_manifest(data),
                _ => server::root().join("spin.toml"),
            };
            let server = host_of(&manifest, data, options[host]);
            forge::seed(&server);
            server
        });
        let urls = [first.url.as_str(), second.url.as_str()];
        match self {
            Work::Reads { connections, .. } => {
                let request = metadata();
                for url in urls {
                    load::each_once(url, vec![publish(0)], 1);
                }
                Load::in_turns_on(urls.map(|url| (url, &request)), *connections)
            }
            Work::Publishes => {
                let turn = |number: u64| {
                    let publishes = number * PUBLISHES / TURNS..(number + 1) * PUBLISHES / TURNS;
                    urls.map(|url| load::each_once(url, publishes.clone().map(publish).collect(), AT_ONCE))
                };
                (1..TURNS).map(turn).fold(turn(0), |mut all, more| {
                    all.iter_mut().zip(more).for_each(|(all, more)| all.add(more));
                    all
                })
            }
        }
    }
}

pub fn run(bench: &Bench) {
    let names = ROWS.map(|row| row.name);
    let has = |name: &str| bench.selection.has(GROUP, name);
    if !postgres::is_enabled() || !names.iter().chain(&[SCALING, IMPORTS]).any(|name| has(name)) {
        return;
    }
    let database = Postgres::start(&[]);
    if bench.selection.has_any(GROUP, &names) {
        let mut table = Table::new("One host on PostgreSQL on this machine; the peer is one on SQLite", &bench.load);
        for (number, Row { name, work, options }) in ROWS.iter().enumerate() {
            if has(name) {
                eprintln!("{name}…");
                let url = database.new_database(&format!("row{number}"));
                let [peer, load] = work.measure([&[], &[&["--store", url.as_str()], *options].concat()]);
                table.row(name, &load, Some(&peer));
            }
        }
        table.print();
    }
    if has(SCALING) {
        scaling::run(&database);
    }
    if has(IMPORTS) {
        imports::run(&database);
    }
}

/// A host of the project's own manifest with these options.
fn host(data: &Path, options: &[&str]) -> Server {
    host_of(Path::new("spin.toml"), data, options)
}

fn host_of(manifest: &Path, data: &Path, options: &[&str]) -> Server {
    let mut command = server::up(manifest, data);
    command.env("SPIN_VARIABLE_BOOTSTRAP_ADMIN_TOKEN", server::BOOTSTRAP_TOKEN).args(options);
    Server::spawn(command, data)
}

fn publish(serial: u64) -> Request {
    Registry::at("").put(&format!("package-{serial}"), "1.0.0", 100_000, serial)
}

/// A request for the metadata of the first package.
fn metadata() -> Request {
    Registry::at("").get("package-0", &[])
}
