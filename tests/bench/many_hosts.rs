//! One host on PostgreSQL beside the same host on SQLite, on the same machine in the same run.

mod imports;
mod scaling;

use hexad_tests::forge::{self, DEVELOPER, PUBLIC};
use hexad_tests::package;
use hexad_tests::postgres::{self, Postgres};
use hexad_tests::server::{self, Server};
use std::path::Path;

use crate::component::uncached_manifest;
use crate::load::{self, Load, Request};
use crate::table::Table;
use crate::{Bench, get};

const GROUP: &str = "postgres";

/// What is measured besides the rows.
const SCALING: &str = "hosts on one PostgreSQL";
const IMPORTS: &str = "imports into PostgreSQL";

/// Publishes, and how many of them are under way.
const PUBLISHES: u64 = 200;
const AT_ONCE: usize = 8;

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
        options: &["--freshness", "500ms"],
    },
    Row { name: "by the component", work: Work::Reads { is_cached: false, connections: 16 }, options: &[] },
    Row { name: "durable publishes, 8 at once", work: Work::Publishes, options: &[] },
];

impl Work {
    fn measure(&self, options: &[&str]) -> Load {
        let data = tempfile::tempdir().expect("a temporary folder");
        let manifest = match self {
            Work::Reads { is_cached: false, .. } => uncached_manifest(data.path()),
            _ => server::root().join("spin.toml"),
        };
        let server = host_of(&manifest, data.path(), options);
        forge::seed(&server);
        match self {
            Work::Reads { connections, .. } => {
                load::each_once(&server.url, vec![publish(0)], 1);
                Load::on(&server.url, &get(&format!("{}/package-0", registry()), &[]), *connections)
            }
            Work::Publishes => load::each_once(&server.url, (0..PUBLISHES).map(publish).collect(), AT_ONCE),
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
                let peer = work.measure(&[]);
                let url = database.new_database(&format!("row{number}"));
                let options = [&["--store", url.as_str()], *options].concat();
                table.row(name, &work.measure(&options), Some(&peer));
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

fn registry() -> String {
    format!("/api/v4/projects/{PUBLIC}/packages/npm")
}

fn publish(serial: u64) -> Request {
    let (name, version) = (format!("package-{serial}"), "1.0.0");
    Request {
        method: "PUT",
        path: format!("{}/{name}", registry()),
        headers: vec![("authorization", format!("Bearer {DEVELOPER}")), ("content-type", "application/json".into())],
        body: package::document(&name, version, "latest", &package::tarball(&name, version, 100_000, serial)),
    }
}
