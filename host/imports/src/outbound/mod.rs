//! HTTP requests of guests to other services.
//!
//! A request passes through: canonical target, `allowed_outbound_hosts`, a permit of the component, its connection
//! pool, resolver, address check, a connection to the checked address, TLS, and response. The host bounds the response
//! in time and size. After its permit, a request to the application itself stays in the process. The host follows no
//! redirects: the guest makes another request.
//!
//! | module | what it has |
//! |---|---|
//! | `target` | the origin of a URI, in canonical form |
//! | `allowed_hosts` | the manifest's `allowed_outbound_hosts` |
//! | `address` | which addresses are public |
//! | `component_outbound` | the bounds and counts of one component |
//! | `shared_outbound`, `factory` | the state that all components share, and how a component gets its part |
//! | `local` | requests to the application itself, which do not leave the process |
//! | `connector`, `resolver` | how a connection is opened |
//! | `coalesce` | equal concurrent requests, sent once |
//! | `headers` | hop-by-hop headers |
//! | `body` | bounds of a response body |
//! | `error` | error codes for guests |

mod address;
mod allowed_hosts;
mod body;
mod coalesce;
mod component_outbound;
mod connector;
mod error;
mod factory;
mod headers;
mod local;
mod resolver;
mod shared_outbound;
mod target;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use hexad_http::body::content_length;
use hexad_http::nested_request::ParentRequest;
use hexad_http::response_cache::Dependencies;
use hexad_limits::concurrency_limit::ClientKeys;
use hexad_limits::instance_permit::{InstancePermit, OutboundInProgress};
use hexad_trace::Trace;
use http::header::HOST;
use http::{Method, Request, Response, StatusCode, Version};
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioTimer;
use tokio::time::Instant;
use wasmtime_wasi_http::{Error as WasiError, RequestOptions, WasiBody};

pub use allowed_hosts::AllowedHosts;
use body::{BodyInProgress, OutboundBody, OutboundPermits};
use coalesce::Coalescer;
use component_outbound::ComponentOutbound;
pub use component_outbound::{OutboundCounters, OutboundLimits};
use connector::{CONNECTION_REQUEST, ConnectionExecutor, ConnectionRequest, OutboundConnector, READ_BUFFER_BYTES};
pub use factory::OutboundFactory;
use headers::remove_hop_by_hop;
pub use local::LocalService;
pub use resolver::{Resolve, SystemResolver};
pub use shared_outbound::{OutboundOptions, SharedOutbound};
use target::{Local, Target};

/// The host closes idle connections after this time. Servers usually wait longer, so that a server rarely closes a
/// connection when the host uses it again.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The least time between two replacements of the pools, which close idle connections.
const REPLACED_EVERY: Duration = Duration::from_secs(1);

/// Bytes and number of the headers of a response.
const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_HEADERS: usize = 100;

/// The host closes an HTTP/2 connection whose server does not answer a ping in time.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

type ConnectionPool = Client<OutboundConnector, WasiBody>;

/// The request that an instance serves while it sends requests of its own.
#[derive(Clone, Copy)]
pub struct Sender<'a> {
    /// The shard of the instance.
    pub shard: usize,
    pub client: ClientKeys,
    pub trace: Option<&'a Trace>,
    /// `None` if no client waits for the guest; then the guest cannot send requests to its own application.
    pub parent: Option<&'a ParentRequest>,
    /// The permit of the instance.
    pub permit: Option<&'a Arc<InstancePermit>>,
}

/// The outbound requests of one component, of all its revisions.
pub struct Outbound {
    egress: Arc<ComponentOutbound>,
    coalescer: Coalescer,
    /// One pool for each shard: the shard that opened a connection serves it.
    pools: Vec<ArcSwap<ConnectionPool>>,
    /// When the pools were last replaced.
    replaced_at: Mutex<Option<Instant>>,
}

impl Outbound {
    pub fn new(
        component: &str,
        allowed_hosts: Arc<AllowedHosts>,
        limits: OutboundLimits,
        network: Arc<SharedOutbound>,
        shards: usize,
    ) -> Self {
        Self::with_egress(ComponentOutbound::new(component, allowed_hosts, limits, network, Arc::default()), shards)
    }

    /// The same component's outbound requests with other bounds. The counts continue.
    pub fn with_bounds(&self, allowed_hosts: Arc<AllowedHosts>, limits: OutboundLimits) -> Self {
        let ComponentOutbound { component, network, counters, .. } = &*self.egress;
        let egress = ComponentOutbound::new(component, allowed_hosts, limits, network.clone(), counters.clone());
        Self::with_egress(egress, self.pools.len())
    }

    fn with_egress(egress: ComponentOutbound, shards: usize) -> Self {
        let coalescer = Coalescer::new(egress.network.memory.clone(), egress.counters.clone());
        let egress = Arc::new(egress);
        let pools = (0..shards).map(|_| ArcSwap::from_pointee(pool(&egress))).collect();
        Self { egress, coalescer, pools, replaced_at: Mutex::default() }
    }

