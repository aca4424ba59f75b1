//! The overhead of product analytics over an engine that answers at once, beside a native proxy that does not read the
//! answers.

use crate::hello::Child;
use crate::load::{Load, Request, each_once};
use crate::proxy;
use crate::table::Table;
use hexad_tests::forge::{self, ADMIN, DEVELOPER, PUBLIC};
use hexad_tests::server::Server;
use serde_json::{Value, json};
use std::path::Path;

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

fn post(path: String, header: (&'static str, &str), body: &str) -> Request {
    let headers = vec![(header.0, header.1.to_owned()), ("content-type", "application/json".into())];
    Request { method: "POST", path, headers, body: body.into() }
}

const QUERY: &str = r#"{"query":{"measures":["TrackedEvents.count"]},"queryType":"multi"}"#;

/// A host whose components may ask an engine on this machine.
pub fn start(data: &Path) -> Server {
    let server = Server::start_with(data, &[("analytics_upstream", "http://127.0.0.1:*")]);
    forge::seed(&server);
    administer(&server, "POST", "features/product_analytics_features", &json!({"value": true}));
    server
}

/// Points the server to the engine whose answers have this size, and returns a query.
pub fn query(server: &Server, engine: &Child, size: &str) -> Request {
    let settings = json!({
        "analytics_api_base_url": format!("{}/{size}/", engine.url),
        "analytics_api_key": "a key of the benchmark",
    });
    administer(server, "PUT", "application/settings", &settings);
    post(format!("/api/v4/projects/{PUBLIC}/product_analytics/request/load"), ("private-token", DEVELOPER), QUERY)
}

fn administer(server: &Server, method: &'static str, path: &str, body: &Value) {
    let request = post(format!("/api/v4/{path}"), ("private-token", ADMIN), &body.to_string());
    each_once(&server.url, vec![Request { method, ..request }], 1);
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
        let direct = post(format!("/{size}/cubejs-api/v1/load"), ("authorization", "none"), QUERY);
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
