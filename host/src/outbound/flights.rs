//! Requests of one component that are the same, byte for byte, and under way at the same moment
//! are sent once, if the manifest says so (`share`).
//!
//! Who comes first sends the request. Who comes with the same before the head of the response is
//! there waits for it, takes no place of its own, and gets a copy. If the first one gives up before
//! that, one of the others sends the request again. A response that nobody else waits for passes
//! untouched; one that is shared is kept until the last of them has it, so that a slow reader holds
//! up nobody. Its size is bounded as any response's is.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderName, HeaderValue, Method, Request, Response, Uri};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full, Limited};
use tokio::sync::watch;
use wasmtime_wasi_http::{Error as WasiError, WasiBody};

use super::counters::Counter;

/// Bytes of a request's body that are compared. A request with more is sent alone, as is one that
/// does not say how much it has, unless its method usually has none.
const MOST_COMPARED: u64 = 1 << 20;

/// Everything that a server sees of a request.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    method: Method,
    uri: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
}

/// What became of a request that several wait for.
type Landed = Option<Result<Arc<Shared>, Arc<WasiError>>>;

/// The requests of one component that are under way and have no response yet.
#[derive(Default)]
pub struct Flights {
    under_way: Mutex<HashMap<Key, Weak<watch::Sender<Landed>>>>,
    /// Requests that waited for another's response.
    pub joined: Counter,
}

enum Seat {
    First(Arc<watch::Sender<Landed>>),
    Follower(watch::Receiver<Landed>),
}

impl Flights {
    /// Sends `request` by `send`, or waits for the response to one that is the same.
    pub async fn send<F>(
        &self,
        request: Request<WasiBody>,
        send: impl Fn(Request<WasiBody>) -> F,
    ) -> Result<Response<WasiBody>, WasiError>
    where
        F: Future<Output = Result<Response<WasiBody>, WasiError>>,
    {
        let (parts, body) = request.into_parts();
        let length = parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        let has_no_body = length.is_none() && matches!(parts.method, Method::GET | Method::HEAD);
        if !has_no_body && length.is_none_or(|length| length > MOST_COMPARED) {
            return send(Request::from_parts(parts, body)).await;
        }
        let body = whole(body).await?;
        let mut headers: Vec<_> = parts.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        headers.sort_by(|a, b| a.0.as_str().cmp(b.0.as_str()));
        let key = Key { method: parts.method.clone(), uri: parts.uri.clone(), headers, body };
        loop {
            match self.seat(&key) {
                Seat::First(flight) => {
                    let body = Full::new(key.body.clone()).map_err(|never| match never {}).boxed_unsync();
                    let entered = Entered { flights: self, key: &key };
                    let sent = send(Request::from_parts(parts.clone(), body)).await;
                    drop(entered);
                    return land(&flight, sent);
                }
                Seat::Follower(mut flight) => {
                    let landed = flight.wait_for(Option::is_some).await.map(|landed| landed.clone());
                    match landed {
                        Ok(Some(Ok(shared))) => return Ok(shared.copy()),
                        Ok(Some(Err(error))) => return Err(copy_of(&error)),
                        // The first one gave up.
                        Ok(None) | Err(_) => {}
                    }
                }
            }
        }
    }

    fn seat(&self, key: &Key) -> Seat {
        let mut flights = self.lock();
        let entry = flights.entry(key.clone());
        if let Entry::Occupied(flight) = &entry
            && let Some(flight) = flight.get().upgrade()
        {
            let waiting = flight.subscribe();
            self.joined.add(1);
            return Seat::Follower(waiting);
        }
        let flight = Arc::new(watch::Sender::new(None));
        entry.insert_entry(Arc::downgrade(&flight));
        Seat::First(flight)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Weak<watch::Sender<Landed>>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request's body, of at most [`MOST_COMPARED`].
async fn whole(body: WasiBody) -> Result<Bytes, WasiError> {
    let limited = Limited::new(body, MOST_COMPARED as usize).collect().await;
    let too_large = WasiError::HttpRequestBodySize(Some(MOST_COMPARED));
    Ok(limited.map_err(|error| error.downcast::<WasiError>().map_or(too_large, |error| *error))?.to_bytes())
}

/// Nobody joins a flight after this is dropped.
struct Entered<'a> {
    flights: &'a Flights,
    key: &'a Key,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.flights.lock().remove(self.key);
    }
}