    /// Whether it has these bounds.
    pub fn is_bounded_by(&self, allowed_hosts: &AllowedHosts, limits: &OutboundLimits) -> bool {
        *self.egress.allowed_hosts == *allowed_hosts && self.egress.limits == *limits
    }

    pub fn counters(&self) -> &Arc<OutboundCounters> {
        &self.egress.counters
    }

    /// Requests whose response has not ended.
    pub fn in_flight(&self) -> usize {
        self.egress.requests.taken()
    }

    /// Sends a request. Returns once the response's head is there.
    pub async fn send(
        &self,
        sender: Sender<'_>,
        request: Request<WasiBody>,
        options: RequestOptions,
    ) -> Result<Response<WasiBody>, WasiError> {
        let counters = &self.egress.counters;
        counters.requests.add(1);
        // If the guest continues without the response, no `end_nested` follows.
        let dependencies = sender.parent.and_then(ParentRequest::dependencies);
        if let Some(dependencies) = dependencies {
            dependencies.begin_nested();
        }
        let started = Instant::now();
        let span = sender.trace.map(|trace| trace.begin_outbound(request.method(), request.uri()));
        let parent = span.as_ref();
        let deadline = started + self.egress.limits.timeout;
        let response = async {
            let target = &self.permitted_target(&request)?;
            let in_progress = self.begin(sender).await?;
            let acquire = || self.acquire(sender, target);
            let send = |mut request: Request<WasiBody>, permits: OutboundPermits| {
                remove_hop_by_hop(request.headers_mut());
                if let Some(span) = parent {
                    span.inject(request.headers_mut());
                }
                self.try_send(sender, target, request, permits, options, deadline)
            };
            // The host compares requests before it adds trace headers, so that these make no difference. It does not
            // coalesce requests to the application itself, because they also depend on their client.
            let response = match self.egress.limits.coalesce.contains(request.method()) && target.local().is_none() {
                true => self.coalescer.send(request, acquire, send).await?,
                false => {
                    let permits = acquire().await?;
                    send(request, permits).await?
                }
            };
            Ok(match in_progress {
                Some(in_progress) => response.map(|body| BodyInProgress::new(body, in_progress).boxed_unsync()),
                None => response,
            })
        };
        let response = response.await;
        let (counter, outcome) = match &response {
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
        if let Some(span) = span {
            span.end(outcome);
        }
        match dependencies {
            Some(dependencies) => tracked(dependencies, response),
            None => response,
        }
    }

    /// The target of a request, if the component may send it there. A refused request waits for no permit.
    fn permitted_target(&self, request: &Request<WasiBody>) -> Result<Target, WasiError> {
        let egress = &self.egress;
        let target = Target::of(request.uri()).ok_or(WasiError::HttpRequestUriInvalid)?;
        let Some(reach) = egress.allowed_hosts.reach(&target) else {
            egress.log_refusal(&target, "no entry of allowed_outbound_hosts covers it");
            return Err(WasiError::HttpRequestDenied);
        };
        // The host could not check the requests inside a tunnel.
        if request.method() == Method::CONNECT {
            return Err(WasiError::HttpRequestMethodInvalid);
        }
        if target.ip().is_some_and(|address| !egress.is_permitted(&target, reach, address)) {
            egress.log_refusal(&target, "the address is not public and no entry of allowed_outbound_hosts names it");
            return Err(WasiError::DestinationIpProhibited);
        }
        Ok(target)
    }

    /// Counts the sender's instance in its component's limit while the request is in progress.
    async fn begin(&self, sender: Sender<'_>) -> Result<Option<OutboundInProgress>, WasiError> {
        let Some(permit) = sender.permit else {
            return Ok(None);
        };
        let begun = permit.begin_outbound(self.egress.limits.queue_timeout).await;
        begun.map(Some).ok_or(WasiError::ConnectionLimitReached)
    }

    /// Waits for the permits of a request.
    async fn acquire(&self, sender: Sender<'_>, target: &Target) -> Result<OutboundPermits, WasiError> {
        let depth = sender.parent.map(ParentRequest::depth).unwrap_or_default();
        let permit = self.egress.requests.at(depth).acquire(sender.client).await;
        let permit = permit.map_err(|_| WasiError::ConnectionLimitReached)?;
        if target.local().is_some() {
            return Ok((permit, None));
        }
        let all = self.egress.network.requests.acquire(sender.client).await;
        Ok((permit, Some(all.map_err(|_| WasiError::ConnectionLimitReached)?)))
    }

    /// Sends a request, and checks the head of the response. The body holds the permits.
    async fn try_send(
        &self,
        sender: Sender<'_>,
        target: &Target,
        request: Request<WasiBody>,
        permits: OutboundPermits,
        options: RequestOptions,
        deadline: Instant,
    ) -> Result<Response<WasiBody>, WasiError> {
        let (egress, limits) = (&self.egress, &self.egress.limits);
        let connect_timeout = shorter(options.connect_timeout, limits.connect_timeout);
        let head_timeout = shorter(options.first_byte_timeout, limits.head_timeout);
        let idle_timeout = shorter(options.between_bytes_timeout, limits.idle_timeout);
        let response = match target.local() {
            Some(local) => {
                let component = match local {
                    Local::Application => None,
                    Local::Component(id) => Some(id),
                };
                let head_deadline = deadline.min(Instant::now() + head_timeout);
                let (service, shard) = (egress.network.local(), sender.shard);
                local::send(service, shard, request, component, sender.parent, head_deadline).await?
            }
            None => {
                let request = with_checked_uri(request, target)?;
                let needed_by = ConnectionRequest { timeout: connect_timeout, client: sender.client };
                let head = CONNECTION_REQUEST.scope(needed_by, self.pool(sender.shard)?.request(request));
                let head_deadline = deadline.min(Instant::now() + connect_timeout + head_timeout);
                let response = tokio::time::timeout_at(head_deadline, head).await;
                let response = response.map_err(|_| WasiError::HttpResponseTimeout)?;
                let response = response.map_err(|error| log_failure(egress, target, &error))?;
                response.map(|body| body.map_err(|error| error::code(&error)).boxed_unsync())
            }
        };
        let (mut parts, body) = response.into_parts();
        let overhead = parts.extensions.remove();
        if parts.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(WasiError::HttpUpgradeFailed);
        }
        if parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>() > MAX_HEAD_BYTES {
            return Err(WasiError::HttpResponseHeaderSectionSize(None));
        }
        if content_length(&parts.headers).is_some_and(|length| length > limits.max_response)
            && !http_body::Body::is_end_stream(&body)
        {
            return Err(WasiError::HttpResponseBodySize(Some(limits.max_response)));
        }
        remove_hop_by_hop(&mut parts.headers);
        let body = OutboundBody::new(body, permits, egress.clone(), overhead, (idle_timeout, deadline));
        Ok(Response::from_parts(parts, body.boxed_unsync()))
    }

