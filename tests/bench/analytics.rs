//! What product analytics adds to an engine that answers at once.

use crate::hello::Hello;
use crate::load::{Load, Request, each_once};
use crate::table::Table;
use hexad_tests::forge::{ADMIN, DEVELOPER, PUBLIC};
use hexad_tests::server::Server;
use serde_json::json;

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

/// One request after the other, asked of the engine and through us.
pub fn print(server: &Server, engine: &Hello, hello: &Load) {
    let admin = |method, path: &str, body: serde_json::Value| {
        let request = post(format!("/api/v4/{path}"), ("private-token", ADMIN), &body.to_string());
        each_once(&server.url, vec![Request { method, ..request }], 1);
    };
    admin("POST", "features/product_analytics_features", json!({"value": true}));
    let mut table = Table::new("Product analytics, one after the other", hello);
    let idle = server.memory().0;
    server.forget_peak();
    for (name, size, count) in [("2 kB", "small", 4000), ("5 MB", "large", 200)] {
        eprintln!("product analytics, {name}…");
        let settings = json!({"analytics_api_base_url": format!("{}/{size}/", engine.url), "analytics_api_key": "a key of the benchmark"});
        admin("PUT", "application/settings", settings);
        let query = r#"{"query":{"measures":["TrackedEvents.count"]},"queryType":"multi"}"#;
        let direct = post(format!("/{size}/cubejs-api/v1/load"), ("authorization", "none"), query);
        let through = post(
            format!("/api/v4/projects/{PUBLIC}/product_analytics/request/load"),
            ("private-token", DEVELOPER),
            query,
        );
        for request in [&direct, &through] {
            let url = if std::ptr::eq(request, &direct) { &engine.url } else { &server.url };
            each_once(url, vec![request.clone(); count / 10], 1);
        }
        let direct = each_once(&engine.url, vec![direct; count], 1);
        let through = each_once(&server.url, vec![through; count], 1);
        table.row(&format!("{name}, the engine itself"), &direct, None);
        table.row(&format!("{name}, through us"), &through, Some(&direct));
    }
    table.print();
    let peak = server.memory().1.saturating_sub(idle) as f64 / 1e6;
    println!("  peak memory above idle: {peak:.0} MB\n");
}
