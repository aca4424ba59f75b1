//! Each area answers a request by value (`hexad:platform/by-value-handler`) as over WASI, which other hosts use. This
//! host uses WASI for a request with a large body, also if the body has no meaning.

use super::*;
use hexad_tests::package;
use hexad_tests::upstream::Upstream;

/// The largest body that is passed by value, in bytes.
const SMALL: usize = 64 << 10;

/// The response as a client sees it, without the headers that differ between any two responses.
fn seen(answer: &Answer) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let of_its_own = ["date", "x-request-id", "x-runtime"];
    let headers = answer.headers.iter().filter(|(name, _)| !of_its_own.contains(&name.as_str()));
    let mut headers: Vec<_> = headers
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    headers.sort();
    (answer.status, headers, answer.body.clone())
}

#[test]
fn each_area_answers_by_value_as_by_streams() {
    let forge = Forge::seeded();
    let registry = format!("/api/v4/projects/{PUBLIC}/packages/npm");
    // One tarball in one piece, and one in several.
    for (name, size) in [("small", 1_000), ("large", 3_000_000)] {
        let document = package::document(name, "1.0.0", "latest", &package::tarball(name, "1.0.0", size, 1));
        forge.send_json("PUT", &format!("{registry}/{name}"), DEVELOPER, document).expect(200);
    }
    let etag = forge.get(&format!("{registry}/small"), "").header("etag").to_owned();
    let known = [("if-none-match", &*etag)];
    let issue =
        format!(r#"{{"kind":"issue","id":1,"iid":1,"project_id":{PUBLIC},"title":"A title","state":"opened"}}"#);
    assert_eq!(forge.send("POST", "/api/v4/import/issues", ADMIN, issue).status, 200);

    let project = format!("/api/v4/projects/{PUBLIC}");
    for (method, path, token, headers, status) in [
        ("GET", format!("{registry}/small"), "", &[][..], 200),
        ("HEAD", format!("{registry}/small"), DEVELOPER, &[], 200),
        ("GET", format!("{registry}/small"), "", &known, 304),
        ("GET", format!("{registry}/small"), "", &[("accept-encoding", "gzip")], 200),
        ("GET", format!("{registry}/small/-/small-1.0.0.tgz"), "", &[], 200),
        ("GET", format!("{registry}/large/-/large-1.0.0.tgz"), DEVELOPER, &[], 200),
        ("GET", format!("{registry}/large/-/large-1.0.0.tgz"), "", &[("range", "bytes=5-9")], 206),
        ("GET", format!("{registry}/none"), "", &[], 404),
        ("GET", format!("{project}/issues_statistics"), DEVELOPER, &[], 200),
        ("GET", format!("{project}/issues_statistics?scope=none"), DEVELOPER, &[], 400),
        ("GET", "/api/v4/namespaces?per_page=1".into(), DEVELOPER, &[], 200),
        ("GET", "/api/v4/namespaces".into(), "", &[], 401),
        ("GET", "/api/v4/experiments".into(), OUTSIDER, &[], 403),
        ("GET", "/api/v4/user".into(), DEVELOPER, &[], 200),
        ("GET", project.clone(), OUTSIDER, &[], 200),
        ("DELETE", format!("{registry}/-/package/small/dist-tags/none"), DEVELOPER, &[], 403),
        ("GET", format!("{project}/product_analytics/request/load"), DEVELOPER, &[], 400),
        ("GET", format!("{project}/merge_requests/1/notes"), DEVELOPER, &[], 404),
        ("GET", "/".into(), "", &[], 200),
        ("GET", "/-/none".into(), "", &[], 404),
    ] {
        let by_value = forge.send_with(method, &path, token, headers, "");
        assert_eq!(by_value.status, status, "{method} {path}: {}", by_value.text());
        let by_streams = forge.send_with(method, &path, token, headers, " ".repeat(SMALL + 1));
        assert!(
            seen(&by_value) == seen(&by_streams),
            "{method} {path}: {:?}\n{:?}",
            by_value.headers,
            by_streams.headers
        );
    }
}

#[test]
fn each_area_takes_a_body_by_value_as_by_streams() {
    let upstream = Upstream::with_json(r#"{"results":[]}"#);
    let forge = Forge::seeded_with(&[("analytics_upstream", "http://127.0.0.1:*")]);
    let registry = format!("/api/v4/projects/{PUBLIC}/packages/npm");
    let project = format!("/api/v4/projects/{PUBLIC}");
    let settings = format!(r#"{{"analytics_api_base_url":"{}","analytics_api_key":"key"}}"#, upstream.url);
    let document = package::document("small", "1.0.0", "latest", &package::tarball("small", "1.0.0", 1_000, 1));
    let document = std::str::from_utf8(&document).unwrap();
    assert_eq!(forge.send_json("PUT", &format!("{registry}/small"), DEVELOPER, document).status, 200);
    for (method, path, token, body, status) in [
        ("PUT", "/api/v4/application/settings".into(), ADMIN, &*settings, 200),
        ("POST", "/api/v4/features/product_analytics_features".into(), ADMIN, r#"{"value":true}"#, 201),
        ("PUT", format!("{registry}/small"), DEVELOPER, "{}", 400),
        ("PUT", format!("{registry}/small"), "", document, 401),
        ("POST", format!("{registry}/-/npm/v1/security/advisories/bulk"), DEVELOPER, r#"{"small":["1.0.0"]}"#, 404),
        ("POST", "/api/v4/import/experiments".into(), ADMIN, r#"{"kind":"experiment"}"#, 200),
        ("POST", "/api/v4/import/issues".into(), OUTSIDER, r#"{"kind":"issue"}"#, 403),
        ("POST", format!("{project}/product_analytics/request/load"), DEVELOPER, r#"{"query":{"limit":1}}"#, 200),
        ("POST", format!("{project}/product_analytics/request/load"), DEVELOPER, r#"{"query":1}"#, 400),
        ("POST", format!("{project}/merge_requests/1/notes"), DEVELOPER, r#"{"body":"text"}"#, 404),
        ("POST", "/api/v4/namespaces".into(), DEVELOPER, "{}", 405),
    ] {
        assert!(body.len() <= SMALL, "{path}");
        let by_value = forge.send_json(method, &path, token, body.to_owned());
        assert_eq!(by_value.status, status, "{method} {path}: {}", by_value.text());
        // White space after JSON has no meaning, so it can make the body large.
        let by_streams = forge.send_json(method, &path, token, body.to_owned() + &" ".repeat(SMALL));
        assert!(seen(&by_value) == seen(&by_streams), "{method} {path}: {}\n{}", by_value.text(), by_streams.text());
    }
    assert_eq!(upstream.requests().len(), 2);
}
