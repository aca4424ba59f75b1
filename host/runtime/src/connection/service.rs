//! Hands a connection's requests to the application, and counts the requests in flight.

use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Context;

use bytes::Bytes;
use hexad_http::body::{self, PermitGuard, ResponseBody};
use hexad_http::origin::RequestOrigin;
use hexad_http::reply;
use hexad_http::send_buffer::{BelowMinRate, BodyProgress, Budget, SendBuffer, StreamRequests, Upload};
use hexad_support::shared_map::SharedMap;
use hexad_telemetry::access_log::AccessRecord;
use hexad_telemetry::request_id::X_REQUEST_ID;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::Notify;
use wasmtime_wasi_http::WasiBody;

use super::cancellations::{Cancellations, OpenStream};
use super::client_body::ClientBody;
use super::frame_meter::PERIOD;
use super::in_flight::{InFlight, PendingBodyEnds, RequestInFlight};
use super::socket::SocketState;
use super::{BODY_TIMEOUT, MAX_HEADERS};
use crate::application::Application;
use crate::ingress::{IdleConnection, Ingress, OwnCookie, Peer, ReceiveBounds, Unread};

/// The header that announces how long an idle connection stays open.
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// Bytes of a body that hyper takes at once.
const SMALL_BODY: u64 = 64 * 1024;

tokio::task_local! {
    /// The progress of the HTTP/2 stream that a task serves.
    pub static STREAM_FLOW: Arc<BodyProgress>;
}

/// The state that the requests of one connection share.
pub struct Connection {
    pub ingress: Arc<Ingress>,
    pub socket: Arc<SocketState>,
    /// The bytes that wait for the client of an HTTP/1 connection.
    pub flow: Arc<BodyProgress>,
    pub receive_bounds: ReceiveBounds,
    application: Arc<Application>,
    /// The shard that serves the connection.
    shard: usize,
    peer: Peer,
    budget: Arc<Budget>,
    /// On HTTP/2: the requests of each client.
    stream_requests: SharedMap<IpAddr, StreamRequests>,
    /// Bytes of request bodies that the client may send over HTTP/2 before components have read them.
    upload_window: Arc<Budget>,
    requests: AtomicUsize,
    /// Notified when the first request begins, and on HTTP/2 when each does.
    request_begun: Notify,
    /// Responses in flight. `bodies` counts the request bodies.
    in_flight: Arc<AtomicUsize>,
    bodies: Arc<AtomicUsize>,
    chunked_ends: Arc<PendingBodyEnds>,
    cancellations: Arc<Cancellations>,
}

/// A request being served. The future has some kilobytes. Boxed, it is not copied at each call, and an idle connection
/// does not keep it.
pub type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<ClientBody>, KeepAliveUnsafe>> + Send>>;

/// The end of a request is uncertain, so the host takes no further request from the connection.
#[derive(Debug, thiserror::Error)]
#[error("the request before this one had trailers, or was not read to its end")]
pub struct KeepAliveUnsafe;

impl Connection {
    pub fn new(
        application: Arc<Application>,
        shard: usize,
        peer: Peer,
        ingress: Arc<Ingress>,
        socket: Arc<SocketState>,
        receive_bounds: ReceiveBounds,
    ) -> Self {
        let budget = ingress.send_budgets.connection();
        Self {
            ingress,
            socket,
            flow: Arc::default(),
            receive_bounds,
            application,
            shard,
            peer,
            budget,
            stream_requests: SharedMap::default(),
            upload_window: Arc::new(Budget::new(usize::try_from(receive_bounds.upload_window).unwrap_or(usize::MAX))),
            requests: AtomicUsize::new(0),
            request_begun: Notify::new(),
            in_flight: Arc::default(),
            bodies: Arc::default(),
            chunked_ends: Arc::default(),
            cancellations: Arc::default(),
        }
    }

    /// Whether a proxy's clients share the connection.
    pub fn is_of_proxy(&self) -> bool {
        self.peer.is_trusted()
    }

    /// How many requests have begun.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// Returns once more requests than `seen` have begun. On HTTP/1, `seen` must be 0.
    pub async fn requests_after(&self, seen: usize) {
        loop {
            let begun = self.request_begun.notified();
            if self.requests() != seen {
                return;
            }
            begun.await;
        }
    }

    /// Whether no request is in flight, and no byte is on its way to the socket.
    pub fn is_idle(&self) -> bool {
        !self.responds() && self.bodies.load(Ordering::Relaxed) == 0 && self.budget.is_unused()
    }

    /// Whether a response is in flight. If not, the body of an answered request may still be.
    pub fn responds(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 0
    }

    /// Whether the end of a request is uncertain: the connection can take no further one.
    pub fn has_unclear_end(&self) -> bool {
        self.chunked_ends.are_unclear()
    }

    /// The progress of the current request's response.
    fn current_flow(&self) -> Arc<BodyProgress> {
        STREAM_FLOW.try_with(Arc::clone).unwrap_or_else(|_| self.flow.clone())
    }

