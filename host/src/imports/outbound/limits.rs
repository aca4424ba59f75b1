//! What a component may use of the network at most.

use std::time::Duration;

use ipnet::IpNet;

/// The bounds of one component's requests, over all of its instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboundLimits {
    /// Requests at the same moment, each until the end of its response.
    pub requests: usize,
    /// Time that a request waits for its turn.
    pub queue_timeout: Duration,
    /// Time to find the address, to connect, and to agree on a key.
    pub connect_timeout: Duration,
    /// Time from the request to the head of the response.
    pub head_timeout: Duration,
    /// Time between two parts of a response's body.
    pub idle_timeout: Duration,
    /// Time for all of a request and its response.
    pub timeout: Duration,
    /// Bytes of a response's body.
    pub max_response: u64,
    /// Whether requests that are the same and under way at the same moment are sent once.
    pub share: bool,
    /// Networks that granted names may lead to though they are not public.
    pub networks: Vec<IpNet>,
}

impl Default for OutboundLimits {
    fn default() -> Self {
        Self {
            requests: 64,
            queue_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            timeout: Duration::from_secs(600),
            max_response: 64 * 1024 * 1024,
            share: false,
            networks: Vec::new(),
        }
    }
}
