//! Request coalescing: the host sends equal concurrent requests of one component once. The requests must be equal byte
//! for byte, and the manifest must allow it for their method (`coalesce`, `coalesce_methods`). Two equal requests of an
//! unsafe method, such as POST, may be meant to have their effect twice.
//!
//! The first request is the leader, and the host sends it. Equal requests that come before the head of its response are
//! followers: they wait without a permit and get a copy. If the leader is cancelled before the head, one of the
//! followers becomes the leader.
//!
//! A response without followers is not copied. A shared one is kept until its last reader has read it, so that a slow
//! reader does not delay the others. Its size has the limit of every response, and the host's memory budget counts its
//! bytes.
//!
//! Permits are per client. If the leader gets no permit, each follower waits for a permit of its own client. A follower
//! that gets none fails alone. The first follower with a permit becomes the leader, and the others give their permits
//! back and follow it. A request with a permit follows only a leader with a permit.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use hexad_limits::memory_budget::{MemoryBudget, Reservation};
use http::header::CONTENT_LENGTH;
use http::{HeaderName, HeaderValue, Method, Request, Response, Uri};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full, Limited};
use tokio::sync::watch;
use wasmtime_wasi_http::{Error as WasiError, WasiBody};

use super::component_outbound::OutboundCounters;

/// The longest request body that is compared, in bytes. Requests with a longer body are not coalesced. Requests without
/// a declared length are coalesced only if their method usually has no body.
const MAX_COMPARED_BODY: u64 = 1 << 20;

/// A request as the server receives it.
#[derive(PartialEq, Eq, Hash)]
struct RequestParts {
    method: Method,
    uri: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
}

/// Request parts with their hash, computed once: hashing takes longer than all other work on the key.
#[derive(Clone, PartialEq, Eq)]
struct RequestKey {
    hash: u64,
    parts: Arc<RequestParts>,
}

impl Hash for RequestKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// The progress of a leader's request.
#[derive(Clone)]
enum LeaderProgress {
    /// The leader waits for its permit.
    Queued,
    /// The leader has its permit.
    Permitted,
    /// The leader got no permit: nothing was sent.
    Refused,
    Done(Result<Arc<SharedResponse>, Arc<WasiError>>),
}

impl LeaderProgress {
    fn is_over(&self) -> bool {
        matches!(self, Self::Refused | Self::Done(_))
    }
}

/// The requests of one component that have no response yet.
pub struct Coalescer {
    memory: Arc<MemoryBudget>,
    in_flight: Mutex<HashMap<RequestKey, Weak<watch::Sender<LeaderProgress>>>>,
    /// Randomly seeded, so that a client cannot choose requests with the same hash.
    hasher: RandomState,
    counters: Arc<OutboundCounters>,
}

enum Role {
    Leader(Arc<watch::Sender<LeaderProgress>>),
    Follower(watch::Receiver<LeaderProgress>),
}

impl Coalescer {
    pub fn new(memory: Arc<MemoryBudget>, counters: Arc<OutboundCounters>) -> Self {
        Self { memory, in_flight: Mutex::default(), hasher: RandomState::new(), counters }
    }

