//! `make bench`: speed and memory of the shipped program, beside a native hyper "hello", verdaccio, `wasmtime serve`
//! and `git http-backend`. All run on the same machine, in the same run, with the same client. On a shared machine the
//! ratios are more stable than the numbers. The benchmark asserts only that every request is answered.
//!
//! `make bench ONLY="tarball swap"` measures the rows whose group or name has one of these words.
//! Groups: calls, experiments, tail, registry reads, registry mix, registry publishes, registry memory,
//! analytics, swaps, start, idle connections, slow readers, suggestions, repositories, console, postgres.

mod analytics;
mod calls;
mod component;
mod connections;
mod console;
mod hello;
mod http_backend;
mod load;
mod many_hosts;
mod proxy;
mod registry;
mod repositories;
mod selection;
mod start;
mod suggestions;
mod swap;
mod table;
mod training;

use crate::component::uncached_manifest;
use crate::table::Table;
use hexad_tests::forge::{DEVELOPER, PUBLIC};
use hexad_tests::server::Server;
use hexad_tests::{forge, package};
use load::{Load, Request};
use selection::Selection;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// The context of every group of rows.
struct Bench {
    selection: Selection,
    /// The reference server, and its load.
    hello: hello::Child,
    load: Load,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [hello::FLAG, ..] => return hello::serve(),
        [proxy::FLAG, server, ..] => return proxy::serve(server),
        [http_backend::FLAG, folder, ..] => return http_backend::serve(folder),
        [training::FLAG, ..] => return training::run(),
        _ => {}
    }
    let version = hexad_tests::server::run(&["--version"], &[]);
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    assert!(
        !version.contains("quick build"),
        "the shipped program is measured, and not {version}`make dist` builds it"
    );
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
    connections::run(&bench);
    console::run(&bench);
    many_hosts::run(&bench);
    if bench.selection.has("suggestions", "") {
        suggestions::run();
    }
    if bench.selection.has("repositories", "") {
        repositories::run();
    }
}

fn get(path: &str, headers: &[(&'static str, &str)]) -> Request {
    Request::of("GET", path, headers, "")
}
