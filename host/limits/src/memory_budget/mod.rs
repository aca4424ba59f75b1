//! The memory that a host may use, and the part of it that guests share (decision 0066).
//!
//! The memory of caches and responses is set aside at the start ([`MemoryDivision`]). The rest is the budget of all
//! guests' linear memories. A guest that needs more than is left gets the memory of idle instances, of any component.
//! The longest idle instance ends first.
//!
//! When more than half of the budget is in use, it is counted per client. A client's requests together may then grow
//! only while they have at most as much as they leave to others, free or in idle instances (as in `concurrency_limit`).
//! Memory taken before is not counted. A client's only request may take everything, within its component's limit.

mod division;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use hexad_telemetry::metrics::Counter;

use crate::concurrency_limit::{BytesByClient, ClientBytes};

pub use division::{MemoryDivision, MemoryError};

/// How many idle instances may end at once to free a quarter of the budget.
const MAX_EVICTIONS: usize = 8;

/// Instances that serve no request at the moment.
pub trait IdleInstances: Send + Sync {
    /// When the longest idle instance became idle.
    fn idle_since(&self) -> Option<Instant>;

    /// The memory of all idle instances.
    fn bytes(&self) -> u64;

    /// Ends the longest idle instance. False if none is idle any longer.
    fn evict(&self) -> bool;
}

/// The budget of all guests' linear memories, and of the bytes that clients send ahead of guests.
pub struct MemoryBudget {
    /// In bytes.
    limit: u64,
    used: AtomicU64,
    idle: Mutex<Vec<Weak<dyn IdleInstances>>>,
    /// The bytes of running requests, by client.
    clients: Arc<BytesByClient>,
    /// How often a guest did not get memory, because no instance was idle or because its client had its share.
    pub denials: Counter,
}

