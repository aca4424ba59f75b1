//! Pages, sessions and forms, with a fake of the API.

mod addresses;
mod copied_lines;
mod fake_api;
mod findings;
mod injections;
mod sessions;

use super::*;
use fake_api::{Forge, text};
use http::Method;

#[test]
fn every_page_is_there_for_an_administrator() {
    let forge = Forge::new("plain");
    for (path, expected) in [
        ("/", "@acme/lib"),
        ("/packages?project=acme/app", "@acme/lib"),
        ("/packages/@acme/lib", "npm install @acme/lib"),
        ("/packages/@acme/lib?project=acme/app", "Unpublish a version"),
        ("/issues?compare_labels=bug,docs", "Side by side"),
        ("/namespaces", "Acme"),
        ("/namespaces/acme", "Projects"),
        ("/namespaces/acme/app", "git clone"),
        ("/namespaces/acme/app", "/packages/@acme/lib"),
        ("/experiments", "percentage of actors"),
        ("/merge_requests?project=acme/app", "!7"),
        ("/merge_requests/acme/app/7", "Apply as one commit"),
        ("/analytics/acme/app?measures=Events.count&time=Events.at&granularity=day", "Rows"),
        ("/admin", "Active tokens"),
        ("/-/sign-in", "Paste a personal access token"),
    ] {
        let page = forge.get(path, Some("admin-token"));
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        assert!(page.text.contains(expected), "{expected:?} is not in {path}: {}", page.text);
        assert!(!page.text.contains("admin-token"), "{path} has the token");
        assert!(!page.text.contains("style=") && !page.text.contains("<script>"), "{path}");
    }
}

