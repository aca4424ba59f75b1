//! `make bench`: how fast and how frugal the whole is, beside a native hyper "hello" that runs on
//! the same machine, in the same run, under the same client. Nothing here is asserted: a table is
//! printed, and ratios say more than absolute numbers of a shared machine.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod hello;
mod load;
mod table;

use hexad_tests::forge::{self, DEVELOPER, PUBLIC};
use hexad_tests::package;
use hexad_tests::server::Server;
use load::{Load, Request};
use table::Table;

const KB: usize = 1000;
const MB: usize = 1000 * KB;

fn main() {
    if std::env::args().any(|argument| argument == hello::FLAG) {
        return hello::serve();
    }
    let hello = hello::Hello::start();
    let data = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(data.path());
    forge::seed(&server);
    let registry = format!("/api/v4/projects/{PUBLIC}/packages/npm");

    let put = |name: &str, version: &str, size: usize, seed: u64| Request {
        method: "PUT",
        path: format!("{registry}/{}", name.replace('/', "%2f")),
        headers: vec![("authorization", format!("Bearer {DEVELOPER}")), ("content-type", "application/json".into())],
        body: package::document(name, version, "latest", &package::tarball(name, version, size, seed)),
    };
    let get = |path: String, headers: &[(&'static str, &str)]| Request {
        method: "GET",
        path,
        headers: headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
        body: Vec::new(),
    };

    eprintln!("publishing what is read later…");
    let mut seeded: Vec<Request> = (0..200).map(|n| put("many", &format!("1.0.{n}"), KB, n)).collect();
    seeded.push(put("one", "1.0.0", 100 * KB, 1000));
    seeded.push(put("big", "1.0.0", 5 * MB, 1001));
    load::each_once(&server.url, seeded, 1);
    let etag = load::header(&server.url, &get(format!("{registry}/one"), &[]), "etag").expect("metadata has an ETag");

    let abbreviated = "application/vnd.npm.install-v1+json";
    let cases = [
        ("metadata, 1 version", get(format!("{registry}/one"), &[])),
        ("metadata, 200 versions", get(format!("{registry}/many"), &[])),
        ("abbreviated, 200 versions", get(format!("{registry}/many"), &[("accept", abbreviated)])),
        ("metadata, 304", get(format!("{registry}/one"), &[("if-none-match", &etag)])),
        ("metadata with a token", get(format!("{registry}/one"), &[("authorization", &format!("Bearer {DEVELOPER}"))])),
        ("tarball, 100 kB", get(format!("{registry}/one/-/one-1.0.0.tgz"), &[])),
        ("tarball, 5 MB", get(format!("{registry}/big/-/big-1.0.0.tgz"), &[])),
    ];
    let mut table = Table::new("Reads, 16 connections");
    let base = Load::run(&hello.url, &get("/".into(), &[]));
    table.row("native hyper hello", &base, &base);
    for (name, request) in &cases {
        eprintln!("{name}…");
        table.row(name, &Load::run(&server.url, request), &base);
    }
    table.print();

    let mut table = Table::new("Durable publishes of 100 kB");
    let mut serial = 0;
    let mut documents = |count: u64, same_package: bool| -> Vec<Request> {
        (0..count)
            .map(|_| {
                serial += 1;
                let name = if same_package { "growing".to_owned() } else { format!("fresh-{serial}") };
                put(&name, &format!("1.0.{serial}"), 100 * KB, serial)
            })
            .collect()
    };
    for (name, count, connections, same) in [
        ("one after the other, new packages", 200, 1, false),
        ("one after the other, one package", 200, 1, true),
        ("8 at once, new packages", 400, 8, false),
    ] {
        eprintln!("{name}…");
        let requests = documents(count, same);
        table.row(name, &load::each_once(&server.url, requests, connections), &base);
    }
    table.print();

    println!("Memory of the host, above idle, in MB");
    println!("  {:<38} {:>8}", "", "peak");
    for (name, size, at_once) in [("publish of 100 MB", 100 * MB, 1), ("3 publishes of 100 MB at once", 100 * MB, 3)] {
        eprintln!("{name}…");
        let requests = (0..at_once).map(|n| put(&format!("huge-{at_once}-{n}"), "1.0.0", size, n)).collect();
        server.forget_peak();
        let idle = server.memory().0;
        load::each_once(&server.url, requests, at_once as usize);
        println!("  {name:<38} {:>8.1}", (server.memory().1.saturating_sub(idle)) as f64 / MB as f64);
    }
}
