//! The cost of a page of the console beside its requests to the API, and beside the requests of verdaccio's page of the
//! same package.

use crate::load::Load;
use crate::*;
use hexad_tests::browser::{self, Browser, Options};
use hexad_tests::http::console_session;
use hexad_tests::verdaccio::{self, Verdaccio};
use std::fmt;

const GROUP: &str = "console";
const NAME: &str = "@acme/pages";
const VERSIONS: u64 = 200;
/// Loads in the browser, whose median is printed.
const LOADS: usize = 9;

pub fn run(bench: &Bench) {
    if !bench.selection.has(GROUP, "package page") {
        return;
    }
    eprintln!("publishing {VERSIONS} versions…");
    let data = tempfile::tempdir().expect("a temporary folder");
    // All requests come from one address, and are more than one visitor sends.
    let unlimited = [("registry_rate_limit_lookups", "0"), ("registry_rate_limit_searches", "0")];
    let server = Server::start_with(data.path(), &unlimited);
    forge::seed(&server);
    let peer = Verdaccio::start(verdaccio::ALONE);
    let encoded = NAME.replace('/', "%2f");
    for version in 0..VERSIONS {
        let version = format!("1.{version}.0");
        let document = package::document(NAME, &version, "latest", &package::tarball(NAME, &version, 1000, 1));
        let ours = format!("{}/api/v4/projects/{PUBLIC}/packages/npm/{encoded}", server.url);
        put(&ours, DEVELOPER, &document);
        if let Some(peer) = &peer {
            put(&format!("{}/{encoded}", peer.url), &peer.token, &document);
        }
    }
    let measure = |url: &str, path: &str| Load::run(url, &get(path, &[]));
    let metadata = measure(&server.url, &format!("/api/v4/packages/npm/{encoded}"));
    let page = measure(&server.url, &format!("/packages/{NAME}"));
    let mut table = Table::new("The page of a package of 200 versions", &bench.load);
    table.row("its metadata, as the API sends it", &metadata, None);
    let parts = peer.as_ref().map(|peer| {
        ["sidebar", "package/readme"].map(|part| measure(&peer.url, &format!("/-/verdaccio/data/{part}/{NAME}")))
    });
    table.row("package page", &page, None);
    let rate = page.per_second();
    for part in parts.iter().flatten() {
        table.row("one of the 2 requests of verdaccio's page", part, None);
    }
    table.print();
    if browser::is_enabled() {
        let ours = in_browser(&format!("{}/packages/{NAME}", server.url));
        println!("  in Chromium, nothing cached: {ours}");
        if let Some(peer) = &peer {
            println!("  verdaccio's page, the same:  {}", in_browser(&format!("{}/-/web/detail/{NAME}", peer.url)));
        }
    }
    // A visitor with a session sends one request after the other. Its pages are not cached.
    let host = server.url.trim_start_matches("http://");
    let (cookie, token) = (console_session(&server.url, host, DEVELOPER), format!("Bearer {DEVELOPER}"));
    let median =
        |path: &str, header: (&'static str, &str)| Load::on(&server.url, &get(path, &[header]), 1).percentile(0.5);
    let page = median(&format!("/packages/{NAME}"), ("cookie", &cookie));
    let api = [format!("/api/v4/packages/npm/{encoded}"), "/api/v4/user".to_owned()];
    let api: f64 = api.iter().map(|path| median(path, ("authorization", &token))).sum();
    println!(
        "  with a session, one after the other: {page:.2} ms, {:.2} ms more than its requests to the API",
        page - api
    );
    if let Some([one, other]) = &parts {
        let pages = 1.0 / (1.0 / one.per_second() + 1.0 / other.per_second());
        println!("  {:.1} × the pages per second of verdaccio\n", rate / pages);
    }
}

/// The time and the traffic of Chromium for a page.
struct PageLoad {
    /// Milliseconds.
    first_paint: f64,
    /// Milliseconds until the latest version is visible.
    content: f64,
    /// With heads, as sent.
    bytes: f64,
    requests: f64,
}

impl fmt::Display for PageLoad {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let PageLoad { first_paint, content, bytes, requests } = self;
        let kilobytes = bytes / 1000.0;
        write!(
            f,
            "first contentful paint {first_paint:.0} ms, content {content:.0} ms, {kilobytes:.0} kB, {requests} requests"
        )
    }
}

/// The medians of several loads without a cache.
fn in_browser(url: &str) -> PageLoad {
    let browser = Browser::start(&Options::default());
    browser.disable_cache();
    let latest = format!("1.{}.0", VERSIONS - 1);
    let script = format!(
        "const done = arguments[arguments.length - 1];\
         const look = () => {{\
           const paint = performance.getEntriesByName('first-contentful-paint')[0];\
           if (!paint || !document.body.innerText.includes('{latest}')) return requestAnimationFrame(look);\
           const loaded = ['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind));\
           const bytes = loaded.reduce((sum, entry) => sum + entry.transferSize, 0);\
           done([paint.startTime, performance.now(), bytes, loaded.length]);\
         }};\
         look();"
    );
    let mut loads: [Vec<f64>; 4] = Default::default();
    for _ in 0..LOADS {
        browser.open(url);
        let measured = browser.run_async(&script);
        for (index, values) in loads.iter_mut().enumerate() {
            values.push(measured[index].as_f64().expect("a number"));
        }
    }
    let [first_paint, content, bytes, requests] = loads.map(|mut values| {
        values.sort_by(f64::total_cmp);
        values[LOADS / 2]
    });
    PageLoad { first_paint, content, bytes, requests }
}

fn put(url: &str, token: &str, document: &[u8]) {
    let sent = ureq::put(url)
        .header("authorization", format!("Bearer {token}"))
        .content_type("application/json")
        .send(document);
    assert!(sent.expect("an answer").status().is_success());
}
