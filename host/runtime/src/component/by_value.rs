//! Calls of a handler by value (`hexad:platform/by-value-handler` in `wit/platform.wit`; decision 0138). A request with
//! a small body, and most responses, cross the sandbox in one call each. `wasi:http/handler` takes about twenty.

mod body;
mod exchange;
mod head;

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use http::header::{CONTENT_LENGTH, EXPECT};
use http::{HeaderMap, Method, Request as HttpRequest, Response as HttpResponse, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, BodyStream, StreamBody};
use wasmtime::component::{
    Accessor, Component, ComponentExportIndex, ComponentType, Instance, Lift, Lower, Resource, TypedFunc,
};
use wasmtime::{AsContextMut, Store, StoreContextMut};
use wasmtime_wasi_http::p3::bindings::http::types::ErrorCode;
use wasmtime_wasi_http::{Error as WasiError, FieldMap, WasiBody, WasiHttpView, p3};

use crate::guest::{Guest, HasGuestState as _};
use crate::request_context::RequestContext;
use body::{broken, followed_by, full, without_length};
use exchange::Exchange;
use head::{parse_fields, request_head};

/// The interface, and its functions.
pub const EXPORT: &str = "hexad:platform/by-value-handler@0.1.0";
const BEGIN: &str = "begin";
const GO_ON: &str = "go-on";

/// The largest request body that is passed by value. For a larger one, the calls of a stream pay off.
const MAX_REQUEST_BODY: u64 = 64 * 1024;

#[derive(ComponentType, Lift, Lower)]
#[component(record)]
pub struct Request {
    head: Vec<u8>,
    body: Vec<u8>,
}

#[derive(ComponentType, Lift, Lower)]
#[component(record)]
pub struct Response {
    status: u16,
    fields: Vec<u8>,
    body: Vec<u8>,
    kept: Option<u8>,
    rest: Option<Resource<p3::Response>>,
}

#[derive(ComponentType, Lift)]
#[component(variant)]
enum Outcome {
    #[component(name = "response")]
    Response(Response),
    #[component(name = "exchange")]
    Exchange(Exchange),
}

/// The functions of a component that handle a request by value.
#[derive(Clone, Copy)]
pub struct ByValueExport {
    begin: ComponentExportIndex,
    go_on: ComponentExportIndex,
}

/// The functions of one instance that handle a request by value.
#[derive(Clone, Copy)]
pub struct ByValueHandler {
    begin: TypedFunc<(Request, u16), Returned>,
    go_on: TypedFunc<(u64, Result<Response, ErrorCode>), Returned>,
}

/// The return type of both functions.
type Returned = (Result<Outcome, ErrorCode>,);

/// How a request is passed to an instance.
pub enum Passed {
    /// With the whole body.
    ByValue(ByValueHandler, HttpRequest<Bytes>),
    /// By `wasi:http/handler`.
    AsStream(HttpRequest<WasiBody>),
}

impl ByValueExport {
    /// `None` if the component has no such export, or one of an earlier version with other functions. Then the host
    /// uses `wasi:http/handler`.
    pub fn of(component: &Component) -> Option<Self> {
        let interface = component.get_export_index(None, EXPORT)?;
        let function = |name| component.get_export_index(Some(&interface), name);
        Some(Self { begin: function(BEGIN)?, go_on: function(GO_ON)? })
    }

    /// Fails if the functions do not have the types of the platform's interface.
    pub fn of_instance(self, store: &mut Store<Guest>, instance: &Instance) -> wasmtime::Result<ByValueHandler> {
        Ok(ByValueHandler {
            begin: instance.get_typed_func(&mut *store, self.begin)?,
            go_on: instance.get_typed_func(store, self.go_on)?,
        })
    }
}

impl ByValueHandler {
    /// The response to a request, or why the host cannot send it. A failure ends the instance.
    pub async fn call(
        self,
        accessor: &Accessor<Guest>,
        request: HttpRequest<Bytes>,
    ) -> wasmtime::Result<wasmtime::Result<HttpResponse<WasiBody>>> {
        let is_head = request.method() == Method::HEAD;
        let passed = accessor.with(|mut store| {
            let guest = store.get();
            let head = request_head(&request, guest);
            (Request { head, body: request.into_body().into() }, guest.state_mut().kept_bodies.numbers())
        });
        let (mut outcome,) = self.begin.call_concurrent(accessor, passed).await?;
        loop {
            match outcome {
                Err(code) => return Ok(Err(code.into())),
                Ok(Outcome::Response(response)) => {
                    return accessor.with(|mut store| response.into_http(is_head, store.as_context_mut()));
                }
                Ok(Outcome::Exchange(exchange)) => {
                    let continuation = exchange.continuation;
                    let response = exchange.run(accessor).await?;
                    (outcome,) = self.go_on.call_concurrent(accessor, (continuation, response)).await?;
                }
            }
        }
    }
}

