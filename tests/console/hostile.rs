//! What users wrote does not run, in the browser itself.

use super::site::{Site, check_quiet};
use hexad_tests::browser::{Browser, Options, is_enabled};
use hexad_tests::forge::ADMIN;

/// The corpus of the console's own tests.
const CORPUS: &str = include_str!("../../components/console/src/api/tests/injections.txt");

#[test]
fn nothing_that_users_wrote_runs_or_is_loaded() {
    if !is_enabled() {
        return;
    }
    let (site, browser) = (Site::start(), Browser::start(&Options::default()));
    site.sign_in(&browser, ADMIN);
    let corpus: Vec<String> = CORPUS
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| line.replace("\\n", "\n").replace("\\0", ""))
        .collect();
    assert!(corpus.len() >= 100);
    for (index, hostile) in corpus.iter().enumerate() {
        let name = format!("@acme/hostile-{index}");
        site.publish(&name, "1.0.0", "latest", hostile);
        browser.open(&site.page(&format!("/packages/{name}?project=acme/open")));
        // An open dialog would fail this, and so would a page that was left.
        let state = browser.run(
            "return [document.title, document.querySelectorAll('script').length, \
             document.querySelectorAll('main img, main iframe, main object, main embed, main style').length, \
             document.documentElement.scrollWidth - document.documentElement.clientWidth]",
        );
        assert!(state[0].as_str().is_some_and(|title| title.starts_with(&name)), "{hostile:?}: {state}");
        assert_eq!((&state[1], &state[2]), (&1.into(), &0.into()), "{hostile:?}");
        assert!(state[3].as_i64().is_some_and(|pixels| pixels <= 0), "{hostile:?}: {state}");
        check_quiet(&browser, &site);
    }
    for page in ["/", "/packages?project=acme/open", "/?q=alert"] {
        browser.open(&site.page(page));
        assert_eq!(browser.run("return document.querySelectorAll('script').length"), 1);
        check_quiet(&browser, &site);
    }
}
