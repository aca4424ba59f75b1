//! The overhead of product analytics over an engine that answers at once, beside a native proxy that does not read the
//! answers.

use crate::hello::Child;
use crate::load::{Load, Request, each_once};
use crate::*;
use hexad_tests::forge::ADMIN;
use serde_json::json;

/// How often each server is measured. The servers take turns.
const ROUNDS: usize = 5;

/// An answer of about `size` bytes, as the engine writes one.
pub fn answer(size: usize) -> String {
    let row = r#"{"TrackedEvents.docPath":"/docs/install","TrackedEvents.count":"335"}"#;
    format!(
        r#"{{"queryType":"regularQuery","results":[{{"data":[{}]}}]}}"#,
        vec![row; size.div_ceil(row.len())].join(",")
    )
}

const JSON: (&str, &str) = ("content-type", "application/json");

const QUERY: &str = r#"{"query":{"measures":["TrackedEvents.count"]},"queryType":"multi"}"#;

/// A host whose components may ask an engine on this machine.
pub fn start(data: &Path) -> Server {
    let server = Server::start_with(data, &[("analytics_upstream", "http://127.0.0.1:*")]);
    forge::seed(&server);
    server.send("POST", "features/product_analytics_features", ADMIN, r#"{"value":true}"#).expect(201);
    server
}

/// Points the server to the engine whose answers have this size, and returns a query.
pub fn query(server: &Server, engine: &Child, size: &str) -> Request {
    let settings = json!({
        "analytics_api_base_url": format!("{}/{size}/", engine.url),
        "analytics_api_key": "a key of the benchmark",
    });
    server.send("PUT", "application/settings", ADMIN, settings.to_string()).expect(200);
    let path = format!("/api/v4/projects/{PUBLIC}/product_analytics/request/load");
    Request::of("POST", path, &[("private-token", DEVELOPER), JSON], QUERY)
}

/// Requests one after the other: to the engine, through a native proxy, and through hexad.
pub fn run(engine: &Child, hello: &Load) {
    let data = tempfile::tempdir().expect("a temporary folder");
    let server = start(data.path());
    let proxy = proxy::start(&engine.url);
    let mut table = Table::new("Product analytics, one after the other; the peer is the engine itself", hello);
    let idle = server.memory().0;
    server.reset_peak_memory();
    let mut beside_proxy = Vec::new();
    for (name, size, count) in [("2 kB", "small", 1000), ("5 MB", "large", 100)] {
        eprintln!("product analytics, {name}…");
        let direct =
            Request::of("POST", format!("/{size}/cubejs-api/v1/load"), &[("authorization", "none"), JSON], QUERY);
        let through = query(&server, engine, size);
        let ways = [(&engine.url, &direct), (&proxy.url, &direct), (&server.url, &through)];
        let measure = |count| ways.map(|(url, request)| each_once(url, vec![request.clone(); count], 1));
        measure(count / 5);
        let mut loads = measure(count);
        for _ in 1..ROUNDS {
            loads.iter_mut().zip(measure(count)).for_each(|(load, more)| load.add(more));
        }
        let [direct, proxy, through] = loads;
        table.row(&format!("{name}, the engine itself"), &direct, None);
        table.row(&format!("{name}, through a native proxy"), &proxy, Some(&direct));
        table.row(&format!("{name}, through hexad"), &through, Some(&direct));
        let more = (through.percentile(0.5) - proxy.percentile(0.5)) * 1000.0;
        beside_proxy.push((name, through.per_second() / proxy.per_second(), more));
    }
    table.print();
    for (name, share, more) in beside_proxy {
        println!("  {name}: hexad has {share:.2} of the native proxy's requests, and {more:+.0} µs at the median");
    }
    let peak = server.memory().1.saturating_sub(idle) as f64 / 1e6;
    println!("  peak memory above idle: {peak:.0} MB\n");
}
