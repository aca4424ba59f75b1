//! The console: pages over the real areas, without a browser.

use super::*;
use hexad_tests::forge::MAINTAINER;
use hexad_tests::http::console_session;
use hexad_tests::package;
use hexad_tests::wait::{SOON, wait_until};

const NAME: &str = "@acme/lib";

fn published() -> Forge {
    published_to(Forge::seeded())
}

fn published_to(forge: Forge) -> Forge {
    for (version, tag) in [("1.0.0", "latest"), ("2.0.0", "next")] {
        let document = package::document(NAME, version, tag, &package::tarball(NAME, version, 1000, 1));
        let path = format!("/api/v4/projects/{PUBLIC}/packages/npm/@acme%2flib");
        assert_eq!(forge.send("PUT", &path, DEVELOPER, document).status, 200);
    }
    forge
}

fn cookie(forge: &Forge, token: &str) -> String {
    console_session(&forge.server.url, "forge.test", token)
}

fn page(forge: &Forge, path: &str, token: &str) -> Answer {
    forge.send_with("GET", path, "", &[("cookie", &cookie(forge, token))], "")
}

/// The token of a page's form.
fn form_token(page: &str) -> &str {
    let (_, rest) = page.split_once("name=\"form_token\" value=\"").expect("a form");
    rest.split('"').next().expect("a value")
}

/// Sends a form as its page would.
fn submit(forge: &Forge, path: &str, token: &str, fields: &str) -> Answer {
    let cookie = cookie(forge, token);
    let text = forge.send_with("GET", path, "", &[("cookie", &cookie)], "").text();
    let form = format!("form_token={}&{fields}", form_token(&text));
    let headers = [
        ("cookie", &*cookie),
        ("content-type", "application/x-www-form-urlencoded"),
        ("sec-fetch-site", "same-origin"),
    ];
    forge.send_with("POST", path, "", &headers, form)
}

#[test]
fn every_page_applies_the_permissions_of_its_visitor() {
    let forge = published();
    for (path, token, status, expected) in [
        ("/", "", 200, NAME),
        ("/?q=nothing-like-this", "", 200, "Nothing found"),
        ("/packages/@acme/lib", "", 200, "npm install @acme/lib"),
        ("/packages/@acme/missing", "", 404, "Not found"),
        ("/packages?project=acme/open", "", 200, NAME),
        ("/packages?group=acme", "", 200, NAME),
        ("/issues", "", 401, "Sign in"),
        ("/issues?project=acme/open", DEVELOPER, 200, "Still open"),
        ("/namespaces", DEVELOPER, 200, "Acme"),
        ("/namespaces/acme", "", 200, "Open"),
        ("/namespaces/acme/open", DEVELOPER, 200, "git clone"),
        ("/namespaces/acme/labs/secret", OUTSIDER, 404, "Not found"),
        ("/experiments", DEVELOPER, 403, "Not allowed"),
        ("/analytics/acme/open", DEVELOPER, 200, "No analytics engine is connected"),
        ("/merge_requests/acme/open/1", DEVELOPER, 404, "Not found"),
        ("/admin", DEVELOPER, 403, "Not allowed"),
        ("/admin", ADMIN, 200, "Active tokens"),
    ] {
        let answer = match token {
            "" => forge.get(path, ""),
            token => page(&forge, path, token),
        };
        let text = answer.text();
        assert_eq!(answer.status, status, "{path}: {text}");
        assert!(text.to_lowercase().contains(&expected.to_lowercase()), "{expected:?} is not in {path}: {text}");
        assert!(token.is_empty() || !text.contains(token), "{path} has the token");
    }
}

