//! Limits on the connections of a listener, and on the connections from one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use hexad_http::origin::client_network;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes that the clients of a listener may send before the host can use them.
struct Allowance {
    /// The first connections share this total; each further one adds `smallest`.
    total: usize,
    /// The total for the connections of one address.
    per_address: usize,
    smallest: usize,
    largest: usize,
}

/// Request bodies over HTTP/2 that no guest has read: the windows of connections. The listener's `ReceiveBudget` bounds
/// their sum. The largest window lets a distant client send some megabytes a second.
const UPLOADS: Allowance = Allowance { total: 128 << 20, per_address: 16 << 20, smallest: 64 << 10, largest: 1 << 20 };

/// Incomplete heads. hyper takes up to three times as much memory. Clients send some kilobytes.
const HEADS: Allowance = Allowance { total: 128 << 20, per_address: 16 << 20, smallest: 16 << 10, largest: 64 << 10 };

/// Bounds on the bytes that the client of a connection may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveBounds {
    /// Of unread request bodies over HTTP/2.
    pub upload_window: u32,
    /// The largest head of a request.
    pub head: usize,
}

impl ReceiveBounds {
    /// The part of the upload window that one body may have, so that an unread body leaves room for another.
    pub fn stream_window(&self) -> u32 {
        self.upload_window / 2
    }
}

/// The connections of a listener.
#[derive(Debug)]
pub struct ConnectionLimit {
    permits: Arc<Semaphore>,
    total: usize,
    per_address: usize,
    /// Open connections by client network. A network without connections has no entry.
    addresses: Mutex<HashMap<IpAddr, usize>>,
}

/// Permits one of the connections that an address may have. Dropping it gives the permit back.
#[derive(Debug)]
pub struct ConnectionPermit {
    limit: Arc<ConnectionLimit>,
    address: IpAddr,
    /// The address's open connections when this one began, including it.
    open: usize,
}

impl ConnectionLimit {
    pub fn new(total: usize, per_address: usize) -> Self {
        let total = total.min(Semaphore::MAX_PERMITS);
        let permits = Arc::new(Semaphore::new(total));
        Self { permits, total, per_address, addresses: Mutex::default() }
    }

    /// Waits until the listener may have one more connection. Meanwhile, the kernel queues new ones.
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

    /// The bounds of a new connection. A trusted proxy, which many clients share, has no permit of its own.
    pub fn receive_bounds(&self, permit: Option<&ConnectionPermit>) -> ReceiveBounds {
        let open = self.total.saturating_sub(self.permits.available_permits());
        let of_address = permit.map_or(1, |permit| permit.open);
        ReceiveBounds {
            // The largest window is far below `u32::MAX`.
            upload_window: u32::try_from(UPLOADS.of_connection(open, of_address)).unwrap_or(u32::MAX),
            head: HEADS.of_connection(open, of_address),
        }
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

impl Allowance {
    /// The allowance of a connection that begins as the `open`th, and as the `of_address`th of its address.
    fn of_connection(&self, open: usize, of_address: usize) -> usize {
        let share = (self.total / open.max(1)).min(self.per_address / of_address.max(1));
        share.clamp(self.smallest, self.largest)
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
    fn many_connections_may_send_little() {
        assert_eq!(UPLOADS.of_connection(1, 1), 1 << 20);
        assert_eq!(UPLOADS.of_connection(16, 16), 1 << 20);
        assert_eq!(UPLOADS.of_connection(10_000, 1), 64 << 10);
        assert_eq!((HEADS.of_connection(1, 1), HEADS.of_connection(10_000, 1)), (64 << 10, 16 << 10));
        let of_address = |allowed: &Allowance| (1..=1_000).map(|n| allowed.of_connection(n, n)).sum::<usize>() >> 20;
        let of_listener = |allowed: &Allowance| (1..=10_000).map(|n| allowed.of_connection(n, 1)).sum::<usize>() >> 20;
        assert_eq!((of_address(&UPLOADS), of_listener(&UPLOADS)), (106, 979));
        assert_eq!((of_address(&HEADS), of_listener(&HEADS)), (37, 333));
    }

    #[test]
    fn an_address_without_connections_takes_no_memory() {
        let limit = Arc::new(ConnectionLimit::new(10, 2));
        drop(limit.acquire_for("192.0.2.1".parse().unwrap()));
        assert!(limit.addresses.lock().unwrap().is_empty());
    }
}
