//! The spans of one request.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use hexad_http::origin::RequestOrigin;
use hexad_support::digest::Digest;
use hexad_telemetry::redaction;
use hexad_telemetry::request_id::X_REQUEST_ID;
use http::{HeaderMap, Method, Request, StatusCode, Uri, Version};
use opentelemetry::propagation::Injector;
use opentelemetry::trace::{Span as _, SpanContext, SpanKind, Status, TraceContextExt};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::HeaderInjector;
use opentelemetry_sdk::trace::Span;

use super::tracer::Tracer;

/// The most child spans of one component call. A component that loops must not push the spans of other requests out of
/// the queue.
const MAX_CHILD_SPANS: u32 = 500;

/// The revision that serves a request.
pub struct ServingComponent<'a> {
    pub id: &'a str,
    /// The revision's number in its service.
    pub revision: u64,
    pub digest: Digest,
    /// The name and version of an area. `None` for other components.
    pub area: Option<(&'a str, &'a str)>,
}

/// The route and the component of a request.
#[derive(Clone, Copy)]
pub struct Destination<'a> {
    pub route: &'a str,
    pub component: &'a str,
}

/// The trace of one request, from its head to the end of its response.
pub struct Trace {
    tracer: Arc<Tracer>,
    /// The parent of the component's span.
    request: Context,
    /// `None` if the request is not sampled.
    sampled: Option<Sampled>,
}

struct Sampled {
    open: Mutex<OpenSpans>,
    /// The parent of the component's child spans.
    component: OnceLock<Context>,
    /// Child spans of the component, including those above the limit.
    child_spans: AtomicU32,
}

/// The spans that have not ended.
struct OpenSpans {
    request: Option<Span>,
    component: Option<Span>,
    /// The first failure, which usually causes the others.
    failure: Option<&'static str>,
}

/// The span of a request to another service.
pub struct OutboundSpan {
    tracer: Arc<Tracer>,
    span: Option<Span>,
    /// The parent of the other service's spans.
    context: Context,
}

impl Tracer {
    /// Begins a request's trace, below the parent in its `traceparent`. The sampler decides whether the trace is
    /// recorded.
    pub fn begin<B>(self: &Arc<Self>, request: &Request<B>, destination: Option<Destination<'_>>) -> Arc<Trace> {
        let parent = self.parent(request.headers());
        // `Trace::new` gives the span of a sampled request its name and its attributes.
        let span = self.span("request", SpanKind::Server, &parent);
        Arc::new(Trace::new(self.clone(), span, request, destination))
    }
}

impl Trace {
    fn new<B>(tracer: Arc<Tracer>, mut span: Span, request: &Request<B>, destination: Option<Destination<'_>>) -> Self {
        let context = parent_context(span.span_context());
        let sampled = span.is_recording().then(|| {
            set_attributes(&mut span, request, destination);
            let spans = OpenSpans { request: Some(span), component: None, failure: None };
            Sampled { open: Mutex::new(spans), component: OnceLock::new(), child_spans: AtomicU32::new(0) }
        });
        Self { tracer, request: context, sampled }
    }

    pub fn mark_cached(&self) {
        if let Some(mut spans) = self.open_spans()
            && let Some(request) = &mut spans.request
        {
            request.set_attribute(KeyValue::new("hexad.response_cached", true));
        }
    }

    /// Begins the component's span, and sets it in `headers` as the parent of outbound requests.
    pub fn begin_component(&self, component: &ServingComponent<'_>, headers: Option<&mut HeaderMap>) {
        let Some(sampled) = &self.sampled else {
            return;
        };
        let mut span = self.tracer.span("component", SpanKind::Internal, &self.request);
        span.update_name(component.id.to_owned());
        span.set_attribute(KeyValue::new("hexad.component", component.id.to_owned()));
        span.set_attribute(KeyValue::new("hexad.revision", int_value(component.revision)));
        span.set_attribute(KeyValue::new("hexad.digest", component.digest.to_string()));
        if let Some((area, version)) = component.area {
            span.set_attribute(KeyValue::new("hexad.area", area.to_owned()));
            span.set_attribute(KeyValue::new("hexad.version", version.to_owned()));
        }
        let context = parent_context(span.span_context());
        if let Some(headers) = headers {
            self.tracer.inject(&context, &mut TraceHeaders(headers));
        }
        let _ = sampled.component.set(context);
        if let Some(mut spans) = self.open_spans() {
            spans.component = Some(span);
        }
    }

