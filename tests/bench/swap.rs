//! Swaps under load, and memory and descriptors after a thousand of them.

use std::path::{Path, PathBuf};

use hexad_tests::operator::Operator;
use hexad_tests::server::Server;

use crate::load::Load;
use crate::{Bench, component, get};

const UNDER_LOAD: usize = 100;
const MANY: usize = 1000;

pub fn run(bench: &Bench) {
    if !bench.selection.has("swaps", "") {
        return;
    }
    let data = tempfile::tempdir().expect("a temporary folder");
    let server = component::hexad(data.path(), false);
    let builds = [1, 2].map(|number| build(data.path(), number));
    // Both builds are compiled before, so that only the swap is measured.
    builds.iter().for_each(|build| swap(&server, build));

    println!("Swaps of the smallest component under 64 connections that send all they can");
    println!("  {:<38} {:>9} {:>9} {:>9} {:>9}", "", "req/s", "p50 ms", "p99 ms", "failed");
    let row = |name: &str, load: &Load| {
        // A request that fails ends the run.
        let (median, tail) = (load.percentile(0.5), load.percentile(0.99));
        println!("  {name:<38} {:>9.0} {median:>9.2} {tail:>9.2} {:>9}", load.per_second(), 0);
    };
    eprintln!("without swaps…");
    row("without swaps", &Load::on_many(&server.url, &get("/", &[])));
    eprintln!("{UNDER_LOAD} swaps under load…");
    let load = Load::during(&server.url, &get("/", &[]), || many(&server, &builds, UNDER_LOAD));
    row(&format!("during {UNDER_LOAD} swaps"), &load);
    eprintln!("two builds that are compiled under load…");
    let fresh = [3, 4].map(|number| build(data.path(), number));
    let load = Load::during(&server.url, &get("/", &[]), || many(&server, &fresh, fresh.len()));
    row("while two builds are compiled", &load);
    println!();

    eprintln!("{MANY} swaps…");
    println!("{MANY} swaps");
    println!("  {:<38} {:>9} {:>12}", "", "MB", "descriptors");
    let row =
        |name: &str| println!("  {name:<38} {:>9.1} {:>12}", server.memory().0 as f64 / 1e6, server.descriptors());
    many(&server, &builds, MANY / 10);
    row(&format!("after {}", MANY / 10));
    many(&server, &builds, MANY - MANY / 10);
    row(&format!("after {MANY}"));
    println!();
}

fn many(server: &Server, builds: &[PathBuf], count: usize) {
    builds.iter().cycle().take(count).for_each(|build| swap(server, build));
}

fn swap(server: &Server, build: &Path) {
    let wasm = std::fs::read(build).expect("a build");
    let answer = Operator::of(server).swap("hello", &wasm);
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// The smallest component in another build: with an empty custom section of its own.
fn build(folder: &Path, number: u8) -> PathBuf {
    let mut wasm = std::fs::read(component::guest()).expect("the guest; `make fixtures` builds it");
    // A custom section: its id, its length, its name with the length.
    wasm.extend([0, 7, 5, b'b', b'u', b'i', b'l', b'd', number]);
    let path = folder.join(format!("build-{number}.wasm"));
    std::fs::write(&path, wasm).expect("a file");
    path
}
