//! Every page, for every kind of visitor: accessible, within its width, and without complaints.

use super::*;

/// Separated by spaces.
const PAGES: &str = "/ /?q=nothing-like-this /packages/@acme/lib /packages/@acme/lib?project=acme/open \
    /packages?project=acme/open /issues?project=acme/open&compare_labels=bug,docs /namespaces /namespaces/acme \
    /namespaces/acme/open /merge_requests?project=acme/open /merge_requests/acme/open/1 /analytics/acme/open \
    /experiments /admin";

#[test]
fn pages_are_accessible_and_hold_their_layout() {
    if !is_enabled() {
        return;
    }
    let site = Site::start();
    site.merge_request();
    let folder = screenshots();
    for dark in [false, true] {
        let browser = Browser::start(&Options { dark, ..Options::default() });
        for (visitor, token) in [("anonymous", ""), ("developer", DEVELOPER), ("admin", ADMIN)] {
            if !token.is_empty() {
                site.sign_in(&browser, token);
            }
            for (index, page) in PAGES.split(' ').enumerate() {
                // Colors change no width.
                let widths: &[u32] = if dark { &[1280] } else { &[360, 1280, 2560] };
                for &width in widths {
                    browser.resize(width, 900);
                    browser.open(&site.page(page));
                    check_width(&browser, &format!("{page} at {width}, {visitor}"));
                    check_quiet(&browser, &site.server.url);
                    let scheme = if dark { "dark" } else { "light" };
                    let name = format!("{visitor}-{index}-{width}-{scheme}.png");
                    std::fs::write(folder.join(name), browser.picture()).expect("a file");
                }
                check_accessible(&browser, &format!("{page}, {visitor}, dark {dark}"));
            }
            if !token.is_empty() {
                browser.open(&site.page("/"));
                site.sign_out(&browser);
            }
        }
    }
}
