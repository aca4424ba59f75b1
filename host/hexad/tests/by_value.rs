//! Requests that a guest takes by value have the same responses and limits as over WASI.

use crate::http2_unread::client_without_window;
use crate::*;
use futures::{StreamExt, TryStreamExt, stream};
use http_body::{Body, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use wasmtime_wasi_http::Error as WasiError;

/// A manifest of the guest, with lines for its component and for its `tool.hexad` table.
pub fn manifest(grants: &str, tool: &str) -> String {
    let source = guest("by_value");
    format!(
        r#"
        spin_manifest_version = 2
        application = {{ name = "test" }}
        [[trigger.http]]
        route = "/by-value/..."
        component = "guest"
        [component.guest]
        source = {source:?}
        {grants}
        [component.guest.tool.hexad]
        {tool}
        "#
    )
}

fn start(tool: &str) -> (tempfile::TempDir, Host) {
    let folder = tempfile::tempdir().unwrap();
    let host = fixture::start(&folder, &manifest("", tool), &[], store()).unwrap();
    (folder, host)
}

/// A body that is too large to be passed by value.
const LARGE: &[u8] = &[b'x'; (64 << 10) + 1];

/// Status, fields and body, without the ids of requests.
async fn send(host: &Host, method: &str, path: &str, body: &'static [u8]) -> String {
    let request = Request::builder().method(method).uri(format!("https://forge.test/by-value/{path}"));
    let request = request.header("host", "forge.test").header("a", "1").header("a", "\u{e9}").header("connection", "a");
    let request = request.body(Full::new(Bytes::from_static(body))).unwrap();
    let (head, body) = host.handle(request).await.into_parts();
    let mut fields: Vec<_> = head.headers.iter().filter(|(name, _)| *name != "x-request-id").collect();
    fields.sort_by_key(|(name, _)| name.as_str());
    let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value:?}\n")).collect();
    let body = match body.collect().await {
        Ok(body) => {
            let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
            let is_of_host = |line: &&str| line.starts_with("x-request-id: ") || line.starts_with("spin-");
            body.split('\n').filter(|line| !is_of_host(line)).collect::<Vec<_>>().join("\n")
        }
        Err(error) => format!("broken off: {error}"),
    };
    format!("{}\n{fields}\n{body}", head.status.as_u16())
}

/// The same of a `GET`. On a busy machine, a guest may yield before it has written its body, and the host already sends
/// its head. Then the request is sent again.
async fn send_undisturbed(host: &Host, path: &str, body: &'static [u8]) -> String {
    let mut response = send(host, "GET", path, body).await;
    for _ in 0..20 {
        if !response.contains("broken off") {
            break;
        }
        response = send(host, "GET", path, body).await;
    }
    response
}

#[tokio::test]
async fn a_request_reaches_the_guest_as_by_the_interface_of_wasi() {
    let (_folder, host) = start("");
    let by_value = send(&host, "GET", "request?b=%20", b"").await;
    let fields = "a: 1\na: \u{e9}\n";
    assert!(
        by_value.ends_with(&format!("\nGET https forge.test /by-value/request?b=%20\n{fields}by: value\n0 bytes")),
        "{by_value}"
    );
    let by_streams = send(&host, "GET", "request?b=%20", LARGE).await;
    let expected = by_value.replace("by: value\n0 bytes", "by: streams\n65537 bytes");
    assert_eq!(by_streams, expected);
    for method in ["DELETE", "POST", "PURGE"] {
        for (body, read) in [(&b""[..], "by: value\n0 bytes"), (&LARGE[1..], "by: value\n65536 bytes")] {
            let response = send(&host, method, "request", body).await;
            assert!(response.contains(&format!("{method} https forge.test /by-value/request\n")), "{response}");
            assert!(response.ends_with(read), "{response}");
        }
    }
}

#[tokio::test]
async fn a_response_is_the_same_as_by_the_interface_of_wasi() {
    let (_folder, host) = start("cpu_time = \"100ms\"");
    for (path, status) in [
        ("plain", 200),
        ("large", 200),
        ("streaming", 200),
        ("waiting", 200),
        ("created", 201),
        ("not-modified", 304),
        ("length", 200),
        ("in-two", 200),
        ("in-two-too-long", 502),
        ("in-two-too-short", 502),
        ("no-rest", 502),
        ("too-long", 502),
        ("too-short", 502),
        ("nothing", 502),
        ("no-status", 500),
        ("large-status", 500),
        ("hop-by-hop", 500),
        ("no-field-name", 500),
        ("no-field-value", 500),
        ("long-field", 500),
        ("error", 500),
        ("trap", 500),
        ("loop", 504),
    ] {
        let by_value = send_undisturbed(&host, path, b"").await;
        assert_eq!(by_value.split('\n').next(), Some(&*status.to_string()), "{path}: {by_value}");
        assert_eq!(by_value, send_undisturbed(&host, path, LARGE).await, "{path}");
    }
    for path in ["plain", "length", "nothing"] {
        let by_value = send(&host, "HEAD", path, b"").await;
        assert!(by_value.starts_with("200\n"), "{path}: {by_value}");
        assert_eq!(by_value, send(&host, "HEAD", path, LARGE).await, "{path}");
    }
}

