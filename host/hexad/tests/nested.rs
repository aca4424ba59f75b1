//! Requests of guests to their own application stay in this process, with the client's identity and within the grants.
//! They never wait for each other in a circle.

use crate::collector::Collector;
use crate::fixture::load;
use crate::*;

const SELF: &[&str] = &["http://self"];

fn server(hosts: &[&str], tool: &str) -> Server {
    Server::reaching(hosts, tool, OutboundOptions::default())
}

/// A path of the probe that reaches `hello` through this many requests of guests.
fn chain(depth: usize) -> String {
    (0..depth).fold("hello".to_owned(), |path, _| format!("outbound?url=http://self.alt/probe/{path}"))
}

#[tokio::test]
async fn a_nested_request_has_the_origin_of_its_client() {
    let server = server(SELF, "");
    let mut request = get("outbound?url=http://self.alt/probe/headers&header=x-real-ip:127.0.0.1");
    for (name, value) in [("spin-client-addr", "192.0.2.7:50000"), ("x-request-id", "id-of-client")] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let (_, answer) = text(server.send(request).await).await;
    for line in ["Http) forge.test\n", "spin-client-addr: 192.0.2.7:50000\n", "x-request-id: id-of-client\n"] {
        assert!(answer.contains(line), "{line:?} is not in {answer}");
    }
    assert!(answer.starts_with("200\n") && !answer.contains("x-real-ip"), "{answer}");
}

#[tokio::test]
async fn a_component_is_reached_by_name_without_a_route() {
    let server = server(&["http://incoming.spin.internal", "http://probe.spin.internal"], "");
    let answer = server.ok("outbound?url=http://probe.spin.internal/elsewhere/x").await;
    assert!(answer.starts_with("404\n") && answer.ends_with("nothing at /elsewhere/x"), "{answer}");
    let answer =
        server.ok("outbound?url=http://incoming.spin.internal/?url=http://probe.spin.internal/probe/hello").await;
    assert!(answer.ends_with("200 hello"), "{answer}");
}

#[tokio::test]
async fn nested_requests_without_a_grant_are_denied() {
    let every = server(&["*://*:*", "http://probe.spin.internal"], "");
    for url in ["http://self.alt/probe/hello", "http://incoming.spin.internal/"] {
        assert_eq!(every.ok(&format!("outbound?url={url}")).await, "ErrorCode::HttpRequestDenied", "{url}");
    }
    let own = server(SELF, "");
    for url in ["http://probe.spin.internal/probe/hello", "https://self.alt/probe/hello", "http://self.alt:81/"] {
        assert_eq!(own.ok(&format!("outbound?url={url}")).await, "ErrorCode::HttpRequestDenied", "{url}");
    }
}

#[tokio::test]
async fn the_application_is_reached_by_each_of_its_names() {
    for url in ["http://self.alt/probe/hello", "http://self/probe/hello"] {
        let answer = server(SELF, "").ok(&format!("outbound?url={url}")).await;
        assert!(answer.starts_with("200\n") && answer.ends_with("hello"), "{url}: {answer}");
        let denied = server(&["*://*:*"], "").ok(&format!("outbound?url={url}")).await;
        assert_eq!(denied, "ErrorCode::HttpRequestDenied", "{url}");
    }
}

#[tokio::test]
async fn an_unrouted_path_is_not_found() {
    let answer = server(SELF, "").ok("outbound?url=http://self.alt/nowhere").await;
    assert!(answer.starts_with("404\n"), "{answer}");
}

#[tokio::test]
async fn depth_is_bounded() {
    let server = server(SELF, "");
    assert!(server.ok(&chain(4)).await.ends_with("hello"));
    let answer = server.ok(&chain(5)).await;
    assert!(answer.contains("\n508\n") && answer.contains("508 Loop Detected"), "{answer}");
}

#[tokio::test]
async fn nested_requests_do_not_wait_for_their_parents_permits() {
    // Each request of a client takes all that a component has, and its guest asks the same component.
    let server =
        server(SELF, "instances = 1\nqueue_timeout = \"1h\"\noutbound = { requests = 1, queue_timeout = \"1h\" }");
    let path = chain(4);
    for answer in join_all((0..8).map(|_| server.ok(&path))).await {
        assert!(answer.ends_with("hello"), "{answer}");
    }
    let service = server.service("probe");
    assert_eq!(service.load(), (0, 0));
}

#[tokio::test]
async fn a_nested_request_ends_with_the_one_that_waits_for_it() {
    let server = server(SELF, "request_timeout = \"300ms\"");
    let (status, _) = server.get("outbound?url=http://self.alt/probe/never").await;
    assert!([200, 504].contains(&status), "{status}");
    let service = server.service("probe");
    wait_until_async(SOON, "the end of both requests", async || service.load() == (0, 0)).await;
}

#[tokio::test]
async fn bodies_are_streamed_in_both_directions() {
    let server = server(SELF, "");
    let answer = server.ok("outbound?url=http://self.alt/probe/count&method=POST&body=300000").await;
    assert!(answer.starts_with("200\n") && answer.contains("300000"), "{answer}");
    assert_eq!(server.ok("relay?url=http://self.alt/probe/flood?mib=3").await.len(), 3 << 20);
}

#[tokio::test]
async fn a_nested_response_comes_from_the_response_cache() {
    let tool = "response_cache = \"60s\"\nresponse_cache_headers = [\"accept\"]\nreuse = 100000";
    // Only the first component may send requests: one that is cached may not.
    let manifest =
        manifest(tool).replacen("allowed_outbound_hosts = []", "allowed_outbound_hosts = [\"http://self\"]", 1);
    let server = Server::of(&manifest, |options| options);
    let ask = || http::Request::get("/incoming?url=http://self.alt/probe/recall").header("host", "forge.test");
    for hits in 0..3 {
        let response = server.host.handle(ask().body(http_body_util::Empty::new()).unwrap()).await;
        assert_eq!(text(response).await.0, 200);
        assert_eq!(server.host.cache_counters().hits.load(Ordering::Relaxed), hits);
    }
}

#[tokio::test]
async fn a_nested_request_is_part_of_the_clients_trace() {
    let collector = Collector::start();
    let server = Server::traced(&collector.url, SELF, "");
    server.ok("outbound?url=http://self.alt/probe/hello").await;
    server.host.stop(Duration::from_secs(10));
    let spans = collector.spans();
    let path = |path: &str| {
        let with_path = |span: &&_| span_path(span) == Some(path);
        spans.iter().find(with_path).unwrap_or_else(|| panic!("{path}: {spans:#?}"))
    };
    let (outer, nested) = (path("/probe/outbound"), path("/probe/hello"));
    assert_eq!(outer.trace, nested.trace);
    // The parent is the span of the outbound request, below the component's.
    let outbound = spans.iter().find(|span| span.id == nested.parent).unwrap();
    let component = spans.iter().find(|span| span.id == outbound.parent).unwrap();
    assert_eq!(component.parent, outer.id);
}

fn span_path(span: &crate::collector::Span) -> Option<&str> {
    span.attributes.get("url.path").filter(|_| span.name.contains("/probe")).map(String::as_str)
}

#[test]
fn an_entry_names_a_component_that_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let granted = "allowed_outbound_hosts = [\"http://other.spin.internal\"]";
    let manifest = manifest("").replacen("allowed_outbound_hosts = []", granted, 1);
    let error = load(&folder, &manifest, &[], None).err().unwrap().to_string();
    assert!(error.contains("there is no [component.other]"), "{error}");
}
