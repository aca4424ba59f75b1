//! Name resolution.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Semaphore;

/// Finds the addresses of names.
#[async_trait]
pub trait Resolve: std::fmt::Debug + Send + Sync {
    /// The addresses of `name`, a host name in lower-case ASCII.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Concurrent look-ups. Each occupies a thread until the system returns, also if the request was
/// cancelled.
const MAX_LOOKUPS: usize = 64;

/// Uses the system's resolver: its hosts file and its name service.
#[derive(Debug)]
pub struct SystemResolver(Arc<Semaphore>);

impl Default for SystemResolver {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_LOOKUPS)))
    }
}

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let permit = self.0.clone().acquire_owned().await.map_err(io::Error::other)?;
        let name = name.to_owned();
        let addresses = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            Ok((name.as_str(), 0).to_socket_addrs()?.map(|address| address.ip()).collect())
        });
        addresses.await.map_err(io::Error::other)?
    }
}
