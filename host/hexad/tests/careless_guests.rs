//! Guests that do not clean up after a request: they neither read nor drop bodies, or work on after the host has
//! responded for them. An instance lives for many requests, but a finished request must hold nothing.

use crate::*;

/// Idle instances do not end, and requests do not time out.
const TIMES: &str = "idle_timeout = \"1h\"\nrequest_timeout = \"1h\"\ntransfer_timeout = \"1h\"";

/// A guest of WASI 0.3 that answers each request with an error. It runs the instructions `before` and `after` the
/// answer. It keeps every handle.
fn careless(before: &str, after: &str) -> Vec<u8> {
    wat::parse_str(include_str!("careless.wat").replace("BEFORE", before).replace("AFTER", after)).unwrap()
}

/// A guest that forwards each request to the server that the request names, and keeps the response.
fn forwarding() -> Vec<u8> {
    careless("(call $send (local.get $request) (i32.const 16))", "")
}

/// A guest of WASI 0.2 that keeps the request and gives no response.
fn careless_0_2() -> Vec<u8> {
    wat::parse_str(
        r#"(component
            (import "wasi:http/types@0.2.0" (instance $types
                (export "incoming-request" (type (sub resource)))
                (export "response-outparam" (type (sub resource)))))
            (alias export $types "incoming-request" (type $request))
            (alias export $types "response-outparam" (type $out))
            (core func $drop (canon resource.drop $out))
            (core module $guest
                (import "" "drop" (func $drop (param i32)))
                (func (export "handle") (param $request i32) (param $out i32) (call $drop (local.get $out))))
            (core instance $guest (instantiate $guest (with "" (instance (export "drop" (func $drop))))))
            (func $handle (param "request" (own $request)) (param "response-out" (own $out))
                (canon lift (core func $guest "handle")))
            (instance $handler (export "handle" (func $handle)))
            (export "wasi:http/incoming-handler@0.2.0" (instance $handler)))"#,
    )
    .unwrap()
}

/// The probe, and the guest at its path `stall` and below `/guest`, which may send requests to `hosts`.
fn start(guest: &[u8], hosts: &[&str], tool: &str) -> Server {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("guest.wasm");
    std::fs::write(&source, guest).unwrap();
    let probe = fixture::manifest(TIMES);
    let manifest = format!(
        r#"{probe}
        [[trigger.http]]
        route = "/guest/..."
        component = "guest"
        [[trigger.http]]
        route = "/probe/stall"
        component = "guest"
        [component.guest]
        source = {source:?}
        allowed_outbound_hosts = {hosts:?}
        [component.guest.tool.hexad]
        {TIMES}
        {tool}
        "#
    );
    let host = fixture::start(&folder, &manifest, &[], fixture::store()).unwrap();
    Server { host, folder }
}

/// The status of a GET of `path` at the authority `host`.
async fn status(server: &Server, path: &str, host: &str) -> u16 {
    let request = Request::get(path).header("host", host).body(Full::new(Bytes::new())).unwrap();
    server.send(request).await.status().as_u16()
}

#[tokio::test]
async fn a_response_that_a_guest_leaves_unread_holds_no_permit() {
    let upstream = Upstream::start();
    let server = start(&forwarding(), &["http://127.0.0.1:*"], "outbound = { requests = 2 }");
    for _ in 0..5 {
        assert_eq!(status(&server, "/guest/stall", &upstream.address.to_string()).await, 500);
    }
    let outbound = server.service("guest").outbound().unwrap();
    let counters = outbound.counters();
    assert_eq!((counters.answered.get(), counters.busy.get(), outbound.in_flight()), (5, 0, 0));
}

#[tokio::test]
async fn a_response_of_the_application_that_a_guest_leaves_unread_holds_no_instance() {
    let server = start(&forwarding(), &["http://probe.spin.internal"], "");
    assert_eq!(status(&server, "/probe/stall", "probe.spin.internal").await, 500);
    assert_eq!(server.service("guest").outbound().unwrap().counters().answered.get(), 1);
    wait_for_busy(&server, 0);
}

/// Sends a request to the guest, and the end of its body only after the answer.
fn post(address: SocketAddr) {
    let mut client = http2::connect(address);
    // A path below `/probe` that is routed to the guest.
    client.write_all(&http2::frame(HEADERS, END_HEADERS, 1, &http2::head_of("POST", "stall"))).unwrap();
    while !matches!(http2::next_frame(&mut client).unwrap(), (HEADERS, ..)) {}
    client.write_all(&http2::frame(0, END_STREAM, 1, b"the end")).unwrap();
}

#[test]
fn a_request_body_that_a_guest_leaves_unread_keeps_no_place() {
    for guest in [careless("", ""), careless_0_2()] {
        let server = start(&guest, &[], "max_requests_per_instance = 1000");
        let (_server, address, ingress) = listen_on(server, IngressOptions::default());
        post(address);
        wait_until(SOON, "an empty receive budget", || ingress.receive_budget.used() == 0);
    }
}

#[tokio::test]
async fn a_guest_that_works_on_after_its_error_holds_no_instance() {
    let server = start(&careless("", "(call $wait-for (i64.const 86400000000000))"), &[], "");
    assert_eq!(status(&server, "/guest/", "forge.test").await, 500);
    wait_for_busy(&server, 0);
}

#[tokio::test]
async fn a_guest_whose_response_is_too_large_holds_no_instance() {
    let server = Server::with(&format!("{TIMES}\nmax_response = \"1MiB\""));
    assert_eq!(server.get("declare?length=1048577").await.0, 502);
    wait_for_busy(&server, 0);
}

#[tokio::test]
async fn a_guest_whose_response_has_broken_off_holds_no_instance() {
    let times = "request_timeout = \"1h\"\ntransfer_timeout = \"50ms\"";
    for _ in 0..20 {
        let server = Server::with(times);
        server.send(get("stall")).await.into_body().collect().await.expect_err("the rest of the body");
        wait_for_busy(&server, 0);
    }
}

/// An instance serves the next request if the previous one has left nothing behind.
#[tokio::test]
async fn a_guest_that_drops_what_it_does_not_read_keeps_its_instance() {
    let server = Server::with("");
    for _ in 0..3 {
        assert_eq!(server.send(fixture::request("POST", "ignore", vec![0; 100_000])).await.status(), 401);
        assert_eq!(server.send(fixture::request("POST", "count", vec![0; 100_000])).await.status(), 200);
    }
    let echoed = server.send(fixture::request("POST", "echo", vec![0; 100_000])).await;
    assert_eq!(echoed.into_body().collect().await.unwrap().to_bytes().len(), 100_000);
    assert_eq!(server.get("error").await.0, 500);
    assert_eq!(server.ok("served").await, "9");
}