    /// Logs that the client has lost a response because it was too slow.
    pub fn log_slow_reader(&self, flow: &BodyProgress, reason: BelowMinRate) {
        self.ingress.log_slow_reader(self.peer.source(flow.client()), reason);
    }

    /// Marks the connection as evictable while it waits for a request or for the rest of a head.
    pub fn await_client(&self) -> IdleConnection<'_> {
        self.ingress.idle.enter(self.peer.network())
    }

    /// Logs that the host closed the connection because of a flood of frames. Over HTTP/2, a proxy's clients share the
    /// connection.
    pub fn log_flood(&self) {
        self.ingress.log_flood(self.peer.source(self.flow.client()));
    }

    pub fn handle(self: &Arc<Self>, request: Request<Incoming>) -> ResponseFuture {
        if self.requests.fetch_add(1, Ordering::Relaxed) == 0 || request.version() == Version::HTTP_2 {
            self.request_begun.notify_waiters();
        }
        // The bytes that were read are this request's head, and not progress of the previous body.
        self.socket.take_has_read();
        let earlier = self.chunked_ends.unseen();
        let ends = (request.version() < Version::HTTP_2).then_some(&self.chunked_ends);
        let request = request.map(|body| RequestInFlight::begin(body, &self.bodies, ends));
        let own = self.chunked_ends.unseen().saturating_sub(earlier);
        let (connection, in_flight) = (self.clone(), InFlight::begin(&self.in_flight));
        Box::pin(async move {
            if earlier > 0 {
                // hyper has read the whole body of the previous request, but its reader may not have.
                let seen = connection.chunked_ends.until_seen(own);
                tokio::time::timeout(BODY_TIMEOUT, seen).await.map_err(|_| KeepAliveUnsafe)?;
            }
            match connection.has_unclear_end() {
                true => Err(KeepAliveUnsafe),
                false => Ok(connection.serve(request, in_flight).await),
            }
        })
    }

    /// Reserves room for the body bytes that the client of `network`, if known, may send ahead of the component.
    /// Returns the request with its body for the component, the wait for the body, and whether there is room.
    fn reserve_ahead(
        &self,
        request: Request<RequestInFlight>,
        network: Option<IpAddr>,
    ) -> (Request<WasiBody>, Option<Upload>, bool) {
        let (head, mut body) = request.into_parts();
        let network = network.filter(|_| !body.is_end_stream());
        let window = u64::from(self.receive_bounds.stream_window());
        let ahead = body.size_hint().upper().map_or(window, |length| length.min(window));
        let ahead = usize::try_from(ahead).unwrap_or(usize::MAX);
        let reservation =
            network.map(|network| self.ingress.receive_budget.reserve(network, &self.upload_window, ahead));
        let has_room = !matches!(reservation, Some(None));
        let upload = Upload::default();
        body.keep(reservation.flatten(), upload.clone());
        let upload = (!body.is_end_stream()).then_some(upload);
        (Request::from_parts(head, body.map_err(Into::into).boxed_unsync()), upload, has_room)
    }

    /// Gives a request its id and its origin. Returns its id, its client's network, and its line of the access log.
    fn identify(&self, request: &mut Request<RequestInFlight>) -> (HeaderValue, Option<IpAddr>, Option<AccessRecord>) {
        self.peer.apply_to(request, &self.ingress);
        // Assigned here, so that requests that do not reach the application have an id too.
        let id = self.application.ids.assign(request.headers_mut());
        let origin = request.extensions().get::<RequestOrigin>();
        let network = origin.map(RequestOrigin::network);
        let access = self.ingress.access_log.as_ref().map(|log| log.begin(request, origin.map(|origin| origin.client)));
        if let Some(network) = network.filter(|_| !request.method().is_safe()) {
            request.extensions_mut().insert(Unread { ingress: self.ingress.clone(), network });
        }
        if let Some(network) = network.filter(|_| self.is_of_proxy()) {
            self.current_flow().set_client(network);
        }
        (id, network, access)
    }

    /// The application's response. Sets `waited` if it was not there at once.
    async fn handle_noting_waits(&self, request: Request<WasiBody>, waited: &mut bool) -> Response<ResponseBody> {
        let mut handling = pin!(self.application.handle(self.shard, request));
        let polled = |cx: &mut Context<'_>| {
            let response = handling.as_mut().poll(cx);
            *waited |= response.is_pending();
            response
        };
        poll_fn(polled).await
    }

    /// Adds the headers of the connection to a response, and removes what no component may set.
    fn complete_head(&self, headers: &mut HeaderMap, id: HeaderValue, stays_open: bool) {
        OwnCookie::Operator.remove_set(headers);
        headers.entry(X_REQUEST_ID).or_insert(id);
        if self.has_unclear_end() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        } else if stays_open
            && !headers.contains_key(CONNECTION)
            && let Some(announced) = &self.ingress.keep_alive.header
        {
            headers.insert(KEEP_ALIVE, announced.clone());
        }
    }

    async fn serve(&self, mut request: Request<RequestInFlight>, in_flight: InFlight) -> Response<ClientBody> {
        // Counted before the host removes untrusted fields: the client has sent those as well.
        let has_too_many_headers = request.headers().len() > MAX_HEADERS;
        let (version, is_head, is_safe) =
            (request.version(), request.method() == Method::HEAD, request.method().is_safe());
        let stays_open = version == Version::HTTP_11 && !asks_to_close(request.headers());
        let (id, network, mut access) = self.identify(&mut request);
        let mut waited = false;
        let is_overdrawn = || network.is_some_and(|network| self.ingress.send_budgets.is_overdrawn_by(network));
        let is_http2 = version == Version::HTTP_2;
        let sharing = network.filter(|_| is_http2 && self.is_of_proxy());
        let has_cancelled = sharing.is_some_and(|client| self.cancellations.are_too_many(client));
        let open_stream = sharing.map(|client| OpenStream::begin(&self.cancellations, client));
        let (request, upload, has_room) = self.reserve_ahead(request, network.filter(|_| is_http2));
        let requests = network.filter(|_| is_http2).map(|network| {
            let of_client = || self.ingress.send_budgets.stream_requests(network);
            self.stream_requests.get_or_insert_with(network, of_client)
        });
        let pending = match &requests {
            Some(requests) if has_room => Some(requests.begin(upload).await),
            _ => None,
        };
        let refusal = match is_framed_twice(&request) {
            true => Some(refuse_framing()),
            false if has_cancelled => Some(without_body(reply::cancelled_requests(PERIOD))),
            false if is_overdrawn() => Some(refuse_response(is_http2)),
            false if !has_room => Some(reply::unread_requests()),
            // Over HTTP/1, hyper has refused such a head.
            false if has_too_many_headers => Some(reply::too_many_headers(MAX_HEADERS)),
            false => None,
        };
        let response = match refusal {
            Some(refusal) => refusal,
            None => self.handle_noting_waits(request, &mut waited).await,
        };
        // Checked again: meanwhile, the host may have answered other requests of the address, and a whole body is in
        // memory from here on.
        let is_whole = response.extensions().get::<PermitGuard>().is_none();
        let is_long = response.body().size_hint().exact().is_some_and(|length| length > SMALL_BODY);
        let is_refused = is_whole && is_long && is_safe && is_overdrawn();
        let response = if is_refused { refuse_response(is_http2) } else { response };
        let (mut head, body) = response.into_parts();
        self.complete_head(&mut head.headers, id, stays_open);
        if let Some(access) = &mut access {
            access.record_head(head.status.as_u16(), &head.headers);
        }
        let has_no_body = is_head || head.status == StatusCode::NOT_MODIFIED;
        let in_progress = head.extensions.remove::<PermitGuard>();
        let is_large = in_progress.is_some() || body.size_hint().exact().is_none_or(|length| length > SMALL_BODY);
        let buffer = network.filter(|_| !has_no_body && (is_large || is_http2)).map(|network| {
            let budgets = self.ingress.send_budgets.of_response(self.budget.clone(), network);
            SendBuffer::new(self.current_flow(), budgets, requests)
        });
        let body = match buffer {
            Some(buffer) if is_large => ClientBody::buffered(body, buffer, in_progress, in_flight, access),
            Some(buffer) => ClientBody::charged(body, buffer, in_flight, access),
            None => ClientBody::direct(body, in_flight, access),
        };
        let body = body.completing(open_stream);
        drop(pending);
        // The other requests of this shard run before the response is written (decision 0016): the write wakes the
        // client, which may run on the same processor. A request that had to wait has let them run already. The body is
        // in the budget before, so that they see it.
        if !waited {
            tokio::task::yield_now().await;
        }
        Response::from_parts(head, body)
    }
}

