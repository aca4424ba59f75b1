//! The source of spans: the sampler, the ids and the exporter.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use opentelemetry::propagation::{Injector, TextMapPropagator};
use opentelemetry::trace::{SpanBuilder, SpanKind, Tracer as _, TracerProvider as _};
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkError;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};

use super::export::{self, Export, SpanCounters, TraceError};

/// The name of the service, unless the operator gives another one.
const SERVICE: &str = "hexad";

/// The header that names the parent of a request.
const TRACEPARENT: &str = "traceparent";

/// Makes spans. [`Tracer::shutdown`] exports the last ones; a drop loses them.
pub struct Tracer {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    propagator: TraceContextPropagator,
    counters: Arc<SpanCounters>,
    /// The store's database, by its name in OpenTelemetry's conventions.
    pub(super) database: &'static str,
}

impl Tracer {
    /// `database` is the name of the store's database in OpenTelemetry's conventions.
    pub fn new(export: &Export, database: &'static str) -> Result<Self, TraceError> {
        let (processor, counters) = export::processor(export)?;
        let provider = SdkTracerProvider::builder().with_resource(resource()).with_span_processor(processor).build();
        let scope = InstrumentationScope::builder(SERVICE).with_version(env!("CARGO_PKG_VERSION"));
        let tracer = provider.tracer_with_scope(scope.build());
        Ok(Self { provider, tracer, propagator: TraceContextPropagator::new(), counters, database })
    }

    pub fn counters(&self) -> &SpanCounters {
        &self.counters
    }

    /// The parent in a request's `traceparent`.
    pub(super) fn parent(&self, headers: &HeaderMap) -> Context {
        let parent = Context::new();
        match headers.contains_key(TRACEPARENT) {
            true => self.propagator.extract_with_context(&parent, &HeaderExtractor(headers)),
            false => parent,
        }
    }

    /// Sets the headers that name a parent.
    pub(super) fn inject(&self, parent: &Context, headers: &mut dyn Injector) {
        self.propagator.inject_context(parent, headers);
    }

    pub(super) fn span(&self, name: &'static str, kind: SpanKind, parent: &Context) -> Span {
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
    let named = std::env::var("OTEL_SERVICE_NAME").ok().filter(|name| !name.is_empty());
    if is_unknown {
        own.push(KeyValue::new(NAME, SERVICE));
    }
    own.retain(|own| is_unknown || given.get(&own.key).is_none());
    // `OTEL_SERVICE_NAME` has precedence over the name in `OTEL_RESOURCE_ATTRIBUTES`.
    own.extend(named.map(|name| KeyValue::new(NAME, name)));
    Resource::builder().with_attributes(own).build()
}