#[test]
fn every_response_is_protected() {
    let forge = Forge::new("plain");
    for path in ["/", "/nothing", "/-/console.css", "/-/sign-in", "/admin"] {
        let page = forge.get(path, None);
        let policy = page.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{path}: {policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{path}");
        assert_eq!(page.headers["referrer-policy"], "no-referrer");
        assert_eq!(page.headers["x-content-type-options"], "nosniff");
    }
}

#[test]
fn only_pages_that_are_the_same_for_all_are_kept() {
    let forge = Forge::new("plain");
    for (path, token, kept) in [
        ("/", None, "private, no-cache"),
        ("/packages/@acme/lib", None, "private, no-cache"),
        ("/nothing", None, "private, no-cache"),
        ("/-/sign-in", None, "private, no-store"),
        ("/", Some("developer-token"), "private, no-store"),
        ("/", Some("revoked"), "private, no-store"),
    ] {
        let drawn = forge.draws();
        let page = forge.get(path, token);
        assert_eq!(page.headers["cache-control"], kept, "{path} {token:?}");
        // The host caches no response for which randomness was drawn.
        assert!(kept == "private, no-store" || forge.draws() == drawn + 1, "{path}");
        // No cached page belongs to one visitor.
        assert_eq!(page.text.contains("form_token"), kept == "private, no-store" && token != Some("revoked"), "{path}");
    }
}

#[test]
fn pages_have_no_buttons_for_actions_the_caller_may_not_take() {
    let forge = Forge::new("plain");
    let package = "/packages/@acme/lib?project=acme/app";
    let anonymous = forge.get(package, None).text;
    assert!(!anonymous.contains("Set tag") && anonymous.contains("Sign in"));
    let developer = forge.get(package, Some("developer-token")).text;
    assert!(developer.contains("Set tag") && !developer.contains("Unpublish") && !developer.contains("Admin<"));
    let admin = forge.get(package, Some("admin-token")).text;
    assert!(admin.contains("Unpublish a version") && admin.contains("Admin<"));
    assert!(!forge.get("/merge_requests/acme/app/7", None).text.contains("Apply as one commit"));
}

#[test]
fn a_visitor_signs_in_and_out() {
    let forge = Forge::new("plain");
    let page = forge.get("/-/sign-in?next=/issues", None);
    let cookie = page.cookie().unwrap();
    let form = format!("form_token={}&token=developer-token&next=/issues", page.form_token());
    let signed_in = forge.post("/-/sign-in", &cookie, &form, &[]);
    let found = (signed_in.status, &signed_in.headers["location"]);
    assert_eq!(found, (303.try_into().unwrap(), &"/issues".parse().unwrap()));
    let session = signed_in.cookie().unwrap();
    assert!(session.starts_with("hexad-session=") && !session.contains("developer-token"), "{session}");

    let page = forge.get_with_cookie("/", &session);
    assert!(page.text.contains("Sign out") && page.cookie().is_none());
    let form = format!("form_token={}", page.form_token());
    let signed_out = forge.post("/-/sign-out", &session, &form, &[]);
    assert_eq!(signed_out.status, 303);
    assert!(signed_out.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
}

#[test]
fn a_form_of_another_site_does_nothing() {
    let forge = Forge::new("plain");
    let token = forge.get("/", Some("admin-token")).form_token();
    let cookie = &*forge.cookie("admin-token");
    let form = |token: &str| format!("form_token={token}&action=switch&feature=f&value=true");
    for (form, headers) in [
        (form(""), vec![]),
        (form(&"0".repeat(64)), vec![]),
        (form(&token), vec![("sec-fetch-site", "cross-site")]),
        (form(&token), vec![("origin", "http://evil.test")]),
        ("action=switch&feature=f&value=true".to_owned(), vec![]),
    ] {
        forge.take_calls();
        assert_eq!(forge.post("/admin", cookie, &form, &headers).status, 403);
        assert_eq!(forge.take_calls(), Vec::<String>::new());
    }
    let page = forge.post("/admin", cookie, &form(&token), &[("sec-fetch-site", "same-origin")]);
    assert_eq!(page.status, 303, "{}", page.text);
    assert_eq!(forge.take_calls().len(), 2, "who it is, and the change");
}

#[test]
fn a_sign_in_leads_to_no_other_site() {
    let forge = Forge::new("plain");
    let page = forge.get("/-/sign-in?next=//evil.test", None);
    assert!(!page.text.contains("evil.test"));
    let form = format!("form_token={}&token=developer-token&next=//evil.test", page.form_token());
    let signed_in = forge.post("/-/sign-in", &page.cookie().unwrap(), &form, &[]);
    assert_eq!(signed_in.headers["location"], "/");
}

#[test]
fn an_unknown_token_is_refused_and_a_revoked_one_ends_the_session() {
    let forge = Forge::new("plain");
    let page = forge.get("/-/sign-in", None);
    for token in ["unknown-token", "with%20space", ""] {
        let form = format!("form_token={}&token={token}", page.form_token());
        let refused = forge.post("/-/sign-in", &page.cookie().unwrap(), &form, &[]);
        assert_eq!(refused.status, 401);
        assert_eq!(refused.cookie().filter(|cookie| cookie.contains("token")), None);
    }
    let form = format!("form_token={}&token=limited-token", page.form_token());
    let limited = forge.post("/-/sign-in", &page.cookie().unwrap(), &form, &[]);
    assert_eq!(limited.status, 429);
    assert!(limited.text.contains("too often") && !limited.text.contains("unknown"), "{}", limited.text);
    let ended = forge.get("/issues", Some("unknown-token"));
    assert_eq!((ended.status, &ended.headers["www-authenticate"]), (401.try_into().unwrap(), &kit::error::BEARER));
    assert!(ended.text.contains("revoked or expired") && !ended.text.contains("Sign out"));
    assert!(ended.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
}

#[test]
fn a_refusal_of_the_api_is_shown_with_its_reason() {
    let forge = Forge::new("plain");
    let token = forge.get("/", Some("developer-token")).form_token();
    let cookie = &*forge.cookie("developer-token");
    let form = format!("form_token={token}&action=unpublish&version=1.0.0&confirmation=1.0.0");
    let page = forge.post("/packages/@acme/lib?project=acme/app", cookie, &form, &[]);
    assert_eq!(page.status, 403);
    assert!(page.text.contains("403 Forbidden") && page.text.contains("npm install"), "{}", page.text);
    let page = forge.get("/packages/missing", None);
    assert_eq!(page.status, 404);
    assert!(page.text.contains("Sign in"));
    assert_eq!(forge.get("/packages/broken", None).status, 502);
}

#[test]
fn forms_send_their_action_and_fields_to_the_api() {
    let forge = Forge::new("plain");
    let token = forge.get("/", Some("admin-token")).form_token();
    let send = |path: &str, fields: &str| {
        forge.take_calls();
        let page = forge.post(path, &forge.cookie("admin-token"), &format!("form_token={token}&{fields}"), &[]);
        assert_eq!(page.status, 303, "{fields}: {}", page.text);
        let mut calls = forge.take_calls();
        calls.retain(|call| !call.starts_with("GET"));
        calls.join("\n")
    };
    let package = "/packages/@acme/lib?project=acme/app";
    let registry = "/api/v4/projects/acme%2Fapp/packages/npm";
    let expected = format!("PUT {registry}/-/package/%40acme%2Flib/dist-tags/beta \"1.0.0\"");
    assert_eq!(send(package, "action=tag&tag=beta&version=1.0.0"), expected);
    assert!(send(package, "action=deprecate&version=1.0.0&message=old").contains("\"deprecated\":\"old\""));
    let unpublish = send(package, "action=unpublish&version=1.0.0&confirmation=1.0.0");
    assert!(unpublish.starts_with(&format!("PUT {registry}/%40acme%2Flib/-rev/1-e ")), "{unpublish}");
    assert!(unpublish.contains("\"versions\":{\"2.0.0\":"), "{unpublish}");
    for fields in ["action=deprecate&version=9.9.9&message=old", "action=unpublish&version=9.9.9&confirmation=9.9.9"] {
        let page = forge.post(package, &forge.cookie("admin-token"), &format!("form_token={token}&{fields}"), &[]);
        assert!(page.status == 400 && page.text.contains("There is no version 9.9.9 any more."), "{}", page.text);
    }
    let apply = send("/merge_requests/acme/app/7", "action=batch&ids=1&ids=2&commit_message=why");
    assert_eq!(apply, r#"PUT /api/v4/suggestions/batch_apply {"commit_message":"why","ids":[1,2]}"#);
    let expected = r#"PUT /api/v4/suggestions/1/apply {"commit_message":null}"#;
    assert_eq!(send("/merge_requests/acme/app/7", "one=1"), expected);
    let expected = r#"PUT /api/v4/suggestions/3/apply {"commit_message":null}"#;
    assert_eq!(send("/merge_requests/acme/app/7", "action=batch&ids=3"), expected);
    assert_eq!(send("/admin", "action=revoke&id=5"), "DELETE /api/v4/personal_access_tokens/5 ");
    let made = forge.post(
        "/admin",
        &forge.cookie("admin-token"),
        &format!("form_token={token}&action=create&user=mia&name=ci&scopes=api"),
        &[],
    );
    assert!(made.text.contains("shown this once") && made.text.contains("secret-of-new-token"));
}

#[test]
fn without_an_engine_analytics_says_how_to_connect_one() {
    let forge = Forge::new("plain");
    let page = forge.get("/analytics/acme/other", Some("developer-token"));
    assert_eq!(page.status, 200);
    assert!(page.text.contains("No analytics engine is connected"));
    assert_eq!(forge.get("/analytics/acme/hidden", Some("developer-token")).status, 404);
}

#[test]
fn other_methods_are_refused() {
    let forge = Forge::new("plain");
    let mut request = Request::new(Method::DELETE, "/admin");
    request.origin = kit::request::Origin::known("http", "forge.test");
    let response = forge.handle(request);
    let found = (response.status, &response.headers["allow"]);
    assert_eq!(found, (405.try_into().unwrap(), &"GET, HEAD, POST".parse().unwrap()));
    assert_eq!(text(response), "");
}
