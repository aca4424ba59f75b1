//! The response cache: it sends a response again only while the response is fresh.

use crate::fixture::request;
use crate::*;
use hexad_testing::wait_async::next_turn;
use http::HeaderMap;
use http_body::Body;
use std::sync::atomic::{AtomicBool, AtomicU64};

const TOOL: &str = "response_cache = \"60s\"\nresponse_cache_headers = [\"accept\", \"authorization\"]\nreuse = 100000";

/// A host with an instance that has served a request, so that the guest does not initialise itself in
/// the test.
async fn server() -> Server {
    started(TOOL).await
}

async fn started(tool: &str) -> Server {
    let server = Server::with(tool);
    server.get("served").await;
    server
}

/// A request for `probe/recall` with these headers.
fn recall(key: &str, act: &str, headers: &[(&'static str, &'static str)]) -> Request<Full<Bytes>> {
    let mut request = get(&format!("recall?key=probe/v1/{key}&act={act}"));
    for (name, value) in headers {
        request.headers_mut().append(*name, value.parse().unwrap());
    }
    request
}

async fn ask(server: &Server, request: Request<Full<Bytes>>) -> String {
    let (status, body) = text(server.send(request).await).await;
    assert_eq!(status, 200, "{body}");
    body
}

fn hits(server: &Server) -> u64 {
    server.host.cache_counters().hits.load(Ordering::Relaxed)
}

/// Whether the second of two equal requests does not reach the guest.
async fn is_cached(server: &Server, act: &str) -> bool {
    let first = text(server.send(recall("a", act, &[])).await).await;
    let second = text(server.send(recall("a", act, &[])).await).await;
    // The guest counts its requests, so that two responses of the guest differ.
    first == second
}

#[tokio::test]
async fn a_response_is_sent_again_until_a_key_that_it_read_changes() {
    let server = server().await;
    server.ok("kv/set?key=probe/v1/a&value=one").await;
    let first = ask(&server, recall("a", "", &[])).await;
    assert!(first.contains("some one"), "{first}");
    assert_eq!(ask(&server, recall("a", "", &[])).await, first);
    assert_eq!(hits(&server), 1);
    server.ok("kv/set?key=probe/v1/unrelated&value=x").await;
    assert_eq!(ask(&server, recall("a", "", &[])).await, first, "another key has changed");
    for (operation, value) in
        [("set", "two"), ("delete", "-"), ("create", "three"), ("delete", "-"), ("increment", "1")]
    {
        let before = ask(&server, recall("a", "", &[])).await;
        server.ok(&format!("kv/{operation}?key=probe/v1/a&value={value}")).await;
        let after = ask(&server, recall("a", "", &[])).await;
        assert_ne!(after, before, "after {operation}");
        assert_eq!(ask(&server, recall("a", "", &[])).await, after, "after {operation}");
    }
}

#[tokio::test]
async fn a_body_of_unknown_length_is_cached_whole() {
    let server = server().await;
    assert!(is_cached(&server, "chunked").await);
}

#[tokio::test]
async fn a_large_body_is_cached_whole() {
    let server = server().await;
    let asked = async || server.send(recall("a", "big", &[])).await.into_body().collect().await.unwrap().to_bytes();
    let first = asked().await;
    assert_eq!(first.len(), 3_000_000);
    assert_eq!(asked().await, first);
    assert_eq!(hits(&server), 1);
    let again = server.send(recall("a", "big", &[])).await;
    assert_eq!(again.body().size_hint().exact(), Some(3_000_000));
}

#[tokio::test]
async fn a_large_body_that_the_client_does_not_read_to_its_end_is_not_cached() {
    let server = server().await;
    for _ in 0..2 {
        let mut body = server.send(recall("a", "big", &[])).await.into_body();
        body.frame().await.unwrap().unwrap();
    }
    assert_eq!(hits(&server), 0);
    assert!(is_cached(&server, "big").await);
}

