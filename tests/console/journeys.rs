//! What people do on the pages, up to the areas.

use super::site::{NAME, Site, check_quiet};
use hexad_tests::browser::{Browser, Options, is_enabled};
use hexad_tests::forge::{ADMIN, DEVELOPER, MAINTAINER, PUBLIC};

#[test]
fn a_tag_that_is_set_here_is_seen_by_npm() {
    if !is_enabled() {
        return;
    }
    let (site, browser) = (Site::start(), Browser::start(&Options::default()));
    site.sign_in(&browser, DEVELOPER);
    browser.open(&site.page("/packages/@acme/lib?project=acme/open"));
    browser.type_into("#manage input[name=tag]", "stable");
    browser.click("#manage button[value=tag]");
    assert!(browser.text("main .alert").contains("stable"));
    let tags = site.send(
        "GET",
        &format!("projects/{PUBLIC}/packages/npm/-/package/{}/dist-tags", NAME.replace('/', "%2f")),
        DEVELOPER,
        "",
    );
    assert!(tags.json()["stable"].is_string(), "{}", tags.text());
    check_quiet(&browser, &site);
}

#[test]
fn unpublishing_asks_twice() {
    if !is_enabled() {
        return;
    }
    let (site, browser) = (Site::start(), Browser::start(&Options::default()));
    site.sign_in(&browser, MAINTAINER);
    browser.open(&site.page("/packages/@acme/lib?project=acme/open"));
    browser.type_into("#manage input[name=confirmation]", "2.0.0");
    browser.click("#manage button[value=unpublish]");
    browser.accept_dialog();
    assert!(browser.text("main .alert").contains("2.0.0 is unpublished"), "{}", browser.text("main"));
    let metadata = site.send("GET", &format!("projects/{PUBLIC}/packages/npm/@acme%2flib"), DEVELOPER, "").json();
    assert!(metadata["versions"].get("2.0.0").is_none());
}

#[test]
fn suggestions_that_are_applied_here_are_seen_by_git() {
    if !is_enabled() {
        return;
    }
    let (site, browser) = (Site::start(), Browser::start(&Options::default()));
    let suggestions = site.merge_request();
    let before = suggestions.head("topic");
    site.sign_in(&browser, MAINTAINER);
    browser.open(&site.page("/merge_requests/acme/open/1"));
    assert!(browser.text(".diff").contains("first();"));
    browser.run("for (const box of document.querySelectorAll('input[name=ids]')) box.click()");
    browser.type_into("input[name=commit_message]", "Both at once");
    browser.click("button[value=batch]");
    assert!(browser.text("main .alert").contains("one commit"), "{}", browser.text("main"));
    assert_ne!(suggestions.head("topic"), before);
    assert!(browser.text("main").contains("applied"));
    check_quiet(&browser, &site);
}

#[test]
fn everything_works_without_scripts() {
    if !is_enabled() {
        return;
    }
    let (site, browser) = (Site::start(), Browser::start(&Options { without_scripts: true, ..Options::default() }));
    browser.open(&site.page("/"));
    assert!(browser.text("#results").contains(NAME));
    site.sign_in(&browser, DEVELOPER);
    browser.type_into("input[name=q]", "nothing-like-this");
    browser.click(".search button");
    assert!(browser.text("#results").contains("Nothing found"));
    browser.open(&site.page("/packages/@acme/lib?project=acme/open"));
    browser.type_into("#manage input[name=tag]", "plain");
    browser.click("#manage button[value=tag]");
    assert!(browser.text("main .alert").contains("plain"));
    browser.click("header form button");
    assert!(browser.text("header").contains("Sign in"));
}

#[test]
fn the_keyboard_suffices() {
    if !is_enabled() {
        return;
    }
    let (site, browser) = (Site::start(), Browser::start(&Options::default()));
    browser.open(&site.page("/-/sign-in"));
    // The field has the focus; Enter sends the form.
    browser.press(&DEVELOPER.chars().chain(['\u{e007}']).collect::<Vec<_>>());
    let signed_in = (0..50).any(|_| browser.source().contains("Sign out"));
    assert!(signed_in, "{}", browser.source());
    browser.press(&['\u{e004}']);
    assert_eq!(browser.run("return document.activeElement.className"), "skip");
    browser.press(&['\u{e007}']);
    assert_eq!(browser.run("return document.activeElement.id"), "main");
}

#[test]
fn signing_out_and_revoking_end_a_session() {
    if !is_enabled() {
        return;
    }
    let (site, browser) = (Site::start(), Browser::start(&Options::default()));
    site.sign_in(&browser, DEVELOPER);
    assert_eq!(browser.run("return document.cookie"), "", "no script reads the cookie");
    browser.click("header form button");
    browser.open(&site.page("/issues"));
    assert!(browser.text("main").contains("Sign in"));
    site.sign_in(&browser, DEVELOPER);
    let own = site.send("GET", "personal_access_tokens/self", DEVELOPER, "").json();
    assert_eq!(site.send("DELETE", &format!("personal_access_tokens/{}", own["id"]), ADMIN, "").status, 204);
    browser.open(&site.page("/issues"));
    assert!(browser.text("main").contains("revoked or expired"), "{}", browser.text("main"));
}
