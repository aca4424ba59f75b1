//! Bounds on the bytes that the host holds for its clients.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::shared_map::SharedMap;

/// How many bytes of responses the host holds for clients that have not taken them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendLimits {
    pub per_connection: usize,
    pub per_address: usize,
    pub total: usize,
}

impl Default for SendLimits {
    fn default() -> Self {
        Self { per_connection: 4 << 20, per_address: 32 << 20, total: 128 << 20 }
    }
}

/// The budgets of a host. Several listeners share them.
#[derive(Debug)]
pub struct SendBudgets {
    limits: SendLimits,
    total: Arc<Budget>,
    addresses: SharedMap<IpAddr, Budget>,
    /// Tells the writers that wait for a shared budget. One for all of them: few wait, and rarely.
    freed: Arc<Notify>,
}

/// The budgets that one response counts in: the connection's, its address's, and the host's.
#[derive(Clone, Debug)]
pub struct Budgets {
    each: [Arc<Budget>; 3],
    freed: Arc<Notify>,
}

/// Bytes that are held.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
}

impl SendBudgets {
    pub fn new(limits: SendLimits) -> Self {
        let (total, addresses) = (Arc::new(Budget::new(limits.total)), SharedMap::default());
        Self { limits, total, addresses, freed: Arc::default() }
    }

    /// The budget of a new connection.
    pub fn connection(&self) -> Arc<Budget> {
        Arc::new(Budget::new(self.limits.per_connection))
    }

    /// The budgets of a response to a client of `network` on a connection.
    pub fn of_response(&self, connection: Arc<Budget>, network: IpAddr) -> Budgets {
        let address = self.addresses.get_or_insert_with(network, || Budget::new(self.limits.per_address));
        Budgets { each: [connection, address, self.total.clone()], freed: self.freed.clone() }
    }

    /// Whether the clients of `network` have used up their budget.
    pub fn is_exhausted_for(&self, network: IpAddr) -> bool {
        self.addresses.get(&network).is_some_and(|budget| budget.is_exhausted())
    }

    /// Bytes that the host holds for all of its clients.
    pub fn used(&self) -> usize {
        self.total.used.load(Ordering::Relaxed)
    }
}

impl Budgets {
    pub fn are_exhausted(&self) -> bool {
        self.each.iter().any(|budget| budget.is_exhausted())
    }

    /// Counts bytes, also past a limit: their memory is in use already.
    pub fn take(&self, bytes: usize) {
        for budget in &self.each {
            budget.used.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub fn give_back(&self, bytes: usize) {
        let mut freed = false;
        for budget in &self.each {
            let before = budget.used.fetch_sub(bytes, Ordering::Relaxed);
            freed |= before >= budget.limit;
        }
        if freed {
            self.freed.notify_waiters();
        }
    }

    /// Returns once bytes were given back to an exhausted budget.
    pub fn freed(&self) -> Notified<'_> {
        self.freed.notified()
    }
}

impl Budget {
    fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0) }
    }

    fn is_exhausted(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[test]
    fn each_budget_bounds_its_own_clients() {
        let budgets = SendBudgets::new(SendLimits { per_connection: 10, per_address: 20, total: 30 });
        let response = |connection: &Arc<Budget>, last| budgets.of_response(connection.clone(), network(last));
        let [first, second, third] = [(); 3].map(|()| budgets.connection());
        let (a, b) = (response(&first, 1), response(&second, 1));
        a.take(10);
        assert!(a.are_exhausted() && response(&first, 1).are_exhausted() && !b.are_exhausted());
        b.take(10);
        let other = response(&third, 2);
        assert!(response(&third, 1).are_exhausted(), "the address has no more");
        assert!(!other.are_exhausted());
        other.take(10);
        assert!(response(&budgets.connection(), 3).are_exhausted(), "the host has no more");
        for response in [&a, &b, &other] {
            response.give_back(10);
            assert!(!response.are_exhausted());
        }
        assert_eq!(budgets.used(), 0);
    }
}
