//! One component's way out: what it may reach, how much of it, and what came of it.

use std::net::IpAddr;
use std::sync::Arc;

use super::counters::OutboundCounters;
use super::grants::{AllowedHosts, Reach};
use super::limits::OutboundLimits;
use super::target::Target;
use super::{Network, address};
use crate::concurrency_limit::ConcurrencyLimit;
use crate::log_throttle::LogThrottle;

/// Connections that a component may keep open without using them, in addition to those in use.
const IDLE_CONNECTIONS: usize = 64;

/// Requests that may wait, for each that may run.
const WAITING_PER_REQUEST: usize = 16;

/// What the requests of one component have in common, over all of its instances.
pub struct Egress {
    pub component: String,
    pub grants: Arc<AllowedHosts>,
    pub limits: OutboundLimits,
    pub network: Arc<Network>,
    pub requests: ConcurrencyLimit,
    pub connections: ConcurrencyLimit,
    pub counters: OutboundCounters,
    /// Refusals in the log: the component decides how many there are.
    pub refusals: LogThrottle,
}

impl Egress {
    pub fn new(component: &str, grants: Arc<AllowedHosts>, limits: OutboundLimits, network: Arc<Network>) -> Self {
        let requests = limits.requests;
        let max_waiting = requests.saturating_mul(WAITING_PER_REQUEST);
        Self {
            component: component.to_owned(),
            grants,
            network,
            requests: ConcurrencyLimit::new(requests, limits.queue_timeout, max_waiting),
            connections: ConcurrencyLimit::new(
                requests.saturating_add(IDLE_CONNECTIONS),
                limits.connect_timeout,
                usize::MAX,
            ),
            counters: OutboundCounters::default(),
            refusals: LogThrottle::new(1, 10),
            limits,
        }
    }

    /// Whether a target may be reached at an address. A name may lead anywhere, so it is the
    /// address that counts, unless the grant itself says that it is local.
    pub fn permits(&self, target: &Target, reach: Reach, address: IpAddr) -> bool {
        let named =
            reach == Reach::Named && (target.ip() == Some(address) || (target.is_localhost() && address.is_loopback()));
        named || address::is_public(address) || self.limits.networks.iter().any(|network| network.contains(&address))
    }

    pub fn log_refusal(&self, target: &Target, reason: &str) {
        if let Some(suppressed) = self.refusals.pass() {
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
