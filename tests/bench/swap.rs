//! Swaps under load, and memory and descriptors after a thousand of them.

use crate::load::Load;
use crate::*;
use hexad_tests::operator::{Operator, variant};
use std::path::PathBuf;

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
    Operator::of(server).swap("hello", &wasm).expect(200);
}

/// The smallest component in another build.
fn build(folder: &Path, number: u8) -> PathBuf {
    let wasm = variant("fixtures/hello", number);
    let path = folder.join(format!("build-{number}.wasm"));
    std::fs::write(&path, wasm).expect("a file");
    path
}