    /// Begins the span of an operation on the key-value store, without the key, because keys can contain hashes of
    /// tokens.
    pub fn begin_operation(&self, operation: &'static str, store: &str) -> Option<Span> {
        let parent = self.child_parent()?;
        let mut span = self.tracer.span(operation, SpanKind::Client, parent);
        span.set_attribute(KeyValue::new("db.system.name", self.tracer.database));
        span.set_attribute(KeyValue::new("db.operation.name", operation));
        if !store.is_empty() {
            span.update_name(format!("{operation} {store}"));
            span.set_attribute(KeyValue::new("db.namespace", store.to_owned()));
        }
        Some(span)
    }

    pub fn begin_instantiation(&self) -> Option<Span> {
        let parent = self.child_parent()?;
        Some(self.tracer.span("instantiate", SpanKind::Internal, parent))
    }

    pub fn begin_outbound(&self, method: &Method, uri: &Uri) -> OutboundSpan {
        let span = self.child_parent().map(|parent| {
            let mut span = self.tracer.span("request", SpanKind::Client, parent);
            let (method, original) = method_name(method);
            span.update_name(method);
            span.set_attribute(KeyValue::new("http.request.method", method));
            if let Some(original) = original {
                span.set_attribute(KeyValue::new("http.request.method_original", original));
            }
            let scheme = uri.scheme_str().unwrap_or("http");
            let host = uri.host().unwrap_or_default();
            let port = uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
            span.set_attribute(KeyValue::new("server.address", host.to_owned()));
            span.set_attribute(KeyValue::new("server.port", i64::from(port)));
            // Without the query and the user information, which can contain secrets.
            span.set_attribute(KeyValue::new("url.full", format!("{scheme}://{host}:{port}{}", redaction::path(uri))));
            span
        });
        let context = span.as_ref().map_or_else(|| self.request.clone(), |span| parent_context(span.span_context()));
        OutboundSpan { tracer: self.tracer.clone(), span, context }
    }

    /// Marks the open spans as failed. Keeps the first reason only.
    pub fn record_failure(&self, reason: &'static str) {
        let Some(mut spans) = self.open_spans() else {
            return;
        };
        if spans.request.is_some() && spans.failure.is_none() {
            spans.failure = Some(reason);
            if let Some(request) = &mut spans.request {
                mark_failed(request, reason);
            }
            if let Some(component) = &mut spans.component {
                mark_failed(component, reason);
            }
        }
    }

    pub(super) fn is_sampled(&self) -> bool {
        self.sampled.is_some()
    }

    pub(super) fn record_status(&self, status: StatusCode) {
        if let Some(mut spans) = self.open_spans() {
            let failure = spans.failure;
            if let Some(request) = &mut spans.request {
                request.set_attribute(KeyValue::new("http.response.status_code", i64::from(status.as_u16())));
                if status.is_server_error() && failure.is_none() {
                    request.set_attribute(KeyValue::new("error.type", status.as_str().to_owned()));
                    request.set_status(Status::error(""));
                }
            }
        }
    }

    /// Ends the trace, after `sent_bytes` of the response's body.
    pub(super) fn end(&self, sent_bytes: u64) {
        let Some(mut spans) = self.open_spans() else {
            return;
        };
        drop(spans.component.take());
        if let Some(mut request) = spans.request.take() {
            request.set_attribute(KeyValue::new("http.response.body.size", int_value(sent_bytes)));
            let child_spans = self.sampled.as_ref().map_or(0, |sampled| sampled.child_spans.load(Ordering::Relaxed));
            if child_spans > MAX_CHILD_SPANS {
                request.set_attribute(KeyValue::new("hexad.spans_left_out", i64::from(child_spans - MAX_CHILD_SPANS)));
            }
        }
    }

    /// The parent of the component's next child span, up to the limit.
    fn child_parent(&self) -> Option<&Context> {
        let sampled = self.sampled.as_ref()?;
        let child_spans = sampled.child_spans.fetch_add(1, Ordering::Relaxed);
        (child_spans < MAX_CHILD_SPANS).then(|| sampled.component.get().unwrap_or(&self.request))
    }

