//! The spans of requests, and the secrets that they must not contain.

use crate::collector::{Collector, Span};
use crate::fixture::databases;
use crate::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

const THIS_MACHINE: &[&str] = &["http://127.0.0.1:*"];

const SERVER: i32 = 2;
const CLIENT: i32 = 3;
const INTERNAL: i32 = 1;

/// Stops the host, which exports the last spans.
fn stop(server: Server) {
    server.host.stop(Duration::from_secs(10));
}

fn request_with_parent(path: &str, sampled: bool) -> Request<Full<Bytes>> {
    let mut request = get(path);
    let parent = format!("00-{TRACE}-{PARENT}-0{}", u8::from(sampled));
    request.headers_mut().insert("traceparent", parent.parse().unwrap());
    request.headers_mut().insert("tracestate", "vendor=1".parse().unwrap());
    request
}

#[track_caller]
fn assert_attributes(span: &Span, expected: &[(&str, &str)]) {
    for (name, value) in expected {
        assert_eq!(span.attributes.get(*name).map(String::as_str), Some(*value), "{name} of {span:#?}");
    }
}

#[tokio::test]
async fn spans_have_the_operations_of_a_request_and_no_secrets() {
    let (collector, upstream) = (Collector::start(), Upstream::start());
    let server = Server::traced(&collector.url, THIS_MACHINE, "");
    server.ok("kv/set?key=probe/v1/hidden&value=hidden").await;
    let url = upstream.url("hello");
    server.ok(&format!("outbound?url={url}?token=hidden&header=x-key:hidden")).await;
    stop(server);

    let request = collector
        .spans()
        .into_iter()
        .find(|span| span.attributes.get("url.path").is_some_and(|path| path == "/probe/kv/set"))
        .unwrap();
    assert_eq!((request.name.as_str(), request.kind, request.parent.as_str()), ("GET /probe/...", SERVER, ""));
    assert!(!request.failed);
    assert_attributes(
        &request,
        &[
            ("http.request.method", "GET"),
            ("http.route", "/probe/..."),
            ("http.response.status_code", "200"),
            ("url.scheme", "http"),
            ("hexad.component", "probe"),
        ],
    );
    let child_of = |parent: &Span, name: &str| {
        let spans = collector.spans().into_iter();
        let mut spans: Vec<_> = spans.filter(|span| span.parent == parent.id && span.name == name).collect();
        assert_eq!(spans.len(), 1, "{name} below {parent:?}");
        assert_eq!(spans[0].trace, parent.trace);
        spans.remove(0)
    };
    let component = child_of(&request, "probe");
    assert_eq!(component.kind, INTERNAL);
    let digest = Digest::of(&std::fs::read(guest("probe")).unwrap()).to_string();
    assert_attributes(
        &component,
        &[("hexad.area", "probe"), ("hexad.version", "0.1.0"), ("hexad.revision", "1"), ("hexad.digest", &digest)],
    );
    let set = child_of(&component, "set default");
    assert_eq!((set.kind, set.failed), (CLIENT, false));
    let database = if databases::are_asked_for() { "postgresql" } else { "sqlite" };
    assert_attributes(&set, &[("db.operation.name", "set"), ("db.namespace", "default"), ("db.system.name", database)]);
    child_of(&component, "commit");

    let outgoing = collector.span("GET");
    assert_eq!(outgoing.kind, CLIENT);
    let port = upstream.address.port().to_string();
    assert_attributes(
        &outgoing,
        &[
            ("url.full", &upstream.url("hello")),
            ("server.address", "127.0.0.1"),
            ("server.port", &port),
            ("http.response.status_code", "404"),
        ],
    );

    let resources = collector.resources();
    assert!(!resources.is_empty());
    for resource in resources {
        assert_eq!((&*resource["service.name"], &*resource["service.version"]), ("hexad", "0.1.0"));
    }
    let everything = format!("{:?}", collector.spans());
    assert!(!everything.contains("hidden"), "{everything}");
}

