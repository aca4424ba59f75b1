//! The call of a handler by value (`hexad:platform/by-value-handler` in `wit/platform.wit`): a request without a body
//! and most responses cross the sandbox in one call each, where `wasi:http/handler` takes about twenty.

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use wasmtime::component::{
    Accessor, Component, ComponentExportIndex, ComponentType, Instance, Lift, Lower, Resource, TypedFunc,
};
use wasmtime::{AsContextMut, Store};
use wasmtime_wasi_http::p3::bindings::http::types::ErrorCode;
use wasmtime_wasi_http::{Error as WasiError, FieldMap, WasiBody, WasiHttpView, p3};

use crate::guest::Guest;

/// The interface, and its function.
pub const EXPORT: &str = "hexad:platform/by-value-handler@0.1.0";
const FUNCTION: &str = "handle";

/// The most bytes that the names and the values of a response's fields may have, as with `wasi:http`.
const MAX_FIELDS: usize = 128 * 1024;

#[derive(ComponentType, Lower)]
#[component(record)]
struct Request {
    method: String,
    scheme: String,
    authority: String,
    #[component(name = "path-with-query")]
    path_with_query: String,
    headers: Vec<(String, Vec<u8>)>,
}

#[derive(ComponentType, Lift)]
#[component(record)]
struct WholeResponse {
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

#[derive(ComponentType, Lift)]
#[component(variant)]
enum Response {
    #[component(name = "whole")]
    Whole(WholeResponse),
    #[component(name = "streaming")]
    Streaming(Resource<p3::Response>),
}

/// The function of a component that handles a request by value.
#[derive(Clone, Copy)]
pub struct ByValueExport(ComponentExportIndex);

/// The same of one instance.
#[derive(Clone, Copy)]
pub struct ByValueHandler(TypedFunc<(Request,), (Result<Response, ErrorCode>,)>);

impl ByValueExport {
    /// `None` if the component has no such export.
    pub fn of(component: &Component) -> Option<Self> {
        let interface = component.get_export_index(None, EXPORT)?;
        component.get_export_index(Some(&interface), FUNCTION).map(Self)
    }

    /// Fails if the export is not as the platform words it.
    pub fn of_instance(self, store: &mut Store<Guest>, instance: &Instance) -> wasmtime::Result<ByValueHandler> {
        instance.get_typed_func(store, self.0).map(ByValueHandler)
    }
}

impl ByValueHandler {
    /// The response to a request, which has no body.
    pub async fn call(
        self,
        accessor: &Accessor<Guest>,
        request: http::request::Parts,
    ) -> wasmtime::Result<http::Response<WasiBody>> {
        let is_head = request.method == Method::HEAD;
        let request = accessor.with(|mut store| lowered(request, store.get()));
        let (answer,) = self.0.call_concurrent(accessor, (request,)).await?;
        match answer? {
            Response::Whole(response) => accessor.with(|mut store| lifted(response, is_head, store.get())),
            Response::Streaming(response) => accessor.with(|mut store| {
                let response = Guest::http(store.get()).table.delete(response)?;
                let sent = async { Ok(()) };
                response.into_http_with_getter(store.as_context_mut(), sent, Guest::http)
            }),
        }
    }
}

fn lowered(request: http::request::Parts, guest: &mut Guest) -> Request {
    let hooks = guest.http().hooks;
    let mut is_passed = |name: &http::HeaderName| !hooks.is_forbidden_header(name);
    let target = request.uri.path_and_query();
    Request {
        method: request.method.as_str().to_owned(),
        scheme: request.uri.scheme_str().unwrap_or("http").to_owned(),
        authority: request.uri.authority().map_or_else(String::new, |authority| authority.as_str().to_owned()),
        path_with_query: target.map_or("/", |target| target.as_str()).to_owned(),
        headers: request
            .headers
            .iter()
            .filter(|(name, _)| is_passed(name))
            .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
            .collect(),
    }
}

/// `is_head` says that the response is to a `HEAD` request, and may declare the length of a body that it has not.
fn lifted(response: WholeResponse, is_head: bool, guest: &mut Guest) -> wasmtime::Result<http::Response<WasiBody>> {
    let hooks = guest.http().hooks;
    let mut fields = FieldMap::new_mutable(MAX_FIELDS);
    for (name, value) in response.headers {
        fields.append(hooks, name, value)?;
    }
    let headers = HeaderMap::from(fields);
    let status = StatusCode::from_u16(response.status)?;
    let declared: Option<u64> = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let is_bodiless = response.body.is_empty() && (is_head || status == StatusCode::NOT_MODIFIED);
    let body = match declared {
        // It breaks off, as one that is streamed does.
        Some(length) if !is_bodiless && length != response.body.len() as u64 => {
            let error = WasiError::HttpResponseBodySize(Some(response.body.len() as u64));
            StreamBody::new(futures::stream::iter([Err(error)])).boxed_unsync()
        }
        _ => Full::new(response.body.into()).map_err(|never| match never {}).boxed_unsync(),
    };
    let mut answer = http::Response::new(body);
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    Ok(answer)
}
