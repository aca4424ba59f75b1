//! The settings and the open connections of one listener.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use ipnet::IpNet;
use tokio::sync::OwnedSemaphorePermit;

use super::certificates::{CertificateError, Certificates};
use super::connection_limit::{ConnectionLimit, ConnectionPermit};

/// The settings and the connections of one listener.
#[derive(Debug)]
pub struct Ingress {
    /// With certificates, the listener accepts only TLS.
    pub certificates: Option<Certificates>,
    /// Proxies that are trusted to name the client's address, scheme and host.
    pub proxies: Vec<IpNet>,
    pub connections: Arc<ConnectionLimit>,
}

/// Open connections in total, and from one address.
const MAX_CONNECTIONS: usize = 10_000;
const MAX_CONNECTIONS_PER_ADDRESS: usize = 1_000;

/// The options of the command line.
#[derive(Clone, Debug)]
pub struct IngressOptions {
    /// Files in PEM: the chain of certificates, and its key.
    pub certificates: Option<(PathBuf, PathBuf)>,
    pub proxies: Vec<IpNet>,
    pub connections: usize,
    pub connections_per_address: usize,
}

impl Default for IngressOptions {
    fn default() -> Self {
        Self {
            certificates: None,
            proxies: Vec::new(),
            connections: MAX_CONNECTIONS,
            connections_per_address: MAX_CONNECTIONS_PER_ADDRESS,
        }
    }
}

impl Ingress {
    pub fn new(options: IngressOptions) -> Result<Self, CertificateError> {
        let certificates = options.certificates.map(|(chain, key)| Certificates::load(chain, key)).transpose()?;
        let connections = Arc::new(ConnectionLimit::new(options.connections, options.connections_per_address));
        Ok(Self { certificates, proxies: options.proxies, connections })
    }

    pub fn scheme(&self) -> &'static str {
        match self.certificates {
            Some(_) => "https",
            None => "http",
        }
    }

    pub fn trusts(&self, peer: SocketAddr) -> bool {
        let peer = peer.ip().to_canonical();
        self.proxies.iter().any(|network| network.contains(&peer))
    }
}

/// A connection on its way to a shard.
pub struct Accepted {
    pub stream: std::net::TcpStream,
    pub peer: SocketAddr,
    pub ingress: Arc<Ingress>,
    /// Held until the connection ends.
    pub permits: (OwnedSemaphorePermit, Option<ConnectionPermit>),
}
