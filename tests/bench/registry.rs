//! The registry, beside verdaccio.

use crate::load::{Load, Request};
use crate::*;
use hexad_tests::verdaccio::{self, Verdaccio};

const KB: usize = 1000;
const MB: usize = 1000 * KB;

/// Groups of rows.
const READS: &str = "registry reads";
const MIX: &str = "registry mix";
const PUBLISHES: &str = "registry publishes";
const MEMORY: &str = "registry memory";

/// Packages of the mix, and the number of requests for them.
const MIX_PACKAGES: usize = 2000;
const MIX_REQUESTS: usize = 20_000;
const MIX_CONNECTIONS: usize = 16;

const ROWS: [&str; 8] = [
    "metadata, 1 version",
    "metadata, 200 versions",
    "metadata, 200 versions, gzip",
    "abbreviated, 200 versions",
    "metadata, 304",
    "metadata with a token",
    "tarball, 100 kB",
    "tarball, 5 MB",
];

/// A registry under measurement.
pub struct Registry {
    pub url: String,
    /// Path of the registry on its host.
    base: String,
    token: String,
}

impl Registry {
    /// Of a server with the small forge.
    pub fn of(server: &Server) -> Self {
        Self::at(&server.url)
    }

    pub fn at(url: &str) -> Self {
        Self { url: url.to_owned(), base: format!("/api/v4/projects/{PUBLIC}/packages/npm"), token: DEVELOPER.into() }
    }

    pub fn put(&self, name: &str, version: &str, size: usize, seed: u64) -> Request {
        let token = format!("Bearer {}", self.token);
        let headers = [("authorization", token.as_str()), ("content-type", "application/json")];
        let body = package::document(name, version, "latest", &package::tarball(name, version, size, seed));
        Request::of("PUT", format!("{}/{name}", self.base), &headers, body)
    }

