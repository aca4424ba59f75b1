//! Traces of requests, exported to a collector by OTLP.
//!
//! A request has a span, its component has a child span, and the component's key-value operations,
//! instantiations and outbound requests are children of that. The host trusts `traceparent` (W3C Trace
//! Context), sampling included, and passes it on to the component and in outbound requests. Attributes
//! have the names of OpenTelemetry's semantic conventions, or else begin with `hexad.`.
//!
//! A span has the request's method, path and route. It has no query, header or key, because these can
//! contain tokens and their hashes.
//!
//! OpenTelemetry's variables configure it (`OTEL_EXPORTER_OTLP_ENDPOINT`, ...). Without them there is no
//! [`Tracer`], and requests cost nothing more. Otherwise a request costs the generation of its ids and,
//! if it is sampled, its spans. A thread exports spans from a bounded queue.
//!
//! | file | what |
//! |---|---|
//! | `request` | the spans of one request |
//! | `body` | the end of a response |
//! | `export` | the queue and the exporter |

mod body;
mod export;
mod request;

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{SpanBuilder, SpanKind, Tracer as _, TracerProvider as _};
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkError;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};

use crate::digest::Digest;

pub use export::{Export, SpanCounters, TraceError};
pub use request::{OutboundSpan, Trace, mark_failed};

/// The header that names the parent of a request.
const TRACEPARENT: &str = "traceparent";

/// Makes spans. [`Tracer::shutdown`] exports the last ones; a drop loses them.
pub struct Tracer {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    propagator: TraceContextPropagator,
    counters: Arc<SpanCounters>,
}

/// The generation that serves a request.
pub struct ServingComponent<'a> {
    pub id: &'a str,
    /// The generation's number in its slot.
    pub generation: u64,
    pub digest: Digest,
    /// Name and version, for a component that is an area.
    pub area: Option<(&'a str, &'a str)>,
}

/// The route and the component of a request.
#[derive(Clone, Copy)]
pub struct Destination<'a> {
    pub route: &'a str,
    pub component: &'a str,
}

impl Tracer {
    pub fn new(export: &Export) -> Result<Self, TraceError> {
        let (processor, counters) = export::processor(export)?;
        let provider = SdkTracerProvider::builder().with_resource(resource()).with_span_processor(processor).build();
        let scope = InstrumentationScope::builder(env!("CARGO_PKG_NAME")).with_version(env!("CARGO_PKG_VERSION"));
        let tracer = provider.tracer_with_scope(scope.build());
        Ok(Self { provider, tracer, propagator: TraceContextPropagator::new(), counters })
    }

    pub fn counters(&self) -> &SpanCounters {
        &self.counters
    }

    /// Begins a request's trace, below the parent in its `traceparent`. The sampler decides whether it is
    /// recorded.
    pub fn begin<B>(self: &Arc<Self>, request: &Request<B>, destination: Option<Destination<'_>>) -> Arc<Trace> {
        let mut parent = Context::new();
        if request.headers().contains_key(TRACEPARENT) {
            parent = self.propagator.extract_with_context(&parent, &HeaderExtractor(request.headers()));
        }
        // A sampled request gets its own name and its attributes in `Trace::new`.
        let span = self.span("request", SpanKind::Server, &parent);
        Arc::new(Trace::new(self.clone(), span, request, destination))
    }

    fn span(&self, name: &'static str, kind: SpanKind, parent: &Context) -> Span {
        self.tracer.build_with_context(SpanBuilder::from_name(name).with_kind(kind), parent)
    }

    /// Exports the remaining spans, within `timeout`.
    pub fn shutdown(&self, timeout: Duration) {
        match self.provider.shutdown_with_timeout(timeout) {
            Ok(()) | Err(OTelSdkError::AlreadyShutdown) => {}
            Err(error) => tracing::warn!(%error, "the last spans may not have reached the collector"),
        }
    }
}

/// The origin of the spans: `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`, or else this program.
fn resource() -> Resource {
    const NAME: &str = "service.name";
    let given = Resource::builder().build();
    let is_unknown = given.get(&NAME.into()).is_none_or(|name| name.as_str().starts_with("unknown_service"));
    let mut own = vec![KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))];
    if is_unknown {
        own.push(KeyValue::new(NAME, env!("CARGO_PKG_NAME")));
    }
    own.retain(|own| is_unknown || given.get(&own.key).is_none());
    Resource::builder().with_attributes(own).build()
}
