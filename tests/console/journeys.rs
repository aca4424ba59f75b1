//! Users' actions on the pages reach the areas.

use super::site::NAME;
use super::*;
use hexad_tests::forge::MAINTAINER;

#[test]
fn a_tag_that_is_set_here_is_seen_by_npm() {
    let Some((site, browser)) = visit() else { return };
    site.sign_in(&browser, DEVELOPER);
    browser.open(&site.page("/packages/@acme/lib?project=acme/open"));
    browser.type_into("#manage input[name=tag]", "stable");
    browser.click("#manage button[value=tag]");
    browser.expect_text("main .alert", "stable");
    let tags: Value = serde_json::from_slice(&site.npm(&["view", NAME, "dist-tags", "--json"])).expect("JSON");
    assert!(tags["stable"].is_string(), "{tags}");
    check_quiet(&browser, &site.server.url);
}

#[test]
fn unpublishing_asks_twice() {
    let Some((site, browser)) = visit() else { return };
    site.sign_in(&browser, MAINTAINER);
    browser.open(&site.page("/packages/@acme/lib?project=acme/open"));
    browser.type_into("#manage input[name=confirmation]", "2.0.0");
    browser.click("#manage button[value=unpublish]");
    browser.accept_dialog();
    browser.expect_text("main .alert", "2.0.0 is unpublished");
    let versions = String::from_utf8(site.npm(&["view", NAME, "versions"])).expect("UTF-8");
    assert!(versions.contains("1.0.0") && !versions.contains("2.0.0"), "{versions}");
}

#[test]
fn suggestions_that_are_applied_here_are_seen_by_git() {
    let Some((site, browser)) = visit() else { return };
    let suggestions = site.merge_request();
    let before = suggestions.head("topic");
    site.sign_in(&browser, MAINTAINER);
    browser.open(&site.page("/merge_requests?project=acme/open"));
    browser.click("#results h2 a");
    browser.expect_text(".diff", "first();");
    browser.expect_complete();
    browser.run("for (const box of document.querySelectorAll('input[name=ids]')) box.click()");
    browser.type_into("input[name=commit_message]", "Both at once");
    // Not the button of one suggestion, which is before.
    browser.press(&['\u{e007}']);
    browser.expect_text("main .alert", "one commit");
    assert_ne!(suggestions.head("topic"), before);
    let clone = Repository::clone(&suggestions.clone_url());
    let file = clone.text(&["show", "origin/topic:main.rs"]);
    assert!(file.contains("first();") && file.contains("second();"), "{file}");
    assert_eq!(clone.text(&["log", "-1", "--format=%s", "origin/topic"]), "Both at once");
    browser.expect_text("main", "applied");
    check_quiet(&browser, &site.server.url);
}

#[test]
fn everything_works_without_scripts() {
    let Some((site, browser)) = visit_without_scripts() else { return };
    browser.open(&site.page("/"));
    assert!(browser.text("#results").contains(NAME));
    site.sign_in(&browser, DEVELOPER);
    browser.type_into("input[name=q]", "nothing-like-this");
    browser.click(".search button");
    browser.expect_text("#results", "Nothing found");
    browser.open(&site.page("/packages/@acme/lib?project=acme/open"));
    browser.type_into("#manage input[name=tag]", "plain");
    browser.click("#manage button[value=tag]");
    browser.expect_text("main .alert", "plain");
    site.sign_out(&browser);
    browser.expect_text("header", "Sign in");
}

#[test]
fn the_keyboard_suffices() {
    let Some((site, browser)) = visit() else { return };
    browser.open(&site.page("/-/sign-in"));
    // The field has the focus; Enter sends the form.
    browser.press(&DEVELOPER.chars().chain(['\u{e007}']).collect::<Vec<_>>());
    browser.wait_for("Sign out");
    browser.expect_complete();
    browser.press(&['\u{e004}']);
    browser.expect_outcome("return document.activeElement.className", "skip");
    browser.press(&['\u{e007}']);
    browser.expect_outcome("return document.activeElement.id", "main");
}

#[test]
fn signing_out_and_revoking_end_a_session() {
    let Some((site, browser)) = visit() else { return };
    site.sign_in(&browser, DEVELOPER);
    assert_eq!(browser.run("return document.cookie"), "", "no script reads the cookie");
    site.sign_out(&browser);
    browser.open(&site.page("/issues"));
    browser.expect_text("main", "Sign in");
    site.sign_in(&browser, DEVELOPER);
    let own = site.send("GET", "personal_access_tokens/self", DEVELOPER, "").json();
    assert_eq!(site.send("DELETE", &format!("personal_access_tokens/{}", own["id"]), ADMIN, "").status, 204);
    browser.open(&site.page("/issues"));
    browser.expect_text("main", "revoked or expired");
}
