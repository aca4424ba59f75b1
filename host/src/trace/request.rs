//! The spans of one request.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use http::{HeaderMap, Method, Request, Response, Uri, Version};
use http_body_util::BodyExt;
use opentelemetry::propagation::{Injector, TextMapPropagator};
use opentelemetry::trace::{Span as _, SpanContext, SpanKind, Status, TraceContextExt};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::HeaderInjector;
use opentelemetry_sdk::trace::Span;

use super::body::TracedBody;
use super::{Destination, ServingComponent, Tracer};
use crate::body::ResponseBody;
use crate::ingress::RequestOrigin;
use crate::request_id::X_REQUEST_ID;

/// Operations and outbound requests of one request that have spans: a component in a loop must
/// not push everybody else's out of the queue.
const MOST: u32 = 500;

/// One request, from its arrival to the end of its response. It is shared by all who do a part.
pub struct Trace {
    tracer: Arc<Tracer>,
    /// The request's span as a parent.
    request: Context,
    /// None if the request is not sampled.
    recorded: Option<Recorded>,
}

struct Recorded {
    spans: Mutex<Spans>,
    /// The component's span as a parent.
    component: OnceLock<Context>,
    /// How many spans the component has caused.
    caused: AtomicU32,
}

/// Those that have not ended.
struct Spans {
    request: Option<Span>,
    component: Option<Span>,
    /// The first one is the cause of all others.
    failure: Option<&'static str>,
}

/// A request to another service.
pub struct Outgoing {
    tracer: Arc<Tracer>,
    span: Option<Span>,
    /// Whose child the other service's part is.
    context: Context,
}

impl Trace {
    pub(super) fn new<B>(
        tracer: Arc<Tracer>,
        mut span: Span,
        request: &Request<B>,
        destination: Option<Destination<'_>>,
    ) -> Self {
        let context = within(span.span_context());
        let recorded = span.is_recording().then(|| {
            describe(&mut span, request, destination);
            let spans = Spans { request: Some(span), component: None, failure: None };
            Recorded { spans: Mutex::new(spans), component: OnceLock::new(), caused: AtomicU32::new(0) }
        });
        Self { tracer, request: context, recorded }
    }

    /// The response comes from the cache.
    pub fn cached(&self) {
        if let Some(mut spans) = self.spans()
            && let Some(request) = &mut spans.request
        {
            request.set_attribute(KeyValue::new("hexad.remembered", true));
        }
    }

    /// The component's part begins. What it passes on of the request's headers names it.
    pub fn enter(&self, component: &ServingComponent<'_>, headers: Option<&mut HeaderMap>) {
        let Some(recorded) = &self.recorded else {
            return;
        };
        let mut span = self.tracer.span("component", SpanKind::Internal, &self.request);
        span.update_name(component.id.to_owned());
        span.set_attribute(KeyValue::new("hexad.component", component.id.to_owned()));
        span.set_attribute(KeyValue::new("hexad.generation", number(component.generation)));
        span.set_attribute(KeyValue::new("hexad.digest", component.digest.to_string()));
        if let Some((area, version)) = component.area {
            span.set_attribute(KeyValue::new("hexad.area", area.to_owned()));
            span.set_attribute(KeyValue::new("hexad.version", version.to_owned()));
        }
        let context = within(span.span_context());
        if let Some(headers) = headers {
            self.tracer.propagator.inject_context(&context, &mut Headers(headers));
        }
        let _ = recorded.component.set(context);
        if let Some(mut spans) = self.spans() {
            spans.component = Some(span);
        }
    }

    /// An operation on the key-value store; no key, because keys can hold hashes of tokens.
    pub fn operation(&self, operation: &'static str, store: &str) -> Option<Span> {
        let parent = self.parent()?;
        let mut span = self.tracer.span(operation, SpanKind::Client, parent);
        span.set_attribute(KeyValue::new("db.system.name", "sqlite"));
        span.set_attribute(KeyValue::new("db.operation.name", operation));
        if !store.is_empty() {
            span.update_name(format!("{operation} {store}"));
            span.set_attribute(KeyValue::new("db.namespace", store.to_owned()));
        }
        Some(span)
    }

    /// An instance is made for the request.
    pub fn instantiation(&self) -> Option<Span> {
        let parent = self.parent()?;
        Some(self.tracer.span("instantiate", SpanKind::Internal, parent))
    }

