//! Requests, responses and the requests of an area between the by-value handler and plain values.
//!
//! An area's handler is one future. At an exchange it waits for a response that another call brings: it is parked, and
//! that call goes on with it.

use super::bindings::exports::hexad::platform::by_value_handler as wit;
use super::http::{PIECE, complete_fields, with_body};
use super::outbound::{Budget, Network, chunks, failure, nanoseconds};
use crate::body::{Body, Chunk, HeldBody};
use crate::field_lines::{RequestHead, field_lines, parse_fields, request_head};
use crate::kept_bodies::{KeptBodies, Passage};
use crate::outbound::{Client, OutboundError, OutboundRequest, OutboundResponse};
use crate::request::{Origin, Request};
use crate::response::Response;
use bytes::Bytes;
use futures::future::{self, LocalBoxFuture};
use futures::stream::{LocalBoxStream, StreamExt};
use http::header::CONTENT_LENGTH;
use http::{Method, StatusCode};
use spin_sdk::wasip3::clocks::monotonic_clock;
use spin_sdk::wasip3::http::types::{self, ErrorCode, Fields};
use std::any::Any;
use std::cell::{Cell, LazyCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// The result of a call by value, as the host expects it.
pub type ByValueResult = Result<wit::Outcome, ErrorCode>;

/// Converts a request.
pub fn incoming(request: wit::Request) -> Result<Request, ErrorCode> {
    let head = RequestHead::parse(request.head).ok_or(ErrorCode::HttpProtocolError)?;
    let RequestHead { method, scheme, authority, target, headers } = head;
    let method = Method::from_bytes(&method).map_err(|_| ErrorCode::HttpRequestMethodInvalid)?;
    let target = std::str::from_utf8(&target).map_err(|_| ErrorCode::HttpRequestUriInvalid)?;
    let text = |bytes: Bytes| String::from_utf8_lossy(&bytes).into_owned();
    let origin = move || Origin { scheme: text(scheme), authority: text(authority) };
    let origin = Rc::new(LazyCell::new(Box::new(origin) as Box<_>));
    let body = if request.body.is_empty() { Body::Empty } else { request.body.into() };
    Ok(Request { origin, headers, body, ..Request::new(method, target) })
}

/// Converts a response. A body that is not there yet, or takes more than one piece, is written by a task of its own; a
/// body that the host has goes back to it. `kept` are the bodies that the host keeps.
pub fn outgoing(mut response: Response, head_only: bool, kept: wit::KeptBodies) -> ByValueResult {
    complete_fields(&mut response, head_only);
    let (status, fields) = (response.status.as_u16(), field_lines(&response.headers));
    let (body, number, rest) = match response.body {
        _ if head_only => (Vec::new(), None, None),
        Body::Empty => (Vec::new(), None, None),
        Body::Full(bytes) if bytes.len() <= PIECE => match KEPT.with(|known| known.passage(&bytes, kept)) {
            Passage::Bytes => (bytes.into(), None, None),
            Passage::Keep(number) => (bytes.into(), Some(number), None),
            Passage::Kept(number) => (Vec::new(), Some(number), None),
        },
        Body::Held(beginning, held) => match (held as Box<dyn Any>).downcast::<Rest>() {
            Ok(rest) => (beginning.into(), None, Some(rest.response)),
            Err(_) => return Err(ErrorCode::InternalError(Some("a body of another host".into()))),
        },
        body => (Vec::new(), None, Some(with_body(Fields::new(), body))),
    };
    Ok(wit::Outcome::Response(wit::Response { status, fields, body, kept: number, rest }))
}

/// The client of one request that is handled by value: the first request of the handler is an exchange, further ones
/// are sent as by [`Network`].
///
/// Only for a handler that waits for nothing else while it waits for its first response: anything else would belong to
/// the call in which the handler began to wait for it.
#[derive(Default)]
pub struct Exchanges(Rc<Exchange>);

#[derive(Default)]
struct Exchange {
    has_begun: Cell<bool>,
    request: Cell<Option<OutboundRequest>>,
    response: Cell<Option<Result<OutboundResponse, OutboundError>>>,
}

impl Client for Exchanges {
    fn send(&self, request: OutboundRequest) -> LocalBoxFuture<'static, Result<OutboundResponse, OutboundError>> {
        let exchange = self.0.clone();
        if exchange.has_begun.replace(true) {
            return Network.send(request);
        }
        exchange.request.set(Some(request));
        // The call that brings the response polls this future, so no waker is needed.
        Box::pin(future::poll_fn(move |_| exchange.response.take().map_or(Poll::Pending, Poll::Ready)))
    }
}