    /// Waits for a permit (`acquire`) and sends the request (`send`), or waits for the response to an equal request.
    pub async fn send<P, A, F>(
        &self,
        request: Request<WasiBody>,
        acquire: impl Fn() -> A,
        send: impl Fn(Request<WasiBody>, P) -> F,
    ) -> Result<Response<WasiBody>, WasiError>
    where
        A: Future<Output = Result<P, WasiError>>,
        F: Future<Output = Result<Response<WasiBody>, WasiError>>,
    {
        let (parts, body) = request.into_parts();
        let length = parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        let has_no_body = length.is_none() && matches!(parts.method, Method::GET | Method::HEAD);
        if !has_no_body && length.is_none_or(|length| length > MAX_COMPARED_BODY) {
            let permit = acquire().await?;
            return send(Request::from_parts(parts, body), permit).await;
        }
        let body = buffer_body(body, Reservation::new(self.memory.clone())).await?;
        let mut headers: Vec<_> = parts.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        headers.sort_by(|a, b| a.0.as_str().cmp(b.0.as_str()));
        let key = RequestParts { method: parts.method.clone(), uri: parts.uri.clone(), headers, body };
        let key = RequestKey { hash: self.hasher.hash_one(&key), parts: Arc::new(key) };
        // The permit that this request got itself, after its leader got none.
        let mut own_permit: Option<P> = None;
        loop {
            match self.join(&key, own_permit.is_some()) {
                Role::Leader(sender) => {
                    let registration = Registration { coalescer: self, key: &key, sender: &sender };
                    let permit = match own_permit {
                        Some(permit) => Ok(permit),
                        None => acquire().await,
                    };
                    let permit = match permit {
                        Ok(permit) => permit,
                        Err(error) => {
                            drop(registration);
                            sender.send_replace(LeaderProgress::Refused);
                            return Err(error);
                        }
                    };
                    sender.send_replace(LeaderProgress::Permitted);
                    let body = Full::new(key.parts.body.clone()).map_err(|never| match never {}).boxed_unsync();
                    let response = send(Request::from_parts(parts.clone(), body), permit).await;
                    drop(registration);
                    return self.publish(&sender, response);
                }
                Role::Follower(mut receiver) => {
                    // A follower waits without a permit.
                    own_permit = None;
                    let progress = receiver.wait_for(LeaderProgress::is_over).await.map(|progress| progress.clone());
                    match progress {
                        Ok(LeaderProgress::Done(Ok(shared))) => return Ok(shared.copy()),
                        Ok(LeaderProgress::Done(Err(error))) => return Err(clone_error(&error)),
                        // From now on, this request follows only a leader with a permit. So this happens once, unless
                        // that leader is cancelled.
                        Ok(LeaderProgress::Refused) => own_permit = Some(acquire().await?),
                        // The leader was cancelled.
                        Ok(LeaderProgress::Queued | LeaderProgress::Permitted) | Err(_) => {}
                    }
                }
            }
        }
    }

    /// Follows the leader of an equal request, or becomes the leader. A request with a permit replaces a leader that
    /// still waits for one; the replaced leader keeps its followers.
    fn join(&self, key: &RequestKey, has_permit: bool) -> Role {
        let mut in_flight = self.lock();
        let entry = in_flight.entry(key.clone());
        if let Entry::Occupied(sender) = &entry
            && let Some(sender) = sender.get().upgrade()
            && !(has_permit && is_queued(&sender))
        {
            let receiver = sender.subscribe();
            self.counters.coalesced.add(1);
            return Role::Follower(receiver);
        }
        let progress = if has_permit { LeaderProgress::Permitted } else { LeaderProgress::Queued };
        let sender = Arc::new(watch::Sender::new(progress));
        entry.insert_entry(Arc::downgrade(&sender));
        Role::Leader(sender)
    }

