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
mod tests;
