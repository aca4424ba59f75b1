//! Bounds on the connections of a listener, and on those from one address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of request bodies that the HTTP/2 clients of a listener, and those of one address, may send before a
/// guest has read them. The first connections share these; each further one adds the smallest window.
const UPLOADS: usize = 128 << 20;
const UPLOADS_PER_ADDRESS: usize = 16 << 20;

/// The windows of one connection, in bytes. The largest lets a client far away send some megabytes a second.
const MIN_UPLOAD_WINDOW: usize = 64 << 10;
const MAX_UPLOAD_WINDOW: usize = 1 << 20;

/// The connections of a listener.
#[derive(Debug)]
pub struct ConnectionLimit {
    permits: Arc<Semaphore>,
    total: usize,
    per_address: usize,
    /// Open connections by client network; an address without any has no entry.
    addresses: Mutex<HashMap<IpAddr, usize>>,
}

/// One of the connections that an address may have. Dropping it gives the permit back.
#[derive(Debug)]
pub struct ConnectionPermit {
    limit: Arc<ConnectionLimit>,
    address: IpAddr,
    /// How many connections the address had when this one began, with it.
    open: usize,
}

impl ConnectionLimit {
    pub fn new(total: usize, per_address: usize) -> Self {
        let total = total.min(Semaphore::MAX_PERMITS);
        let permits = Arc::new(Semaphore::new(total));
        Self { permits, total, per_address, addresses: Mutex::default() }
    }

    /// Waits until the listener may have one more connection. The kernel holds new ones meanwhile.
    pub async fn acquire(&self) -> Option<OwnedSemaphorePermit> {
        self.permits.clone().acquire_owned().await.ok()
    }

    /// A permit for a connection from `address`; `None` if it has too many already.
    pub fn acquire_for(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPermit> {
        let address = client_network(address);
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let count = addresses.entry(address).or_default();
        if *count >= self.per_address {
            return None;
        }
        *count += 1;
        Some(ConnectionPermit { limit: self.clone(), address, open: *count })
    }

    /// Bytes of request bodies that a new HTTP/2 client may send before a guest has read them. The proxy that many
    /// clients share has no permit of its own.
    pub fn upload_window(&self, permit: Option<&ConnectionPermit>) -> u32 {
        let open = self.total.saturating_sub(self.permits.available_permits());
        upload_window(open, permit.map_or(1, |permit| permit.open))
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut addresses = self.limit.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = addresses.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                addresses.remove(&self.address);
            }
        }
    }
}

/// The window of a connection that begins when so many are open, and so many of its address.
fn upload_window(open: usize, of_address: usize) -> u32 {
    let share = (UPLOADS / open.max(1)).min(UPLOADS_PER_ADDRESS / of_address.max(1));
    // The largest window is far below the limit of the type.
    u32::try_from(share.clamp(MIN_UPLOAD_WINDOW, MAX_UPLOAD_WINDOW)).unwrap_or(u32::MAX)
}

/// The addresses that one client has: an IPv4 address, or a /64 of IPv6, which is the smallest
/// network that providers assign.
pub fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_number_of_permits_and_gives_them_back() {
        let limit = Arc::new(ConnectionLimit::new(10, 2));
        let acquire = |address: &str| limit.acquire_for(address.parse().unwrap());
        let first = acquire("192.0.2.1").unwrap();
        let _second = acquire("::ffff:192.0.2.1").unwrap();
        assert!(acquire("192.0.2.1").is_none());
        let _other = acquire("192.0.2.2").unwrap();
        drop(first);
        assert!(acquire("192.0.2.1").is_some());
        let _network = (acquire("2001:db8::1").unwrap(), acquire("2001:db8::ffff:1").unwrap());
        assert!(acquire("2001:db8::2").is_none());
        assert!(acquire("2001:db8:0:1::2").is_some());
    }

    #[test]
    fn the_windows_of_many_connections_are_small() {
        assert_eq!(upload_window(1, 1), 1 << 20);
        assert_eq!(upload_window(16, 16), 1 << 20);
        assert_eq!(upload_window(10_000, 1), 64 << 10);
        let mib = |windows: u64| windows >> 20;
        assert_eq!(mib((1..=1_000).map(|n| u64::from(upload_window(n, n))).sum()), 106);
        assert_eq!(mib((1..=10_000).map(|n| u64::from(upload_window(n, 1))).sum()), 979);
    }

    #[test]
    fn an_address_without_connections_takes_no_memory() {
        let limit = Arc::new(ConnectionLimit::new(10, 2));
        drop(limit.acquire_for("192.0.2.1".parse().unwrap()));
        assert!(limit.addresses.lock().unwrap().is_empty());
    }
}