impl MemoryBudget {
    pub fn new(limit: u64) -> Arc<Self> {
        let (used, idle, clients) = (AtomicU64::new(0), Mutex::default(), Arc::default());
        Arc::new(Self { limit, used, idle, clients, denials: Counter::default() })
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes of guests, bytes that clients may have sent ahead, and bytes that coalesced outbound requests share.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The bytes of running requests, by client.
    pub fn clients(&self) -> &Arc<BytesByClient> {
        &self.clients
    }

    /// Adds instances that the budget may end while they are idle.
    pub fn add_idle_instances(&self, instances: Weak<dyn IdleInstances>) {
        let mut idle = self.idle();
        idle.retain(|instances| instances.strong_count() > 0);
        idle.push(instances);
    }

    /// Takes bytes, if need be from idle instances. False if there are too few.
    pub fn take(&self, bytes: u64) -> bool {
        let is_taken = self.take_or_evict(bytes);
        if !is_taken {
            self.denials.add(1);
        }
        is_taken
    }

    /// As [`take`](Self::take), for a client's request whose instance has `own` bytes. Also false if the client has too
    /// many.
    pub fn take_for(&self, client: &ClientBytes, own: u64, bytes: u64) -> bool {
        client.add(bytes);
        let is_taken = self.take_in_share(client, own, bytes);
        if !is_taken {
            client.subtract(bytes);
            self.denials.add(1);
        }
        is_taken
    }

    /// Whether less than half of the budget is free after `growth` more bytes.
    pub fn is_scarce(&self, growth: u64) -> bool {
        self.used().saturating_add(growth) > self.limit / 2
    }

    /// Whether a request's client may keep the memory of its instance: `own` bytes, which the client's bytes include.
    /// Counts a denial if not.
    pub fn check_share(&self, client: &ClientBytes, own: u64) -> bool {
        let is_in_share = self.is_in_share(client, own, self.used());
        if !is_in_share {
            self.denials.add(1);
        }
        is_in_share
    }

    /// Gives a client's bytes back.
    pub fn give_back_of(&self, client: &ClientBytes, bytes: u64) {
        client.subtract(bytes);
        self.give_back(bytes);
    }

    fn take_in_share(&self, client: &ClientBytes, own: u64, bytes: u64) -> bool {
        self.is_in_share(client, own.saturating_add(bytes), self.used().saturating_add(bytes))
            && self.take_or_evict(bytes)
    }

    /// Whether a client leaves as much to others as it has, when `used` bytes of the budget are taken.
    fn is_in_share(&self, client: &ClientBytes, own: u64, used: u64) -> bool {
        let of_client = client.with_others(own);
        let free = self.limit.saturating_sub(used);
        of_client <= free || of_client <= self.limit.saturating_add(self.idle_bytes()).saturating_sub(used)
    }

    fn idle_bytes(&self) -> u64 {
        self.pools().iter().map(|pool| pool.bytes()).sum()
    }

    /// As [`take`](Self::take), without counting a denial: for bytes that clients send before a guest has read them.
    pub fn take_or_evict(&self, bytes: u64) -> bool {
        while !self.try_take(bytes) {
            if !self.evict_idle() {
                return false;
            }
        }
        true
    }

    pub fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether a quarter of the budget is free. If not, ends a few idle instances first.
    pub fn keeps_reserve(&self) -> bool {
        let is_free = || self.used() / 3 <= self.limit / 4;
        is_free() || (0..MAX_EVICTIONS).take_while(|_| self.evict_idle()).any(|_| is_free())
    }

    /// Ends the longest idle instance. False if none is idle.
    pub fn evict_idle(&self) -> bool {
        loop {
            let pools = self.pools();
            let oldest =
                pools.iter().filter_map(|pool| Some((pool.idle_since()?, pool))).min_by_key(|(since, _)| *since);
            match oldest {
                // Another thread may have taken the pool's last idle instance.
                Some((_, pool)) if !pool.evict() => {}
                Some(_) => return true,
                None => return false,
            }
        }
    }

    /// Takes bytes if they are free.
    pub fn try_take(&self, bytes: u64) -> bool {
        let add = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    fn pools(&self) -> Vec<Arc<dyn IdleInstances>> {
        self.idle().iter().filter_map(Weak::upgrade).collect()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Weak<dyn IdleInstances>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that one owner has taken.
pub struct Reservation {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl Reservation {
    /// A reservation without bytes.
    pub fn new(budget: Arc<MemoryBudget>) -> Self {
        Self { budget, bytes: 0 }
    }

    /// Takes more bytes, if need be from idle instances. False if there are too few.
    pub fn grow(&mut self, bytes: u64) -> bool {
        let is_taken = self.budget.take(bytes);
        if is_taken {
            self.bytes += bytes;
        }
        is_taken
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::concurrency_limit::{ClientKey, ConcurrencyLimit};

    /// Idle instances of 10 bytes each.
    struct Pool {
        budget: Arc<MemoryBudget>,
        idle: Mutex<Vec<Instant>>,
    }

    impl IdleInstances for Pool {
        fn idle_since(&self) -> Option<Instant> {
            self.idle.lock().unwrap().first().copied()
        }

        fn bytes(&self) -> u64 {
            10 * self.idle.lock().unwrap().len() as u64
        }

        fn evict(&self) -> bool {
            let mut idle = self.idle.lock().unwrap();
            if idle.is_empty() {
                return false;
            }
            idle.remove(0);
            self.budget.give_back(10);
            true
        }
    }

    #[test]
    fn idle_instances_give_way_the_oldest_first() {
        let budget = MemoryBudget::new(40);
        let start = Instant::now();
        let pool = |ages: &[u64]| {
            let idle = ages.iter().map(|age| start + Duration::from_secs(*age)).collect();
            let pool = Arc::new(Pool { budget: budget.clone(), idle: Mutex::new(idle) });
            let weak: Weak<Pool> = Arc::downgrade(&pool);
            budget.add_idle_instances(weak);
            pool
        };
        let (first, second) = (pool(&[2, 3]), pool(&[1]));
        assert!(budget.take(30) && budget.take(10));
        assert!(budget.take(15));
        assert_eq!((first.idle.lock().unwrap().len(), second.idle.lock().unwrap().len()), (1, 0));
        assert_eq!((budget.used(), budget.denials.get()), (35, 0));
        assert!(!budget.take(16), "more than there is");
        assert_eq!((budget.used(), budget.denials.get()), (25, 1));
        assert!(!budget.take(u64::MAX));
    }

    #[test]
    fn a_client_leaves_as_much_memory_as_it_has() {
        let budget = MemoryBudget::new(100);
        let limit = ConcurrencyLimit::new(8, Duration::ZERO, 0).with_bytes(budget.clients().clone());
        let client = |number| {
            let permit = limit.try_acquire([Some(ClientKey::Credential(number)), None, None]).unwrap();
            permit.client_bytes()
        };
        let (first, second, other) = (client(1), client(1), client(2));
        assert!(budget.take_for(&first, 0, 40));
        assert!(!budget.take_for(&second, 0, 11) && budget.take_for(&second, 0, 10));
        assert!(!budget.take_for(&first, 40, 1), "its requests together have half");
        assert_eq!((budget.used(), budget.denials.get()), (50, 2));
        assert!(budget.take_for(&other, 0, 50), "the only request of another client");
        budget.give_back_of(&second, 10);
        budget.give_back_of(&other, 50);
        assert!(budget.take_for(&first, 40, 60), "its own only one");
        budget.give_back_of(&first, 100);

        // Idle memory counts as left to others, and no idle instance ends for that.
        assert!(budget.take(50));
        let pool = Arc::new(Pool { budget: budget.clone(), idle: Mutex::new(vec![Instant::now(); 5]) });
        let weak: Weak<Pool> = Arc::downgrade(&pool);
        budget.add_idle_instances(weak);
        assert!(budget.take_for(&first, 0, 20) && budget.take_for(&second, 0, 30));
        assert!(!budget.take_for(&second, 30, 1));
        assert_eq!((budget.used(), pool.idle.lock().unwrap().len()), (100, 5));
    }

    #[test]
    fn a_few_idle_instances_make_room_for_a_reserve() {
        let budget = MemoryBudget::new(400);
        assert!(budget.take(300) && budget.keeps_reserve());
        assert!(budget.take(90) && !budget.keeps_reserve());
        let pool = Arc::new(Pool { budget: budget.clone(), idle: Mutex::new(vec![Instant::now(); 10]) });
        let weak: Weak<Pool> = Arc::downgrade(&pool);
        budget.add_idle_instances(weak);
        assert!(!budget.keeps_reserve(), "they are not all ended at once");
        assert_eq!((budget.used(), pool.idle.lock().unwrap().len()), (310, 2));
        assert!(budget.keeps_reserve());
        assert_eq!(pool.idle.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_dropped_reservation_gives_its_bytes_back() {
        let budget = MemoryBudget::new(100);
        let mut reservation = Reservation::new(budget.clone());
        assert!(reservation.grow(60) && !reservation.grow(41) && reservation.grow(40));
        assert_eq!(budget.used(), 100);
        drop(reservation);
        assert_eq!(budget.used(), 0);
    }
}
