use std::sync::atomic::{AtomicUsize, Ordering};

use hexad_testing::wait_async::next_turn;
use http_body_util::StreamBody;
use tokio::sync::{Notify, mpsc, oneshot};

use super::*;

type SendResult = Result<Response<WasiBody>, WasiError>;

fn request(body: &'static str, token: &str) -> Request<WasiBody> {
    let request = Request::post("http://engine.test/load").header("authorization", token);
    let body_of = Full::new(Bytes::from_static(body.as_bytes())).map_err(|never| match never {}).boxed_unsync();
    request.header(CONTENT_LENGTH, body.len()).body(body_of).unwrap()
}

fn response(body: &'static str) -> Response<WasiBody> {
    Response::new(Full::new(Bytes::from_static(body.as_bytes())).map_err(|never| match never {}).boxed_unsync())
}

fn coalescer() -> Coalescer {
    Coalescer::new(MemoryBudget::new(u64::MAX), Arc::default())
}

async fn text(response: SendResult) -> String {
    let body = response.unwrap().into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

/// Waits for the permit of a client that has a free one.
async fn free() -> Result<(), WasiError> {
    Ok(())
}

/// Waits for the permit of a client that has none, until its time is over.
async fn exhausted(time: &Notify) -> Result<(), WasiError> {
    time.notified().await;
    Err(WasiError::ConnectionLimitReached)
}

/// A server that counts requests. The test sends the response to the first one.
struct Server {
    requests: AtomicUsize,
    first_response: Mutex<Option<oneshot::Receiver<SendResult>>>,
}

impl Server {
    fn new() -> (Self, oneshot::Sender<SendResult>) {
        let (respond, first_response) = oneshot::channel();
        (Server { requests: AtomicUsize::new(0), first_response: Mutex::new(Some(first_response)) }, respond)
    }

    async fn answer(&self, _request: Request<WasiBody>) -> SendResult {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let first = self.first_response.lock().unwrap().take();
        match first {
            Some(response) => response.await.unwrap(),
            None => Ok(response("another")),
        }
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn equal_requests_are_sent_once_and_all_get_the_response() {
    let (coalescer, (server, respond)) = (coalescer(), Server::new());
    let send = |request, ()| server.answer(request);
    let all = futures::future::join_all((0..20).map(|_| coalescer.send(request("q", "t"), free, send)));
    let responded = async { respond.send(Ok(response("result"))).unwrap() };
    let (all, ()) = tokio::join!(all, responded);
    assert_eq!(server.requests(), 1);
    for one in all {
        assert_eq!(text(one).await, "result");
    }
    assert_eq!(coalescer.counters.coalesced.get(), 19);
    assert_eq!(text(coalescer.send(request("q", "t"), free, send).await).await, "another", "it is not a cache");
    assert!(coalescer.lock().is_empty());
}

#[tokio::test]
async fn get_and_head_without_a_declared_length_are_coalesced() {
    for (method, expected) in [(Method::GET, 1), (Method::HEAD, 1), (Method::POST, 2)] {
        let (coalescer, (server, respond)) = (coalescer(), Server::new());
        let send = |request, ()| server.answer(request);
        let without_length = || {
            let mut request = request("", "t");
            *request.method_mut() = method.clone();
            request.headers_mut().remove(CONTENT_LENGTH);
            request
        };
        let responded = async { respond.send(Ok(response("result"))).unwrap() };
        let (one, other, ()) = tokio::join!(
            coalescer.send(without_length(), free, send),
            coalescer.send(without_length(), free, send),
            responded
        );
        assert_eq!((text(one).await, server.requests()), ("result".into(), expected), "{method}");
        assert_eq!(text(other).await, if expected == 1 { "result" } else { "another" });
    }
}

#[tokio::test]
async fn a_body_without_a_declared_length_is_bounded() {
    let (coalescer, (server, _respond)) = (coalescer(), Server::new());
    let large = Full::new(Bytes::from(vec![0; MAX_COMPARED_BODY as usize + 1])).map_err(|never| match never {});
    let request = Request::get("http://engine.test/").body(large.boxed_unsync()).unwrap();
    let refused = coalescer.send(request, free, |request, ()| server.answer(request)).await;
    assert!(matches!(refused, Err(WasiError::HttpRequestBodySize(Some(MAX_COMPARED_BODY)))));
    assert_eq!(server.requests(), 0);
}

/// Without the budget, many waiting requests would hold as many bodies.
#[tokio::test]
async fn bodies_of_requests_count_against_the_memory_budget() {
    let memory = MemoryBudget::new(8);
    let (coalescer, (server, respond)) = (Coalescer::new(memory.clone(), Arc::default()), Server::new());
    let send = |request, ()| server.answer(request);
    let begun = async {
        assert_eq!(memory.used(), 8);
        respond.send(Ok(response("result"))).unwrap();
    };
    let (answered, ()) = tokio::join!(coalescer.send(request("12345678", "t"), free, send), begun);
    assert_eq!((text(answered).await, memory.used()), ("result".into(), 0));

    let refused = coalescer.send(request("123456789", "t"), free, send).await;
    assert!(matches!(refused, Err(WasiError::InternalError(_))));
    assert_eq!((server.requests(), memory.used()), (1, 0));
}

#[tokio::test]
async fn requests_with_any_difference_are_not_coalesced() {
    let (coalescer, (server, respond)) = (coalescer(), Server::new());
    let send = |request, ()| server.answer(request);
    let responded = async { respond.send(Ok(response("result"))).unwrap() };
    let (one, other, third, ()) = tokio::join!(
        coalescer.send(request("q", "t"), free, send),
        coalescer.send(request("q", "u"), free, send),
        coalescer.send(request("r", "t"), free, send),
        responded
    );
    assert_eq!(
        (text(one).await, text(other).await, text(third).await),
        ("result".into(), "another".into(), "another".into())
    );
    assert_eq!(server.requests(), 3);
}

#[tokio::test]
async fn a_failure_is_shared() {
    let (coalescer, (server, respond)) = (coalescer(), Server::new());
    let send = |request, ()| server.answer(request);
    let responded = async { respond.send(Err(WasiError::ConnectionRefused)).map_err(drop).unwrap() };
    let (one, other, ()) = tokio::join!(
        coalescer.send(request("q", "t"), free, send),
        coalescer.send(request("q", "t"), free, send),
        responded
    );
    assert!(matches!((one, other), (Err(WasiError::ConnectionRefused), Err(WasiError::ConnectionRefused))));
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn when_the_leader_is_cancelled_a_follower_sends_the_request() {
    let (coalescer, (server, _respond)) = (coalescer(), Server::new());
    let send = |request, ()| server.answer(request);
    let mut first = Box::pin(coalescer.send(request("q", "t"), free, send));
    assert!(futures::poll!(&mut first).is_pending());
    let mut second = Box::pin(coalescer.send(request("q", "t"), free, send));
    assert!(futures::poll!(&mut second).is_pending());
    assert_eq!(server.requests(), 1);
    drop(first);
    assert_eq!(text(second.await).await, "another");
    assert_eq!(server.requests(), 2);
}

#[tokio::test]
async fn a_leader_without_a_permit_leaves_the_request_to_its_followers() {
    let (coalescer, (server, respond), time) = (coalescer(), Server::new(), Notify::new());
    let send = |request, ()| server.answer(request);
    let mut leader = Box::pin(coalescer.send(request("q", "t"), || exhausted(&time), send));
    assert!(futures::poll!(&mut leader).is_pending());
    let others = (0..3).map(|_| coalescer.send(request("q", "t"), free, send));
    let mut others = Box::pin(futures::future::join_all(others));
    let mut same_client = Box::pin(coalescer.send(request("q", "t"), || exhausted(&time), send));
    assert!(futures::poll!(&mut others).is_pending() && futures::poll!(&mut same_client).is_pending());
    time.notify_one();
    assert!(matches!(leader.await, Err(WasiError::ConnectionLimitReached)));
    assert_eq!(server.requests(), 0);
    assert!(futures::poll!(&mut same_client).is_pending() && futures::poll!(&mut others).is_pending());
    assert_eq!(server.requests(), 1, "the others have permits, and one of them sends the request");
    respond.send(Ok(response("result"))).unwrap();
    for one in others.await {
        assert_eq!(text(one).await, "result");
    }
    // A client without a permit gets its own error, and does not wait again.
    time.notify_one();
    assert!(matches!(same_client.await, Err(WasiError::ConnectionLimitReached)));
    assert_eq!(server.requests(), 1);
    assert!(coalescer.lock().is_empty());
}

#[tokio::test]
async fn a_request_with_a_permit_takes_the_place_of_a_leader_without_one() {
    let (coalescer, (server, respond), time) = (coalescer(), Server::new(), Notify::new());
    let send = |request, ()| server.answer(request);
    let mut first = Box::pin(coalescer.send(request("q", "t"), || exhausted(&time), send));
    assert!(futures::poll!(&mut first).is_pending());
    let mut second = Box::pin(coalescer.send(request("q", "t"), free, send));
    assert!(futures::poll!(&mut second).is_pending());
    time.notify_one();
    assert!(matches!(first.await, Err(WasiError::ConnectionLimitReached)));
    // The next leader comes before the follower continues, and would make it wait again.
    let mut third = Box::pin(coalescer.send(request("q", "t"), || exhausted(&time), send));
    assert!(futures::poll!(&mut third).is_pending());
    assert!(futures::poll!(&mut second).is_pending());
    assert_eq!(server.requests(), 1);
    drop(third);
    let mut fourth = Box::pin(coalescer.send(request("q", "t"), free, send));
    assert!(futures::poll!(&mut fourth).is_pending(), "it follows the second, which is the leader still");
    respond.send(Ok(response("result"))).unwrap();
    assert_eq!(text(second.await).await, "result");
    assert_eq!(text(fourth.await).await, "result");
    assert_eq!(server.requests(), 1);
    assert!(coalescer.lock().is_empty());
}

#[tokio::test]
async fn a_slow_reader_and_a_dropped_one_do_not_delay_the_others() {
    let (coalescer, (server, respond)) = (coalescer(), Server::new());
    let send = |request, ()| server.answer(request);
    let (frames, mut source) = mpsc::unbounded_channel::<Result<Frame<Bytes>, WasiError>>();
    let body = StreamBody::new(futures::stream::poll_fn(move |cx| source.poll_recv(cx)));
    let responded = async { respond.send(Ok(Response::new(body.boxed_unsync()))).map_err(drop).unwrap() };
    let (dropped, slow, fast, ()) = tokio::join!(
        coalescer.send(request("q", "t"), free, send),
        coalescer.send(request("q", "t"), free, send),
        coalescer.send(request("q", "t"), free, send),
        responded
    );
    let (mut dropped, mut fast) = (dropped.unwrap().into_body(), fast.unwrap().into_body());
    // The reader that polled the source last is dropped. The other one must still be woken.
    let waiting = tokio::spawn(async move {
        let frame = fast.frame().await.unwrap().unwrap().into_data().unwrap();
        (frame, fast)
    });
    next_turn().await;
    assert!(futures::poll!(dropped.frame()).is_pending());
    drop(dropped);
    frames.send(Ok(Frame::data(Bytes::from_static(b"one ")))).unwrap();
    let (frame, fast) = waiting.await.unwrap();
    assert_eq!(frame, "one ");
    frames.send(Ok(Frame::data(Bytes::from_static(b"two")))).unwrap();
    drop(frames);
    assert_eq!(fast.collect().await.unwrap().to_bytes(), "two");
    assert_eq!(text(slow).await, "one two");
    assert_eq!(server.requests(), 1);
}

/// Chunks for a single reader need no memory of the host's budget.
#[tokio::test]
async fn chunks_kept_for_several_readers_count_against_the_memory_budget() {
    let memory = MemoryBudget::new(8);
    let (coalescer, (server, respond)) = (Coalescer::new(memory.clone(), Arc::default()), Server::new());
    let send = |request, ()| server.answer(request);
    let responded = async { respond.send(Ok(response("12345678"))).map_err(drop).unwrap() };
    let (first, second, ()) = tokio::join!(
        coalescer.send(request("q", "t"), free, send),
        coalescer.send(request("q", "t"), free, send),
        responded
    );
    assert_eq!(text(first).await, "12345678");
    assert_eq!(memory.used(), 8);
    assert_eq!(text(second).await, "12345678");
    assert_eq!(memory.used(), 0);

    let (server, respond) = Server::new();
    let send = |request, ()| server.answer(request);
    let responded = async { respond.send(Ok(response("123456789"))).map_err(drop).unwrap() };
    let (first, second, ()) = tokio::join!(
        coalescer.send(request("q", "t"), free, send),
        coalescer.send(request("q", "t"), free, send),
        responded
    );
    for response in [first, second] {
        assert!(matches!(response.unwrap().into_body().collect().await, Err(WasiError::InternalError(_))));
    }
    assert_eq!(memory.used(), 0);
}
