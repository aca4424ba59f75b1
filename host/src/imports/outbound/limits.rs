//! Bounds of a component's outbound requests.

use std::time::Duration;

use http::Method;
use ipnet::IpNet;

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