/// The length of an unsent body is unknown, so hyper must not declare one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_without_a_body_declares_no_length_of_its_own() {
    let (_folder, mut host) = start("");
    let ingress = Arc::new(Ingress::new(IngressOptions::default()).unwrap());
    let address = host.serve(TcpListener::bind("127.0.0.1:0").unwrap(), ingress).unwrap();
    let client = client_without_window(address).await;
    for (method, path, length) in [
        ("GET", "not-modified", None),
        ("HEAD", "streaming", None),
        ("HEAD", "empty", None),
        ("HEAD", "length", Some("6")),
        ("HEAD", "nothing", Some("6")),
    ] {
        let mut client = client.clone().ready().await.unwrap();
        let request = Request::builder().method(method).uri(format!("http://forge.test/by-value/{path}"));
        let response = client.send_request(request.body(()).unwrap(), true).unwrap().0.await.unwrap();
        let declared = response.headers().get("content-length").map(|length| length.to_str().unwrap());
        assert_eq!(declared, length, "{method} {path}");
    }
}

/// Only requests by value have lines.
#[tokio::test]
async fn lines_that_are_no_fields_are_refused() {
    let (_folder, host) = start("");
    for path in ["no-field-line", "no-line-end"] {
        let response = send(&host, "GET", path, b"").await;
        assert!(response.starts_with("500\n"), "{path}: {response}");
    }
}

/// After a refused response, no task waits for a reader of its rest.
#[tokio::test]
async fn a_response_that_is_refused_leaves_nothing_behind() {
    let (_folder, host) = start("instances = 1");
    let served = async || {
        let response = send(&host, "GET", "served", b"").await;
        response.rsplit('\n').next().unwrap().parse::<u32>().unwrap()
    };
    // On a busy machine, a guest may be interrupted before its end. Then the host ends its instance.
    let mut last = served().await;
    for _ in 0..10 {
        for _ in 0..3 {
            assert!(send(&host, "GET", "refused", b"").await.starts_with("500\n"));
        }
        let now = served().await;
        if now == last + 4 {
            return;
        }
        last = now;
    }
    panic!("each time an instance was ended");
}

/// The host copies a response out of the guest in one piece, so its size is limited.
#[tokio::test]
async fn a_response_that_is_larger_than_any_call_ends_its_instance_and_nothing_else() {
    let (_folder, host) = start("memory = \"128MiB\"");
    let response = send(&host, "GET", "larger-than-a-call", b"").await;
    assert!(response.starts_with("500\n"), "{response}");
    assert!(send(&host, "GET", "served", b"").await.ends_with("\n1"));
    assert!(send(&host, "GET", "served", b"").await.ends_with("\n2"));
}

/// Waiting requests were admitted before the bodies of the others took memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_bodies_that_are_not_read_are_bounded_for_an_address() {
    let (_folder, mut host) = start("instances = 1");
    let send = SendLimits { per_connection: 1 << 20, per_address: 2 << 20, total: 64 << 20 };
    let ingress =
        Arc::new(Ingress::new(IngressOptions { send, drain: NO_MINIMUM, ..IngressOptions::default() }).unwrap());
    let address = host.serve(TcpListener::bind("127.0.0.1:0").unwrap(), ingress.clone()).unwrap();
    let client = client_without_window(address).await;
    let mut responses = Vec::new();
    for method in ["GET", "POST"].into_iter().cycle().take(60) {
        let mut client = client.clone().ready().await.unwrap();
        let request = Request::builder().method(method).uri("http://forge.test/by-value/large").body(()).unwrap();
        responses.push(client.send_request(request, true).unwrap().0);
    }
    let responses = join_all(responses).await.into_iter().map(Result::unwrap);
    let (made, refused): (Vec<_>, Vec<_>) = responses.partition(|response| response.status() == 200);
    assert!(made.len() <= 8 && refused.iter().all(|response| response.status() == 503), "{}", made.len());
    assert!(ingress.send_budgets.held() <= 6 << 20, "{}", ingress.send_budgets.held());
}

#[tokio::test]
async fn an_instance_takes_requests_in_both_ways_one_after_the_other() {
    let (_folder, host) = start("");
    for served in ["1", "2", "3", "4", "5"] {
        let body = if served == "2" || served == "5" { LARGE } else { b"" };
        assert!(send(&host, "GET", "served", body).await.ends_with(&format!("\n{served}")));
    }
}