    /// Gives the outcome to the followers and to the leader.
    fn publish(
        &self,
        sender: &watch::Sender<LeaderProgress>,
        response: Result<Response<WasiBody>, WasiError>,
    ) -> Result<Response<WasiBody>, WasiError> {
        if sender.is_closed() {
            return response;
        }
        match response {
            Ok(response) => {
                let shared = Arc::new(SharedResponse::new(response, Reservation::new(self.memory.clone())));
                let own = shared.copy();
                sender.send_replace(LeaderProgress::Done(Ok(shared)));
                Ok(own)
            }
            Err(error) => {
                let error = Arc::new(error);
                sender.send_replace(LeaderProgress::Done(Err(error.clone())));
                Err(clone_error(&error))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestKey, Weak<watch::Sender<LeaderProgress>>>> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a leader waits for its permit.
fn is_queued(sender: &watch::Sender<LeaderProgress>) -> bool {
    matches!(*sender.borrow(), LeaderProgress::Queued)
}

/// Reads a request body of at most [`MAX_COMPARED_BODY`]. The host's memory budget counts its bytes.
async fn buffer_body(body: WasiBody, memory: Reservation) -> Result<Bytes, WasiError> {
    let mut body = Limited::new(body, MAX_COMPARED_BODY as usize);
    let mut buffered = BufferedBody { bytes: Vec::new(), memory };
    while let Some(frame) = body.frame().await {
        let too_large = WasiError::HttpRequestBodySize(Some(MAX_COMPARED_BODY));
        let frame = frame.map_err(|error| error.downcast::<WasiError>().map_or(too_large, |error| *error))?;
        if let Ok(data) = frame.into_data() {
            buffered.extend(&data)?;
        }
    }
    Ok(Bytes::from_owner(buffered))
}

struct BufferedBody {
    bytes: Vec<u8>,
    memory: Reservation,
}

impl BufferedBody {
    fn extend(&mut self, data: &[u8]) -> Result<(), WasiError> {
        if !self.memory.grow(data.len() as u64) {
            return Err(WasiError::InternalError(Some("the host has no memory for the request's body".into())));
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }
}

impl AsRef<[u8]> for BufferedBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A leader's entry. After its drop, no follower joins.
struct Registration<'a> {
    coalescer: &'a Coalescer,
    key: &'a RequestKey,
    sender: &'a Arc<watch::Sender<LeaderProgress>>,
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        let mut in_flight = self.coalescer.lock();
        // Another leader may have replaced the entry.
        if in_flight.get(self.key).is_some_and(|sender| std::ptr::eq(sender.as_ptr(), Arc::as_ptr(self.sender))) {
            in_flight.remove(self.key);
        }
    }
}

/// [`WasiError`] has no `Clone`.
fn clone_error(error: &WasiError) -> WasiError {
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

/// A response with several readers. A reader that has read all chunks so far polls the source.
struct SharedResponse {
    head: http::response::Parts,
    state: Mutex<SharedState>,
    wakers: Arc<Wakers>,
}

struct SharedState {
    source: Option<WasiBody>,
    chunks: Vec<Bytes>,
    /// The memory of the chunks.
    reserved: Reservation,
    failed: Option<Arc<WasiError>>,
}

impl SharedState {
    /// Keeps a chunk for all readers. A shared response loses its trailers.
    fn keep(&mut self, frame: Frame<Bytes>) {
        let Ok(data) = frame.into_data() else { return };
        if self.reserved.grow(data.len() as u64) {
            return self.chunks.push(data);
        }
        let why = WasiError::InternalError(Some("the host has no memory for the response".into()));
        (self.source, self.failed) = (None, Some(Arc::new(why)));
    }
}

/// The readers that wait for the source. All are woken, because the reader that polled the source may be gone.
#[derive(Default)]
struct Wakers(Mutex<Vec<Waker>>);

impl Wakers {
    fn add(&self, waker: &Waker) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.iter().any(|known| known.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }
}

impl Wake for Wakers {
    fn wake(self: Arc<Self>) {
        let waiting = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl SharedResponse {
    fn new(response: Response<WasiBody>, reserved: Reservation) -> Self {
        let (head, source) = response.into_parts();
        let state = SharedState { source: Some(source), chunks: Vec::new(), reserved, failed: None };
        Self { head, state: Mutex::new(state), wakers: Arc::default() }
    }

    fn copy(self: &Arc<Self>) -> Response<WasiBody> {
        let reader = ResponseReader { shared: self.clone(), chunks_read: 0 };
        Response::from_parts(self.head.clone(), reader.boxed_unsync())
    }
}

struct ResponseReader {
    shared: Arc<SharedResponse>,
    /// Number of chunks that were read.
    chunks_read: usize,
}

impl Body for ResponseReader {
    type Data = Bytes;
    type Error = WasiError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, WasiError>>> {
        let shared = self.shared.clone();
        let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(chunk) = state.chunks.get(self.chunks_read) {
                self.chunks_read += 1;
                return Poll::Ready(Some(Ok(Frame::data(chunk.clone()))));
            }
            if let Some(error) = &state.failed {
                return Poll::Ready(Some(Err(clone_error(error))));
            }
            let Some(source) = &mut state.source else { return Poll::Ready(None) };
            // The waker is added before the source is polled, so that no wake-up is lost.
            shared.wakers.add(cx.waker());
            let waker = Waker::from(shared.wakers.clone());
            match Pin::new(source).poll_frame(&mut Context::from_waker(&waker)) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => state.source = None,
                Poll::Ready(Some(Err(error))) => (state.source, state.failed) = (None, Some(Arc::new(error))),
                Poll::Ready(Some(Ok(frame))) => state.keep(frame),
            }
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests;
