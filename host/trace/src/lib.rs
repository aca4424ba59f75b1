//! Traces of requests, exported to a collector by OTLP (decision 0031).
//!
//! A request has a span, and its component has a child span. The component's key-value operations, instantiations and
//! outbound requests are children of that span. The host trusts `traceparent` (W3C Trace Context), including its
//! sampling, and passes it on to the component and in outbound requests. Attributes have the names of OpenTelemetry's
//! semantic conventions, or else begin with `hexad.`.
//!
//! A span has the request's method, path and route. It has no query, header or key, because these can contain tokens
//! and their hashes.
//!
//! OpenTelemetry's variables configure it (`OTEL_EXPORTER_OTLP_ENDPOINT`, ...). Without them, the host has no
//! [`Tracer`], and requests cost nothing more. With a tracer, a request costs its ids and, if it is sampled, its spans.
//! A thread exports spans from a bounded queue.
//!
//! | file | what |
//! |---|---|
//! | `tracer` | the source of spans |
//! | `request` | the spans of one request |
//! | `body` | the end of a response |
//! | `export` | the queue and the exporter |

mod body;
mod export;
mod request;
mod tracer;

pub use export::{Export, SpanCounters, TraceError};
pub use request::{Destination, OutboundSpan, ServingComponent, Trace, mark_failed};
pub use tracer::Tracer;
