//! `make bench`: how fast and how frugal the whole is. Beside it run a native hyper "hello", a
//! registry of the same kind and `wasmtime serve`, on the same machine, in the same run, under the
//! same client. Tables are printed, and ratios say more than the numbers of a shared machine. What
//! is asserted is that every request is answered.
//!
//! `make bench ONLY="tarball swap"` measures the rows whose group or name has one of these words.
//! Groups: calls, experiments, tail, registry reads, registry publishes, registry memory, analytics,
//! swaps, start, suggestions.

mod analytics;
mod calls;
mod component;
mod hello;
mod load;
mod proxy;
mod registry;
mod selection;
mod start;
mod suggestions;
mod swap;
mod table;
mod verdaccio;

use load::{Load, Request};
use selection::Selection;

/// What every group of rows needs.
struct Bench {
    selection: Selection,
    /// The yardstick, and what it does.
    hello: hello::Child,
    load: Load,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [hello::FLAG, ..] => return hello::serve(),
        [proxy::FLAG, server, ..] => return proxy::serve(server),
        _ => {}
    }
    let hello = hello::start();
    let load = Load::run(&hello.url, &get("/", &[]));
    let bench = Bench { selection: Selection::new(arguments), hello, load };
    println!("native hyper hello, 16 connections: {:.0} requests/s\n", bench.load.per_second());
    calls::run(&bench);
    calls::experiments(&bench);
    calls::tail(&bench);
    registry::run(&bench);
    if bench.selection.has("analytics", "") {
        analytics::run(&bench.hello, &bench.load);
    }
    swap::run(&bench);
    start::run(&bench);
    if bench.selection.has("suggestions", "") {
        suggestions::run();
    }
}

fn get(path: &str, headers: &[(&'static str, &str)]) -> Request {
    let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    Request { method: "GET", path: path.into(), headers, body: Vec::new() }
}