    fn open_spans(&self) -> Option<MutexGuard<'_, OpenSpans>> {
        let sampled = self.sampled.as_ref()?;
        Some(sampled.open.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl OutboundSpan {
    /// Sets the trace headers of the outbound request.
    pub fn inject(&self, headers: &mut HeaderMap) {
        self.tracer.inject(&self.context, &mut TraceHeaders(headers));
    }

    /// Ends the span with the status of the response, or with the reason for its absence.
    pub fn end(self, outcome: Result<u16, &'static str>) {
        let Some(mut span) = self.span else {
            return;
        };
        match outcome {
            Ok(status) => {
                span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status)));
                if status >= 400 {
                    span.set_attribute(KeyValue::new("error.type", status.to_string()));
                    span.set_status(Status::error(""));
                }
            }
            Err(reason) => mark_failed(&mut span, reason),
        }
    }
}

pub fn mark_failed(span: &mut Span, reason: &'static str) {
    span.set_attribute(KeyValue::new("error.type", reason));
    span.set_status(Status::error(reason));
}

fn set_attributes<B>(span: &mut Span, request: &Request<B>, destination: Option<Destination<'_>>) {
    let (method, original) = method_name(request.method());
    span.update_name(match destination {
        Some(Destination { route, .. }) => format!("{method} {route}"),
        None => method.to_owned(),
    });
    span.set_attribute(KeyValue::new("http.request.method", method));
    if let Some(original) = original {
        span.set_attribute(KeyValue::new("http.request.method_original", original));
    }
    let origin = request.extensions().get::<RequestOrigin>();
    let scheme = origin.map_or("http", |origin| origin.scheme.as_str());
    span.set_attribute(KeyValue::new("url.scheme", scheme.to_owned()));
    span.set_attribute(KeyValue::new("url.path", redaction::path(request.uri()).into_owned()));
    span.set_attribute(KeyValue::new(
        "network.protocol.version",
        match request.version() {
            Version::HTTP_2 => "2",
            Version::HTTP_10 => "1.0",
            _ => "1.1",
        },
    ));
    if let Some(id) = request.headers().get(X_REQUEST_ID).and_then(|id| id.to_str().ok()) {
        span.set_attribute(KeyValue::new("hexad.request_id", id.to_owned()));
    }
    if let Some(Destination { route, component }) = destination {
        span.set_attribute(KeyValue::new("http.route", route.to_owned()));
        span.set_attribute(KeyValue::new("hexad.component", component.to_owned()));
    }
}

/// The name of a standard method, or `_OTHER` and the client's own method: span names must be a bounded set.
fn method_name(method: &Method) -> (&'static str, Option<String>) {
    let name = match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::PATCH => "PATCH",
        Method::OPTIONS => "OPTIONS",
        Method::CONNECT => "CONNECT",
        Method::TRACE => "TRACE",
        _ => return ("_OTHER", Some(method.as_str().to_owned())),
    };
    (name, None)
}

fn parent_context(parent: &SpanContext) -> Context {
    Context::new().with_remote_span_context(parent.clone())
}

fn int_value(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Headers of an outbound request. An empty value removes the header.
struct TraceHeaders<'a>(&'a mut HeaderMap);

impl Injector for TraceHeaders<'_> {
    fn set(&mut self, key: &str, value: String) {
        match value.is_empty() {
            true => drop(self.0.remove(key)),
            false => HeaderInjector(self.0).set(key, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Export;

    #[test]
    fn child_spans_of_one_request_are_limited() {
        // Nothing listens on this port.
        let tracer = Arc::new(Tracer::new(&Export::to("http://127.0.0.1:1/v1/traces"), "sqlite").unwrap());
        let trace = tracer.begin(&Request::new(()), None);
        let begun = (0..MAX_CHILD_SPANS + 5).filter(|_| trace.begin_operation("get", "default").is_some()).count();
        assert_eq!(begun, MAX_CHILD_SPANS as usize);
    }

    #[test]
    fn unknown_methods_have_one_name() {
        assert_eq!(method_name(&Method::PUT), ("PUT", None));
        assert_eq!(method_name(&Method::from_bytes(b"PURGE").unwrap()), ("_OTHER", Some("PURGE".to_owned())));
    }
}