    /// The shard's pool. When idle connections to other hosts take all of the component's connections, the host
    /// replaces all pools. The replacement closes idle connections; the connections in use finish. If all are in use,
    /// the next requests replace no pool.
    fn pool(&self, shard: usize) -> Result<Arc<ConnectionPool>, WasiError> {
        if self.egress.connections.available() == 0 && self.may_replace_pools() {
            for full in &self.pools {
                full.store(Arc::new(pool(&self.egress)));
            }
        }
        let pool = self.pools.get(shard).map(ArcSwap::load_full);
        pool.ok_or(WasiError::ConfigurationError)
    }

    fn may_replace_pools(&self) -> bool {
        let mut replaced_at = self.replaced_at.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = replaced_at.is_none_or(|at| at.elapsed() >= REPLACED_EVERY);
        if is_due {
            *replaced_at = Some(Instant::now());
        }
        is_due
    }
}

fn pool(egress: &Arc<ComponentOutbound>) -> ConnectionPool {
    Client::builder(ConnectionExecutor)
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .http1_max_buf_size(READ_BUFFER_BYTES)
        .http1_max_headers(MAX_HEADERS)
        .http2_max_header_list_size(MAX_HEAD_BYTES as u32)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .build(OutboundConnector::new(egress.clone()))
}

/// Adds the dependencies of the application's own response to `dependencies`. The result is cacheable only if this
/// response is, and if its body does not break off.
fn tracked(
    dependencies: &Arc<Dependencies>,
    response: Result<Response<WasiBody>, WasiError>,
) -> Result<Response<WasiBody>, WasiError> {
    dependencies.end_nested(response.as_ref().ok().and_then(|response| response.extensions().get().cloned()));
    let dependencies = dependencies.clone();
    let body = |body: WasiBody| {
        body.map_err(move |error| {
            dependencies.mark_uncacheable();
            error
        })
    };
    response.map(|response| response.map(|all| body(all).boxed_unsync()))
}

/// The guest's timeout, at most the limit.
fn shorter(requested: Option<Duration>, limit: Duration) -> Duration {
    requested.map_or(limit, |requested| requested.min(limit))
}

/// The request for the HTTP client, with the checked form of the URI.
fn with_checked_uri(request: Request<WasiBody>, target: &Target) -> Result<Request<WasiBody>, WasiError> {
    let (mut parts, body) = request.into_parts();
    parts.uri = target.uri(parts.uri.path_and_query()).ok_or(WasiError::HttpRequestUriInvalid)?;
    parts.version = Version::HTTP_11;
    // The HTTP client sets it from the URI.
    parts.headers.remove(HOST);
    Ok(Request::from_parts(parts, body))
}

/// Logs why a request got no response, and returns the guest's error.
fn log_failure(egress: &ComponentOutbound, target: &Target, error: &hyper_util::client::legacy::Error) -> WasiError {
    let code = error::code(error);
    if matches!(code, WasiError::DestinationIpProhibited) {
        egress.log_refusal(target, "its name has only addresses that are not public");
    }
    tracing::debug!(component = egress.component, host = %target.host, error = error_chain(error), "an outbound request failed");
    code
}

/// An error and its sources, for the log.
fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests;
