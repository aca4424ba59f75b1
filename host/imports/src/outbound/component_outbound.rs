//! The bounds and counts of one component's outbound requests.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hexad_http::nested_request::DepthLimits;
use hexad_limits::concurrency_limit::ConcurrencyLimit;
use hexad_support::log_throttle::LogThrottle;
use hexad_telemetry::metrics::{Counter, Histogram};
use http::Method;
use ipnet::IpNet;

use super::address;
use super::allowed_hosts::{AllowedHosts, Reach};
use super::resolver::DnsCache;
use super::shared_outbound::SharedOutbound;
use super::target::Target;

/// Idle connections that a component may keep, in addition to the connections in use.
const IDLE_CONNECTIONS: usize = 64;

/// Waiting requests per request that may be in flight.
const WAITING_PER_REQUEST: usize = 16;

/// The state that the outbound requests of all instances of one component share.
pub struct ComponentOutbound {
    pub component: String,
    pub allowed_hosts: Arc<AllowedHosts>,
    pub limits: OutboundLimits,
    pub network: Arc<SharedOutbound>,
    pub requests: DepthLimits,
    pub connections: ConcurrencyLimit,
    pub lookups: ConcurrencyLimit,
    pub counters: Arc<OutboundCounters>,
    /// Bounds the log, because the component decides how many requests the host refuses.
    pub log_throttle: LogThrottle,
}

impl ComponentOutbound {
    pub fn new(
        component: &str,
        allowed_hosts: Arc<AllowedHosts>,
        limits: OutboundLimits,
        network: Arc<SharedOutbound>,
        counters: Arc<OutboundCounters>,
    ) -> Self {
        let requests = limits.requests;
        let max_waiting = requests.saturating_mul(WAITING_PER_REQUEST);
        Self {
            component: component.to_owned(),
            allowed_hosts,
            network,
            requests: DepthLimits::new(|| {
                ConcurrencyLimit::new(requests, limits.queue_timeout, max_waiting)
                    .with_share(limits.requests_per_client)
            }),
            connections: ConcurrencyLimit::new(
                requests.saturating_add(IDLE_CONNECTIONS),
                limits.connect_timeout,
                usize::MAX,
            ),
            lookups: DnsCache::of_component(),
            counters,
            log_throttle: LogThrottle::new(1, 10),
            limits,
        }
    }

    /// Whether the component may connect to `address` for `target`. DNS can return any address for a name. So the
    /// address must be public, unless the manifest names it or its network.
    pub fn is_permitted(&self, target: &Target, reach: Reach, address: IpAddr) -> bool {
        let named =
            reach == Reach::Named && (target.ip() == Some(address) || (target.is_localhost() && address.is_loopback()));
        named || address::is_public(address) || self.limits.networks.iter().any(|network| network.contains(&address))
    }

    pub fn log_refusal(&self, target: &Target, reason: &str) {
        if let Some(suppressed) = self.log_throttle.pass() {
            tracing::warn!(
                component = self.component,
                host = %target.host,
                port = target.port,
                scheme = target.scheme(),
                suppressed,
                "an outbound request was refused: {reason}"
            );
        }
    }
}

/// Counts since the start of the host. A reader gets each count at a slightly different moment.
#[derive(Debug, Default)]
pub struct OutboundCounters {
    /// All requests of the component.
    pub requests: Counter,
    /// Requests that no entry of `allowed_outbound_hosts` covers.
    pub denied: Counter,
    /// Requests to hosts that have only addresses that the component may not reach.
    pub prohibited: Counter,
    /// Requests that got no permit in time.
    pub busy: Counter,
    /// Requests that got the head of a response.
    pub answered: Counter,
    /// Requests that ran out of time before the head or in the middle of the body.
    pub timeouts: Counter,
    /// Requests that got the response to an equal one.
    pub coalesced: Counter,
    /// Requests that failed otherwise.
    pub failed: Counter,
    /// Time from a request to the head of its response or to the error.
    pub duration: Histogram,
    /// Connections that were opened.
    pub connections: Counter,
    /// Bytes of response bodies.
    pub received: Counter,
}

/// Bounds of one component's outbound requests, over all of its instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboundLimits {
    /// Concurrent requests; each counts until the end of its response.
    pub requests: usize,
    /// Concurrent requests that a component sends for one of its clients.
    pub requests_per_client: usize,
    /// Time that a request waits for a permit.
    pub queue_timeout: Duration,
    /// Time for name resolution, connection and TLS handshake.
    pub connect_timeout: Duration,
    /// Time from the request to the head of the response.
    pub head_timeout: Duration,
    /// Time between two frames of a response body.
    pub idle_timeout: Duration,
    /// Time for all of a request and its response.
    pub timeout: Duration,
    /// Bytes of a response's body.
    pub max_response: u64,
    /// The methods whose equal requests in progress the host coalesces.
    pub coalesce: Vec<Method>,
    /// Networks that are not public, to which names may nevertheless resolve.
    pub networks: Vec<IpNet>,
}

impl Default for OutboundLimits {
    fn default() -> Self {
        Self {
            requests: 64,
            requests_per_client: 32,
            queue_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            timeout: Duration::from_secs(600),
            max_response: 64 * 1024 * 1024,
            coalesce: Vec::new(),
            networks: Vec::new(),
        }
    }
}