/// Passes a request by value if the guest has such a handler, and if the whole body is small and has arrived.
pub fn pass(handler: Option<ByValueHandler>, request: HttpRequest<WasiBody>, context: &RequestContext) -> Passed {
    let Some(handler) = handler else { return Passed::AsStream(request) };
    if request.body().is_end_stream() {
        return Passed::ByValue(handler, request.map(|_| Bytes::new()));
    }
    let is_small = request.body().size_hint().upper().is_some_and(|length| length <= MAX_REQUEST_BODY);
    // Polling the body of a request that expects `100 Continue` makes hyper send it.
    if !is_small || request.headers().contains_key(EXPECT) {
        return Passed::AsStream(request);
    }
    let (head, mut body) = request.into_parts();
    // The host does not wait for the body: the guest may not need it (decision 0138).
    let mut cx = Context::from_waker(Waker::noop());
    let mut frames = Vec::new();
    loop {
        match Pin::new(&mut body).poll_frame(&mut cx) {
            Poll::Ready(Some(Ok(frame))) => frames.push(frame),
            Poll::Ready(None) => return Passed::ByValue(handler, HttpRequest::from_parts(head, joined(frames))),
            Poll::Ready(Some(Err(error))) => {
                let body = stream::iter(frames.into_iter().map(Ok).chain([Err(error)]));
                return Passed::AsStream(HttpRequest::from_parts(head, StreamBody::new(body).boxed_unsync()));
            }
            Poll::Pending => {
                context.set_waiting_for_client(false);
                let body = stream::iter(frames.into_iter().map(Ok)).chain(BodyStream::new(body));
                return Passed::AsStream(HttpRequest::from_parts(head, StreamBody::new(body).boxed_unsync()));
            }
        }
    }
}

/// The data of `frames`, without a copy if there is one frame.
fn joined(frames: Vec<Frame<Bytes>>) -> Bytes {
    let mut pieces = frames.into_iter().filter_map(|frame| frame.into_data().ok());
    let first = pieces.next().unwrap_or_default();
    let Some(second) = pieces.next() else { return first };
    let mut whole = BytesMut::from(first);
    whole.extend_from_slice(&second);
    pieces.for_each(|piece| whole.extend_from_slice(&piece));
    whole.freeze()
}

impl Response {
    /// The response for the client, or why the host cannot send it. `is_head`: the response is to a `HEAD` request, and
    /// may declare the length of a body that it does not have.
    fn into_http(
        self,
        is_head: bool,
        mut store: StoreContextMut<'_, Guest>,
    ) -> wasmtime::Result<wasmtime::Result<HttpResponse<WasiBody>>> {
        let Response { status, fields, body, kept, rest } = self;
        let body = sent_or_kept(body.into(), kept, store.data_mut());
        let head = status_code(status).and_then(|status| Ok((status, parse_fields(&fields, store.data_mut())?)));
        let (head, body) = match body {
            Ok(body) => (head, body),
            Err(unknown) => (Err(unknown), Bytes::new()),
        };
        let length = body.len() as u64;
        let declared = head.as_ref().ok().and_then(|(_, headers)| declared_length(headers));
        let left = declared.map(|declared| declared.checked_sub(length));
        // Taken even if it is not sent. So the guest learns of it, and its memory is freed.
        let rest = rest.map(|rest| taken(rest, left.flatten(), store)).transpose()?;
        let (status, headers) = match head {
            Ok(head) => head,
            Err(refused) => return Ok(Err(refused)),
        };
        let is_bodiless = is_head || status == StatusCode::NOT_MODIFIED;
        let body = match (left, rest) {
            (None | Some(Some(_)), Some(rest)) => followed_by(body, rest),
            (None, None) if is_bodiless => without_length(),
            (None | Some(Some(0)), None) => full(body),
            _ if is_bodiless && length == 0 => full(body),
            // The body breaks off, as a streamed one would.
            (Some(None | Some(_)), _) => broken(WasiError::HttpResponseBodySize(Some(length))),
        };
        let mut response = HttpResponse::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(Ok(response))
    }
}

/// The body that a guest sends. A body with a `number` is kept; an empty one with a `number` stands for the kept body
/// (decision 0138).
fn sent_or_kept(body: Bytes, number: Option<u8>, guest: &mut Guest) -> wasmtime::Result<Bytes> {
    let Some(number) = number else { return Ok(body) };
    if body.is_empty() {
        let kept = guest.state_mut().kept_bodies.get(number);
        return kept.ok_or_else(|| wasmtime::format_err!("no body is kept under the number {number}"));
    }
    guest.state_mut().kept_bodies.put(number, &body);
    Ok(body)
}

/// A status that `wasi:http` allows too.
fn status_code(status: u16) -> wasmtime::Result<StatusCode> {
    match StatusCode::from_u16(status) {
        Ok(code) if status < 600 => Ok(code),
        _ => Err(wasmtime::format_err!("{status} is not a status")),
    }
}

fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The body of `rest`, with `left` bytes if its length is known.
fn taken(
    rest: Resource<p3::Response>,
    left: Option<u64>,
    mut store: StoreContextMut<'_, Guest>,
) -> wasmtime::Result<WasiBody> {
    let guest = store.data_mut().http();
    let mut rest = guest.table.delete(rest)?;
    // wasmtime checks the body's length against these fields.
    let fields = left.map(|left| (CONTENT_LENGTH, left.into())).into_iter().collect();
    rest.headers = FieldMap::new_immutable(guest.hooks, fields);
    Ok(rest.into_http_with_getter(store, async { Ok(()) }, Guest::http)?.into_body())
}
