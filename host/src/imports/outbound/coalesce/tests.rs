use super::*;
use http_body_util::StreamBody;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{mpsc, oneshot};

type Sent = Result<Response<WasiBody>, WasiError>;

fn request(body: &'static str, token: &str) -> Request<WasiBody> {
    let request = Request::post("http://engine.test/load").header("authorization", token);
    let body_of = Full::new(Bytes::from_static(body.as_bytes())).map_err(|never| match never {}).boxed_unsync();
    request.header(CONTENT_LENGTH, body.len()).body(body_of).unwrap()
}

fn response(body: &'static str) -> Response<WasiBody> {
    Response::new(Full::new(Bytes::from_static(body.as_bytes())).map_err(|never| match never {}).boxed_unsync())
}

async fn text(response: Sent) -> String {
    let body = response.unwrap().into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

/// A server that counts, and answers the first request when it is told to.
struct Server {
    asked: AtomicUsize,
    go: Mutex<Option<oneshot::Receiver<Sent>>>,
}

impl Server {
    fn new() -> (Self, oneshot::Sender<Sent>) {
        let (tell, go) = oneshot::channel();
        (Server { asked: AtomicUsize::new(0), go: Mutex::new(Some(go)) }, tell)
    }

    async fn answer(&self, _request: Request<WasiBody>) -> Sent {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let go = self.go.lock().unwrap().take();
        match go {
            Some(go) => go.await.unwrap(),
            None => Ok(response("another")),
        }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn equal_requests_are_sent_once_and_all_are_answered() {
    let (coalescer, (server, tell)) = (Coalescer::default(), Server::new());
    let send = |request| server.answer(request);
    let all = futures::future::join_all((0..20).map(|_| coalescer.send(request("q", "t"), send)));
    let told = async { tell.send(Ok(response("result"))).unwrap() };
    let (all, ()) = tokio::join!(all, told);
    assert_eq!(server.asked(), 1);
    for one in all {
        assert_eq!(text(one).await, "result");
    }
    assert_eq!(coalescer.joined.get(), 19);
    assert_eq!(text(coalescer.send(request("q", "t"), send).await).await, "another", "it is not a cache");
    assert!(coalescer.lock().is_empty());
}

#[tokio::test]
async fn a_request_that_need_not_say_its_length_is_shared_too() {
    for (method, asked) in [(Method::GET, 1), (Method::HEAD, 1), (Method::POST, 2)] {
        let (coalescer, (server, tell)) = (Coalescer::default(), Server::new());
        let send = |request| server.answer(request);
        let without_length = || {
            let mut request = request("", "t");
            *request.method_mut() = method.clone();
            request.headers_mut().remove(CONTENT_LENGTH);
            request
        };
        let told = async { tell.send(Ok(response("result"))).unwrap() };
        let (one, other, ()) =
            tokio::join!(coalescer.send(without_length(), send), coalescer.send(without_length(), send), told);
        assert_eq!((text(one).await, server.asked()), ("result".into(), asked), "{method}");
        assert_eq!(text(other).await, if asked == 1 { "result" } else { "another" });
    }
}

#[tokio::test]
async fn a_body_without_a_declared_length_is_bounded() {
    let (coalescer, (server, _tell)) = (Coalescer::default(), Server::new());
    let large = Full::new(Bytes::from(vec![0; MAX_COMPARED_BODY as usize + 1])).map_err(|never| match never {});
    let request = Request::get("http://engine.test/").body(large.boxed_unsync()).unwrap();
    let refused = coalescer.send(request, |request| server.answer(request)).await;
    assert!(matches!(refused, Err(WasiError::HttpRequestBodySize(Some(MAX_COMPARED_BODY)))));
    assert_eq!(server.asked(), 0);
}

#[tokio::test]
async fn any_difference_makes_it_another_request() {
    let (coalescer, (server, tell)) = (Coalescer::default(), Server::new());
    let send = |request| server.answer(request);
    let told = async { tell.send(Ok(response("result"))).unwrap() };
    let (one, other, third, ()) = tokio::join!(
        coalescer.send(request("q", "t"), send),
        coalescer.send(request("q", "u"), send),
        coalescer.send(request("r", "t"), send),
        told
    );
    assert_eq!(
        (text(one).await, text(other).await, text(third).await),
        ("result".into(), "another".into(), "another".into())
    );
    assert_eq!(server.asked(), 3);
}

#[tokio::test]
async fn a_failure_is_shared() {
    let (coalescer, (server, tell)) = (Coalescer::default(), Server::new());
    let send = |request| server.answer(request);
    let told = async { tell.send(Err(WasiError::ConnectionRefused)).map_err(drop).unwrap() };
    let (one, other, ()) =
        tokio::join!(coalescer.send(request("q", "t"), send), coalescer.send(request("q", "t"), send), told);
    assert!(matches!((one, other), (Err(WasiError::ConnectionRefused), Err(WasiError::ConnectionRefused))));
    assert_eq!(server.asked(), 1);
}

#[tokio::test]
async fn when_the_leader_gives_up_a_follower_sends_again() {
    let (coalescer, (server, _tell)) = (Coalescer::default(), Server::new());
    let send = |request| server.answer(request);
    let mut first = Box::pin(coalescer.send(request("q", "t"), send));
    assert!(futures::poll!(&mut first).is_pending());
    let mut second = Box::pin(coalescer.send(request("q", "t"), send));
    assert!(futures::poll!(&mut second).is_pending());
    assert_eq!(server.asked(), 1);
    drop(first);
    assert_eq!(text(second.await).await, "another");
    assert_eq!(server.asked(), 2);
}

#[tokio::test]
async fn a_slow_reader_and_one_that_leaves_do_not_delay_the_others() {
    let (coalescer, (server, tell)) = (Coalescer::default(), Server::new());
    let send = |request| server.answer(request);
    let (parts, mut source) = mpsc::unbounded_channel::<Result<Frame<Bytes>, WasiError>>();
    let body = StreamBody::new(futures::stream::poll_fn(move |cx| source.poll_recv(cx)));
    let told = async { tell.send(Ok(Response::new(body.boxed_unsync()))).map_err(drop).unwrap() };
    let (leaves, slow, fast, ()) = tokio::join!(
        coalescer.send(request("q", "t"), send),
        coalescer.send(request("q", "t"), send),
        coalescer.send(request("q", "t"), send),
        told
    );
    let (mut leaves, mut fast) = (leaves.unwrap().into_body(), fast.unwrap().into_body());
    // The one who asked the source last goes away: the other must be woken all the same.
    let waiting = tokio::spawn(async move {
        let frame = fast.frame().await.unwrap().unwrap().into_data().unwrap();
        (frame, fast)
    });
    tokio::task::yield_now().await;
    assert!(futures::poll!(leaves.frame()).is_pending());
    drop(leaves);
    parts.send(Ok(Frame::data(Bytes::from_static(b"one ")))).unwrap();
    let (frame, fast) = waiting.await.unwrap();
    assert_eq!(frame, "one ");
    parts.send(Ok(Frame::data(Bytes::from_static(b"two")))).unwrap();
    drop(parts);
    assert_eq!(fast.collect().await.unwrap().to_bytes(), "two");
    assert_eq!(text(slow).await, "one two");
    assert_eq!(server.asked(), 1);
}