/// The host copies a body that an instance sends often only once.
#[tokio::test]
async fn a_body_with_a_number_is_kept_for_the_next_responses_of_the_instance() {
    let (_folder, host) = start("instances = 1");
    let unknown = send(&host, "GET", "kept-3-again", b"").await;
    assert!(unknown.starts_with("500\n"), "{unknown}");
    // The status says whether the host had a body under the number.
    for (path, status, body) in [
        ("kept-3", 200, "body of 3"),
        ("kept-3-again", 203, "body of 3"),
        ("kept-15", 200, "body of 15"),
        ("kept-15-again", 203, "body of 15"),
        ("kept-3-again", 203, "body of 3"),
        ("kept-16", 200, "body of 16"),
        ("kept-16-again", 500, ""),
        ("kept-3-again", 203, "body of 3"),
    ] {
        let response = send(&host, "GET", path, b"").await;
        assert!(response.starts_with(&format!("{status}\n")), "{path}: {response}");
        assert!(status == 500 || response.ends_with(&format!("\n{body}")), "{path}: {response}");
    }
    // A body that is too large replaces the kept one, and is not kept itself.
    assert!(send(&host, "GET", "kept-3-large", b"").await.starts_with("203\n"));
    assert!(send(&host, "GET", "kept-3-again", b"").await.starts_with("500\n"));
    assert!(send(&host, "GET", "kept-15-again", b"").await.starts_with("203\n"));
}

/// A body that declares four bytes, whatever its real length.
struct OfFour<B>(B);

impl<B: Body<Data = Bytes> + Unpin> Body for OfFour<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.0).poll_frame(cx)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(4)
    }
}

/// A guest may not need a body that has not arrived, so it does not have to wait for it.
#[tokio::test]
async fn a_body_that_is_still_to_come_or_breaks_off_is_a_stream() {
    let (_folder, host) = start("");
    let pieces = |pieces: Vec<Result<&'static str, WasiError>>, ends: bool| {
        let pieces = stream::iter(pieces).map_ok(|piece| Frame::data(Bytes::from_static(piece.as_bytes())));
        OfFour(StreamBody::new(if ends { pieces.boxed() } else { pieces.chain(stream::pending()).boxed() }))
    };
    let request = |path: &str, body| {
        let request = Request::post(format!("https://forge.test/by-value/{path}")).header("host", "forge.test");
        request.header("content-length", "4").body(body).unwrap()
    };
    let text = async |request| {
        let response = host.handle(request).await;
        let status = response.status().as_u16();
        (status, String::from_utf8_lossy(&response.into_body().collect().await.unwrap().to_bytes()).into_owned())
    };
    let (status, whole) = text(request("request", pieces(vec![Ok("ab"), Ok("cd")], true))).await;
    assert!(status == 200 && whole.ends_with("by: value\n4 bytes"), "{whole}");
    let answered = text(request("plain", pieces(vec![Ok("ab")], false))).await;
    assert_eq!(answered, (200, "a body".into()));
    let broken = pieces(vec![Ok("ab"), Err(WasiError::ConnectionTerminated)], true);
    assert_eq!(text(request("plain", broken)).await, (200, "a body".into()));
}

/// A streamed body holds the instance until the body ends. The request's time-out limits that.
#[tokio::test]
async fn a_streamed_body_ends_with_the_time_of_its_request() {
    let (_folder, host) = start("transfer_timeout = \"300ms\"");
    for body in [LARGE, b""] {
        let response = send(&host, "GET", "never", body).await;
        assert!(response.contains("broken off: "), "{response}");
    }
    assert!(send(&host, "GET", "served", b"").await.ends_with("\n1"));
}

/// A host of the guest in which one name is replaced by another of the same length.
fn start_renamed(name: &str, other: &str) -> (tempfile::TempDir, Result<Host, String>) {
    let folder = tempfile::tempdir().unwrap();
    let mut wasm = std::fs::read(guest("by_value")).unwrap();
    let with_length = |name: &str| [&[u8::try_from(name.len()).unwrap()], name.as_bytes()].concat();
    let (name, other) = (with_length(name), with_length(other));
    let found: Vec<_> = (0..wasm.len()).filter(|at| wasm[*at..].starts_with(&name)).collect();
    assert!(!found.is_empty());
    found.iter().for_each(|at| wasm[*at..][..other.len()].copy_from_slice(&other));
    let path = folder.path().join("other.wasm");
    std::fs::write(&path, wasm).unwrap();
    let manifest = manifest("", "").replace(&format!("{:?}", guest("by_value")), &format!("{path:?}"));
    let host = fixture::start(&folder, &manifest, &[], store()).map_err(|error| error.to_string());
    (folder, host)
}

#[test]
fn a_component_whose_export_is_worded_otherwise_is_refused() {
    // A case of the outcome.
    let error = start_renamed("exchange", "exchanje").1.err().unwrap();
    assert!(error.contains("`guest`: its export `hexad:platform/by-value-handler@0.1.0` is not as"), "{error}");
}

/// Other builds have other functions.
#[tokio::test]
async fn a_component_without_the_functions_is_served_by_the_interface_of_wasi() {
    let (_folder, host) = start_renamed("go-on", "go-by");
    let response = send(&host.unwrap(), "GET", "request", b"").await;
    assert!(response.ends_with("by: streams\n0 bytes"), "{response}");
}
