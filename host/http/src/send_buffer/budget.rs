//! Budgets of the bytes that the host holds for its clients.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hexad_support::shared_map::SharedMap;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::admission::{AddressRequests, StreamRequests};

/// How many times its budget an address may use.
const OVERDRAFT: usize = 2;

/// While a connection holds less than this many bytes, its responses may exceed the address's budget by a first frame.
const FIRST_FRAMES: usize = 512 << 10;

/// How many response bytes the host holds for clients that have not taken them.
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
    requests: SharedMap<IpAddr, AddressRequests>,
    /// All held bytes, including those beyond the budgets of addresses.
    held: Arc<AtomicUsize>,
    /// Notifies the writers that wait for a shared budget. One for all, because few wait, and rarely.
    freed: Arc<Notify>,
}

/// The budgets in which one response counts.
#[derive(Clone, Debug)]
pub struct Budgets {
    connection: Arc<Budget>,
    address: Arc<Budget>,
    /// The host's budget. Bytes of an address beyond its own budget do not count here, so that other addresses do not
    /// pay for them.
    total: Arc<Budget>,
    held: Arc<AtomicUsize>,
    freed: Arc<Notify>,
}

/// Held bytes, and their limit.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
}

impl SendBudgets {
    pub fn new(limits: SendLimits) -> Self {
        let (total, addresses) = (Arc::new(Budget::new(limits.total)), SharedMap::default());
        let (requests, held, freed) = Default::default();
        Self { limits, total, addresses, requests, held, freed }
    }

    /// The budget of a new connection.
    pub fn connection(&self) -> Arc<Budget> {
        Arc::new(Budget::new(self.limits.per_connection))
    }

    /// The requests of a client of `network` on a new HTTP/2 connection.
    pub fn stream_requests(&self, network: IpAddr) -> StreamRequests {
        StreamRequests::new(self.requests.get_or_insert_with(network, AddressRequests::default))
    }

    /// The budgets of a response to a client of `network` on a connection.
    pub fn of_response(&self, connection: Arc<Budget>, network: IpAddr) -> Budgets {
        let address = self.addresses.get_or_insert_with(network, || Budget::new(self.limits.per_address));
        let (total, held, freed) = (self.total.clone(), self.held.clone(), self.freed.clone());
        Budgets { connection, address, total, held, freed }
    }

    /// Whether the clients of `network` hold too many bytes for a further response. Each response may always take one
    /// frame, so an address can overdraw its budget. While the host's budget is exhausted, the limit of an address is
    /// that of a connection.
    pub fn is_overdrawn_by(&self, network: IpAddr) -> bool {
        let SendLimits { per_connection, per_address, .. } = self.limits;
        let limit = match self.total.is_exhausted() {
            true => per_connection.min(per_address),
            false => per_address.saturating_mul(OVERDRAFT),
        };
        // The first test avoids the look-up of the address in the usual case.
        self.held() >= limit && self.used_by(network) >= limit
    }

    /// Bytes that the host holds for the clients of `network`.
    pub fn used_by(&self, network: IpAddr) -> usize {
        self.addresses.get(&network).map_or(0, |budget| budget.used.load(Ordering::Relaxed))
    }

    /// Bytes that the host holds for all of its clients.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Bytes that the host holds for all of its clients, without the bytes beyond the budgets of addresses.
    pub fn used(&self) -> usize {
        self.total.used.load(Ordering::Relaxed)
    }
}

impl Budgets {
    pub fn are_exhausted(&self) -> bool {
        [&self.connection, &self.address, &self.total].iter().any(|budget| budget.is_exhausted())
    }

    /// Whether a response that holds nothing may take a frame although a budget is exhausted. It may if its connection
    /// holds little. It may also if its address is not far beyond its budget. Without this rule, many responses on few
    /// connections would overdraw the address's budget.
    pub fn have_first_frame(&self) -> bool {
        let of_address = self.address.used.load(Ordering::Relaxed);
        self.connection.used.load(Ordering::Relaxed) < FIRST_FRAMES || of_address < self.address.limit / 4 * 5
    }

    /// Counts bytes, even past a limit: their memory is in use already.
    pub fn take(&self, bytes: usize) {
        self.connection.take(bytes);
        self.held.fetch_add(bytes, Ordering::Relaxed);
        let within = self.address.take(bytes);
        self.total.take(within);
    }

    pub fn give_back(&self, bytes: usize) {
        let (_, freed_connection) = self.connection.give_back(bytes);
        self.held.fetch_sub(bytes, Ordering::Relaxed);
        let (within, freed_address) = self.address.give_back(bytes);
        let (_, freed_total) = self.total.give_back(within);
        if freed_connection || freed_address || freed_total {
            self.freed.notify_waiters();
        }
    }

    /// Returns once an exhausted budget has bytes again.
    pub fn freed(&self) -> Notified<'_> {
        self.freed.notified()
    }
}

impl Budget {
    pub fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0) }
    }

    /// Takes bytes. Returns how many of them are within the limit.
    pub fn take(&self, bytes: usize) -> usize {
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        self.limit.saturating_sub(before).min(bytes)
    }

    /// Gives bytes back. Returns how many of them were within the limit: over all calls, as many as [`Self::take`] has
    /// returned. Also returns whether the budget was exhausted.
    pub fn give_back(&self, bytes: usize) -> (usize, bool) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        let after = before.saturating_sub(bytes);
        (self.limit.saturating_sub(after).min(bytes), before >= self.limit)
    }

    pub fn is_unused(&self) -> bool {
        self.used.load(Ordering::Relaxed) == 0
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
        a.take(5);
        assert_eq!((budgets.used(), budgets.used_by(network(1))), (30, 25), "beyond the address's budget");
        assert_eq!(budgets.held(), 35);
        a.give_back(5);
        assert_eq!(budgets.used(), 30);
        for response in [&a, &b, &other] {
            response.give_back(10);
            assert!(!response.are_exhausted());
        }
        assert_eq!((budgets.used(), budgets.held()), (0, 0));
    }

    #[test]
    fn an_address_gets_less_while_the_budget_of_the_host_is_used_up() {
        let budgets = SendBudgets::new(SendLimits { per_connection: 10, per_address: 20, total: 40 });
        let of = |last, bytes| {
            let response = budgets.of_response(budgets.connection(), network(last));
            response.take(bytes);
            response
        };
        let [_small, first, second] = [of(1, 9), of(2, 10), of(3, 20)];
        assert!((1..4).all(|last| !budgets.is_overdrawn_by(network(last))));
        let last = of(4, 1);
        assert_eq!([1, 2, 3, 4].map(|last| budgets.is_overdrawn_by(network(last))), [false, true, true, false]);
        last.give_back(1);
        assert!((1..4).all(|last| !budgets.is_overdrawn_by(network(last))));
        drop((first, second));
    }

    #[test]
    fn an_address_is_overdrawn_alone() {
        let budgets = SendBudgets::new(SendLimits { per_connection: 10, per_address: 20, total: 1000 });
        let greedy = budgets.of_response(budgets.connection(), network(1));
        greedy.take(39);
        assert!(!budgets.is_overdrawn_by(network(1)));
        greedy.take(1);
        assert!(budgets.is_overdrawn_by(network(1)) && !budgets.is_overdrawn_by(network(2)));
        assert_eq!(budgets.used(), 20);
        greedy.give_back(40);
        assert!(!budgets.is_overdrawn_by(network(1)));
        assert_eq!(budgets.used(), 0);
    }
}