/// Gives what came to all who wait.
fn land(
    flight: &watch::Sender<Landed>,
    sent: Result<Response<WasiBody>, WasiError>,
) -> Result<Response<WasiBody>, WasiError> {
    if flight.is_closed() {
        return sent;
    }
    match sent {
        Ok(response) => {
            let shared = Arc::new(Shared::new(response));
            let own = shared.copy();
            flight.send_replace(Some(Ok(shared)));
            Ok(own)
        }
        Err(error) => {
            let error = Arc::new(error);
            flight.send_replace(Some(Err(error.clone())));
            Err(copy_of(&error))
        }
    }
}

/// The same code again; [`WasiError`] cannot be cloned.
fn copy_of(error: &WasiError) -> WasiError {
    match error {
        WasiError::DnsTimeout => WasiError::DnsTimeout,
        WasiError::DnsError { rcode, info_code } => WasiError::DnsError { rcode: rcode.clone(), info_code: *info_code },
        WasiError::DestinationIpProhibited => WasiError::DestinationIpProhibited,
        WasiError::DestinationIpUnroutable => WasiError::DestinationIpUnroutable,
        WasiError::ConnectionRefused => WasiError::ConnectionRefused,
        WasiError::ConnectionTerminated => WasiError::ConnectionTerminated,
        WasiError::ConnectionTimeout => WasiError::ConnectionTimeout,
        WasiError::ConnectionReadTimeout => WasiError::ConnectionReadTimeout,
        WasiError::ConnectionLimitReached => WasiError::ConnectionLimitReached,
        WasiError::TlsProtocolError => WasiError::TlsProtocolError,
        WasiError::TlsCertificateError => WasiError::TlsCertificateError,
        WasiError::HttpRequestDenied => WasiError::HttpRequestDenied,
        WasiError::HttpResponseIncomplete => WasiError::HttpResponseIncomplete,
        WasiError::HttpResponseBodySize(size) => WasiError::HttpResponseBodySize(*size),
        WasiError::HttpResponseHeaderSectionSize(size) => WasiError::HttpResponseHeaderSectionSize(*size),
        WasiError::HttpResponseTimeout => WasiError::HttpResponseTimeout,
        WasiError::HttpProtocolError => WasiError::HttpProtocolError,
        _ => WasiError::InternalError(None),
    }
}

/// A response with several readers. Whoever has read all that came so far asks for more.
struct Shared {
    head: http::response::Parts,
    state: Mutex<State>,
    readers: Arc<Readers>,
}

struct State {
    source: Option<WasiBody>,
    came: Vec<Bytes>,
    failed: Option<Arc<WasiError>>,
}

/// Those who wait for more. The source wakes all of them: the one who asked it may be gone.
#[derive(Default)]
struct Readers(Mutex<Vec<Waker>>);

impl Readers {
    fn add(&self, waker: &Waker) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.iter().any(|known| known.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }
}

