//! `make profile`: the workload of the instrumented program, which counts for the compiler how often each part runs. It
//! consists of this benchmark's rows of calls, the registry, lists and analytics, over both stores.

use crate::calls::list_of_experiments;
use crate::component::{hexad, hexad_0_2};
use crate::load::Load;
use crate::registry::Registry;
use crate::*;
use hexad_tests::postgres::{self, Postgres};
use hexad_tests::server;

pub const FLAG: &str = "--train";

/// Publications, and how many of them are under way.
const PUBLICATIONS: u64 = 200;
const AT_ONCE: usize = 8;

/// Answers of 5 MB of an engine.
const LARGE_ANSWERS: usize = 500;

pub fn run() {
    for cached in [false, true] {
        eprintln!("the smallest component…");
        let data = tempfile::tempdir().expect("a temporary folder");
        load_and_stop(hexad(data.path(), cached));
    }
    let data = tempfile::tempdir().expect("a temporary folder");
    load_and_stop(hexad_0_2(data.path()));
    queries();
    let database = postgres::is_enabled().then(|| Postgres::start(&[]));
    for (number, cached) in [false, true].into_iter().enumerate() {
        areas(cached, None);
        if let Some(database) = &database {
            areas(cached, Some(&database.new_database(&format!("training{number}"))));
        }
    }
}

fn load_and_stop(server: Server) {
    Load::run(&server.url, &get("/", &[]));
    // The program writes the counts when it ends regularly.
    assert_eq!(server.stop(), Some(0));
}

/// Queries that the component passes to another server, and their answers.
fn queries() {
    let (engine, data) = (hello::start(), tempfile::tempdir().expect("a temporary folder"));
    let server = analytics::start(data.path());
    eprintln!("analytics…");
    Load::run(&server.url, &analytics::query(&server, &engine, "small"));
    load::each_once(&server.url, vec![analytics::query(&server, &engine, "large"); LARGE_ANSWERS], 1);
    assert_eq!(server.stop(), Some(0));
}

/// The areas, with or without the response cache, over a store on PostgreSQL or in a data folder.
fn areas(cached: bool, store: Option<&str>) {
    let data = tempfile::tempdir().expect("a temporary folder");
    let manifest = if cached { Path::new("spin.toml").to_owned() } else { uncached_manifest(data.path()) };
    let mut command = server::up(&manifest, data.path());
    command.env("SPIN_VARIABLE_BOOTSTRAP_ADMIN_TOKEN", server::BOOTSTRAP_TOKEN);
    // All requests come from one address.
    command
        .env("SPIN_VARIABLE_REGISTRY_RATE_LIMIT_LOOKUPS", "0")
        .env("SPIN_VARIABLE_REGISTRY_RATE_LIMIT_SEARCHES", "0");
    command.args(store.map(|url| ["--store", url]).into_iter().flatten());
    let server = Server::spawn(command, data.path());
    forge::seed(&server);
    let registry = Registry::of(&server);
    eprintln!("publications…");
    registry.fill();
    let publication = |n: u64| registry.put(&format!("fresh-{n}"), "1.0.0", 100_000, n);
    load::each_once(&server.url, (0..PUBLICATIONS).map(publication).collect(), AT_ONCE);
    let mut scoped = registry.put("@acme/pages", "1.0.0", 1000, 1);
    scoped.path = scoped.path.replace("@acme/", "@acme%2f");
    load::each_once(&server.url, vec![scoped], 1);
    let lists = [("experiments", list_of_experiments(&server)), ("a page", get("/packages/@acme/pages", &[]))];
    for (name, request) in registry.reads().into_iter().chain(lists) {
        eprintln!("{name}…");
        Load::run(&server.url, &request);
    }
    assert_eq!(server.stop(), Some(0));
}
