//! Connections that wait for a request of their client or for the rest of its head. The host closes them when new ones
//! need a place.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::FutureExt;
use tokio::sync::{Notify, oneshot};

/// The idle connections. An address can open many at no cost, so the host closes one of the address that has the most.
#[derive(Debug, Default)]
pub struct IdleConnections {
    order: Mutex<EvictionOrder>,
    /// Notified when a connection begins to wait.
    entered: Notify,
}

/// The connections by address, and the next address to lose one.
#[derive(Debug, Default)]
struct EvictionOrder {
    next: u64,
    addresses: HashMap<Option<IpAddr>, OfAddress>,
    /// The ranks of the addresses.
    ranks: BTreeSet<(Rank, Option<IpAddr>)>,
}

/// In the order in which they began to wait. Dropping a sender asks its connection to close.
type OfAddress = BTreeMap<u64, oneshot::Sender<()>>;

/// How many connections an address has, and its first. The greatest rank loses the next connection.
type Rank = (usize, Reverse<u64>);

/// One idle connection, which counts until this is dropped.
#[derive(Debug)]
pub struct IdleConnection<'a> {
    all: &'a IdleConnections,
    address: Option<IpAddr>,
    number: u64,
    evicted: oneshot::Receiver<()>,
}

impl IdleConnections {
    /// Counts a connection that begins to wait. A trusted proxy's connection, which many clients share, has no address
    /// and closes last.
    pub fn enter(&self, address: Option<IpAddr>) -> IdleConnection<'_> {
        let (sender, evicted) = oneshot::channel();
        let mut order = self.order();
        let number = order.next;
        order.next += 1;
        order.change(address, |connections| connections.insert(number, sender));
        drop(order);
        self.entered.notify_one();
        IdleConnection { all: self, address, number, evicted }
    }

    /// Asks a connection to close, once one is idle: the longest idle one of the address that has the most.
    pub async fn evict(&self) {
        while !self.try_evict() {
            self.entered.notified().await;
        }
    }

    /// Asks a connection to close, if one is idle now. Returns whether one was.
    pub fn try_evict(&self) -> bool {
        let mut order = self.order();
        let Some((_, address)) = order.ranks.last().copied() else { return false };
        order.change(address, BTreeMap::pop_first);
        true
    }

    pub fn count(&self) -> usize {
        self.order().addresses.values().map(BTreeMap::len).sum()
    }

    fn order(&self) -> MutexGuard<'_, EvictionOrder> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EvictionOrder {
    fn change<T>(&mut self, address: Option<IpAddr>, change: impl FnOnce(&mut OfAddress) -> T) {
        let connections = self.addresses.entry(address).or_default();
        let before = rank(address, connections);
        change(connections);
        let after = rank(address, connections);
        if connections.is_empty() {
            self.addresses.remove(&address);
        }
        before.into_iter().for_each(|rank| _ = self.ranks.remove(&(rank, address)));
        after.into_iter().for_each(|rank| _ = self.ranks.insert((rank, address)));
    }
}

/// `None` without connections.
fn rank(address: Option<IpAddr>, connections: &OfAddress) -> Option<Rank> {
    let (first, _) = connections.first_key_value()?;
    Some((address.map_or(0, |_| connections.len()), Reverse(*first)))
}

impl IdleConnection<'_> {
    /// Returns once the connection has to close.
    pub async fn evicted(&mut self) {
        // The sender was dropped without a message.
        let _ = (&mut self.evicted).await;
    }

    /// Ready once the connection has to close.
    pub fn poll_evicted(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.evicted.poll_unpin(cx).map(drop)
    }
}

impl Drop for IdleConnection<'_> {
    fn drop(&mut self) {
        self.all.order().change(self.address, |connections| connections.remove(&self.number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> Option<IpAddr> {
        Some([192, 0, 2, last].into())
    }

    fn is_evicted(connection: &mut IdleConnection) -> bool {
        connection.evicted().now_or_never().is_some()
    }

    #[test]
    fn the_connection_that_has_waited_for_longest_closes_first() {
        let idle = IdleConnections::default();
        assert!(idle.evict().now_or_never().is_none(), "there is none");
        let [gone, mut first, mut second] = [1, 2, 3].map(|last| idle.enter(address(last)));
        drop(gone);
        idle.evict().now_or_never().unwrap();
        assert!(is_evicted(&mut first) && !is_evicted(&mut second));
        drop((first, second));
        assert_eq!((idle.try_evict(), idle.count()), (false, 0));
        assert!(idle.order().addresses.is_empty(), "nothing of them is left");
    }

    #[test]
    fn an_address_with_few_connections_keeps_them() {
        let idle = IdleConnections::default();
        let mut proxy: Vec<_> = (0..9).map(|_| idle.enter(None)).collect();
        let mut quiet = idle.enter(address(1));
        let mut many: Vec<_> = (0..6).map(|_| idle.enter(address(2))).collect();
        for _ in 1..6 {
            assert!(idle.try_evict() && is_evicted(&mut many.remove(0)), "the oldest one");
            assert!(!many.iter_mut().any(is_evicted) && !is_evicted(&mut quiet));
        }
        assert!(idle.try_evict() && is_evicted(&mut quiet), "of equals the one that has waited for longest");
        assert!(idle.try_evict() && is_evicted(&mut many[0]));
        assert!(!proxy.iter_mut().any(is_evicted));
        assert!(idle.try_evict() && is_evicted(&mut proxy[0]));
    }
}
