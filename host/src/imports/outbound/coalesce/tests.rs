use std::sync::atomic::{AtomicUsize, Ordering};

use futures::poll;
use futures::stream::repeat_with;
use http::header::CONTENT_LENGTH;
use tokio::sync::Semaphore;

use super::*;
use crate::wait_async::next_turn;

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
    fn new() -> (Arc<Self>, oneshot::Sender<SendResult>) {
        let (respond, first_response) = oneshot::channel();
        (Arc::new(Server { requests: AtomicUsize::new(0), first_response: Mutex::new(Some(first_response)) }), respond)
    }

    /// Sends a request to the server, with a permit for it.
    fn send<P: Send + 'static>(self: &Arc<Self>) -> impl FnOnce(Request<WasiBody>, P) -> Exchange + use<P> {
        let server = self.clone();
        |request, permit| {
            let exchange = async move {
                let _held = (request, permit);
                server.requests.fetch_add(1, Ordering::Relaxed);
                let first = server.first_response.lock().unwrap().take();
                match first {
                    Some(response) => response.await.unwrap(),
                    None => Ok(response("another")),
                }
            };
            exchange.boxed()
        }
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

/// Sends the request of all tests with a permit.
fn ask(coalescer: &Coalescer, server: &Arc<Server>) -> impl Future<Output = SendResult> {
    coalescer.send(request("q", "t"), free(), server.send())
}

/// Sends two equal requests, and the server's response to them.
async fn ask_twice(coalescer: &Coalescer, response: SendResult) -> [SendResult; 2] {
    let (server, respond) = Server::new();
    let responded = async { respond.send(response).map_err(drop).unwrap() };
    let (one, other, ()) = tokio::join!(ask(coalescer, &server), ask(coalescer, &server), responded);
    assert_eq!(server.requests(), 1);
    [one, other]
}

#[tokio::test]
async fn equal_requests_are_sent_once_and_all_get_the_response() {
    let (coalescer, (server, respond)) = (coalescer(), Server::new());
    let all = futures::future::join_all((0..20).map(|_| ask(&coalescer, &server)));
    let responded = async { respond.send(Ok(response("result"))).unwrap() };
    let (all, ()) = tokio::join!(all, responded);
    assert_eq!(server.requests(), 1);
    for one in all {
        assert_eq!(text(one).await, "result");
    }
    assert_eq!(coalescer.counters.coalesced.get(), 19);
    let later = ask(&coalescer, &server).await;
    assert_eq!(text(later).await, "another", "it is not a cache");
    coalescer.send(request("r", "t"), free(), server.send()).await.unwrap();
    assert_eq!(coalescer.in_flight.lock().unwrap().len(), 1, "finished requests leave nothing");
}

