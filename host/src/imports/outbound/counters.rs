//! Counts of a component's outbound requests.

use crate::metrics::{Counter, Histogram};

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
