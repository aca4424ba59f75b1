//! From names to addresses.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Semaphore;

/// Finds the addresses of names.
#[async_trait]
pub trait Resolve: std::fmt::Debug + Send + Sync {
    /// The addresses of `name`, which is lower-case ASCII and no address itself.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Look-ups at the same moment. Each occupies a thread until the system gives it up, also when
/// nobody waits for it any more.
const LOOKUPS: usize = 64;

/// The system's own way: its hosts file, its name service.
#[derive(Debug)]
pub struct SystemResolver(Arc<Semaphore>);

impl Default for SystemResolver {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LOOKUPS)))
    }
}

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let permit = self.0.clone().acquire_owned().await.map_err(io::Error::other)?;
        let name = name.to_owned();
        let found = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            Ok((name.as_str(), 0).to_socket_addrs()?.map(|address| address.ip()).collect())
        });
        found.await.map_err(io::Error::other)?
    }
}
