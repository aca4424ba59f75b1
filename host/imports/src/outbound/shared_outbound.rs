//! The state that the outbound requests of all components of a host share.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use hexad_limits::concurrency_limit::ConcurrencyLimit;
use hexad_limits::memory_budget::MemoryBudget;
use hexad_support::tls::{self, TlsError};
use rustls::ClientConfig;

use super::local::LocalService;
use super::resolver::{DnsCache, Resolve, SystemResolver};

/// Concurrent requests of all components.
const MAX_REQUESTS: usize = 512;

/// Concurrent requests of all components for one client.
const MAX_REQUESTS_PER_CLIENT: usize = MAX_REQUESTS / 2;

/// Requests that may wait for a permit, and for how long.
const MAX_WAITING: usize = 4096;
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Settings of outbound HTTP.
#[derive(Clone, Debug)]
pub struct OutboundOptions {
    pub resolver: Arc<dyn Resolve>,
    /// A PEM file of certificates to trust in addition to the system's.
    pub authority: Option<PathBuf>,
}

impl Default for OutboundOptions {
    fn default() -> Self {
        Self { resolver: Arc::new(SystemResolver), authority: None }
    }
}

/// The state that the outbound requests of all components share.
pub struct SharedOutbound {
    pub(super) lookups: DnsCache,
    pub(super) tls: Arc<ClientConfig>,
    pub(super) requests: ConcurrencyLimit,
    pub(super) memory: Arc<MemoryBudget>,
    /// The application of the components.
    local: OnceLock<Weak<dyn LocalService>>,
}

impl SharedOutbound {
    pub fn new(options: &OutboundOptions, memory: Arc<MemoryBudget>) -> Result<Self, TlsError> {
        Ok(Self {
            lookups: DnsCache::new(options.resolver.clone()),
            tls: Arc::new(client_config(options.authority.as_deref())?),
            requests: ConcurrencyLimit::new(MAX_REQUESTS, MAX_WAIT, MAX_WAITING).with_share(MAX_REQUESTS_PER_CLIENT),
            memory,
            local: OnceLock::new(),
        })
    }

    /// Sets the service that handles requests of components to their own application. Only the first call has an
    /// effect.
    pub fn connect(&self, service: Weak<dyn LocalService>) {
        let _ = self.local.set(service);
    }

    /// `None` before [`connect`](Self::connect), and after the application has ended.
    pub fn local(&self) -> Option<Arc<dyn LocalService>> {
        self.local.get()?.upgrade()
    }
}

/// The host trusts the system's certificate authorities, and the ones in the PEM file `authority`.
fn client_config(authority: Option<&Path>) -> Result<ClientConfig, TlsError> {
    let mut roots = tls::system_authorities();
    if let Some(path) = authority {
        tls::read_authorities(path, "name a file of certificates in PEM with --outbound-ca", &mut roots)?;
    }
    if roots.is_empty() {
        tracing::warn!("no certificate authority is known; outbound requests with TLS will fail");
    }
    let mut config = tls::client(roots)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