#[tokio::test]
async fn get_and_head_without_a_declared_length_are_coalesced() {
    for (method, expected) in [(Method::GET, 1), (Method::HEAD, 1), (Method::POST, 2)] {
        let (coalescer, (server, respond)) = (coalescer(), Server::new());
        let without_length = || {
            let mut request = request("", "t");
            *request.method_mut() = method.clone();
            request.headers_mut().remove(CONTENT_LENGTH);
            request
        };
        let responded = async { respond.send(Ok(response("result"))).unwrap() };
        let (one, other, ()) = tokio::join!(
            coalescer.send(without_length(), free(), server.send()),
            coalescer.send(without_length(), free(), server.send()),
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
    let refused = coalescer.send(request, free(), server.send()).await;
    assert!(matches!(refused, Err(WasiError::HttpRequestBodySize(Some(MAX_COMPARED_BODY)))));
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn requests_with_a_longer_body_are_not_coalesced() {
    let (coalescer, (server, respond)) = (coalescer(), Server::new());
    let large = || {
        let mut request = request("", "t");
        request.headers_mut().insert(CONTENT_LENGTH, (MAX_COMPARED_BODY + 1).into());
        request
    };
    let responded = async { respond.send(Ok(response("result"))).unwrap() };
    let (one, other, ()) = tokio::join!(
        coalescer.send(large(), free(), server.send()),
        coalescer.send(large(), free(), server.send()),
        responded
    );
    assert_eq!((text(one).await, text(other).await), ("result".into(), "another".into()));
}

/// Without the budget, many waiting requests would hold as many bodies.
#[tokio::test]
async fn bodies_of_requests_count_against_the_memory_budget() {
    let memory = MemoryBudget::new(8);
    let (coalescer, (server, respond)) = (Coalescer::new(memory.clone(), Arc::default()), Server::new());
    let begun = async {
        assert_eq!(memory.used(), 8);
        respond.send(Ok(response("result"))).unwrap();
    };
    let (answered, ()) = tokio::join!(coalescer.send(request("12345678", "t"), free(), server.send()), begun);
    assert_eq!((text(answered).await, memory.used()), ("result".into(), 0));

    let refused = coalescer.send(request("123456789", "t"), free(), server.send()).await;
    assert!(matches!(refused, Err(WasiError::InternalError(_))));
    assert_eq!((server.requests(), memory.used()), (1, 0));
}

#[tokio::test]
async fn requests_with_any_difference_are_not_coalesced() {
    let with_header = |name: &'static str, value: &'static str| {
        let mut request = request("q", "t");
        request.headers_mut().insert(name, value.parse().unwrap());
        request
    };
    let (mut elsewhere, mut put) = (request("q", "t"), request("q", "t"));
    *elsewhere.uri_mut() = "http://engine.test/Load".parse().unwrap();
    *put.method_mut() = Method::PUT;
    let different = [
        request("q", "t"),
        request("q", "u"),
        request("r", "t"),
        elsewhere,
        put,
        with_header("ab", "c"),
        with_header("a", "bc"),
    ];
    let (coalescer, (server, _respond)) = (coalescer(), Server::new());
    let count = different.len();
    let mut sent: Vec<_> =
        different.into_iter().map(|request| Box::pin(coalescer.send(request, free(), server.send()))).collect();
    for one in &mut sent {
        assert!(poll!(one).is_pending());
    }
    next_turn().await;
    assert_eq!((server.requests(), coalescer.counters.coalesced.get()), (count, 0));
}

#[tokio::test]
async fn a_failure_is_shared() {
    for failed in ask_twice(&coalescer(), Err(WasiError::ConnectionRefused)).await {
        assert!(matches!(failed, Err(WasiError::ConnectionRefused)));
    }
}

#[tokio::test]
async fn a_request_does_not_end_with_its_leader() {
    let (coalescer, (server, respond)) = (coalescer(), Server::new());
    let mut first = Box::pin(ask(&coalescer, &server));
    assert!(poll!(&mut first).is_pending());
    let mut second = Box::pin(ask(&coalescer, &server));
    assert!(poll!(&mut second).is_pending());
    drop(first);
    next_turn().await;
    respond.send(Ok(response("result"))).unwrap();
    assert_eq!(text(second.await).await, "result");
    assert_eq!(server.requests(), 1);
}

/// Clients that come and leave would otherwise hold all permits of the component.
#[tokio::test]
async fn a_request_ends_with_its_last_client() {
    let (coalescer, (server, respond), permits) = (coalescer(), Server::new(), Arc::new(Semaphore::new(1)));
    let permit = async { Ok(permits.clone().try_acquire_owned().unwrap()) };
    let mut first = Box::pin(coalescer.send(request("q", "t"), permit, server.send()));
    assert!(poll!(&mut first).is_pending());
    let mut second = Box::pin(ask(&coalescer, &server));
    assert!(poll!(&mut second).is_pending());
    next_turn().await;
    drop((first, second));
    next_turn().await;
    assert!(respond.is_closed());
    assert_eq!(permits.available_permits(), 1);
    assert_eq!(text(ask(&coalescer, &server).await).await, "another");
}

#[tokio::test]
async fn a_request_without_a_permit_delays_no_other() {
    let (coalescer, (server, respond), time) = (coalescer(), Server::new(), Notify::new());
    let mut refused = Box::pin(coalescer.send(request("q", "t"), exhausted(&time), server.send()));
    assert!(poll!(&mut refused).is_pending());
    time.notify_one();
    assert!(matches!(refused.await, Err(WasiError::ConnectionLimitReached)));

    let mut waits = Box::pin(coalescer.send(request("q", "t"), exhausted(&time), server.send()));
    assert!(poll!(&mut waits).is_pending());
    let mut leads = Box::pin(ask(&coalescer, &server));
    assert!(poll!(&mut leads).is_pending());
    next_turn().await;
    assert_eq!(server.requests(), 1);
    // It follows the leader, and waits for its permit no longer.
    assert!(poll!(&mut waits).is_pending());
    time.notify_one();
    respond.send(Ok(response("result"))).unwrap();
    assert_eq!(text(leads.await).await, "result");
    assert_eq!(text(waits.await).await, "result");
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn a_follower_holds_no_permit() {
    let (coalescer, (server, respond), permits) = (coalescer(), Server::new(), Arc::new(Semaphore::new(0)));
    let permit = || async { permits.clone().acquire_owned().await.map_err(|_| WasiError::ConnectionLimitReached) };
    let send = || Box::pin(coalescer.send(request("q", "t"), permit(), server.send()));
    let mut all = [send(), send(), send()];
    for one in &mut all {
        assert!(poll!(one).is_pending());
    }
    // Each of the three has a permit when it is polled.
    permits.add_permits(3);
    for one in &mut all {
        assert!(poll!(one).is_pending());
    }
    next_turn().await;
    assert_eq!((server.requests(), permits.available_permits()), (1, 2));
    respond.send(Ok(response("result"))).unwrap();
    for one in all {
        assert_eq!(text(one.await).await, "result");
    }
    assert_eq!(permits.available_permits(), 3);
}

#[tokio::test]
async fn a_slow_reader_and_a_dropped_one_do_not_delay_the_others() {
    let (coalescer, (server, respond)) = (coalescer(), Server::new());
    let (frames, mut source) = tokio::sync::mpsc::unbounded_channel::<Result<Frame<Bytes>, WasiError>>();
    let body = StreamBody::new(stream::poll_fn(move |cx| source.poll_recv(cx)));
    let responded = async { respond.send(Ok(Response::new(body.boxed_unsync()))).map_err(drop).unwrap() };
    let (dropped, slow, fast, ()) =
        tokio::join!(ask(&coalescer, &server), ask(&coalescer, &server), ask(&coalescer, &server), responded);
    let (mut dropped, mut fast) = (dropped.unwrap().into_body(), fast.unwrap().into_body());
    let waiting = tokio::spawn(async move {
        let frame = fast.frame().await.unwrap().unwrap().into_data().unwrap();
        (frame, fast)
    });
    next_turn().await;
    assert!(poll!(dropped.frame()).is_pending());
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

#[tokio::test]
async fn a_shared_body_breaks_off_for_all_readers() {
    let frames = [Ok(Frame::data(Bytes::from_static(b"one"))), Err(WasiError::ConnectionReadTimeout)];
    let body = StreamBody::new(stream::iter(frames)).boxed_unsync();
    for response in ask_twice(&coalescer(), Ok(Response::new(body))).await {
        let mut body = response.unwrap().into_body();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "one");
        assert!(matches!(body.frame().await, Some(Err(WasiError::ConnectionReadTimeout))));
    }
}

/// A task reads the body, and no reader may take a part for the whole.
#[tokio::test]
async fn a_shared_body_is_incomplete_if_its_task_is_dropped() {
    let (chunks, received) = unbounded_channel();
    let mut body = shared_body(received, Arc::default());
    assert!(poll!(body.frame()).is_pending());
    drop(chunks);
    assert!(matches!(body.frame().await, Some(Err(WasiError::HttpResponseIncomplete))));
}

#[tokio::test]
async fn a_shared_body_is_read_at_the_pace_of_its_fastest_reader() {
    let read = Arc::new(AtomicUsize::new(0));
    let count = read.clone();
    let frames = repeat_with(move || {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(Frame::data(Bytes::from_static(b"x")))
    });
    let body = StreamBody::new(frames).boxed_unsync();
    let [mut fast, mut slow] = ask_twice(&coalescer(), Ok(Response::new(body))).await.map(Result::unwrap);
    next_turn().await;
    assert_eq!(read.load(Ordering::Relaxed), 0);
    for reader in [&mut fast, &mut slow] {
        for _ in 0..10 {
            reader.frame().await.unwrap().unwrap();
        }
        next_turn().await;
        assert_eq!(read.load(Ordering::Relaxed), 10);
    }
}

/// Chunks for a single reader need no memory of the host's budget.
#[tokio::test]
async fn chunks_kept_for_several_readers_count_against_the_memory_budget() {
    let memory = MemoryBudget::new(8);
    let coalescer = Coalescer::new(memory.clone(), Arc::default());
    let [first, second] = ask_twice(&coalescer, Ok(response("12345678"))).await;
    assert_eq!(text(first).await, "12345678");
    assert_eq!(memory.used(), 8);
    assert_eq!(text(second).await, "12345678");
    assert_eq!(memory.used(), 0);

    for response in ask_twice(&coalescer, Ok(response("123456789"))).await {
        assert!(matches!(response.unwrap().into_body().collect().await, Err(WasiError::InternalError(_))));
    }
    assert_eq!(memory.used(), 0);

    let alone = coalescer.send(request("q", "t"), free(), |_, ()| async { Ok(response("123456789")) }.boxed());
    assert_eq!(text(alone.await).await, "123456789");
}
