//! Guests that leave the body of their response unfinished. A guest of WASI 0.2 returns too early. A guest of WASI 0.3
//! stops writing, and has `request_timeout` for the next part.

use crate::slow_readers::begin;
use crate::*;

/// The ways in which the probe leaves a body unfinished: its task ends, or it waits.
const WAYS: [&str; 2] = ["forget", "wait-for-nothing"];

/// Bytes of a body that hyper may drop unsent when the body breaks off: fewer than two pieces.
const UNSENT: usize = 128 << 10;

/// One second for each part of a body. No test reaches the other times. With one instance, a request waits until the
/// previous one has ended.
const TIMES: &str = "request_timeout = \"1s\"\ntransfer_timeout = \"1h\"\nqueue_timeout = \"1h\"\ninstances = 1";

/// Longer than the time for a part.
const LONG: Duration = Duration::from_secs(2);

/// The response to a GET of `/incoming?query`, until the connection ends.
fn get(address: SocketAddr, query: &str) -> String {
    let mut stream = wait::connect(address);
    write!(stream, "GET /incoming?{query} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").unwrap();
    read_text(stream)
}

/// Otherwise the response would wait for the guest until its time-out, and hold the instance.
#[test]
fn the_response_breaks_off_when_the_guest_returns() {
    let mut server = Server::with("");
    let address = server.listen();
    // More of them than the component may have instances.
    for _ in 0..100 {
        let response = get(address, "unfinished");
        assert!(response.starts_with("HTTP/1.1 502 "), "nothing of it was sent: {response}");
    }
    let response = get(address, "unfinished=large");
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("transfer-encoding: chunked"), "{head}");
    assert!(body.contains("largelarge") && !body.ends_with("\r\n0\r\n\r\n"), "{} bytes", body.len());
    let finished = get(address, "finished");
    assert!(finished.ends_with("hello from 0.2 at /incoming?finished"), "{finished}");
}

#[test]
fn a_response_of_its_declared_length_is_complete() {
    let mut server = Server::with("");
    let address = server.listen();
    let response = get(address, "unfinished=with-length");
    assert!(response.starts_with("HTTP/1.1 200 ") && response.ends_with("?unfinished=with-length"), "{response}");
}

#[test]
fn a_response_breaks_off_when_the_guest_writes_no_more() {
    let (server, address, _ingress) = listen(TIMES, IngressOptions::default());
    for way in WAYS {
        let body = rest(begin(address, &format!("{way}?mib=2"))).unwrap();
        assert!(body.len() > (2 << 20) - UNSENT && !body.ends_with(b"\r\n0\r\n\r\n"), "{way}: {} bytes", body.len());
    }
    wait_for_busy(&server, 0);
    assert_eq!(server.service("probe").metrics().total(|shard| shard.timed_out.get()), 2);
}

/// Each part comes in time. All of them together take longer than the time for one.
#[test]
fn a_guest_has_its_time_for_each_part_of_a_body() {
    let (_server, address, _ingress) = listen("request_timeout = \"2s\"", IngressOptions::default());
    let answer = rest(begin(address, "drip?parts=3&ms=1000")).unwrap();
    assert!(
        answer.ends_with(b"\r\n\r\n4\r\npart\r\n4\r\npart\r\n4\r\npart\r\n0\r\n\r\n"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
}

#[tokio::test]
async fn a_client_that_does_not_read_takes_none_of_its_guest_s_time() {
    let server = Server::with(TIMES);
    let unread = server.send(fixture::get("flood?mib=8")).await;
    wait::pause(LONG);
    assert_eq!(unread.into_body().collect().await.unwrap().to_bytes().len(), 8 << 20);
}

#[test]
fn a_stream_of_http2_is_reset_when_the_guest_writes_no_more() {
    let (server, address, _ingress) = listen(TIMES, IngressOptions::default());
    for way in WAYS {
        let mut client = http2::connect(address);
        let head = http2::head(&format!("{way}?mib=2"));
        // The client's windows are larger than the body.
        client.write_all(&http2::frame(http2::WINDOW_UPDATE, 0, 0, &(16u32 << 20).to_be_bytes())).unwrap();
        client.write_all(&http2::frame(http2::SETTINGS, 0, 0, &[0, 4, 1, 0, 0, 0])).unwrap();
        client.write_all(&http2::frame(http2::HEADERS, http2::END_HEADERS | http2::END_STREAM, 1, &head)).unwrap();
        let last = std::iter::from_fn(|| http2::next_frame(&mut client)).find(|(kind, ..)| *kind == RST_STREAM);
        assert_eq!(last.map(|(_, stream, _)| stream), Some(1), "{way}");
    }
    wait_for_busy(&server, 0);
}

#[tokio::test]
async fn a_canary_that_leaves_its_responses_unfinished_fails() {
    let server = Server::with("request_timeout = \"1s\"");
    let before = digest(&server, "probe");
    try_out(&server, "probe", variant("probe", 1), trial(100.0)).unwrap();
    let broken = (0..10).map(|_| async {
        let response = server.send(fixture::get("forget?mib=2")).await;
        response.into_body().collect().await.expect_err("the rest of the body")
    });
    futures::future::join_all(broken).await;
    let is_on_trial = |service: &ComponentService| service.deployment().canary.is_some();
    wait_until(SOON, "the end of the trial", || !server.host.services().iter().any(is_on_trial));
    assert_eq!(digest(&server, "probe"), before);
    let last = audit(&server.folder).pop().unwrap();
    assert_eq!((&last["by"], &last["action"]), (&"hexad".into(), &"rollback".into()), "{last}");
}

/// The guest has the same time after its response.
#[test]
fn a_guest_that_waits_for_nothing_after_its_response_ends() {
    let (server, address, _ingress) = listen(TIMES, IngressOptions::default());
    let answer = rest(begin(address, "respond-and-wait")).unwrap();
    assert_body(&answer, "early");
    let answer = rest(begin(address, "respond-and-wait?mib=2")).unwrap();
    assert!(answer.len() > 2 << 20 && answer.ends_with(b"\r\n0\r\n\r\n"), "{} bytes", answer.len());
    wait_for_busy(&server, 0);
}

/// A guest passes on the body of its request. The wait for the client is not the guest's time.
#[test]
fn a_body_that_the_guest_passes_on_waits_for_its_client() {
    let (server, address, _ingress) = listen(TIMES, IngressOptions::default());
    let mut client = wait::connect(address);
    let head = "POST /probe/echo HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked";
    write!(client, "{head}\r\n\r\n5\r\nfirst\r\n").unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"first\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        answer.extend(byte);
    }
    wait::pause(LONG);
    client.write_all(b"6\r\nsecond\r\n0\r\n\r\n").unwrap();
    let rest = rest(client).unwrap();
    assert_eq!(String::from_utf8_lossy(&rest), "6\r\nsecond\r\n0\r\n\r\n");
    wait_for_busy(&server, 0);
}
