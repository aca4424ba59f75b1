//! The by-value handler: converts requests and responses, and sends an area's outbound requests by value.
//!
//! An area's handler is one future. If it makes an exchange, the future is suspended. The call that brings the response
//! resumes it.

use super::bindings::exports::hexad::platform::by_value_handler as wit;
use super::http::{PIECE, complete_fields, with_body};
use super::outbound::{Budget, Network, chunks, failure, nanoseconds};
use crate::body::{Body, Chunk, HeldBody};
use crate::field_lines::{RequestHead, field_lines, parse_fields, request_head};
use crate::kept_bodies::{KeptBodies, Transfer};
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

/// Converts a response. The host keeps the bodies in `kept`. If the body is incomplete or takes more than one piece, a
/// task writes it. If the host holds the body, the host gets it back.
fn outgoing(mut response: Response, head_only: bool, kept: wit::KeptBodies) -> ByValueResult {
    complete_fields(&mut response, head_only);
    let (status, fields) = (response.status.as_u16(), field_lines(&response.headers));
    let (body, number, rest) = match response.body {
        _ if head_only => (Vec::new(), None, None),
        Body::Empty => (Vec::new(), None, None),
        Body::Full(bytes) if bytes.len() <= PIECE => match KEPT.with(|bodies| bodies.transfer(&bytes, kept)) {
            Transfer::Bytes => (bytes.into(), None, None),
            Transfer::Keep(number) => (bytes.into(), Some(number), None),
            Transfer::Kept(number) => (Vec::new(), Some(number), None),
        },
        Body::Held(beginning, held) => match (held as Box<dyn Any>).downcast::<Rest>() {
            Ok(rest) => (beginning.into(), None, Some(rest.response)),
            Err(_) => return Err(ErrorCode::InternalError(Some("a body of another host".into()))),
        },
        body => (Vec::new(), None, Some(with_body(Fields::new(), body))),
    };
    Ok(wit::Outcome::Response(wit::Response { status, fields, body, kept: number, rest }))
}

/// The client of one request that is handled by value. The handler's first request is an exchange, which the host sends
/// between two calls. [`Network`] sends further requests.
///
/// Only for a handler that waits for nothing else while it waits for its first response. Another wait would belong to
/// the call in which the handler began it.
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

/// A handler that has not responded.
struct PendingHandler {
    response: LocalBoxFuture<'static, Response>,
    exchange: Rc<Exchange>,
    head_only: bool,
    /// The bodies that the host keeps.
    kept: wit::KeptBodies,
    /// The time limit of the exchange, and its beginning.
    total: Duration,
    began: u64,
}

thread_local! {
    /// The handlers that wait for their exchange, by continuation.
    static SUSPENDED: RefCell<HashMap<u64, PendingHandler>> = RefCell::default();
    static NEXT: Cell<u64> = const { Cell::new(0) };
    /// The bodies that the host was asked to keep.
    static KEPT: KeptBodies = KeptBodies::default();
}

/// Begins to handle a request. `handle` gets the client of the request's exchange.
pub async fn begin<F>(
    request: wit::Request,
    kept: wit::KeptBodies,
    handle: impl FnOnce(Exchanges, Request) -> F,
) -> ByValueResult
where
    F: Future<Output = Response> + 'static,
{
    let request = incoming(request)?;
    let head_only = request.method == Method::HEAD;
    let exchanges = Exchanges::default();
    let exchange = exchanges.0.clone();
    let response = Box::pin(handle(exchanges, request));
    PendingHandler { response, exchange, head_only, kept, total: Duration::ZERO, began: 0 }.run().await
}

/// Resumes the handler that waits for this response.
pub async fn go_on(continuation: u64, response: Result<wit::Response, ErrorCode>) -> ByValueResult {
    let suspended = SUSPENDED.with_borrow_mut(|suspended| suspended.remove(&continuation));
    let pending =
        suspended.ok_or_else(|| ErrorCode::InternalError(Some("no request waits for this response".into())))?;
    let response = response.map_err(failure).and_then(|response| pending.received(response));
    pending.exchange.response.set(Some(response));
    pending.run().await
}

impl PendingHandler {
    /// Runs the handler until it responds, or asks for an exchange.
    async fn run(mut self) -> ByValueResult {
        let next = future::poll_fn(|cx| match self.response.as_mut().poll(cx) {
            Poll::Ready(response) => Poll::Ready(Ok(response)),
            Poll::Pending => self.exchange.request.take().map_or(Poll::Pending, |request| Poll::Ready(Err(request))),
        });
        match next.await {
            Ok(response) => outgoing(response, self.head_only, self.kept),
            Err(request) => Ok(wit::Outcome::Exchange(self.suspend(request))),
        }
    }

    /// Suspends the handler until the response to `request` arrives.
    fn suspend(mut self, request: OutboundRequest) -> wit::Exchange {
        let OutboundRequest { method, url, headers, body, timeouts } = request;
        (self.total, self.began) = (timeouts.total, monotonic_clock::now());
        let continuation = NEXT.replace(NEXT.get().wrapping_add(1));
        SUSPENDED.with_borrow_mut(|suspended| suspended.insert(continuation, self));
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

/// The rest of the body of an exchange's response, after its beginning.
struct Rest {
    response: types::Response,
    /// The number of bytes, if the server has declared it.
    left: Option<u64>,
    /// The remaining time limit.
    time: Duration,
}

impl HeldBody for Rest {
    fn chunks(self: Box<Self>) -> LocalBoxStream<'static, Chunk> {
        chunks(self.response, Budget::new(self.time), self.left).boxed_local()
    }
}