/// A handler that may wait for an exchange.
struct Handling {
    response: LocalBoxFuture<'static, Response>,
    exchange: Rc<Exchange>,
    head_only: bool,
    /// The bodies that the host keeps.
    kept: wit::KeptBodies,
    /// The time that the exchange may take, and when it began.
    total: Duration,
    began: u64,
}

thread_local! {
    /// The handlers that wait for an exchange, by their continuations.
    static PARKED: RefCell<HashMap<u64, Handling>> = RefCell::default();
    static NEXT: Cell<u64> = const { Cell::new(0) };
    /// The bodies that the host was asked to keep.
    static KEPT: KeptBodies = KeptBodies::default();
}

/// Begins to handle a request. `handle` gets the client that it must use.
pub async fn begin<F>(
    request: wit::Request,
    kept: wit::KeptBodies,
    handle: impl FnOnce(Rc<dyn Client>, Request) -> F,
) -> ByValueResult
where
    F: Future<Output = Response> + 'static,
{
    let request = incoming(request)?;
    let head_only = request.method == Method::HEAD;
    let exchanges = Exchanges::default();
    let exchange = exchanges.0.clone();
    let response = Box::pin(handle(Rc::new(exchanges), request));
    poll(Handling { response, exchange, head_only, kept, total: Duration::ZERO, began: 0 }).await
}

/// Goes on with the handler that waits for this exchange.
pub async fn go_on(continuation: u64, response: Result<wit::Response, ErrorCode>) -> ByValueResult {
    let parked = PARKED.with_borrow_mut(|parked| parked.remove(&continuation));
    let handling = parked.ok_or_else(no_exchange)?;
    let response = response.map_err(failure).and_then(|response| handling.received(response));
    handling.exchange.response.set(Some(response));
    poll(handling).await
}

/// The error of a response that no handler waits for.
pub fn no_exchange() -> ErrorCode {
    ErrorCode::InternalError(Some("no request waits for this response".into()))
}

/// Runs the handler until it has its response, or asks for an exchange.
async fn poll(mut handling: Handling) -> ByValueResult {
    let next = future::poll_fn(|cx| match handling.response.as_mut().poll(cx) {
        Poll::Ready(response) => Poll::Ready(Ok(response)),
        Poll::Pending => handling.exchange.request.take().map_or(Poll::Pending, |request| Poll::Ready(Err(request))),
    });
    match next.await {
        Ok(response) => outgoing(response, handling.head_only, handling.kept),
        Err(request) => Ok(wit::Outcome::Exchange(handling.park(request))),
    }
}

impl Handling {
    /// Parks it until the response to `request` is there.
    fn park(mut self, request: OutboundRequest) -> wit::Exchange {
        let continuation = NEXT.replace(NEXT.get().wrapping_add(1));
        let OutboundRequest { method, url, headers, body, timeouts } = request;
        (self.total, self.began) = (timeouts.total, monotonic_clock::now());
        PARKED.with_borrow_mut(|parked| parked.insert(continuation, self));
        wit::Exchange {
            request: wit::Request { head: request_head(&method, &url, &headers), body: body.into() },
            timeouts: wit::Timeouts {
                connect: nanoseconds(timeouts.connect),
                idle: nanoseconds(timeouts.idle),
                total: nanoseconds(timeouts.total),
            },
            continuation,
        }
    }

    /// Converts the response to the exchange.
    fn received(&self, response: wit::Response) -> Result<OutboundResponse, OutboundError> {
        let wit::Response { status, fields, body, rest, .. } = response;
        let status = StatusCode::from_u16(status).map_err(|why| OutboundError::Other(why.to_string()))?;
        let headers = parse_fields(fields);
        let body = match rest {
            None => body.into(),
            Some(response) => {
                let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
                let left = declared.and_then(|length| length.checked_sub(body.len() as u64));
                let elapsed = Duration::from_nanos(monotonic_clock::now().saturating_sub(self.began));
                let rest = Rest { response, left, time: self.total.saturating_sub(elapsed) };
                Body::Held(body.into(), Box::new(rest))
            }
        };
        Ok(OutboundResponse { status, headers, body })
    }
}

/// The body of a response to an exchange after its beginning.
struct Rest {
    response: types::Response,
    /// How many bytes that is, if the server has said so.
    left: Option<u64>,
    /// How long it may take.
    time: Duration,
}

impl HeldBody for Rest {
    fn chunks(self: Box<Self>) -> LocalBoxStream<'static, Chunk> {
        chunks(self.response, Budget::new(self.time), self.left).boxed_local()
    }
}
