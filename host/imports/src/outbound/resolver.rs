//! Name resolution.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use hexad_limits::concurrency_limit::{ClientKeys, ConcurrencyLimit, HOST};

use super::error::ConnectError;

/// Concurrent look-ups of all components. Each occupies a thread until the resolver returns, even if the request was
/// cancelled.
const MAX_LOOKUPS: usize = 64;

/// Concurrent look-ups of one component, and of one of its clients. Usually, an unresponsive name server has one
/// domain, and one component or one of its clients looks up its names.
const MAX_LOOKUPS_PER_COMPONENT: usize = MAX_LOOKUPS / 4;
const MAX_LOOKUPS_PER_CLIENT: usize = MAX_LOOKUPS_PER_COMPONENT / 2;

/// How long a request waits for a free look-up. The limits of outbound requests bound how many wait.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Finds the addresses of names.
pub trait Resolve: std::fmt::Debug + Send + Sync {
    /// The addresses of `name`, a host name in lower-case ASCII. May block.
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Uses the system's resolver: its hosts file and its name service.
#[derive(Debug)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
    }
}

/// The look-ups of all components.
pub struct DnsCache {
    resolver: Arc<dyn Resolve>,
    permits: ConcurrencyLimit,
}

impl DnsCache {
    pub fn new(resolver: Arc<dyn Resolve>) -> Self {
        Self { resolver, permits: ConcurrencyLimit::new(MAX_LOOKUPS, MAX_WAIT, usize::MAX) }
    }

    /// The limit of one component.
    pub fn of_component() -> ConcurrencyLimit {
        ConcurrencyLimit::new(MAX_LOOKUPS_PER_COMPONENT, MAX_WAIT, usize::MAX).with_share(MAX_LOOKUPS_PER_CLIENT)
    }

    /// The addresses of `name`, for a client of the component. `of_component` is the component's limit.
    pub async fn resolve(
        &self,
        of_component: &ConcurrencyLimit,
        client: ClientKeys,
        name: &str,
    ) -> Result<Vec<IpAddr>, ConnectError> {
        let saturated = |_| ConnectError::Saturated;
        // The component's permit comes first: at most its share of requests waits for a permit of all components.
        let of_component = of_component.acquire(client).await.map_err(saturated)?;
        let of_all = self.permits.acquire(HOST).await.map_err(saturated)?;
        let (resolver, name) = (self.resolver.clone(), name.to_owned());
        let addresses = tokio::task::spawn_blocking(move || {
            let _permits = (of_component, of_all);
            resolver.resolve(&name)
        });
        addresses.await.map_err(io::Error::other).flatten().map_err(ConnectError::Resolve)
    }
}
