//! Canaries: the trial of a new version.

use crate::versions::trapping;
use crate::*;
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use futures::stream::FuturesUnordered;
use hexad::component::Canary;
use hexad_testing::wait::BETWEEN_LOOKS;
use hexad_testing::wait_async::within_async;
use std::time::Instant;

/// The status of a request of the given caller to the component on trial.
async fn call(server: &Server, caller: usize) -> u16 {
    let request = http::Request::get("/incoming?x")
        .header("host", "forge.test")
        .header("authorization", format!("Bearer t{caller}"));
    server.host.handle(request.body(http_body_util::Empty::new()).unwrap()).await.status().as_u16()
}

/// A failed canary serves no requests; the supervisor removes it a moment later.
fn until_no_canary(server: &Server) {
    wait_until(SOON, "the end of the trial", || has_no_canary(server));
}

fn has_no_canary(server: &Server) -> bool {
    server.host.services().iter().all(|service| service.deployment().canary.is_none())
}

#[tokio::test]
async fn a_canary_whose_bodies_break_fails() {
    let server = Server::with("max_response = \"1MiB\"");
    let before = digest(&server, "probe");
    try_out(&server, "probe", variant("probe", 1), trial(100.0)).unwrap();
    for _ in 0..10 {
        assert_eq!(digest(&server, "probe"), before);
        let response = server.send(get("flood?mib=2")).await;
        assert_eq!(response.status(), 200, "the head is as that of any response");
        response.into_body().collect().await.expect_err("the rest of the body");
    }
    until_no_canary(&server);
    let last = audit(&server.folder).pop().unwrap();
    assert!(last["reason"].as_str().unwrap().contains("100.0 % of its 10 answers failed"), "{last}");
}

#[tokio::test]
async fn a_client_that_goes_away_is_not_a_failure_of_the_canary() {
    let server = Server::with("");
    try_out(&server, "probe", variant("probe", 1), trial(100.0)).unwrap();
    for _ in 0..20 {
        drop(server.send(get("flood?mib=8")).await);
    }
    assert_eq!(server.ok("hello").await, "hello");
    let canary = server.service("probe").deployment().canary.clone().expect("it is still on trial");
    assert_eq!(canary.counts().failed, 0);
}

