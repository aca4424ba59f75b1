//! What a page of the console costs beside its requests to the API, and beside what verdaccio's page of the
//! same package loads.

use crate::load::Load;
use crate::table::Table;
use crate::verdaccio::Verdaccio;
use crate::{Bench, get};
use hexad_tests::forge::{self, DEVELOPER, PUBLIC};
use hexad_tests::package;
use hexad_tests::server::Server;

const GROUP: &str = "console";
const NAME: &str = "@acme/pages";
const VERSIONS: u64 = 200;

pub fn run(bench: &Bench) {
    if !bench.selection.has(GROUP, "package page") {
        return;
    }
    eprintln!("publishing {VERSIONS} versions…");
    let data = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(data.path());
    forge::seed(&server);
    let peer = Verdaccio::start();
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
    for part in parts.iter().flatten() {
        table.row("one of the 2 requests of verdaccio's page", part, None);
    }
    table.print();
    let cost = page.percentile(0.5) - metadata.percentile(0.5);
    println!("  the page takes {cost:.2} ms more than its request to the API, at 16 connections");
    if let Some([one, other]) = &parts {
        let pages = 1.0 / (1.0 / one.per_second() + 1.0 / other.per_second());
        println!("  {:.1} × the pages per second of verdaccio\n", page.per_second() / pages);
    }
}

fn put(url: &str, token: &str, document: &[u8]) {
    let sent = ureq::put(url)
        .header("authorization", format!("Bearer {token}"))
        .content_type("application/json")
        .send(document);
    assert!(sent.expect("an answer").status().is_success());
}
