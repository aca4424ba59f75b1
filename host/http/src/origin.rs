//! The origin of a request: its client, scheme and host.

use std::net::{IpAddr, Ipv6Addr};

use http::HeaderName;
use http::uri::{Authority, Scheme};

/// The header in which a component reads the address of a request's client, as in Spin.
pub const CLIENT_ADDRESS: HeaderName = HeaderName::from_static("spin-client-addr");

/// The origin of a request, stored in the request's extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestOrigin {
    /// The peer, or the address that a trusted proxy names.
    pub client: IpAddr,
    pub scheme: Scheme,
    /// The host that the client addressed, as a trusted proxy names it.
    pub authority: Option<Authority>,
}

impl RequestOrigin {
    /// The client's network.
    pub fn network(&self) -> IpAddr {
        client_network(self.client)
    }
}

/// The network that stands for one client: an IPv4 address, or an IPv6 /64, the smallest network that providers assign.
pub fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
    }
}
