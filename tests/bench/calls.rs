//! The cost of a call of a component: of the smallest guest, in this host and in `wasmtime serve`, and of a guest that
//! reads the store. Also the latency below the maximum rate.

use crate::component::{Wasmtime, guest, guest_0_2, guest_by_value, hexad, hexad_0_2, hexad_by_value};
use crate::load::{Load, Request};
use crate::*;
use hexad_tests::forge::ADMIN;

/// Whether the host caches responses, by the names of rows.
const MODES: [(&str, bool); 2] = [("each answered by the component", false), ("answers cached", true)];

/// The row of a component that takes requests by value, as the areas do.
const BY_VALUE: &str = "one with the by-value export, the same";

/// The row of a component of the older interface.
const OF_0_2: &str = "a 0.2 component, the same";

pub fn run(bench: &Bench) {
    if !bench.selection.has_any("calls", &[MODES[0].0, MODES[1].0, BY_VALUE, OF_0_2]) {
        return;
    }
    let mut table = Table::new("The smallest component, 16 connections; the peer is `wasmtime serve`", &bench.load);
    let mut row = |name: &str, guest: &Path, server: &Server| {
        eprintln!("the smallest component, {name}…");
        let (request, native) = (&get("/", &[]), bench.hello.url.as_str());
        match Wasmtime::start(guest) {
            Some(peer) => {
                let [hello, peer, load] =
                    Load::in_turns([(native, request), (&peer.url, request), (&server.url, request)]);
                table.row_beside(&hello, name, &load, Some(&peer));
            }
            None => {
                let [hello, load] = Load::in_turns([(native, request), (&server.url, request)]);
                table.row_beside(&hello, name, &load, None);
            }
        }
    };
    for (name, is_cached) in MODES {
        if bench.selection.has("calls", name) {
            let data = tempfile::tempdir().expect("a temporary folder");
            row(name, &guest(), &hexad(data.path(), is_cached));
        }
    }
    if bench.selection.has("calls", BY_VALUE) {
        let data = tempfile::tempdir().expect("a temporary folder");
        row(BY_VALUE, &guest_by_value(), &hexad_by_value(data.path()));
    }
    if bench.selection.has("calls", OF_0_2) {
        let data = tempfile::tempdir().expect("a temporary folder");
        row(OF_0_2, &guest_0_2(), &hexad_0_2(data.path()));
    }
    table.print();
}

/// A list that needs a dozen reads of the store, beside the smallest component.
pub fn experiments(bench: &Bench) {
    if !bench.selection.has("experiments", "") {
        return;
    }
    let mut table =
        Table::new("The list of experiments, 16 connections; the peer is the smallest component", &bench.load);
    for (name, is_cached) in MODES {
        eprintln!("experiments, {name}…");
        let peer_data = tempfile::tempdir().expect("a temporary folder");
        let peer = hexad(peer_data.path(), is_cached);
        let data = tempfile::tempdir().expect("a temporary folder");
        let server = match is_cached {
            true => Server::start(data.path()),
            false => Server::start_manifest(&uncached_manifest(data.path()), data.path(), &[]),
        };
        forge::seed(&server);
        let (smallest, list) = (get("/", &[]), list_of_experiments(&server));
        let native = bench.hello.url.as_str();
        let [hello, peer, load] = Load::in_turns([(native, &smallest), (&peer.url, &smallest), (&server.url, &list)]);
        table.row_beside(&hello, name, &load, Some(&peer));
    }
    table.print();
}

/// Makes an experiment. Returns the request for the list.
pub fn list_of_experiments(server: &Server) -> Request {
    let team = r#"{"kind":"setting","name":"operator_group","value":"acme"}"#;
    let definition = r#"{"kind":"experiment","name":"sign_up_experiment_percentage","milestone":"16.2"}"#;
    for (owner, record) in [("directory", team), ("experiments", definition)] {
        server.send("POST", &format!("import/{owner}"), ADMIN, record).expect(200);
    }
    get("/api/v4/experiments", &[("private-token", DEVELOPER)])
}

/// The most connections that are tried one after the other.
const FEW: usize = 16;

/// The latency at 70 % of the maximum rate. At a steady rate, the client needs the processor at certain moments, and on
/// few cores takes it from the server. The native server shows how much of the tail this causes.
pub fn tail(bench: &Bench) {
    if !bench.selection.has("tail", "") {
        return;
    }
    println!("The smallest component at 70 % of its maximum: at that rate on 64 connections, and without a pause on");
    println!("as few connections as reach it");
    println!("  {:<46} {:>9} {:>9} {:>9} {:>9}", "", "req/s", "p50 ms", "p99 ms", "p99/p50");
    let row = |name: &str, load: &Load| {
        let (median, tail) = (load.percentile(0.5), load.percentile(0.99));
        println!("  {name:<46} {:>9.0} {median:>9.2} {tail:>9.2} {:>9.1}", load.per_second(), tail / median);
    };
    let rows = |name: &str, url: &str| {
        eprintln!("at 70 %, {name}…");
        let rate = 0.7 * Load::on_many(url, &get("/", &[])).per_second();
        row(&format!("{name}, steady"), &Load::paced(url, &get("/", &[]), rate));
        let mut more = (1..=FEW).map(|connections| (connections, Load::on(url, &get("/", &[]), connections)));
        if let Some((connections, load)) = more.find(|(_, load)| load.per_second() >= rate) {
            row(&format!("{name}, {connections} at once"), &load);
        }
    };
    rows("a native hyper server", &bench.hello.url);
    if let Some(peer) = Wasmtime::start(&guest()) {
        rows("`wasmtime serve`", &peer.url);
    }
    for (name, is_cached) in MODES {
        let data = tempfile::tempdir().expect("a temporary folder");
        rows(name, &hexad(data.path(), is_cached).url);
    }
    println!();
}
