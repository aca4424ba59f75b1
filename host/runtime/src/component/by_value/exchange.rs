//! An exchange: a request that a guest returns while it handles one by value (decision 0138). The host sends it like a
//! request of `wasi:http/client`, and calls the guest again with the response.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::CONTENT_LENGTH;
use http::response::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::Instant;
use wasmtime::component::{Accessor, ComponentType, Lift};
use wasmtime::{AsContextMut, StoreContextMut};
use wasmtime_wasi::TrappableError;
use wasmtime_wasi_http::p3::bindings::http::client::HostWithStore;
use wasmtime_wasi_http::p3::bindings::http::types::ErrorCode;
use wasmtime_wasi_http::{FieldMap, RequestOptions, WasiBody, WasiHttp, WasiHttpView, p3};

use super::body::{broken, followed_by, full, waited_for};
use super::head::{RequestLine, field_lines, parse_fields, parse_request_head};
use super::{Request, Response};
use crate::guest::Guest;

/// An error for the guest, or a failure of the call.
type HttpError = TrappableError<ErrorCode>;

/// Bytes of a response body that the guest gets by value; the rest is a stream. Usual responses have no rest.
const BEGINNING: usize = 128 * 1024;

/// The largest request body, in bytes. The host keeps it in memory until it is sent, which may be when the server reads
/// it. A component sends a larger body by `wasi:http/client`, from its own memory.
const MAX_REQUEST_BODY: usize = 1 << 20;

/// The longest time-out. A longer one makes no difference.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(ComponentType, Lift)]
#[component(record)]
pub struct Timeouts {
    connect: u64,
    idle: u64,
    total: u64,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub struct Exchange {
    request: Request,
    timeouts: Timeouts,
    pub continuation: u64,
}

impl Exchange {
    /// Sends the request. Returns the response for the guest.
    pub async fn run(self, accessor: &Accessor<Guest>) -> wasmtime::Result<Result<Response, ErrorCode>> {
        let total = Duration::from_nanos(self.timeouts.total).min(MAX_TIMEOUT);
        let deadline = Instant::now() + total;
        match tokio::time::timeout_at(deadline, self.send(accessor)).await {
            Ok(received) => match received {
                Ok((head, mut body)) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    body.rest = body.rest.map(|rest| waited_for(rest, left));
                    accessor.with(|mut store| given(head, body, store.as_context_mut())).map(Ok)
                }
                Err(error) => error.downcast().map(Err),
            },
            Err(_) => Ok(Err(ErrorCode::HttpResponseTimeout)),
        }
    }

    /// Sends the request, and reads the part of the response that is passed by value.
    async fn send(self, accessor: &Accessor<Guest>) -> Result<(Parts, Received), HttpError> {
        let request = accessor.with(|mut store| {
            let request = self.request(store.get())?;
            Guest::http(store.get()).table.push(request).map_err(HttpError::trap)
        })?;
        let response = WasiHttp::send(&accessor.with_getter::<WasiHttp>(Guest::http), request).await?;
        let response = accessor.with(|mut store| {
            let response = Guest::http(store.get()).table.delete(response)?;
            response.into_http_with_getter(store.as_context_mut(), async { Ok(()) }, Guest::http)
        });
        let (head, body) = response.map_err(HttpError::trap)?.into_parts();
        Ok((head, Received::read(body).await))
    }

    /// The request, with the checks that `wasi:http` makes of its parts.
    fn request(self, guest: &mut Guest) -> Result<p3::Request, HttpError> {
        let Request { head, body } = self.request;
        if body.len() > MAX_REQUEST_BODY {
            return Err(ErrorCode::HttpRequestBodySize(Some(body.len() as u64)).into());
        }
        let (line, fields) = parse_request_head(&head).ok_or(ErrorCode::HttpProtocolError)?;
        let RequestLine { method, scheme, authority, target } = line;
        // `wasi:http` refuses invalid fields before they become part of a request.
        let mut headers = parse_fields(fields, guest).map_err(|_| ErrorCode::HttpProtocolError)?;
        headers.remove(CONTENT_LENGTH);
        if !body.is_empty() {
            headers.insert(CONTENT_LENGTH, body.len().into());
        }
        let method = Method::try_from(method).map_err(|_| ErrorCode::HttpRequestMethodInvalid)?;
        let invalid = |_| ErrorCode::HttpRequestUriInvalid;
        let scheme = Scheme::try_from(scheme).map_err(invalid)?;
        let authority = Authority::try_from(authority).map_err(invalid)?;
        let target = PathAndQuery::try_from(target).map_err(invalid)?;
        let options = RequestOptions {
            connect_timeout: Some(Duration::from_nanos(self.timeouts.connect)),
            first_byte_timeout: Some(Duration::from_nanos(self.timeouts.idle)),
            between_bytes_timeout: Some(Duration::from_nanos(self.timeouts.idle)),
        };
        let headers = FieldMap::new_immutable(guest.http().hooks, headers);
        let (scheme, authority, target) = (Some(scheme), Some(authority), Some(target));
        let (request, _sent) =
            p3::Request::new(method, scheme, authority, target, headers, Some(Arc::new(options)), full(body));
        Ok(request)
    }
}

/// A response body, as far as it was read.
struct Received {
    beginning: Vec<u8>,
    /// `None` if `beginning` is all.
    rest: Option<WasiBody>,
}

impl Received {
    /// Reads the part of the body that is passed by value. An error of the body is an error of its rest.
    async fn read(mut body: WasiBody) -> Self {
        let mut beginning = Vec::new();
        while beginning.len() < BEGINNING && !body.is_end_stream() {
            match body.frame().await {
                Some(Ok(frame)) => {
                    let Ok(mut data) = frame.into_data() else { continue };
                    beginning.extend_from_slice(&data.split_to(data.len().min(BEGINNING - beginning.len())));
                    if !data.is_empty() {
                        return Self { beginning, rest: Some(followed_by(data, body)) };
                    }
                }
                Some(Err(error)) => return Self { beginning, rest: Some(broken(error)) },
                None => return Self { beginning, rest: None },
            }
        }
        let rest = (!body.is_end_stream()).then_some(body);
        Self { beginning, rest }
    }
}

/// The response for the guest: the beginning of its body by value, the rest as a stream.
fn given(head: Parts, received: Received, mut store: StoreContextMut<'_, Guest>) -> wasmtime::Result<Response> {
    let guest = store.data_mut();
    let fields = field_lines(&head.headers, guest);
    let view = guest.http();
    let rest = received.rest.map(|rest| {
        let (rest, _sent) = p3::Response::from_http(view.hooks, http::Response::new(rest));
        view.table.push(rest)
    });
    Ok(Response { status: head.status.as_u16(), fields, body: received.beginning, kept: None, rest: rest.transpose()? })
}
