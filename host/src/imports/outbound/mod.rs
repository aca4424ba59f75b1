//! HTTP requests of guests to other services.
//!
//! Following one request: target (one spelling) → grants (`allowed_outbound_hosts`) → a permit
//! among the component's requests → the component's pool of connections → resolver → address
//! policy → that very address → TLS → response, within time and size. Redirects are responses like
//! any other: a guest that follows one makes a request of its own.
//!
//! | module | knows |
//! |---|---|
//! | `target` | what a URI means |
//! | `grants` | the manifest's entries |
//! | `address` | which addresses are public |
//! | `egress` | one component's bounds and counts |
//! | `connector`, `resolver`, `tls` | the way to an open connection |
//! | `coalesce` | equal requests at the same moment, sent once |
//! | `body` | a response's bounds |
//! | `error` | the codes that guests see |

mod address;
mod body;
mod coalesce;
mod connector;
mod counters;
mod egress;
mod error;
mod grants;
mod limits;
mod resolver;
mod target;
mod tls;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode, Version};
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use tokio::time::Instant;
use wasmtime_wasi_http::{Error as WasiError, RequestOptions, WasiBody};

pub use counters::{Counter, OutboundCounters};
pub use grants::AllowedHosts;
pub use limits::OutboundLimits;
pub use resolver::{Resolve, SystemResolver};
pub use tls::TlsError;

use crate::concurrency_limit::ConcurrencyLimit;
use crate::trace::{Outgoing, Trace};
use body::OutboundBody;
use coalesce::Coalescer;
use connector::{CONNECT_TIMEOUT, Connector};
use egress::Egress;
use target::Target;

/// Requests at the same moment, of all components, and how many more may wait.
const REQUESTS: usize = 512;
const MAX_WAITING: usize = 4096;
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Connections that nobody uses are closed after this time. Less than what servers commonly
/// grant, so that it is rarely they who close one at the moment it is taken again.
const IDLE: Duration = Duration::from_secs(30);

/// Bytes of a response's head, and headers in it.
const HEAD_BYTES: usize = 64 * 1024;
const HEADERS: usize = 100;

/// Bytes that are read from a connection at once, if they come that fast. Reading starts with
/// less and gets to this by itself.
const READ_BYTES: usize = 256 * 1024;

/// HTTP/2: a server that does not answer a ping is gone.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// How a host reaches others.
#[derive(Clone, Debug)]
pub struct Options {
    pub resolver: Arc<dyn Resolve>,
    /// A file of certificates (PEM) to trust in addition to the system's.
    pub authority: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self { resolver: Arc::new(SystemResolver::default()), authority: None }
    }
}

/// What all components of a host share.
pub struct Network {
    resolver: Arc<dyn Resolve>,
    tls: Arc<ClientConfig>,
    requests: ConcurrencyLimit,
}

impl Network {
    pub fn new(options: &Options) -> Result<Self, TlsError> {
        Ok(Self {
            resolver: options.resolver.clone(),
            tls: tls::client(options.authority.as_deref())?,
            requests: ConcurrencyLimit::new(REQUESTS, MAX_WAIT, MAX_WAITING),
        })
    }
}

type Pool = Client<Connector, WasiBody>;

/// The requests of one component. It outlives the component's generations.
pub struct Outbound {
    egress: Arc<Egress>,
    coalescer: Coalescer,
    /// Open connections, one pool for each shard, where the connection is served.
    pools: Vec<ArcSwap<Pool>>,
}

impl Outbound {
    pub fn new(
        component: &str,
        grants: Arc<AllowedHosts>,
        limits: OutboundLimits,
        network: Arc<Network>,
        shards: usize,
    ) -> Self {
        let egress = Arc::new(Egress::new(component, grants, limits, network));
        let pools = (0..shards).map(|_| ArcSwap::from_pointee(pool(&egress))).collect();
        Self { egress, coalescer: Coalescer::default(), pools }
    }

    pub fn counters(&self) -> &OutboundCounters {
        &self.egress.counters
    }

    /// Requests that got the response to an equal request.
    pub fn coalesced(&self) -> u64 {
        self.coalescer.joined.get()
    }

    /// Requests under way.
    pub fn in_flight(&self) -> usize {
        self.egress.limits.requests.saturating_sub(self.egress.requests.available())
    }

    /// Sends a request from an instance on the given shard, and returns the response with its
    /// body still to come.
    pub async fn send(
        &self,
        shard: usize,
        request: Request<WasiBody>,
        options: RequestOptions,
        trace: Option<&Trace>,
    ) -> Result<Response<WasiBody>, WasiError> {
        let counters = &self.egress.counters;
        counters.requests.add(1);
        let started = Instant::now();
        let outgoing = trace.map(|trace| trace.outgoing(request.method(), request.uri()));
        let parent = outgoing.as_ref();
        // Requests are compared as the guest made them: whose trace they belong to makes none another.
        let sent = match self.egress.limits.share {
            true => self.coalescer.send(request, |request| self.try_send(shard, request, options, parent)).await,
            false => self.try_send(shard, request, options, parent).await,
        };
        let (counter, outcome) = match &sent {
            Ok(response) => (&counters.answered, Ok(response.status().as_u16())),
            Err(WasiError::HttpRequestDenied) => (&counters.denied, Err("denied")),
            Err(WasiError::DestinationIpProhibited) => (&counters.prohibited, Err("prohibited")),
            Err(WasiError::ConnectionLimitReached) => (&counters.busy, Err("busy")),
            Err(WasiError::ConnectionTimeout | WasiError::ConnectionReadTimeout | WasiError::HttpResponseTimeout) => {
                (&counters.timeouts, Err("timed_out"))
            }
            Err(_) => (&counters.failed, Err("failed")),
        };
        counter.add(1);
        counters.duration.observe(started.elapsed());
        if let Some(outgoing) = outgoing {
            outgoing.end(outcome);
        }
        sent
    }

