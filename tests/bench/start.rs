//! How long a start takes, and the memory of an idle host.

use crate::*;

const STARTS: usize = 5;

pub fn run(bench: &Bench) {
    if !bench.selection.has("start", "") {
        return;
    }
    eprintln!("starts…");
    let data = tempfile::tempdir().expect("a temporary folder");
    // The first start compiles.
    Server::start(data.path()).kill();
    let mut starts: Vec<(f64, u64)> = (0..STARTS)
        .map(|_| {
            let before = Instant::now();
            let server = Server::start(data.path());
            load::each_once(&server.url, vec![get("/api/v4/packages/npm/-/ping", &[])], 1);
            let took = before.elapsed().as_secs_f64() * 1000.0;
            let memory = server.memory().0;
            server.kill();
            (took, memory)
        })
        .collect();
    starts.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (took, memory) = starts[STARTS / 2];
    println!("A start with all components and compiled code, median of {STARTS}");
    println!("  {:<38} {took:>6.0} ms", "from the process to the first answer");
    println!("  {:<38} {:>6.1} MB", "memory then", memory as f64 / 1e6);
    println!();
}