#[test]
fn unknown_addresses_are_a_page_in_a_browser_and_json_elsewhere() {
    let forge = Forge::empty();
    let ask = |path: &str, types: &str| forge.send_with("GET", path, "", &[("accept", types)], "");
    for path in ["/does-not-exist", "/issues/nope", "/favicon.ico", "/packages/%ff"] {
        let page = ask(path, "text/html,*/*;q=0.8");
        assert!(page.status == 404 && page.text().contains("To the packages"), "{path}: {}", page.text());
    }
    for path in ["/does-not-exist", "/issues/nope", "/api", "/api/v4", "/api/v4/nothing", "/api/v4/nothing/at/all"] {
        let answer = ask(path, "*/*");
        assert_eq!((answer.status, &*answer.text()), (404, r#"{"error":"404 Not Found"}"#), "{path}");
        assert_eq!(answer.header("content-type"), "application/json", "{path}");
    }
    // The API answers JSON, whatever the request accepts.
    assert_eq!(ask("/api/v4/nothing", "text/html").header("content-type"), "application/json");
    // A repository may be in a group that has the name of a page.
    assert_ne!(ask("/issues/x.git/info/refs?service=git-upload-pack", "*/*").text(), r#"{"error":"404 Not Found"}"#);
}

#[test]
fn a_form_changes_the_metadata_that_package_managers_get() {
    let forge = published();
    let path = "/packages/@acme/lib?project=acme/open";
    submit(&forge, path, DEVELOPER, "action=tag&tag=stable&version=2.0.0").expect(303);
    let tags =
        || forge.get(&format!("/api/v4/projects/{PUBLIC}/packages/npm/-/package/@acme%2flib/dist-tags"), "").json();
    assert_eq!(tags()["stable"], "2.0.0");
    // The registry refuses the action to a developer. The page shows the reason.
    submit(&forge, path, DEVELOPER, "action=deprecate&version=1.0.0&message=old").expect(403);
    let metadata = || forge.get(&format!("/api/v4/projects/{PUBLIC}/packages/npm/@acme%2flib"), "").json();
    assert_eq!(submit(&forge, path, MAINTAINER, "action=deprecate&version=1.0.0&message=old").status, 303);
    assert_eq!(metadata()["versions"]["1.0.0"]["deprecated"], "old");
    // A tag is not a version.
    let refused = submit(&forge, path, MAINTAINER, "action=deprecate&version=stable&message=old");
    assert!(refused.status == 400 && refused.text().contains("no version stable"), "{}", refused.text());
    let unpublish = "action=unpublish&version=2.0.0&confirmation=2.0.0";
    assert_eq!(submit(&forge, path, MAINTAINER, unpublish).status, 303);
    assert!(metadata()["versions"].get("2.0.0").is_none() && metadata()["versions"].get("1.0.0").is_some());
}

#[test]
fn a_revoked_token_ends_its_session_at_once() {
    let forge = published();
    let made = submit(&forge, "/admin", ADMIN, "action=create&user=dev&name=session&scopes=api");
    let text = made.text();
    let (_, rest) = text.split_once("data-copy><code>").expect("the token is shown");
    let token = rest.split('<').next().expect("a token").to_owned();
    let session = cookie(&forge, &token);
    assert!(session.starts_with("__Host-hexad-session=") && !session.contains(&token), "{session}");
    let page = |session: &str| forge.send_with("GET", "/", "", &[("cookie", session)], "");
    assert!(page(&session).text().contains("Dev Developer"));
    let bare = page(&format!("__Host-hexad-session={token}"));
    assert!(bare.status == 200 && !bare.text().contains("Dev Developer"), "a bare token is no session");
    let tokens = forge.get("/api/v4/personal_access_tokens?search=session", ADMIN).json();
    let id = tokens[0]["id"].as_u64().expect("an id");
    assert_eq!(submit(&forge, "/admin", ADMIN, &format!("action=revoke&id={id}")).status, 303);
    let ended = page(&session).expect(401);
    assert!(ended.header("set-cookie").contains("Max-Age=0"), "{}", ended.header("set-cookie"));
}

#[test]
fn the_areas_see_the_visitor_and_not_the_console() {
    let forge = published();
    // Searches without a token are limited by address.
    let limited = Forge::seeded_with(&[("registry_rate_limit_searches", "2")]);
    let statuses: Vec<u16> = (0..4).map(|_| limited.get("/", "").status).collect();
    assert_eq!(statuses, [200, 200, 429, 429]);
    let answer = forge.send_with("GET", "/", "", &[("x-request-id", "id-of-visitor")], "");
    assert_eq!(answer.header("x-request-id"), "id-of-visitor");
}

#[test]
fn a_page_without_a_session_comes_from_the_response_cache() {
    // A request that counts against a limit is not cached.
    let forge = published_to(Forge::seeded_with(&[("registry_rate_limit_lookups", "0")]));
    let operator = forge.operator();
    // The first requests of a new instance may be uncacheable, and each page is cached for a second.
    let is_cached = || {
        let misses = || operator.metric("hexad_response_cache_misses_total");
        let before = misses();
        for _ in 0..10 {
            assert_eq!(forge.get("/packages/@acme/lib", "").status, 200);
        }
        misses() < before + 10
    };
    wait_until(SOON, "a page from the cache", is_cached);
}

/// A guest may write twenty comments of the maximum length.
#[test]
fn long_comments_hide_no_others() {
    let forge = Forge::seeded();
    forge.import_merge_request(PUBLIC);
    let comment = |text: &str| {
        let path = format!("/api/v4/projects/{PUBLIC}/merge_requests/1/discussions");
        let body = json!({ "body": text }).to_string();
        forge.send_json("POST", &path, GUEST, body).expect(201);
    };
    let longest = "\n".repeat(999_999) + "x";
    comment("the first one");
    (0..18).for_each(|_| comment(&longest));
    comment("the last one");
    comment("one of the next page");
    let answer = page(&forge, "/merge_requests/acme/open/1", DEVELOPER);
    let text = answer.text();
    assert_eq!(answer.status, 200, "{text}");
    assert!(text.contains("the first one") && text.contains("the last one") && !text.contains("next page"));
    assert!(text.contains("6 of the discussions here are too long for this page"), "{}", text.len());
    assert!(text.contains("?page=2"));
    assert!(page(&forge, "/merge_requests/acme/open/1?page=2", DEVELOPER).text().contains("one of the next page"));
}

#[test]
fn a_limited_search_leaves_the_count_and_names_the_limit() {
    let forge = Forge::seeded_with(&[("issues_search_rate_limit", "5")]);
    let answer = page(&forge, "/issues?project=acme/open&search=x", DEVELOPER);
    let text = answer.text();
    assert_eq!(answer.status, 200, "{text}");
    assert!(text.contains("Open<strong>") && text.contains("more searches than you may make"), "{text}");
}

#[test]
fn a_form_that_is_too_long_is_refused_with_its_bound() {
    let forge = Forge::empty();
    for (length, status) in [(262_144 - "x=".len(), 403), (262_144, 413)] {
        let form = format!("x={}", "y".repeat(length));
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let answer = forge.send_with("POST", "/-/sign-in", "", &headers, form);
        assert_eq!(answer.status, status, "{}", answer.text());
        assert_eq!(answer.text().contains("A form has at most 256 KiB."), status == 413);
    }
}

#[test]
fn every_web_url_leads_to_its_page() {
    let forge = Forge::seeded();
    forge.import_merge_request(PUBLIC);
    let session = cookie(&forge, ADMIN);
    let mut addresses = 0;
    for list in ["projects", "groups?all_available=true", "users", "namespaces", "merge_requests?scope=all"] {
        for row in forge.get(&format!("/api/v4/{list}"), ADMIN).json().as_array().expect("a list") {
            let web_url = row["web_url"].as_str().expect("an address");
            let path = web_url.strip_prefix("https://forge.test").expect("an address of this service");
            let led = forge.send_with("GET", path, "", &[("cookie", &session)], "");
            assert_eq!(led.status, 302, "{web_url}: {}", led.text());
            let location = led.header("location");
            let page = location.strip_prefix("https://forge.test").unwrap_or(location);
            let page = forge.send_with("GET", page, "", &[("cookie", &session), ("accept", "text/html")], "");
            assert_eq!(page.status, 200, "{web_url} leads to {location}: {}", page.text());
            addresses += 1;
        }
    }
    assert!(addresses > 5, "{addresses}");
}

#[test]
fn a_limited_address_is_told_so_at_the_sign_in() {
    let forge = Forge::seeded_with(&[("registry_rate_limit_invalid_tokens", "2")]);
    let form = forge.get("/-/sign-in", "");
    let text = form.text();
    let form_token = form_token(&text);
    let cookie = form.header("set-cookie").split(';').next().expect("a cookie");
    let send = |token: &str| {
        let headers = [("cookie", cookie), ("content-type", "application/x-www-form-urlencoded")];
        forge.send_with("POST", "/-/sign-in", "", &headers, format!("form_token={form_token}&token={token}"))
    };
    let answers: Vec<_> = (0..4).map(|number| send(&format!("glpat-unknown-{number}"))).collect();
    assert_eq!(answers.first().map(|answer| answer.status), Some(401));
    let last = answers.last().cloned().expect("an answer").expect(429);
    assert!(last.text().contains("The token was not checked.") && !last.text().contains("revoked or expired"));
}
