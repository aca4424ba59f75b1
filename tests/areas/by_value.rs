//! Each area answers a request by value (`hexad:platform/by-value-handler`) as it does by the interface of WASI, which
//! other hosts use. This host takes the latter for a request with a body, also where the body means nothing.

use super::{Answer, Forge};
use hexad_tests::forge::{ADMIN, DEVELOPER, OUTSIDER, PUBLIC};
use hexad_tests::package;

/// What a client sees, without what each response has of its own.
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
    let json = [("content-type", "application/json")];
    let registry = format!("/api/v4/projects/{PUBLIC}/packages/npm");
    // As one piece, and as several.
    for (name, size) in [("small", 1_000), ("large", 3_000_000)] {
        let document = package::document(name, "1.0.0", "latest", &package::tarball(name, "1.0.0", size, 1));
        let published = forge.send_with("PUT", &format!("{registry}/{name}"), DEVELOPER, &json, document);
        assert_eq!(published.status, 200, "{}", published.text());
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
        let by_streams = forge.send_with(method, &path, token, headers, "x");
        assert!(
            seen(&by_value) == seen(&by_streams),
            "{method} {path}: {:?}\n{:?}",
            by_value.headers,
            by_streams.headers
        );
    }
}
