//! The way of spans to the collector: a bounded queue, and a thread that sends what is in it.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry::Context;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter as Otlp, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor};
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

use crate::metrics::Counter;

/// Spans that wait to be sent, unless `OTEL_BSP_MAX_QUEUE_SIZE` says otherwise.
const QUEUE: usize = 8192;

/// How long the collector may take, unless `OTEL_EXPORTER_OTLP_TIMEOUT` says otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The largest answer of a collector that is read, in bytes.
const MAX_ANSWER: u64 = 64 * 1024;

/// A collector that is away for long is spoken of this often.
const REMINDER: Duration = Duration::from_secs(60);

/// Where traces go.
#[derive(Clone, Debug)]
pub struct Export {
    /// None for what the environment says.
    endpoint: Option<String>,
}

/// Why traces cannot be exported as configured.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("traces cannot be exported: {0}; correct the OTEL_EXPORTER_OTLP_ variables")]
    Exporter(#[from] ExporterBuildError),
}

impl Export {
    /// As OpenTelemetry's variables say; `None` if they name no collector.
    pub fn from_environment() -> Option<Self> {
        let given = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let is = |name: &str, wanted: &str| given(name).is_some_and(|value| value.eq_ignore_ascii_case(wanted));
        if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
            return None;
        }
        given("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(|| given("OTEL_EXPORTER_OTLP_ENDPOINT"))?;
        let protocol = given("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL").or_else(|| given("OTEL_EXPORTER_OTLP_PROTOCOL"));
        if let Some(protocol) = protocol.filter(|protocol| protocol != "http/protobuf") {
            tracing::warn!(protocol, "traces are sent by http/protobuf, the only protocol there is");
        }
        Some(Self { endpoint: None })
    }

    /// To the URL of a collector, `/v1/traces` included.
    pub fn to(endpoint: impl Into<String>) -> Self {
        Self { endpoint: Some(endpoint.into()) }
    }
}

/// What became of spans since the start.
#[derive(Debug, Default)]
pub struct Counts {
    /// Those that the collector has.
    pub exported: Counter,
    /// Those that it would not take, or that could not be sent.
    pub failed: Counter,
    /// Those for which there was no room in the queue.
    pub dropped: Counter,
    queued: AtomicUsize,
}

impl Counts {
    pub fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }
}

/// What takes spans when they end.
pub fn processor(export: &Export) -> Result<(impl SpanProcessor + 'static, Arc<Counts>), TraceError> {
    let mut builder = Otlp::builder().with_http().with_http_client(Client::new());
    if let Some(endpoint) = &export.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    let counts = Arc::new(Counts::default());
    let exporter = Reporting { inner: builder.build()?, counts: counts.clone(), trouble: Mutex::default() };
    let room = number("OTEL_BSP_MAX_QUEUE_SIZE").filter(|size| *size > 0).unwrap_or(QUEUE);
    let config = BatchConfigBuilder::default().with_max_queue_size(room).build();
    let inner = BatchSpanProcessor::builder(exporter).with_batch_config(config).build();
    Ok((Bounded { inner, counts: counts.clone(), room }, counts))
}

fn number<N: std::str::FromStr>(variable: &str) -> Option<N> {
    std::env::var(variable).ok()?.trim().parse().ok()
}

/// Counts what the queue has no room for, which the SDK's own does not tell.
#[derive(Debug)]
struct Bounded {
    inner: BatchSpanProcessor,
    counts: Arc<Counts>,
    room: usize,
}

impl SpanProcessor for Bounded {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.counts.queued.fetch_add(1, Ordering::Relaxed) >= self.room {
            self.counts.queued.fetch_sub(1, Ordering::Relaxed);
            self.counts.dropped.add(1);
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

/// Counts what was sent, and says when that begins to fail and when it goes well again.
struct Reporting {
    inner: Otlp,
    counts: Arc<Counts>,
    trouble: Mutex<Option<Trouble>>,
}

struct Trouble {
    spoken_of: Instant,
    lost: u64,
}

impl fmt::Debug for Reporting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The exporter's headers can hold the collector's token.
        f.write_str("Reporting")
    }
}

impl SpanExporter for Reporting {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        self.counts.queued.fetch_sub(spans, Ordering::Relaxed);
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

impl Reporting {
    fn report(&self, spans: u64, exported: &OTelSdkResult) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match exported {
            Ok(()) => {
                self.counts.exported.add(spans);
                if let Some(Trouble { lost, .. }) = trouble.take() {
                    tracing::info!(lost, "the collector takes spans again");
                }
            }
            Err(error) => {
                self.counts.failed.add(spans);
                let now = Instant::now();
                let lost = trouble.as_ref().map_or(0, |trouble| trouble.lost) + spans;
                let due = trouble.as_ref().is_none_or(|trouble| now - trouble.spoken_of >= REMINDER);
                if due {
                    tracing::warn!(%error, lost, "spans could not be sent to the collector");
                }
                let spoken_of = trouble.as_ref().filter(|_| !due).map_or(now, |trouble| trouble.spoken_of);
                *trouble = Some(Trouble { spoken_of, lost });
            }
        }
    }
}

/// It blocks, as it may: the processor has a thread of its own for the exporter.
#[derive(Debug)]
struct Client(Agent);

impl Client {
    fn new() -> Self {
        let given = number("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT").or_else(|| number("OTEL_EXPORTER_OTLP_TIMEOUT"));
        let timeout = given.map_or(TIMEOUT, Duration::from_millis);
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let config = Agent::config_builder().tls_config(tls).timeout_global(Some(timeout));
        // The headers are for this collector and no other.
        Self(config.http_status_as_error(false).max_redirects(0).build().into())
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let (parts, mut body) = self.0.run(Request::from_parts(parts, &*body))?.into_parts();
        let body = body.with_config().limit(MAX_ANSWER).read_to_vec()?;
        Ok(Response::from_parts(parts, body.into()))
    }
}
