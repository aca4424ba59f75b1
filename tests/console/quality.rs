//! Every page, for every kind of visitor: accessible, within its width, and without complaints.

use super::site::{Site, check_quiet};
use hexad_tests::browser::{Browser, Options, is_enabled};
use hexad_tests::forge::{ADMIN, DEVELOPER};
use hexad_tests::server::root;

const PAGES: [&str; 14] = [
    "/",
    "/?q=nothing-like-this",
    "/packages/@acme/lib",
    "/packages/@acme/lib?project=acme/open",
    "/packages?project=acme/open",
    "/issues?project=acme/open&compare_labels=bug,docs",
    "/namespaces",
    "/namespaces/acme",
    "/namespaces/acme/open",
    "/merge_requests?project=acme/open",
    "/merge_requests/acme/open/1",
    "/analytics/acme/open",
    "/experiments",
    "/admin",
];

#[test]
fn pages_are_accessible_and_hold_their_layout() {
    if !is_enabled() {
        return;
    }
    let site = Site::start();
    site.merge_request();
    // Screenshots are build artefacts.
    let folder = root().join("tests/cache/screenshots");
    std::fs::create_dir_all(&folder).expect("a folder");
    for dark in [false, true] {
        let browser = Browser::start(&Options { dark, ..Options::default() });
        for (visitor, token) in [("anonymous", ""), ("developer", DEVELOPER), ("admin", ADMIN)] {
            if !token.is_empty() {
                site.sign_in(&browser, token);
            }
            for (index, page) in PAGES.iter().enumerate() {
                // Colors change no width.
                let widths: &[u32] = if dark { &[1280] } else { &[360, 1280, 2560] };
                for &width in widths {
                    browser.resize(width, 900);
                    browser.open(&site.page(page));
                    let overflow = browser
                        .run("return document.documentElement.scrollWidth - document.documentElement.clientWidth");
                    assert!(
                        overflow.as_i64().is_some_and(|pixels| pixels <= 0),
                        "{page} at {width}, {visitor}: {overflow}"
                    );
                    check_quiet(&browser, &site);
                    let scheme = if dark { "dark" } else { "light" };
                    let name = format!("{visitor}-{index}-{width}-{scheme}.png");
                    std::fs::write(folder.join(name), browser.picture()).expect("a file");
                }
                let faults = browser.accessibility_faults();
                assert!(faults.is_empty(), "{page}, {visitor}, dark {dark}: {faults:#?}");
                // axe-core writes to the browser's log.
                browser.complaints();
            }
            if !token.is_empty() {
                browser.open(&site.page("/"));
                site.sign_out(&browser);
            }
        }
    }
}
