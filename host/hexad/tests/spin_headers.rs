//! A component that is no area gets the headers that Spin's applications read.

use crate::*;

/// The headers of Spin that the guest gets at this route, in their order by name.
async fn headers(route: &str, target: &str, tool: &str) -> Vec<String> {
    let manifest = by_value::manifest("", tool).replace("/by-value/...", route);
    let folder = tempfile::tempdir().unwrap();
    let host = fixture::start(&folder, &manifest, &[], store()).unwrap();
    let request = Request::get(format!("https://forge.test{target}")).header("host", "forge.test");
    let request = request.body(Full::new(Bytes::new())).unwrap();
    let body = host.handle(request).await.into_body().collect().await.unwrap().to_bytes();
    let body = String::from_utf8_lossy(&body).into_owned();
    let mut lines: Vec<_> = body.lines().filter(|line| line.starts_with("spin-")).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn a_component_gets_its_route_and_what_the_path_has_in_its_place() {
    for tool in ["", "response_cache = \"60s\"\nresponse_cache_headers = []"] {
        let expected = [
            "spin-base-path: /",
            "spin-component-route: /:Its_place",
            "spin-full-url: https://forge.test/by-value/request?b=%20",
            "spin-matched-route: /:Its_place/...",
            "spin-path-info: /request",
            "spin-path-match-its-place: by-value",
            "spin-raw-component-route: /:Its_place/...",
        ];
        assert_eq!(headers("/:Its_place/...", "/by-value/request?b=%20", tool).await, expected, "{tool}");
    }
    let exact = headers("/by-value/:what", "/by-value/request", "").await;
    for line in ["spin-path-info: ", "spin-path-match-what: request", "spin-component-route: /by-value/:what"] {
        assert!(exact.iter().any(|header| header == line), "{line:?} is not in {exact:?}");
    }
}