impl Wake for Readers {
    fn wake(self: Arc<Self>) {
        let waiting = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Shared {
    fn new(response: Response<WasiBody>) -> Self {
        let (head, source) = response.into_parts();
        let state = State { source: Some(source), came: Vec::new(), failed: None };
        Self { head, state: Mutex::new(state), readers: Arc::default() }
    }

    fn copy(self: &Arc<Self>) -> Response<WasiBody> {
        let reader = Reader { shared: self.clone(), read: 0 };
        Response::from_parts(self.head.clone(), reader.boxed_unsync())
    }
}

struct Reader {
    shared: Arc<Shared>,
    /// How many of the parts that came.
    read: usize,
}

impl Body for Reader {
    type Data = Bytes;
    type Error = WasiError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, WasiError>>> {
        let shared = self.shared.clone();
        let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(part) = state.came.get(self.read) {
                self.read += 1;
                return Poll::Ready(Some(Ok(Frame::data(part.clone()))));
            }
            if let Some(error) = &state.failed {
                return Poll::Ready(Some(Err(copy_of(error))));
            }
            let Some(source) = &mut state.source else { return Poll::Ready(None) };
            // Before the source is asked, so that no call is missed.
            shared.readers.add(cx.waker());
            let waker = Waker::from(shared.readers.clone());
            match Pin::new(source).poll_frame(&mut Context::from_waker(&waker)) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => state.source = None,
                Poll::Ready(Some(Err(error))) => (state.source, state.failed) = (None, Some(Arc::new(error))),
                // Trailers of a shared response are left out.
                Poll::Ready(Some(Ok(frame))) => state.came.extend(frame.into_data().ok()),
            }
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
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
    async fn the_same_request_is_sent_once_and_answered_to_all() {
        let (flights, (server, tell)) = (Flights::default(), Server::new());
        let send = |request| server.answer(request);
        let all = futures::future::join_all((0..20).map(|_| flights.send(request("q", "t"), send)));
        let told = async { tell.send(Ok(response("result"))).unwrap() };
        let (all, ()) = tokio::join!(all, told);
        assert_eq!(server.asked(), 1);
        for one in all {
            assert_eq!(text(one).await, "result");
        }
        assert_eq!(flights.joined.get(), 19);
        assert_eq!(text(flights.send(request("q", "t"), send).await).await, "another", "it is not a cache");
        assert!(flights.lock().is_empty());
    }

    #[tokio::test]
    async fn a_request_that_need_not_say_its_length_is_shared_too() {
        for (method, asked) in [(Method::GET, 1), (Method::HEAD, 1), (Method::POST, 2)] {
            let (flights, (server, tell)) = (Flights::default(), Server::new());
            let send = |request| server.answer(request);
            let without_length = || {
                let mut request = request("", "t");
                *request.method_mut() = method.clone();
                request.headers_mut().remove(CONTENT_LENGTH);
                request
            };
            let told = async { tell.send(Ok(response("result"))).unwrap() };
            let (one, other, ()) =
                tokio::join!(flights.send(without_length(), send), flights.send(without_length(), send), told);
            assert_eq!((text(one).await, server.asked()), ("result".into(), asked), "{method}");
            assert_eq!(text(other).await, if asked == 1 { "result" } else { "another" });
        }
    }

    #[tokio::test]
    async fn a_body_that_nobody_announced_has_a_bound() {
        let (flights, (server, _tell)) = (Flights::default(), Server::new());
        let large = Full::new(Bytes::from(vec![0; MOST_COMPARED as usize + 1])).map_err(|never| match never {});
        let request = Request::get("http://engine.test/").body(large.boxed_unsync()).unwrap();
        let refused = flights.send(request, |request| server.answer(request)).await;
        assert!(matches!(refused, Err(WasiError::HttpRequestBodySize(Some(MOST_COMPARED)))));
        assert_eq!(server.asked(), 0);
    }

    #[tokio::test]
    async fn any_difference_makes_it_another_request() {
        let (flights, (server, tell)) = (Flights::default(), Server::new());
        let send = |request| server.answer(request);
        let told = async { tell.send(Ok(response("result"))).unwrap() };
        let (one, other, third, ()) = tokio::join!(
            flights.send(request("q", "t"), send),
            flights.send(request("q", "u"), send),
            flights.send(request("r", "t"), send),
            told
        );
        assert_eq!(
            (text(one).await, text(other).await, text(third).await),
            ("result".into(), "another".into(), "another".into())
        );
        assert_eq!(server.asked(), 3);
    }

    #[tokio::test]
    async fn a_failure_is_everybodys() {
        let (flights, (server, tell)) = (Flights::default(), Server::new());
        let send = |request| server.answer(request);
        let told = async { tell.send(Err(WasiError::ConnectionRefused)).map_err(drop).unwrap() };
        let (one, other, ()) =
            tokio::join!(flights.send(request("q", "t"), send), flights.send(request("q", "t"), send), told);
        assert!(matches!((one, other), (Err(WasiError::ConnectionRefused), Err(WasiError::ConnectionRefused))));
        assert_eq!(server.asked(), 1);
    }

    #[tokio::test]
    async fn when_the_first_gives_up_another_asks_again() {
        let (flights, (server, _tell)) = (Flights::default(), Server::new());
        let send = |request| server.answer(request);
        let mut first = Box::pin(flights.send(request("q", "t"), send));
        assert!(futures::poll!(&mut first).is_pending());
        let mut second = Box::pin(flights.send(request("q", "t"), send));
        assert!(futures::poll!(&mut second).is_pending());
        assert_eq!(server.asked(), 1);
        drop(first);
        assert_eq!(text(second.await).await, "another");
        assert_eq!(server.asked(), 2);
    }

    #[tokio::test]
    async fn a_slow_reader_and_one_who_leaves_hold_up_nobody() {
        let (flights, (server, tell)) = (Flights::default(), Server::new());
        let send = |request| server.answer(request);
        let (parts, mut source) = mpsc::unbounded_channel::<Result<Frame<Bytes>, WasiError>>();
        let body = StreamBody::new(futures::stream::poll_fn(move |cx| source.poll_recv(cx)));
        let told = async { tell.send(Ok(Response::new(body.boxed_unsync()))).map_err(drop).unwrap() };
        let (leaves, slow, fast, ()) = tokio::join!(
            flights.send(request("q", "t"), send),
            flights.send(request("q", "t"), send),
            flights.send(request("q", "t"), send),
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
}