    async fn try_send(
        &self,
        shard: usize,
        request: Request<WasiBody>,
        options: RequestOptions,
        parent: Option<&Outgoing>,
    ) -> Result<Response<WasiBody>, WasiError> {
        let (egress, limits) = (&self.egress, &self.egress.limits);
        let deadline = Instant::now() + limits.timeout;
        let target = Target::of(request.uri()).ok_or(WasiError::HttpRequestUriInvalid)?;
        let Some(reach) = egress.grants.reach(&target) else {
            egress.log_refusal(&target, "no entry of allowed_outbound_hosts covers it");
            return Err(WasiError::HttpRequestDenied);
        };
        // A tunnel would end the host's knowledge of what is sent.
        if request.method() == Method::CONNECT {
            return Err(WasiError::HttpRequestMethodInvalid);
        }
        if target.ip().is_some_and(|address| !egress.permits(&target, reach, address)) {
            egress.log_refusal(&target, "the address is not public and no grant names it");
            return Err(WasiError::DestinationIpProhibited);
        }
        let permits = [
            egress.requests.acquire().await.map_err(|_| WasiError::ConnectionLimitReached)?,
            egress.network.requests.acquire().await.map_err(|_| WasiError::ConnectionLimitReached)?,
        ];

        let connect_timeout = least(options.connect_timeout, limits.connect_timeout);
        let head_timeout = least(options.first_byte_timeout, limits.head_timeout);
        let idle_timeout = least(options.between_bytes_timeout, limits.idle_timeout);
        let mut request = prepared(request, &target)?;
        if let Some(parent) = parent {
            parent.inject(request.headers_mut());
        }
        let answered = CONNECT_TIMEOUT.scope(connect_timeout, self.pool(shard)?.request(request));
        let until = deadline.min(Instant::now() + connect_timeout + head_timeout);
        let response = match tokio::time::timeout_at(until, answered).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                let code = error::code(&error);
                if matches!(code, WasiError::DestinationIpProhibited) {
                    egress.log_refusal(&target, "its name leads only to addresses that are not public");
                }
                tracing::debug!(component = egress.component, host = %target.host, error = causes(&error), "failed");
                return Err(code);
            }
            Err(_) => return Err(WasiError::HttpResponseTimeout),
        };
        let (mut parts, body) = response.into_parts();
        if parts.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(WasiError::HttpUpgradeFailed);
        }
        if parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>() > HEAD_BYTES {
            return Err(WasiError::HttpResponseHeaderSectionSize(None));
        }
        if content_length(&parts.headers).is_some_and(|length| length > limits.max_response)
            && !http_body::Body::is_end_stream(&body)
        {
            return Err(WasiError::HttpResponseBodySize(Some(limits.max_response)));
        }
        remove_hop_by_hop(&mut parts.headers);
        let body = OutboundBody::new(body, permits, egress.clone(), idle_timeout, deadline);
        Ok(Response::from_parts(parts, body.boxed_unsync()))
    }

    /// The shard's pool. When idle connections to other hosts have used up the component's
    /// share, all pools start afresh: that closes them, and leaves those in use to finish.
    fn pool(&self, shard: usize) -> Result<Arc<Pool>, WasiError> {
        if self.egress.connections.available() == 0 {
            for used in &self.pools {
                used.store(Arc::new(pool(&self.egress)));
            }
        }
        let found = self.pools.get(shard).map(ArcSwap::load_full);
        found.ok_or(WasiError::ConfigurationError)
    }
}

fn pool(egress: &Arc<Egress>) -> Pool {
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .http1_max_buf_size(READ_BYTES)
        .http1_max_headers(HEADERS)
        .http2_max_header_list_size(HEAD_BYTES as u32)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .build(Connector::new(egress.clone()))
}

/// The guest's choice, within the host's.
fn least(guests: Option<Duration>, hosts: Duration) -> Duration {
    guests.map_or(hosts, |guests| guests.min(hosts))
}

/// The request as it goes to the client: its URI in the spelling that was checked, and nothing
/// that is between the guest and this host only.
fn prepared(request: Request<WasiBody>, target: &Target) -> Result<Request<WasiBody>, WasiError> {
    let (mut parts, body) = request.into_parts();
    parts.uri = target.uri(parts.uri.path_and_query()).ok_or(WasiError::HttpRequestUriInvalid)?;
    parts.version = Version::HTTP_11;
    // The client writes it, from the URI.
    parts.headers.remove(HOST);
    remove_hop_by_hop(&mut parts.headers);
    Ok(Request::from_parts(parts, body))
}

/// Removes what belongs to one connection (RFC 9110, section 7.6.1).
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    const OTHERS: [&str; 4] = ["keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization"];
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.into_iter().chain([CONNECTION, TE, TRANSFER_ENCODING, UPGRADE]) {
        headers.remove(name);
    }
    for name in OTHERS {
        headers.remove(name);
    }
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// An error and what lies behind it, for the log.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_one_connection_stays_there() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, x-mine"),
            ("connection", "X-Other , bad name,"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("te", "trailers"),
            ("proxy-connection", "close"),
            ("x-mine", "1"),
            ("x-other", "2"),
            ("content-type", "text/plain"),
            ("trailer", "x-sum"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        remove_hop_by_hop(&mut headers);
        let left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["content-type", "trailer"]);
    }

    #[test]
    fn a_guest_may_only_shorten_its_timeouts() {
        let second = Duration::from_secs(1);
        assert_eq!(least(None, second), second);
        assert_eq!(least(Some(second * 2), second), second);
        assert_eq!(least(Some(second / 2), second), second / 2);
    }
}
