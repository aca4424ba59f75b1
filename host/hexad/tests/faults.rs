//! A guest that traps, loops, allocates too much or does not respond fails its own request only.

use crate::*;
use futures::future::{Either, select};
use hexad_testing::wait_async::{wait_for_async, within_async};

#[tokio::test]
async fn a_trap_is_answered_and_the_next_request_is_served() {
    let server = Server::with("");
    let response = server.send(get("trap")).await;
    for (name, value) in [
        ("content-type", "application/json"),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "SAMEORIGIN"),
    ] {
        assert_eq!(response.headers()[name], value);
    }
    let answer = text(response).await;
    assert_eq!(answer, (500, r#"{"message":"500 Internal Server Error"}"#.to_owned()));
    assert_eq!(server.ok("served").await, "1", "a fresh instance");
}

#[tokio::test]
async fn a_trap_inside_the_body_makes_it_incomplete() {
    let server = Server::with("");
    let response = server.send(get("trap-in-body?mib=2")).await;
    assert_eq!(response.status(), 200);
    response.into_body().collect().await.expect_err("the end of the body");
}

#[tokio::test]
async fn a_body_that_breaks_before_its_head_is_sent_has_status_502() {
    let server = Server::with("");
    for path in ["trap-in-body", "lie"] {
        let mut refused = 0;
        for _ in 0..10 {
            let response = server.send(get(path)).await;
            match response.status().as_u16() {
                502 => refused += 1,
                // On a busy machine a guest may be interrupted before it breaks.
                _ => drop(response.into_body().collect().await.expect_err(path)),
            }
        }
        assert!(refused > 0, "{path}");
    }
    assert_eq!(server.ok("hello").await, "hello");
}

#[tokio::test]
async fn a_guest_that_ends_before_its_writes_are_durable_is_answered() {
    let server = Server::with("");
    let store = rusqlite::Connection::open(server.folder.path().join("data/sqlite_key_value.db")).unwrap();
    store.execute_batch("begin immediate").unwrap();
    let probe = server.service("probe");
    let answer = server.send(get("write-and-trap-in-body?key=probe/v1/a&value=1&us=1"));
    let unlock = async {
        let has_failed = async || probe.metrics().failures().any(|(_, count)| count > 0);
        wait_until_async(SOON, "a failure of the guest", has_failed).await;
        store.execute_batch("rollback").unwrap();
    };
    let (answer, ()) = futures::join!(within_async(Duration::from_secs(20), "an answer", answer), unlock);
    let _ = answer.into_body().collect().await;
    assert_eq!(server.ok("hello").await, "hello");
}

#[tokio::test]
async fn an_error_instead_of_a_response_has_status_500() {
    assert_eq!(Server::with("").get("error").await.0, 500);
}

#[tokio::test]
async fn a_guest_that_never_answers_is_ended() {
    let server = Server::with("request_timeout = \"100ms\"");
    for path in ["never", "loop"] {
        let answer = server.get(path).await;
        assert_eq!(answer, (504, r#"{"message":"504 Gateway Timeout"}"#.to_owned()), "{path}");
    }
    assert_eq!(server.ok("hello").await, "hello");
}

#[tokio::test]
async fn the_number_and_size_of_a_guests_fields_are_bounded() {
    let server = Server::with("");
    assert_eq!(server.ok("handles?count=400&bytes=60000").await, "400");
    let too_large = server.ok("handles?count=1&bytes=70000").await;
    assert!(too_large.contains("SizeExceeded") || too_large.contains("Other"), "{too_large}");
    assert_eq!(server.get("handles?count=600&bytes=1").await.0, 500);
    assert_eq!(server.ok("hello").await, "hello");
}

#[tokio::test]
async fn processor_time_is_bounded_and_waiting_does_not_count() {
    // With one instance, a request waits until the previous one has ended.
    let server = Server::with("cpu_time = \"50ms\"\nrequest_timeout = \"1h\"\ninstances = 1\nqueue_timeout = \"1h\"");
    let (status, body) = server.get("loop").await;
    assert_eq!(status, 504);
    assert!(body.contains("processor time"), "{body}");
    assert_eq!(server.ok("sleep?ms=150").await, "slept");
    // The whole limit applies to each request of an instance.
    for served in 1..=3 {
        assert_eq!(server.ok("spin?ms=30").await, "spun");
        assert_eq!(server.ok("served").await, (2 * served + 1).to_string());
    }
    assert_eq!(server.get("spin?ms=200").await.0, 504);
}

#[tokio::test]
async fn a_route_has_bounds_of_its_own() {
    let routes = r#"
        cpu_time = "50ms"
        max_response = "1MiB"
        routes = { "/probe/spin" = { cpu_time = "1h" }, "/probe/flood/..." = { max_response = "3MiB", cpu_time = "1h" } }
    "#;
    let server = Server::with(routes);
    // One instance serves both requests, one after the other.
    assert_eq!(server.get("loop").await.0, 504);
    assert_eq!(server.ok("spin?ms=200").await, "spun");
    assert_eq!(server.get("loop").await.0, 504);
    let whole = server.send(get("flood?mib=2")).await.into_body().collect().await.unwrap();
    assert_eq!(whole.to_bytes().len(), 2 << 20);
}

#[tokio::test]
async fn a_response_is_bounded() {
    let server = Server::with("max_response = \"1MiB\"");
    let whole = server.send(get("flood?mib=1")).await.into_body().collect().await.unwrap();
    assert_eq!(whole.to_bytes().len(), 1 << 20);
    let response = server.send(get("flood?mib=2")).await;
    assert_eq!(response.status(), 200);
    let error = response.into_body().collect().await.expect_err("the whole body").to_string();
    assert!(error.contains("1048576 bytes"), "{error}");
    // A response that declares too much is refused before it is sent.
    let (status, body) = server.get("declare?length=1048577").await;
    assert_eq!(status, 502);
    assert!(body.contains("1048576 bytes"), "{body}");
}

#[tokio::test]
async fn a_path_that_keeps_failing_is_refused_until_a_probe_succeeds() {
    let server = Server::with("");
    let mut statuses = Vec::new();
    for _ in 0..19 {
        statuses.push(server.get("trap").await.0);
    }
    // A complete response resets the count.
    assert_eq!(server.ok("trap?not").await, "not this time");
    for _ in 0..20 {
        statuses.push(server.get("trap").await.0);
    }
    assert_eq!(statuses, [500; 39]);
    let refused = server.send(get("trap?not")).await;
    assert_eq!(refused.headers()["retry-after"], "1");
    let (status, body) = text(refused).await;
    assert_eq!(status, 503);
    assert!(body.contains("keeps failing"), "{body}");

    // Other paths are served.
    assert_eq!(server.ok("hello").await, "hello");

    // Another revision has circuit breakers of its own.
    swap(&server, "probe", variant("probe", 1)).unwrap();
    assert_eq!(server.ok("trap?not").await, "not this time");
    server.host.deployer().roll_back("probe", "the tests", None).unwrap();
    let not_refused = async || Some(server.get("trap?not").await.0).filter(|status| *status != 503);
    let status = wait_for_async(SOON, "a request that is not refused", not_refused).await;
    assert_eq!(status, 200, "a probe was let through");
    assert_eq!(server.get("trap").await.0, 500);
    assert_eq!(server.ok("hello").await, "hello");
}

#[tokio::test]
async fn a_body_that_never_ends_is_cut_off() {
    let server = Server::with("request_timeout = \"300ms\"");
    let response = server.send(get("stall")).await;
    assert_eq!(response.status(), 200);
    response.into_body().collect().await.expect_err("the body ended");
}

#[tokio::test]
async fn a_busy_guest_shares_its_thread() {
    let server = Server::with("request_timeout = \"1h\"");
    let busy = std::pin::pin!(server.get("loop"));
    let others = std::pin::pin!(async {
        for _ in 0..20 {
            assert_eq!(server.ok("hello").await, "hello");
        }
    });
    match select(busy, others).await {
        Either::Left((answer, _)) => panic!("the loop ended: {answer:?}"),
        Either::Right(((), _)) => {}
    }
}

#[tokio::test]
async fn memory_is_bounded() {
    let server = Server::with("memory = \"64MiB\"");
    let got: u32 = server.ok("hog").await.parse().unwrap();
    assert!((32..64).contains(&got), "{got} MiB");
    // The instance's remaining memory may not be enough for the next request.
    assert_eq!(server.ok("served").await, "1", "another instance");
}

#[tokio::test]
async fn instances_are_reused_and_then_replaced() {
    let server = Server::with("max_requests_per_instance = 3");
    let mut served = Vec::new();
    for _ in 0..5 {
        served.push(server.ok("served").await);
    }
    assert_eq!(served, ["1", "2", "3", "1", "2"]);
}

#[tokio::test]
async fn an_instance_has_one_request_at_a_time_until_its_body_is_read() {
    let server = Server::with("");
    let unread = server.send(get("flood?mib=8")).await;
    assert_eq!(server.ok("served").await, "1", "another instance");
    let body = unread.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body.len(), 8 << 20);
}

#[tokio::test]
async fn the_instance_used_last_is_used_next() {
    let server = Server::with("");
    let unread = server.send(get("flood?mib=8")).await;
    assert_eq!(server.ok("served").await, "1", "another instance");
    assert_eq!(server.ok("served").await, "2");
    unread.into_body().collect().await.unwrap();
    // The first instance returns to the pool some time after its body has ended.
    let is_first = async || server.ok("served").await == "2";
    wait_until_async(SOON, "the first instance", is_first).await;
    assert_eq!(server.ok("served").await, "3", "it was used last");
}

#[test]
fn a_request_whose_client_is_gone_gives_its_permit_back() {
    let mut server = Server::with("instances = 1\nqueue_timeout = \"1h\"\nrequest_timeout = \"1h\"");
    let address = server.listen();
    let load = || server.host.services().iter().map(ComponentService::load).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    let ask = |path: &str| {
        let mut client = wait::connect(address);
        write!(client, "GET /probe/{path} HTTP/1.1\r\nhost: forge.test\r\n\r\n").unwrap();
        client
    };
    let wait_for = |expected| wait_until(SOON, &format!("the load {expected:?}"), || load() == expected);
    let running = ask("never");
    wait_for((1, 0));
    let waiting = ask("never");
    wait_for((1, 1));
    drop(waiting);
    wait_for((1, 0));
    drop(running);
    wait_for((0, 0));
    // A guest that stalls in the middle of its response does not wait for its client.
    let mut stalled = ask("stall");
    stalled.read_exact(&mut [0; 12]).unwrap();
    wait_for((1, 0));
    drop(stalled);
    wait_for((0, 0));
    let hello =
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(server.ok("hello"));
    assert_eq!(hello, "hello");
}

#[tokio::test]
async fn requests_above_the_limit_wait_and_then_are_refused() {
    let server = Server::with("instances = 1\nqueue_timeout = \"50ms\"");
    let unread = server.send(get("flood?mib=8")).await;
    let refused = server.send(get("hello")).await;
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(text(refused).await.0, 503);
    drop(unread);
    assert_eq!(server.ok("hello").await, "hello");
}

#[tokio::test]
async fn a_client_that_does_not_read_gives_its_permit_back() {
    let server = Server::with("instances = 1\nqueue_timeout = \"1h\"\ntransfer_timeout = \"100ms\"");
    let unread = server.send(get("flood?mib=8")).await;
    assert_eq!(server.ok("hello").await, "hello");
    unread.into_body().collect().await.expect_err("the rest of the body");
}

#[tokio::test]
async fn a_waiting_request_gets_the_permit_that_becomes_free() {
    let server = Server::with("instances = 1\nqueue_timeout = \"1h\"");
    let unread = server.send(get("flood?mib=8")).await;
    let waiting = std::pin::pin!(server.ok("hello"));
    let Either::Right((_, waiting)) = select(waiting, unread.into_body().collect()).await else {
        panic!("two requests at once");
    };
    assert_eq!(waiting.await, "hello");
}

#[tokio::test]
async fn nothing_outside_the_sandbox_can_be_reached() {
    let server = Server::with("");
    assert_eq!(server.ok("environment").await, "[]");
    assert!(server.ok("files").await.starts_with("Err"));
    assert_eq!(server.ok("outbound?url=http://127.0.0.1:1").await, "ErrorCode::HttpRequestDenied");
    assert!(server.ok("variable?name=PATH").await.starts_with("Error::Undefined"));
    assert_eq!(server.ok("print?lines=2000").await, "printed");
}
