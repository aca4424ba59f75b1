//! Requests, responses and the requests of an area between the by-value handler and plain values.
//!
//! An area's handler is one future. At an exchange it waits for a response that another call brings: it is parked, and
//! that call goes on with it.

use super::bindings::exports::hexad::platform::by_value_handler as wit;
use super::http::{PIECE, header_map, response_fields, with_body};
use super::outbound::{Budget, Network, chunks, failure, nanoseconds};
use crate::body::{Body, Chunk, HeldBody};
use crate::outbound::{Client, OutboundError, OutboundRequest, OutboundResponse};
use crate::request::{Origin, Request};
use crate::response::Response;
use bytes::Bytes;
use futures::future::{self, LocalBoxFuture};
use futures::stream::{LocalBoxStream, StreamExt};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method, StatusCode, Uri};
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
    let wit::Request { method, scheme, authority, path_with_query, headers, body } = request;
    let method = method.parse().map_err(|_| ErrorCode::HttpRequestMethodInvalid)?;
    let origin = Rc::new(LazyCell::new(Box::new(|| Origin { scheme, authority }) as Box<_>));
    let body = if body.is_empty() { Body::Empty } else { body.into() };
    Ok(Request { origin, headers: header_map(headers), body, ..Request::new(method, &path_with_query) })
}

/// Converts a response. A body that is not there yet, or takes more than one piece, is written by a task of its own; one
/// that the host has goes back to it.
pub fn outgoing(mut response: Response, head_only: bool) -> ByValueResult {
    let (status, headers) = (response.status.as_u16(), response_fields(&mut response, head_only));
    let (body, rest) = match response.body {
        _ if head_only => (Vec::new(), None),
        Body::Empty => (Vec::new(), None),
        Body::Full(bytes) if bytes.len() <= PIECE => (bytes.into(), None),
        Body::Held(beginning, held) => match (held as Box<dyn Any>).downcast::<Rest>() {
            Ok(rest) => (beginning.into(), Some(rest.response)),
            Err(_) => return Err(ErrorCode::InternalError(Some("a body of another host".into()))),
        },
        body => (Vec::new(), Some(with_body(Fields::new(), body))),
    };
    Ok(wit::Outcome::Response(wit::Response { status, headers, body, rest }))
}

/// The client of one request that is handled by value: the first request of the handler is an exchange, further ones are
/// sent as by [`Network`].
///
/// Only for a handler that waits for nothing else while it waits for its first response: what it waits for belongs to
/// the call in which it began to wait.
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
        // The call that brings the response polls, so nobody needs to be woken.
        Box::pin(future::poll_fn(move |_| exchange.response.take().map_or(Poll::Pending, Poll::Ready)))
    }
}

/// A handler that may wait for an exchange.
struct Handling {
    response: LocalBoxFuture<'static, Response>,
    exchange: Rc<Exchange>,
    head_only: bool,
    /// What the exchange may take, and when it began.
    total: Duration,
    began: u64,
}

thread_local! {
    /// The handlers that wait for an exchange, by their continuations.
    static PARKED: RefCell<HashMap<u64, Handling>> = RefCell::default();
    static NEXT: Cell<u64> = const { Cell::new(0) };
}

/// Begins to handle a request. `handle` gets the client that it must use.
pub async fn start<F>(request: wit::Request, handle: impl FnOnce(Rc<dyn Client>, Request) -> F) -> ByValueResult
where
    F: Future<Output = Response> + 'static,
{
    let request = incoming(request)?;
    let head_only = request.method == Method::HEAD;
    let exchanges = Exchanges::default();
    let exchange = exchanges.0.clone();
    let response = Box::pin(handle(Rc::new(exchanges), request));
    go_on(Handling { response, exchange, head_only, total: Duration::ZERO, began: 0 }).await
}

/// Goes on with the handler that waits for this exchange.
pub async fn resume(continuation: u64, response: Result<wit::Response, ErrorCode>) -> ByValueResult {
    let parked = PARKED.with_borrow_mut(|parked| parked.remove(&continuation));
    let handling = parked.ok_or_else(no_exchange)?;
    let response = response.map_err(failure).and_then(|response| handling.received(response));
    handling.exchange.response.set(Some(response));
    go_on(handling).await
}

/// The error of a response that no handler waits for.
pub fn no_exchange() -> ErrorCode {
    ErrorCode::InternalError(Some("no request waits for this response".into()))
}

async fn go_on(mut handling: Handling) -> ByValueResult {
    let next = future::poll_fn(|cx| match handling.response.as_mut().poll(cx) {
        Poll::Ready(response) => Poll::Ready(Ok(response)),
        Poll::Pending => handling.exchange.request.take().map_or(Poll::Pending, |request| Poll::Ready(Err(request))),
    });
    match next.await {
        Ok(response) => outgoing(response, handling.head_only),
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
            request: wit_request(&method, &url, &headers, body),
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
        let wit::Response { status, headers, body, rest } = response;
        let status = StatusCode::from_u16(status).map_err(|why| OutboundError::Other(why.to_string()))?;
        let headers = header_map(headers);
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

fn wit_request(method: &Method, url: &Uri, headers: &HeaderMap, body: Bytes) -> wit::Request {
    let headers = headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
    wit::Request {
        method: method.as_str().to_owned(),
        scheme: url.scheme_str().unwrap_or_default().to_owned(),
        authority: url.authority().map_or_else(String::new, |authority| authority.as_str().to_owned()),
        path_with_query: url.path_and_query().map_or("/", |target| target.as_str()).to_owned(),
        headers: headers.collect(),
        body: body.into(),
    }
}

/// What follows the beginning of a response to an exchange.
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
