//! `make bench`: how fast and how frugal the whole is. Beside it run a native hyper "hello" and a
//! registry of the same kind, on the same machine, in the same run, under the same client. Nothing
//! is asserted: tables are printed, and ratios say more than the numbers of a shared machine.

mod analytics;
mod component;
mod hello;
mod load;
mod proxy;
mod suggestions;
mod table;
mod verdaccio;

use hexad_tests::forge::{self, DEVELOPER, PUBLIC};
use hexad_tests::package;
use hexad_tests::server::Server;
use load::{Load, Request};
use table::Table;
use verdaccio::Verdaccio;

const KB: usize = 1000;
const MB: usize = 1000 * KB;

/// A registry under measurement.
struct Registry {
    url: String,
    /// Path of the registry on its host.
    base: String,
    token: String,
}

impl Registry {
    fn put(&self, name: &str, version: &str, size: usize, seed: u64) -> Request {
        Request {
            method: "PUT",
            path: format!("{}/{name}", self.base),
            headers: vec![
                ("authorization", format!("Bearer {}", self.token)),
                ("content-type", "application/json".into()),
            ],
            body: package::document(name, version, "latest", &package::tarball(name, version, size, seed)),
        }
    }

    fn get(&self, path: &str, headers: &[(&'static str, &str)]) -> Request {
        Request {
            method: "GET",
            path: format!("{}/{path}", self.base),
            headers: headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
            body: Vec::new(),
        }
    }

    /// Publishes what is read later. A peer may not take many at once, so one after the other.
    fn fill(&self) {
        let mut requests: Vec<Request> = (0..200).map(|n| self.put("many", &format!("1.0.{n}"), KB, n)).collect();
        requests.push(self.put("one", "1.0.0", 100 * KB, 1000));
        requests.push(self.put("big", "1.0.0", 5 * MB, 1001));
        load::each_once(&self.url, requests, 1);
    }

    fn reads(&self) -> Vec<(&'static str, Request)> {
        let etag = load::header(&self.url, &self.get("one", &[]), "etag").expect("metadata has an ETag");
        let abbreviated = "application/vnd.npm.install-v1+json";
        vec![
            ("metadata, 1 version", self.get("one", &[])),
            ("metadata, 200 versions", self.get("many", &[])),
            ("metadata, 200 versions, gzip", self.get("many", &[("accept-encoding", "gzip")])),
            ("abbreviated, 200 versions", self.get("many", &[("accept", abbreviated)])),
            ("metadata, 304", self.get("one", &[("if-none-match", &etag)])),
            ("metadata with a token", self.get("one", &[("authorization", &format!("Bearer {}", self.token))])),
            ("tarball, 100 kB", self.get("one/-/one-1.0.0.tgz", &[])),
            ("tarball, 5 MB", self.get("big/-/big-1.0.0.tgz", &[])),
        ]
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [hello::FLAG, ..] => return hello::serve(),
        [proxy::FLAG, server, ..] => return proxy::serve(server),
        _ => {}
    }
    let hello = hello::start();
    let hello_load = Load::run(&hello.url, &root());
    println!("native hyper hello, 16 connections: {:.0} requests/s\n", hello_load.per_second());
    if arguments.iter().any(|argument| argument == analytics::ONLY) {
        return analytics::run(&hello, &hello_load);
    }
    calls(&hello_load);

    let data = tempfile::tempdir().expect("a temporary folder");
    let mut server = Server::start_manifest(&component::forgetful(data.path()), data.path(), &[]);
    forge::seed(&server);
    let peer = Verdaccio::start();
    let mut ours = Registry {
        url: server.url.clone(),
        base: format!("/api/v4/projects/{PUBLIC}/packages/npm"),
        token: DEVELOPER.into(),
    };
    let theirs =
        peer.as_ref().map(|peer| Registry { url: peer.url.clone(), base: String::new(), token: peer.token.clone() });

    eprintln!("publishing what is read later…");
    ours.fill();
    theirs.iter().for_each(Registry::fill);

    let mut peer_reads = Vec::new();
    for (title, remembered) in [
        ("Reads, 16 connections, each answered by the component", false),
        ("Reads, 16 connections, answers remembered", true),
    ] {
        if remembered {
            // The same store under the project's own manifest.
            server = Server::start(&server.kill());
            ours.url.clone_from(&server.url);
        }
        let mut table = Table::new(title, &hello_load);
        let mut peer_requests = theirs.iter().flat_map(Registry::reads);
        for (position, (name, request)) in ours.reads().into_iter().enumerate() {
            eprintln!("{name}…");
            let load = Load::run(&ours.url, &request);
            let peer = peer_requests.next().zip(theirs.as_ref());
            if let (false, Some(((_, request), peer))) = (remembered, peer) {
                peer_reads.push(Load::run(&peer.url, &request));
            }
            table.row(name, &load, peer_reads.get(position));
        }
        table.print();
    }

    analytics::run(&hello, &hello_load);
    publishes(&ours, theirs.as_ref(), &hello_load);
    memory(&ours, &server, theirs.as_ref().zip(peer.as_ref()));
    drop(server);
    suggestions::run();
}

fn root() -> Request {
    Request { method: "GET", path: "/".into(), headers: Vec::new(), body: Vec::new() }
}

fn calls(hello: &Load) {
    let mut table = Table::new("The smallest component, 16 connections; the peer is `wasmtime serve`", hello);
    let peer = component::Wasmtime::start().map(|peer| {
        eprintln!("wasmtime serve…");
        Load::run(&peer.url, &root())
    });
    for (name, memoize) in [("each answered by the component", false), ("answers remembered", true)] {
        eprintln!("the smallest component, {name}…");
        let data = tempfile::tempdir().expect("a temporary folder");
        let server = component::hexad(data.path(), memoize);
        table.row(name, &Load::run(&server.url, &root()), peer.as_ref());
    }
    table.print();
}

fn publishes(ours: &Registry, theirs: Option<&Registry>, hello: &Load) {
    let mut serial = 10_000;
    let mut documents = |registry: &Registry, count: u64, same_package: bool| -> Vec<Request> {
        (0..count)
            .map(|_| {
                serial += 1;
                let name = if same_package { "growing".to_owned() } else { format!("fresh-{serial}") };
                registry.put(&name, &format!("1.0.{serial}"), 100 * KB, serial)
            })
            .collect()
    };
    let mut table = Table::new("Durable publishes of 100 kB", hello);
    for (name, count, connections, same) in [
        ("one after the other, new packages", 200, 1, false),
        ("one after the other, one package", 200, 1, true),
        ("8 at once, new packages", 400, 8, false),
    ] {
        eprintln!("{name}…");
        let load = load::each_once(&ours.url, documents(ours, count, same), connections);
        let peer = theirs.map(|theirs| load::each_once(&theirs.url, documents(theirs, count, same), connections));
        table.row(name, &load, peer.as_ref());
    }
    table.print();

    eprintln!("publishing 2,000 versions…");
    let versions = |from: u64, to: u64, size: usize| -> Vec<Request> {
        (from..to).map(|n| ours.put("large", &format!("2.0.{n}"), size, n)).collect()
    };
    load::each_once(&ours.url, versions(0, 2000, KB), 1);
    let mut table = Table::new("Onto a package with 2,000 versions, 100 kB", hello);
    table.row("one after the other", &load::each_once(&ours.url, versions(2000, 2200, 100 * KB), 1), None);
    let etag = load::header(&ours.url, &ours.get("large", &[]), "etag").expect("metadata has an ETag");
    table.row("metadata, 304", &Load::run(&ours.url, &ours.get("large", &[("if-none-match", &etag)])), None);
    table.print();
}

fn memory(ours: &Registry, server: &Server, peer: Option<(&Registry, &Verdaccio)>) {
    println!("Peak memory above idle, in MB");
    println!("  {:<38} {:>8} {:>9}", "", "hexad", "verdaccio");
    for (name, at_once) in [("publish of 100 MB", 1), ("3 publishes of 100 MB at once", 3)] {
        eprintln!("{name}…");
        let documents = |registry: &Registry| -> Vec<Request> {
            (0..at_once).map(|n| registry.put(&format!("huge-{at_once}-{n}"), "1.0.0", 100 * MB, n)).collect()
        };
        let above = |(idle, peak): (u64, u64)| format!("{:.0}", peak.saturating_sub(idle) as f64 / MB as f64);
        let (requests, idle) = (documents(ours), server.memory().0);
        server.forget_peak();
        load::each_once(&ours.url, requests, at_once as usize);
        let hexad = above((idle, server.memory().1));
        let verdaccio = peer.map_or("-".into(), |(registry, peer)| {
            let (requests, idle) = (documents(registry), peer.memory().0);
            peer.forget_peak();
            load::each_once(&registry.url, requests, at_once as usize);
            above((idle, peer.memory().1))
        });
        println!("  {name:<38} {hexad:>8} {verdaccio:>9}");
    }
}
