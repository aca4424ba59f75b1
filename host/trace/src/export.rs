//! Exports spans to a collector: a bounded queue, and a thread that sends its spans.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use hexad_support::http_client;
use hexad_telemetry::metrics::Counter;
use http::{Request, Response};
use opentelemetry::Context;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter as Otlp, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor};
use ureq::Agent;

/// The most spans in the queue; `OTEL_BSP_MAX_QUEUE_SIZE` overrides it.
const DEFAULT_QUEUE_SIZE: usize = 8192;

/// The timeout of a request to the collector; `OTEL_EXPORTER_OTLP_TIMEOUT` overrides it.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest response of a collector, in bytes.
const MAX_RESPONSE: u64 = 64 * 1024;

/// How often the host logs that the collector is still unavailable.
const REMINDER_INTERVAL: Duration = Duration::from_secs(60);

/// The destination of traces.
#[derive(Clone, Debug)]
pub struct Export {
    /// The collector. `None` if OpenTelemetry's variables name it.
    endpoint: Option<String>,
}

/// Why the host cannot export traces as configured.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("traces cannot be exported: {0}; correct the OTEL_EXPORTER_OTLP_ variables")]
    Exporter(#[from] ExporterBuildError),
}

impl Export {
    /// The destination in OpenTelemetry's variables. `None` if they name no collector.
    pub fn from_environment() -> Option<Self> {
        let value = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let has_value =
            |name: &str, expected: &str| value(name).is_some_and(|value| value.eq_ignore_ascii_case(expected));
        if has_value("OTEL_SDK_DISABLED", "true") || has_value("OTEL_TRACES_EXPORTER", "none") {
            return None;
        }
        value("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(|| value("OTEL_EXPORTER_OTLP_ENDPOINT"))?;
        let protocol = value("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL").or_else(|| value("OTEL_EXPORTER_OTLP_PROTOCOL"));
        if let Some(protocol) = protocol.filter(|protocol| protocol != "http/protobuf") {
            tracing::warn!(protocol, "traces are sent by http/protobuf, the only protocol that the host supports");
        }
        Some(Self { endpoint: None })
    }

    /// A destination by the URL of a collector, including `/v1/traces`.
    pub fn to(endpoint: impl Into<String>) -> Self {
        Self { endpoint: Some(endpoint.into()) }
    }
}

/// Counters of exported and lost spans.
#[derive(Debug, Default)]
pub struct SpanCounters {
    /// Spans that the collector accepted.
    pub exported: Counter,
    /// Spans that the collector rejected, or that could not be sent.
    pub failed: Counter,
    /// Spans that the full queue did not accept.
    pub dropped: Counter,
    queued: AtomicUsize,
}

impl SpanCounters {
    pub fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }
}

/// The processor of ended spans, and its counters.
pub fn processor(export: &Export) -> Result<(impl SpanProcessor + 'static, Arc<SpanCounters>), TraceError> {
    let mut builder = Otlp::builder().with_http().with_http_client(CollectorClient::new());
    if let Some(endpoint) = &export.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    let counters = Arc::new(SpanCounters::default());
    let exporter = CountingExporter { inner: builder.build()?, counters: counters.clone(), outage: Mutex::default() };
    let queue_size = parsed_variable("OTEL_BSP_MAX_QUEUE_SIZE").filter(|size| *size > 0).unwrap_or(DEFAULT_QUEUE_SIZE);
    let config = BatchConfigBuilder::default().with_max_queue_size(queue_size).build();
    let inner = BatchSpanProcessor::builder(exporter).with_batch_config(config).build();
    Ok((BoundedProcessor { inner, counters: counters.clone(), queue_size }, counters))
}

fn parsed_variable<N: std::str::FromStr>(variable: &str) -> Option<N> {
    std::env::var(variable).ok()?.trim().parse().ok()
}

/// Counts the spans that the full queue drops, because the SDK's processor does not report them.
#[derive(Debug)]
struct BoundedProcessor {
    inner: BatchSpanProcessor,
    counters: Arc<SpanCounters>,
    queue_size: usize,
}

impl SpanProcessor for BoundedProcessor {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.counters.queued.fetch_add(1, Ordering::Relaxed) >= self.queue_size {
            self.counters.queued.fetch_sub(1, Ordering::Relaxed);
            self.counters.dropped.add(1);
            return;
        }
        self.inner.on_end(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// Counts exported spans, and logs the beginning and the end of a collector's outage.
struct CountingExporter {
    inner: Otlp,
    counters: Arc<SpanCounters>,
    outage: Mutex<Option<CollectorOutage>>,
}

struct CollectorOutage {
    /// The time when the host last logged the outage.
    logged_at: Instant,
    lost_spans: u64,
}

impl fmt::Debug for CountingExporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The exporter's headers can contain the collector's token.
        f.write_str("CountingExporter")
    }
}

impl SpanExporter for CountingExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        self.counters.queued.fetch_sub(spans, Ordering::Relaxed);
        let exported = self.inner.export(batch).await;
        self.report(spans as u64, &exported);
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

impl CountingExporter {
    fn report(&self, spans: u64, exported: &OTelSdkResult) {
        let mut outage = self.outage.lock().unwrap_or_else(PoisonError::into_inner);
        match exported {
            Ok(()) => {
                self.counters.exported.add(spans);
                if let Some(CollectorOutage { lost_spans: lost, .. }) = outage.take() {
                    tracing::info!(lost, "the collector accepts spans again");
                }
            }
            Err(error) => {
                self.counters.failed.add(spans);
                let now = Instant::now();
                let lost = outage.as_ref().map_or(0, |outage| outage.lost_spans) + spans;
                let is_due = outage.as_ref().is_none_or(|outage| now - outage.logged_at >= REMINDER_INTERVAL);
                if is_due {
                    tracing::warn!(%error, lost, "spans could not be sent to the collector");
                }
                let logged_at = outage.as_ref().filter(|_| !is_due).map_or(now, |outage| outage.logged_at);
                *outage = Some(CollectorOutage { logged_at, lost_spans: lost });
            }
        }
    }
}

/// The HTTP client of the exporter. It may block: the processor runs the exporter on its own thread.
#[derive(Debug)]
struct CollectorClient(Agent);

impl CollectorClient {
    fn new() -> Self {
        let millis = parsed_variable("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT")
            .or_else(|| parsed_variable("OTEL_EXPORTER_OTLP_TIMEOUT"));
        let timeout = millis.map_or(DEFAULT_TIMEOUT, Duration::from_millis);
        Self(http_client::agent_with(timeout))
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let (parts, mut body) = self.0.run(Request::from_parts(parts, &*body))?.into_parts();
        let body = body.with_config().limit(MAX_RESPONSE).read_to_vec()?;
        Ok(Response::from_parts(parts, body.into()))
    }
}