#[tokio::test]
async fn trace_headers_are_read_and_passed_on() {
    let (collector, upstream) = (Collector::start(), Upstream::start());
    let server = Server::traced(&collector.url, THIS_MACHINE, "");
    let (status, seen) =
        text(server.send(request_with_parent(&format!("outbound?url={}", upstream.url("head")), true)).await).await;
    assert_eq!(status, 200, "{seen}");
    let (_, guests) = text(server.send(request_with_parent("headers", true)).await).await;
    // A parent that is not sampled: no span is exported, and outbound requests say so.
    let (_, unsampled) =
        text(server.send(request_with_parent(&format!("outbound?url={}", upstream.url("head")), false)).await).await;
    stop(server);

    let outgoing = collector.span("GET");
    assert_eq!(outgoing.trace, TRACE);
    assert!(seen.contains(&format!("traceparent: 00-{TRACE}-{}-01", outgoing.id)), "{seen}");
    assert!(seen.contains("tracestate: vendor=1"), "{seen}");
    let spans = collector.spans();
    assert!(spans.iter().all(|span| span.trace == TRACE));
    assert_eq!(spans.iter().filter(|span| span.kind == SERVER).count(), 2);
    assert!(spans.iter().filter(|span| span.kind == SERVER).all(|span| span.parent == PARENT));
    let mut components = spans.iter().filter(|span| span.name == "probe");
    let named = |span: &Span| guests.contains(&format!("traceparent: 00-{TRACE}-{}-01", span.id));
    assert!(components.any(named), "the guest has the component's span as its parent: {guests}");
    assert!(unsampled.contains(&format!("traceparent: 00-{TRACE}-")) && unsampled.contains("-00\r\n"), "{unsampled}");
}

#[tokio::test]
async fn failed_spans_have_a_reason() {
    let collector = Collector::start();
    let server =
        Server::traced(&collector.url, &[], "request_timeout = \"100ms\"\nread = [\"probe/\"]\nwrite = [\"probe/\"]");
    for (path, status) in [("trap", 500), ("loop", 504), ("kv/get?key=elsewhere", 500), ("error", 500)] {
        assert_eq!(server.get(path).await.0, status, "{path}");
    }
    let broken = server.send(get("trap-in-body?mib=2")).await;
    broken.into_body().collect().await.unwrap_err();
    let unrouted = Request::get("/nowhere").header("host", "forge.test").body(Full::<Bytes>::default()).unwrap();
    assert_eq!(server.send(unrouted).await.status(), 404);
    stop(server);

    let spans = collector.spans();
    let request = |path: &str| {
        let of = |span: &&Span| span.kind == SERVER && span.attributes["url.path"] == path;
        spans.iter().find(of).unwrap_or_else(|| panic!("{path} in {spans:#?}"))
    };
    for (path, reason) in
        [("trap", "unreachable"), ("loop", "timed_out"), ("error", "failed"), ("trap-in-body", "unreachable")]
    {
        let request = request(&format!("/probe/{path}"));
        let component = spans.iter().find(|span| span.parent == request.id).unwrap();
        for span in [request, component] {
            assert!(span.failed, "{span:?}");
            assert_attributes(span, &[("error.type", reason)]);
        }
    }
    let denied = collector.span("get default");
    assert!(denied.failed);
    assert_attributes(&denied, &[("error.type", "access_denied")]);
    let unrouted = request("/nowhere");
    assert_eq!((unrouted.name.as_str(), unrouted.failed), ("GET", false));
}

#[tokio::test]
async fn a_cached_response_is_traced_without_a_component() {
    let collector = Collector::start();
    let server =
        Server::traced(&collector.url, &[], "response_cache = \"60s\"\nresponse_cache_headers = []\nreuse = 1000");
    server.get("served").await;
    for _ in 0..2 {
        assert!(server.ok("recall?key=probe/v1/a").await.starts_with("2 "));
    }
    stop(server);
    let spans = collector.spans();
    let recalls =
        spans.iter().filter(|span| span.attributes.get("url.path").is_some_and(|path| path == "/probe/recall"));
    let (cached, called): (Vec<_>, Vec<_>) =
        recalls.partition(|span| span.attributes.contains_key("hexad.response_cached"));
    assert_eq!((cached.len(), called.len()), (1, 1), "{spans:#?}");
    let children = |parent: &Span| spans.iter().filter(|span| span.parent == parent.id).count();
    assert_eq!((children(cached[0]), children(called[0])), (0, 1));
}

#[tokio::test]
async fn requests_succeed_without_the_collector() {
    // The port is free again, so that connections to it are refused.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Server::traced(&format!("http://{address}/v1/traces"), &[], "");
    assert_eq!(server.ok("hello").await, "hello");
    stop(server);
}

#[tokio::test]
async fn without_tracing_trace_headers_are_passed_through() {
    let upstream = Upstream::start();
    let server = Server::reaching(THIS_MACHINE, "", hexad::imports::outbound::OutboundOptions::default());
    let (_, guests) = text(server.send(request_with_parent("headers", true)).await).await;
    assert!(guests.contains(&format!("traceparent: 00-{TRACE}-{PARENT}-01")), "{guests}");
    let seen = server.ok(&format!("outbound?url={}", upstream.url("head"))).await;
    assert!(!seen.contains("traceparent"), "{seen}");
}
