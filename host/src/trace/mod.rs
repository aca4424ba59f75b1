//! Traces: what one request did and how long each part of it took, sent to a collector by OTLP.
//!
//! A request is a span, the component's part of it one within, and the component's key-value
//! operations and outbound requests are within that. `traceparent` (W3C Trace Context) is
//! believed, sampling included, and passed on: to the component, and by the host in outbound
//! requests. The names of attributes are those of OpenTelemetry's semantic conventions where there
//! are any, and begin with `hexad.` otherwise.
//!
//! Of a request its method, path and route are told: no query, no header and no key, where tokens
//! and their hashes are.
//!
//! Everything is configured by OpenTelemetry's own variables (`OTEL_EXPORTER_OTLP_ENDPOINT`, ...).
//! Without them there is no [`Tracer`] and requests pay nothing. With one, a request that is not
//! sampled pays for its ids, and one that is for its spans, which go to a bounded queue; who sends
//! them is a thread of its own.
//!
//! | file | knows |
//! |---|---|
//! | `request` | the spans of one request |
//! | `body` | when the response is over |
//! | `export` | the way to the collector |

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

pub use export::{Counts, Export, TraceError};
pub use request::{Outgoing, Trace, fail};

/// A request's parent.
const TRACEPARENT: &str = "traceparent";

/// What makes spans. Dropping it loses what is not sent yet: see [`Tracer::shutdown`].
pub struct Tracer {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    propagator: TraceContextPropagator,
    counts: Arc<Counts>,
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

/// Where a request goes, as far as it is known when it comes.
#[derive(Clone, Copy)]
pub struct Destination<'a> {
    pub route: &'a str,
    pub component: &'a str,
}

impl Tracer {
    pub fn new(export: &Export) -> Result<Self, TraceError> {
        let (processor, counts) = export::processor(export)?;
        let provider = SdkTracerProvider::builder().with_resource(resource()).with_span_processor(processor).build();
        let scope = InstrumentationScope::builder(env!("CARGO_PKG_NAME")).with_version(env!("CARGO_PKG_VERSION"));
        let tracer = provider.tracer_with_scope(scope.build());
        Ok(Self { provider, tracer, propagator: TraceContextPropagator::new(), counts })
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Begins a request's trace, as its `traceparent` and the sampler have it.
    pub fn begin<B>(self: &Arc<Self>, request: &Request<B>, destination: Option<Destination<'_>>) -> Arc<Trace> {
        let mut parent = Context::new();
        if request.headers().contains_key(TRACEPARENT) {
            parent = self.propagator.extract_with_context(&parent, &HeaderExtractor(request.headers()));
        }
        // Its name and what else is known of it follow if it is sampled.
        let span = self.span("request", SpanKind::Server, &parent);
        Arc::new(Trace::new(self.clone(), span, request, destination))
    }

    fn span(&self, name: &'static str, kind: SpanKind, parent: &Context) -> Span {
        self.tracer.build_with_context(SpanBuilder::from_name(name).with_kind(kind), parent)
    }

    /// Sends what is left, for at most `patience`.
    pub fn shutdown(&self, patience: Duration) {
        match self.provider.shutdown_with_timeout(patience) {
            Ok(()) | Err(OTelSdkError::AlreadyShutdown) => {}
            Err(error) => tracing::warn!(%error, "the last spans may not have reached the collector"),
        }
    }
}

/// Who tells: `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`, or else this program.
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
