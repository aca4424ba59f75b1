//! The bounds and counts of one component's outbound requests.

use std::net::IpAddr;
use std::sync::Arc;

use super::address;
use super::allowed_hosts::{AllowedHosts, Reach};
use super::counters::OutboundCounters;
use super::limits::OutboundLimits;
use super::resolver::DnsCache;
use super::shared_outbound::SharedOutbound;
use super::target::Target;
use crate::concurrency_limit::ConcurrencyLimit;
use crate::log_throttle::LogThrottle;
use crate::nested_request::DepthLimits;

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