    /// A request of the component to another service.
    pub fn outgoing(&self, method: &Method, uri: &Uri) -> Outgoing {
        let span = self.parent().map(|parent| {
            let mut span = self.tracer.span("request", SpanKind::Client, parent);
            let (method, original) = known(method);
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
            // Neither the query nor what comes before an `@`.
            span.set_attribute(KeyValue::new("url.full", format!("{scheme}://{host}:{port}{}", uri.path())));
            span
        });
        let context = span.as_ref().map_or_else(|| self.request.clone(), |span| within(span.span_context()));
        Outgoing { tracer: self.tracer.clone(), span, context }
    }

    /// Something went wrong. Only the first reason is kept.
    pub fn failed(&self, reason: &'static str) {
        let Some(mut spans) = self.spans() else {
            return;
        };
        if spans.request.is_some() && spans.failure.is_none() {
            spans.failure = Some(reason);
            for span in [&mut spans.request].into_iter().flatten() {
                fail(span, reason);
            }
            if let Some(component) = &mut spans.component {
                fail(component, reason);
            }
        }
    }

    /// The head of the response is there; the trace ends with its body.
    pub fn answered(self: Arc<Self>, response: Response<ResponseBody>) -> Response<ResponseBody> {
        if let Some(mut spans) = self.spans() {
            let status = response.status();
            let failure = spans.failure;
            if let Some(request) = &mut spans.request {
                request.set_attribute(KeyValue::new("http.response.status_code", i64::from(status.as_u16())));
                if status.is_server_error() && failure.is_none() {
                    request.set_attribute(KeyValue::new("error.type", status.as_str().to_owned()));
                    request.set_status(Status::error(""));
                }
            }
        } else {
            return response;
        }
        response.map(|body| TracedBody::new(body, self).boxed_unsync())
    }

    /// The response is over, with so many bytes of its body sent.
    pub(super) fn end(&self, sent: u64) {
        let Some(mut spans) = self.spans() else {
            return;
        };
        drop(spans.component.take());
        if let Some(mut request) = spans.request.take() {
            request.set_attribute(KeyValue::new("http.response.body.size", number(sent)));
            let caused = self.recorded.as_ref().map_or(0, |recorded| recorded.caused.load(Ordering::Relaxed));
            if caused > MOST {
                request.set_attribute(KeyValue::new("hexad.spans_left_out", i64::from(caused - MOST)));
            }
        }
    }

    /// The parent of what the component does, while there is room for it.
    fn parent(&self) -> Option<&Context> {
        let recorded = self.recorded.as_ref()?;
        let caused = recorded.caused.fetch_add(1, Ordering::Relaxed);
        (caused < MOST).then(|| recorded.component.get().unwrap_or(&self.request))
    }

    fn spans(&self) -> Option<MutexGuard<'_, Spans>> {
        let recorded = self.recorded.as_ref()?;
        Some(recorded.spans.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Outgoing {
    /// Names the parent to the other service.
    pub fn inject(&self, headers: &mut HeaderMap) {
        self.tracer.propagator.inject_context(&self.context, &mut Headers(headers));
    }

    /// The head of the response is there, or there is none for this reason.
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
            Err(reason) => fail(&mut span, reason),
        }
    }
}

/// Marks a span as failed.
pub fn fail(span: &mut Span, reason: &'static str) {
    span.set_attribute(KeyValue::new("error.type", reason));
    span.set_status(Status::error(reason));
}

fn describe<B>(span: &mut Span, request: &Request<B>, destination: Option<Destination<'_>>) {
    let (method, original) = known(request.method());
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
    span.set_attribute(KeyValue::new("url.path", request.uri().path().to_owned()));
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

/// The method if it is one of HTTP's: anybody can make up others, and names are counted.
fn known(method: &Method) -> (&'static str, Option<String>) {
    let known = match *method {
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
    (known, None)
}

fn within(parent: &SpanContext) -> Context {
    Context::new().with_remote_span_context(parent.clone())
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Headers that are set, or taken away where there is nothing to say.
struct Headers<'a>(&'a mut HeaderMap);

impl Injector for Headers<'_> {
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
    use crate::trace::Export;

    #[test]
    fn a_component_in_a_loop_leaves_room_for_others() {
        // Nobody listens there.
        let tracer = Arc::new(Tracer::new(&Export::to("http://127.0.0.1:1/v1/traces")).unwrap());
        let trace = tracer.begin(&Request::new(()), None);
        let told = (0..MOST + 5).filter(|_| trace.operation("get", "default").is_some()).count();
        assert_eq!(told, MOST as usize);
    }

    #[test]
    fn methods_that_anybody_can_make_up_are_one() {
        assert_eq!(known(&Method::PUT), ("PUT", None));
        assert_eq!(known(&Method::from_bytes(b"PURGE").unwrap()), ("_OTHER", Some("PURGE".to_owned())));
    }
}
