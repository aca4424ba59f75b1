//! Bytes of request bodies that clients may send over HTTP/2 before a component has read them.
//!
//! HTTP/2 lets a client send as much as a window says, and the host keeps it until the component reads it. A body
//! counts with its whole window, from the head of its request to its end. So the host never keeps more than it has
//! counted. HTTP/1 needs no budget: the host reads from the socket only as the component reads.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use hexad_http::send_buffer::Budget;
use hexad_limits::memory_budget::MemoryBudget;
use hexad_support::shared_map::SharedMap;

/// The bytes that the clients of a listener may send ahead of components.
pub struct ReceiveBudget {
    /// In bytes.
    limit: usize,
    used: AtomicUsize,
    addresses: SharedMap<IpAddr, AtomicUsize>,
    /// The memory in which the bytes count as well, once the listener belongs to a host.
    memory: OnceLock<Arc<MemoryBudget>>,
}

/// One body's part of the budget. Dropping it gives the bytes back.
pub struct ReceiveReservation {
    budget: Arc<ReceiveBudget>,
    address: Arc<AtomicUsize>,
    /// The window of the connection, which bounds all of its bodies together.
    connection: Arc<Budget>,
    bytes: usize,
}

impl ReceiveBudget {
    pub fn new(limit: usize) -> Arc<Self> {
        let (used, addresses, memory) = (AtomicUsize::new(0), SharedMap::default(), OnceLock::new());
        Arc::new(Self { limit, used, addresses, memory })
    }

    /// Counts the bytes in this memory as well. For a listener that several hosts share, the first host's memory
    /// counts.
    pub fn count_in(&self, memory: Arc<MemoryBudget>) {
        let _ = self.memory.set(memory);
    }

    /// Bytes that clients may have sent.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Reserves bytes for a body of a client of `network`. An address gets no more than stays free, so that a few
    /// addresses leave room for others. `None` if there is no room.
    pub fn reserve(
        self: &Arc<Self>,
        network: IpAddr,
        connection: &Arc<Budget>,
        bytes: usize,
    ) -> Option<ReceiveReservation> {
        let address = self.addresses.get_or_insert_with(network, AtomicUsize::default);
        let within = connection.take(bytes);
        let of_address = address.fetch_add(within, Ordering::Relaxed).saturating_add(within);
        let used = self.used.fetch_add(within, Ordering::Relaxed).saturating_add(within);
        let is_free = used.saturating_add(of_address) <= self.limit;
        if is_free && self.memory.get().is_none_or(|memory| memory.take_or_evict(within as u64)) {
            return Some(ReceiveReservation { budget: self.clone(), address, connection: connection.clone(), bytes });
        }
        address.fetch_sub(within, Ordering::Relaxed);
        self.used.fetch_sub(within, Ordering::Relaxed);
        connection.give_back(bytes);
        None
    }
}

impl fmt::Debug for ReceiveBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiveBudget").field("limit", &self.limit).field("used", &self.used).finish_non_exhaustive()
    }
}

impl Drop for ReceiveReservation {
    fn drop(&mut self) {
        let (within, _) = self.connection.give_back(self.bytes);
        self.address.fetch_sub(within, Ordering::Relaxed);
        self.budget.used.fetch_sub(within, Ordering::Relaxed);
        if let Some(memory) = self.budget.memory.get() {
            memory.give_back(within as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[test]
    fn an_address_gets_no_more_than_stays_free() {
        let (budget, memory) = (ReceiveBudget::new(100), MemoryBudget::new(90));
        budget.count_in(memory.clone());
        let connection = || Arc::new(Budget::new(1000));
        let first = budget.reserve(network(1), &connection(), 50).unwrap();
        assert!(budget.reserve(network(1), &connection(), 1).is_none());
        let second = budget.reserve(network(2), &connection(), 25).unwrap();
        assert!(budget.reserve(network(2), &connection(), 1).is_none());
        assert!(budget.reserve(network(3), &connection(), 13).is_none());
        let third = budget.reserve(network(3), &connection(), 12).unwrap();
        assert_eq!((budget.used(), memory.used()), (87, 87));
        assert!(budget.reserve(network(4), &connection(), 4).is_none(), "there is no memory for it");
        assert_eq!(memory.denials.get(), 0, "no guest was denied memory");
        drop((first, second, third));
        assert_eq!((budget.used(), memory.used()), (0, 0));
    }

    #[test]
    fn the_bodies_of_a_connection_have_its_window_together() {
        let (budget, connection) = (ReceiveBudget::new(100), Arc::new(Budget::new(30)));
        let bodies = [(); 4].map(|()| budget.reserve(network(1), &connection, 20).unwrap());
        assert_eq!(budget.used(), 30);
        let [first, rest @ ..] = bodies;
        drop(first);
        assert_eq!(budget.used(), 30);
        drop(rest);
        assert_eq!((budget.used(), connection.is_unused()), (0, true));
    }
}