/// The host answers 503 instead of the component, which did nothing wrong.
#[tokio::test]
async fn a_store_that_cannot_be_written_says_nothing_of_the_canary() {
    let options = sqlite::SqliteOptions { lock_wait: Duration::from_millis(1), ..store() };
    let server = Server::over(tempfile::tempdir().unwrap(), "", options);
    let canary = probe_on_trial(&server);
    let other = rusqlite::Connection::open(server.folder.path().join("data").join(sqlite::FILE_NAME)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..20 {
        assert_eq!(server.get("kv/set?key=probe/v1/a&value=2").await.0, 503);
        server.ok("hello").await;
    }
    let counts = canary.counts();
    assert_eq!((counts.responses, counts.failed), (20, 0));
}

/// The canary and the active revision would be the same version.
#[test]
fn the_serving_version_cannot_be_a_canary() {
    let server = Server::with("");
    swap(&server, "probe", variant("probe", 1)).unwrap();
    let error = try_out(&server, "probe", variant("probe", 1), trial(50.0)).unwrap_err();
    assert!(matches!(error, DeployError::ServesAlready(_)), "{error}");
    // Without a trial, the report names the component that a rollback restores, which is a different one.
    let report = swap(&server, "probe", variant("probe", 1)).unwrap();
    assert!(report.previous.is_some_and(|previous| previous != report.digest), "{report:?}");
}

/// A canary fails when its clients wait in vain for a head (`never`) or for more of a body (`stall`), also if they have
/// left.
#[tokio::test]
async fn a_canary_that_keeps_its_clients_waiting_fails() {
    for (path, words) in [("never", "took longer than 50ms"), ("stall", "answers failed")] {
        for patient in [true, false] {
            let server = Server::with("");
            let max_latency = Duration::from_millis(50);
            let policy = CanaryPolicy { max_latency, ..trial(100.0) };
            try_out(&server, "probe", variant("probe", 1), policy).unwrap();
            let waiting = (0..10).map(|_| async {
                let response = async { server.send(get(path)).await.into_body().collect().await };
                match patient {
                    true => drop(response.await),
                    false => drop(tokio::time::timeout(max_latency * 2, response).await),
                }
            });
            let gone = async {
                futures::future::join_all(waiting).await;
                std::future::pending::<()>().await;
            };
            let ended = wait_until_async(SOON, "the end of the trial", async || has_no_canary(&server));
            tokio::select! {
                () = gone => {}
                () = ended => {}
            }
            let last = audit(&server.folder).pop().unwrap();
            assert_eq!((&last["by"], &last["action"]), (&"hexad".into(), &"rollback".into()), "{path} {patient}");
            assert!(last["reason"].as_str().unwrap().contains(words), "{path} {patient}: {last}");
        }
    }
}

const MAX_LATENCY: Duration = Duration::from_millis(500);

/// Puts a version of the probe on trial for all callers, with `MAX_LATENCY`.
fn probe_on_trial(server: &Server) -> Arc<Canary> {
    let policy = CanaryPolicy { max_latency: MAX_LATENCY, ..trial(100.0) };
    try_out(server, "probe", variant("probe", 1), policy).unwrap();
    server.service("probe").deployment().canary.clone().unwrap()
}

type Part = Result<Frame<Bytes>, Infallible>;

fn send_part(body: &UnboundedSender<Part>) {
    body.unbounded_send(Ok(Frame::data(Bytes::from_static(b"part")))).unwrap();
}

/// Begins ten uploads, and sends a part of each.
fn begin_uploads(
    server: &Server,
    path: &str,
) -> (Vec<UnboundedSender<Part>>, impl Future<Output = Vec<Response<ResponseBody>>>) {
    let (bodies, responses): (Vec<_>, Vec<_>) = (0..10)
        .map(|_| {
            let (body, parts) = unbounded();
            send_part(&body);
            let request = Request::post(format!("/probe/{path}")).header("host", "forge.test");
            (body, server.host.handle(request.body(StreamBody::new(parts)).unwrap()))
        })
        .unzip();
    (bodies, futures::future::join_all(responses))
}

/// A pause of the clients below, which is longer than the canary's maximum latency.
async fn take_time() {
    tokio::time::sleep_until((Instant::now() + MAX_LATENCY * 2).into()).await;
}

#[tokio::test]
async fn a_canary_is_not_condemned_for_slow_uploads() {
    let server = Server::with("");
    let canary = probe_on_trial(&server);
    let (bodies, responses) = begin_uploads(&server, "count");
    let upload = async {
        take_time().await;
        bodies.iter().for_each(send_part);
        drop(bodies);
    };
    let ((), responses) = tokio::join!(upload, responses);
    for response in responses {
        assert_eq!(text(response).await, (200, "8".to_owned()));
    }
    wait_until_async(SOON, "ten responses", async || canary.counts().responses >= 10).await;
    assert_eq!(canary.failure(), None, "{:?}", canary.counts());
}

#[tokio::test]
async fn a_client_that_stops_sending_takes_no_part_in_a_trial() {
    let server = Server::with("request_timeout = \"1s\"");
    let canary = probe_on_trial(&server);
    let (_bodies, responses) = begin_uploads(&server, "count");
    for response in responses.await {
        assert_eq!(response.status(), 408);
    }
    assert_eq!((canary.counts().responses, canary.failure()), (0, None));
}

/// The component has echoed everything that its client has sent.
#[tokio::test]
async fn a_client_that_stops_sending_and_leaves_during_the_response_is_no_failure() {
    let server = Server::with("");
    let canary = probe_on_trial(&server);
    let (_bodies, responses) = begin_uploads(&server, "echo");
    let mut responses = responses.await;
    let echoed = responses.iter_mut().map(|response| async {
        assert_eq!(response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap(), "part");
        let more = tokio::time::timeout(MAX_LATENCY * 2, response.body_mut().frame()).await;
        assert!(more.is_err(), "the client has sent nothing more");
    });
    futures::future::join_all(echoed).await;
    drop(responses);
    wait_until_async(SOON, "ten responses", async || canary.counts().responses >= 10).await;
    assert_eq!((canary.counts().failed, canary.failure()), (0, None));
}

/// The guest echoes the request's body while it arrives. Then the body breaks off, or is too large.
#[tokio::test]
async fn a_request_that_breaks_in_the_middle_takes_no_part_in_a_trial() {
    use wasmtime_wasi_http::Error::ConnectionTerminated;
    let server = Server::with("max_body = \"1KiB\"");
    let canary = probe_on_trial(&server);
    for end in [Err(ConnectionTerminated), Ok(Frame::data(Bytes::from_static(&[0; 1024])))] {
        for _ in 0..10 {
            let (body, parts) = unbounded();
            body.unbounded_send(Ok(Frame::data(Bytes::from_static(b"part")))).unwrap();
            let request = Request::post("/probe/echo").header("host", "forge.test");
            let mut response = server.host.handle(request.body(StreamBody::new(parts)).unwrap()).await;
            assert_eq!(response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap(), "part");
            body.unbounded_send(end.as_ref().map(clone).map_err(|_| ConnectionTerminated)).unwrap();
            response.into_body().collect().await.expect_err("the rest of the body");
        }
    }
    assert_eq!((canary.counts().responses, canary.failure()), (0, None));
}

fn clone(frame: &Frame<Bytes>) -> Frame<Bytes> {
    Frame::data(frame.data_ref().cloned().unwrap_or_default())
}

/// As soon as the previous version serves all callers, it serves waiting requests.
#[tokio::test]
async fn permits_held_by_a_rolled_back_version_block_no_request() {
    let server = Server::with("instances = 10\nqueue_timeout = \"1h\"");
    let mut held = FuturesUnordered::new();
    for by_the_host in [true, false] {
        if by_the_host {
            let policy = CanaryPolicy { max_latency: Duration::from_millis(50), ..trial(100.0) };
            try_out(&server, "probe", variant("probe", 1), policy).unwrap();
        } else {
            // On PostgreSQL the trial ends in the hosts' record after it has ended here.
            let swapped = async || swap(&server, "probe", variant("probe", 2)).is_ok();
            wait_until_async(SOON, "a swap after the trial", swapped).await;
        }
        for _ in 0..10 {
            held.push(server.send(get("never")));
        }
        let service = server.service("probe");
        let mut waiting = std::pin::pin!(server.send(get("hello")));
        let answered = async {
            loop {
                tokio::select! {
                    biased;
                    _ = held.next() => panic!("it never answers"),
                    response = &mut waiting => break response,
                    () = tokio::time::sleep(BETWEEN_LOOKS) => {}
                }
                if !by_the_host && service.load().1 == 1 {
                    server.host.deployer().roll_back("probe", "the tests", None).unwrap();
                }
            }
        };
        let response = within_async(SOON, "the answer of the version before", answered).await;
        assert_eq!(text(response).await, (200, "hello".to_owned()));
        // The guest may end a moment after its answer, and on PostgreSQL the others may begin later. They are counted
        // until they end.
        let counted = async {
            while service.load() != (held.len(), 0) {
                tokio::select! {
                    biased;
                    _ = held.next() => panic!("it never answers"),
                    () = tokio::time::sleep(BETWEEN_LOOKS) => {}
                }
            }
        };
        within_async(SOON, "the end of the guest that has answered", counted).await;
    }
    drop(held);
}

#[tokio::test]
async fn a_canary_that_fails_is_removed_after_few_responses() {
    let server = Server::with("");
    let before = digest(&server, "incoming");
    assert!(try_out(&server, "incoming", trapping(), trial(20.0)).unwrap().canary);
    let refusal = swap(&server, "incoming", variant("incoming", 1)).unwrap_err();
    assert!(matches!(refusal, DeployError::CanaryUnderWay(_)), "{refusal}");
    let mut failed = 0;
    for n in 0..400 {
        let statuses = [call(&server, n).await, call(&server, n).await];
        // A caller gets the same version each time, unless its first response ended the trial.
        assert!(statuses[0] == statuses[1] || failed == 9, "{statuses:?} after {failed}");
        failed += statuses.iter().filter(|status| **status == 500).count();
    }
    assert_eq!(failed, 10, "as many as a verdict needs");
    assert_eq!(digest(&server, "incoming"), before);
    until_no_canary(&server);
    let Server { host, folder } = server;
    drop(host);
    let last = audit(&folder).pop().unwrap();
    assert_eq!((&last["by"], &last["action"]), (&"hexad".into(), &"rollback".into()));
    assert!(last["reason"].as_str().unwrap().contains("100.0 % of its 10 answers failed"), "{last}");
}

#[tokio::test]
async fn a_canary_that_passes_is_promoted_when_its_window_is_over() {
    let server = Server::with("");
    let wasm = variant("incoming", 1);
    let window = Duration::from_millis(100);
    try_out(&server, "incoming", wasm.clone(), CanaryPolicy { window, ..trial(50.0) }).unwrap();
    let mut n = 0;
    let is_promoted = async || {
        assert_eq!(call(&server, n).await, 200);
        n += 1;
        digest(&server, "incoming") == Digest::of(&wasm)
    };
    wait_until_async(SOON, "the promotion", is_promoted).await;
    let last = audit(&server.folder).pop().unwrap();
    assert_eq!((&last["by"], &last["action"]), (&"hexad".into(), &"promote".into()));
    let stored = std::fs::read_to_string(server.folder.path().join("data/components/active.json")).unwrap();
    assert!(stored.contains(&Digest::of(&wasm).to_string()), "{stored}");
}

#[tokio::test]
async fn an_operator_can_roll_back_or_promote_a_canary() {
    let server = Server::with("");
    let before = digest(&server, "incoming");
    try_out(&server, "incoming", trapping(), trial(100.0)).unwrap();
    assert_eq!(call(&server, 1).await, 500);
    assert_eq!(server.host.deployer().roll_back("incoming", "the tests", None).unwrap().digest, before);
    assert_eq!(call(&server, 1).await, 200);
    let wasm = variant("incoming", 1);
    try_out(&server, "incoming", wasm.clone(), trial(100.0)).unwrap();
    assert_eq!(digest(&server, "incoming"), before);
    server.host.deployer().promote("incoming", "the tests", None).unwrap();
    assert_eq!(digest(&server, "incoming"), Digest::of(&wasm));
    let refusal = server.host.deployer().promote("incoming", "the tests", None).unwrap_err();
    assert!(matches!(refusal, DeployError::NoCanary(_)), "{refusal}");
}