/// Refuses a response because responses to the client's address wait unread. On HTTP/2, this one has no body, so that
/// it need not wait as well.
fn refuse_response(is_http2: bool) -> Response<ResponseBody> {
    match is_http2 {
        true => without_body(reply::unread_responses()),
        false => reply::unread_responses(),
    }
}

fn without_body(response: Response<ResponseBody>) -> Response<ResponseBody> {
    let (mut head, _) = response.into_parts();
    [CONTENT_LENGTH, CONTENT_TYPE].iter().for_each(|name| drop(head.headers.remove(name)));
    Response::from_parts(head, body::full(Bytes::new()))
}

/// Whether the request has another `Transfer-Encoding` than `chunked` (decision 0023). hyper reads the last one only,
/// and a proxy that reads the first sees another end of the body.
fn is_framed_twice<B>(request: &Request<B>) -> bool {
    let mut encodings = request.headers().get_all(TRANSFER_ENCODING).iter();
    let is_chunked =
        encodings.next().is_none_or(|first| first.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"));
    !is_chunked || encodings.next().is_some()
}

/// Refuses the request and closes the connection: the host cannot tell where the next request begins.
fn refuse_framing() -> Response<ResponseBody> {
    let mut response = reply::bad_request("Transfer-Encoding is not `chunked`, once and alone");
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn asks_to_close(headers: &HeaderMap) -> bool {
    let mut options = headers.get_all(CONNECTION).iter().filter_map(|line| line.to_str().ok());
    options.any(|line| line.split(',').any(|option| option.trim().eq_ignore_ascii_case("close")))
}