    pub fn get(&self, path: &str, headers: &[(&'static str, &str)]) -> Request {
        get(&format!("{}/{path}", self.base), headers)
    }

    /// Publishes the packages that are read later, one after the other, because a peer may not accept many at once.
    pub fn fill(&self) {
        let mut requests: Vec<Request> = (0..200).map(|n| self.put("many", &format!("1.0.{n}"), KB, n)).collect();
        requests.push(self.put("one", "1.0.0", 100 * KB, 1000));
        requests.push(self.put("big", "1.0.0", 5 * MB, 1001));
        load::each_once(&self.url, requests, 1);
    }

    pub fn reads(&self) -> Vec<(&'static str, Request)> {
        let etag = load::header(&self.url, &self.get("one", &[]), "etag").expect("metadata has an ETag");
        let abbreviated = "application/vnd.npm.install-v1+json";
        let requests = [
            self.get("one", &[]),
            self.get("many", &[]),
            self.get("many", &[("accept-encoding", "gzip")]),
            self.get("many", &[("accept", abbreviated)]),
            self.get("one", &[("if-none-match", &etag)]),
            self.get("one", &[("authorization", &format!("Bearer {}", self.token))]),
            self.get("one/-/one-1.0.0.tgz", &[]),
            self.get("big/-/big-1.0.0.tgz", &[]),
        ];
        ROWS.into_iter().zip(requests).collect()
    }
}

/// The requests of clients that install projects with many common packages. The nth package is requested 1/n as often
/// as the first (Zipf's law). Half of the requests revalidate its metadata, a quarter reads it, and a quarter downloads
/// the file of 1 kB.
fn mix(registry: &Registry) -> Load {
    let name = |n: usize| format!("mixed-{n}");
    let packages = (0..MIX_PACKAGES).map(|n| registry.put(&name(n), "1.0.0", KB, n as u64)).collect();
    load::each_once(&registry.url, packages, 1);
    let etags: Vec<String> = (0..MIX_PACKAGES)
        .map(|n| load::header(&registry.url, &registry.get(&name(n), &[]), "etag").expect("metadata has an ETag"))
        .collect();
    let weights = (1..=MIX_PACKAGES).scan(0.0, |sum, n| {
        *sum += 1.0 / n as f64;
        Some(*sum)
    });
    let weights: Vec<f64> = weights.collect();
    let total = weights.last().copied().unwrap_or_default();
    // With the same seed, both registries get the same requests.
    let mut rng = fastrand::Rng::with_seed(1);
    let requests = (0..MIX_REQUESTS).map(|position| {
        let drawn = rng.f64() * total;
        let n = weights.partition_point(|sum| *sum < drawn).min(MIX_PACKAGES - 1);
        match position % 4 {
            0 | 2 => registry.get(&name(n), &[("if-none-match", &etags[n])]),
            1 => registry.get(&name(n), &[]),
            _ => registry.get(&format!("{0}/-/{0}-1.0.0.tgz", name(n)), &[]),
        }
    });
    load::each_once(&registry.url, requests.collect(), MIX_CONNECTIONS)
}

pub fn run(bench: &Bench) {
    let (selection, hello_load) = (&bench.selection, &bench.load);
    let is_read = selection.has_any(READS, &ROWS);
    let others = [MIX, PUBLISHES, MEMORY].map(|group| selection.has(group, ""));
    if !is_read && others == [false; 3] {
        return;
    }
    let data = tempfile::tempdir().expect("a temporary folder");
    let mut server = Server::start_manifest(&uncached_manifest(data.path()), data.path(), &[]);
    forge::seed(&server);
    let peer = Verdaccio::start(verdaccio::ALONE);
    let mut ours = Registry::of(&server);
    let theirs =
        peer.as_ref().map(|peer| Registry { url: peer.url.clone(), base: String::new(), token: peer.token.clone() });
    if is_read {
        eprintln!("publishing what is read later…");
        ours.fill();
        theirs.iter().for_each(Registry::fill);
    }

    let mut peer_reads = Vec::new();
    for (title, is_cached) in [
        ("Reads, 16 connections, each answered by the component", false),
        ("Reads, 16 connections, answers cached", true),
    ] {
        if is_cached {
            // The same store under the project's own manifest.
            server = Server::start(&server.kill());
            ours.url.clone_from(&server.url);
        }
        if !is_read {
            continue;
        }
        let chosen = |registry: &Registry| registry.reads().into_iter().filter(|(name, _)| selection.has(READS, name));
        let mut table = Table::new(title, hello_load);
        let mut peer_requests = theirs.iter().flat_map(chosen);
        for (position, (name, request)) in chosen(&ours).enumerate() {
            eprintln!("{name}…");
            let load = match peer_requests.next().zip(theirs.as_ref()).filter(|_| !is_cached) {
                Some(((_, their_request), peer)) => {
                    let [load, peer] = Load::in_turns([(&ours.url, &request), (&peer.url, &their_request)]);
                    peer_reads.push(peer);
                    load
                }
                None => Load::run(&ours.url, &request),
            };
            table.row(name, &load, peer_reads.get(position));
        }
        table.print();
    }

    let [is_mix, is_publishes, is_memory] = others;
    if is_mix {
        eprintln!("a mix of {MIX_PACKAGES} packages…");
        let mut table = Table::new("Requests for 2,000 packages, half of them 304, 16 connections", hello_load);
        let peer = theirs.as_ref().map(mix);
        table.row("answers cached", &mix(&ours), peer.as_ref());
        server = Server::start_manifest(&uncached_manifest(data.path()), &server.kill(), &[]);
        ours.url.clone_from(&server.url);
        table.row("each answered by the component", &mix(&ours), peer.as_ref());
        table.print();
        server = Server::start(&server.kill());
        ours.url.clone_from(&server.url);
    }
    if is_publishes {
        publishes(&ours, theirs.as_ref(), hello_load);
    }
    if is_memory {
        memory(&ours, &server, theirs.as_ref().zip(peer.as_ref()));
    }
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
        server.reset_peak_memory();
        load::each_once(&ours.url, requests, at_once as usize);
        let hexad = above((idle, server.memory().1));
        let verdaccio = peer.map_or("-".into(), |(registry, peer)| {
            let (requests, idle) = (documents(registry), peer.memory().0);
            peer.reset_peak_memory();
            load::each_once(&registry.url, requests, at_once as usize);
            above((idle, peer.memory().1))
        });
        println!("  {name:<38} {hexad:>8} {verdaccio:>9}");
    }
}