#[tokio::test]
async fn a_response_that_must_not_be_shared_is_not_cached() {
    let server = server().await;
    assert!(is_cached(&server, "").await, "otherwise the test shows nothing");
    for act in ["set", "increment", "list", "print", "random", "late", "cookie", "no-store", "fail", "huge"] {
        assert!(!is_cached(&server, act).await, "{act}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let first = text(server.send(request(method, "recall?key=probe/v1/a", "")).await).await;
        let second = text(server.send(request(method, "recall?key=probe/v1/a", "")).await).await;
        assert_ne!(first, second, "{method}");
    }
    let first = text(server.send(request("GET", "recall?key=probe/v1/a", "a body")).await).await;
    assert_ne!(first, text(server.send(request("GET", "recall?key=probe/v1/a", "a body")).await).await);
}

#[tokio::test]
async fn without_response_cache_in_the_manifest_nothing_is_cached() {
    let server = started("max_requests_per_instance = 100000").await;
    assert!(!is_cached(&server, "").await);
    let seen = ask(&server, recall("a", "", &[("x-other", "1")])).await;
    assert!(seen.contains("x-other"), "{seen}");
}

#[tokio::test]
async fn callers_and_addresses_are_kept_apart() {
    let server = server().await;
    let mine = [("authorization", "Bearer mine")];
    let other = [("authorization", "Bearer other")];
    let first = ask(&server, recall("a", "", &mine)).await;
    assert_ne!(ask(&server, recall("a", "", &other)).await, first);
    assert_ne!(ask(&server, recall("a", "", &[])).await, first);
    assert_ne!(ask(&server, recall("b", "", &mine)).await, first);
    let twice = [("authorization", "Bearer mine"), ("authorization", "Bearer mine")];
    assert_ne!(ask(&server, recall("a", "", &twice)).await, first);
    let mut elsewhere = recall("a", "", &mine);
    elsewhere.headers_mut().insert("host", "other.test".parse().unwrap());
    assert_ne!(ask(&server, elsewhere).await, first);
    // Two values are not the same as their concatenation.
    let split = ask(&server, recall("a", "", &[("accept", "x"), ("authorization", "y")])).await;
    assert_ne!(ask(&server, recall("a", "", &[("accept", "xy")])).await, split);
    assert_eq!(hits(&server), 0);
    assert_eq!(ask(&server, recall("a", "", &mine)).await, first);
}

#[tokio::test]
async fn headers_that_are_not_declared_do_not_reach_the_guest() {
    let server = server().await;
    let seen = ask(&server, recall("a", "", &[("accept", "x"), ("x-other", "1"), ("cookie", "c")])).await;
    assert!(seen.ends_with(" accept"), "{seen}");
    assert_eq!(ask(&server, recall("a", "", &[("accept", "x"), ("x-other", "2")])).await, seen);
}

#[tokio::test]
async fn connections_of_one_client_share_cached_responses() {
    let server =
        started("response_cache = \"60s\"\nresponse_cache_headers = [\"spin-client-addr\"]\nreuse = 100000").await;
    let first = ask(&server, recall("a", "", &[("spin-client-addr", "192.0.2.1:1000")])).await;
    assert_eq!(ask(&server, recall("a", "", &[("spin-client-addr", "192.0.2.1:2000")])).await, first);
    assert_ne!(ask(&server, recall("a", "", &[("spin-client-addr", "192.0.2.2:1000")])).await, first);
}

#[tokio::test]
async fn head_and_get_are_cached_apart() {
    let server = server().await;
    let head = || request("HEAD", "recall?key=probe/v1/a", "");
    let headers = |headers: &HeaderMap| headers.get("content-length").cloned();
    let first = server.send(head()).await;
    let length = headers(first.headers()).expect("the guest declares one");
    first.into_body().collect().await.unwrap();
    let second = server.send(head()).await;
    assert_eq!((second.status().as_u16(), headers(second.headers())), (200, Some(length)));
    assert!(second.into_body().collect().await.unwrap().to_bytes().is_empty());
    assert_eq!(hits(&server), 1);
    assert!(!ask(&server, get("recall?key=probe/v1/a")).await.is_empty());
    assert_eq!(hits(&server), 1);
}

#[tokio::test]
async fn an_entry_expires() {
    let server = started("response_cache = \"1ns\"\nresponse_cache_headers = []\nreuse = 100000").await;
    assert!(!is_cached(&server, "").await);
    assert_eq!(hits(&server), 0);
}

/// One writer and several readers: a response includes every write that was acknowledged before its
/// request.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_response_that_begins_after_an_acknowledged_write_includes_it() {
    const WRITES: u64 = 3000;
    let server = server().await;
    server.ok("kv/set?key=probe/v1/race&value=0").await;
    let (acknowledged, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let write = async {
        for n in 1..=WRITES {
            server.ok(&format!("kv/set?key=probe/v1/race&value={n}")).await;
            acknowledged.store(n, Ordering::SeqCst);
            next_turn().await;
        }
        done.store(true, Ordering::SeqCst);
    };
    let read = async || {
        let mut reads = 0;
        while !done.load(Ordering::SeqCst) {
            let least = acknowledged.load(Ordering::SeqCst);
            let answer = ask(&server, recall("race", "", &[])).await;
            let value: u64 = answer.split(' ').nth(2).and_then(|value| value.parse().ok()).expect("a number");
            assert!(value >= least, "{value} was read after {least} had been acknowledged");
            reads += 1;
        }
        reads
    };
    let ((), a, b, c) = tokio::join!(write, read(), read(), read());
    assert!(a + b + c > WRITES && hits(&server) > WRITES / 10, "{a} {b} {c}, {} hits", hits(&server));
}
