//! A limit of concurrent work with a quota for each client (decision 0061).
//!
//! Callers wait for a permit in a bounded queue, for a bounded time. No client has more than its share of the permits
//! and of the queue. While clients wait, a permit goes to the client that has the fewest, so that a client waits for no
//! other's queue.
//!
//! A client may take one more permit only while it has at most as many as are free (the dynamic thresholds of Choudhury
//! and Hahne). So clients that take all they can leave as many free as each of them has, and another client need not
//! wait.

mod permits;
mod queue;
mod reports;

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::select_all;
use hexad_support::shared_map::SharedMap;
use tokio::time::Instant;

pub use self::permits::Permit;
use self::permits::Permits;
use self::queue::Bounds;
use self::reports::PermitStats;
pub use self::reports::{CountedWaiter, REPORT_INTERVAL};

/// The host itself.
pub const HOST: ClientKeys = [None; 3];

/// A property that identifies a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientKey {
    /// An IPv4 address, or a /64 of IPv6.
    Network(IpAddr),
    /// A /48 of IPv6: the prefix that a provider assigns to one site, with 65,536 networks in it.
    Site(Ipv6Addr),
    /// The hash of a credential, which the host has not verified.
    Credential(u64),
}

/// The keys of one request's client: network, site and credential. Each has a quota. So an address with many
/// credentials gets one share only, and so does a credential or a site with many addresses. The host itself has no key.
pub type ClientKeys = [Option<ClientKey>; 3];

/// Permits for concurrent work.
#[derive(Debug)]
pub struct ConcurrencyLimit {
    size: usize,
    permits: Arc<Permits>,
    max_wait: Duration,
    bounds: Bounds,
    /// The most permits of one client.
    share: usize,
    clients: SharedMap<ClientKey, ClientQuota>,
    bytes: Arc<BytesByClient>,
}

/// The queue of a permit's limit, for a holder that wants to know whether others wait. It does not hold the permit.
#[derive(Clone, Debug)]
pub struct WaitQueue {
    client: Client,
    permits: Arc<Permits>,
}

/// A caller's report that it waits.
#[derive(Debug)]
pub struct Report {
    reports: Arc<PermitStats>,
    /// Whether any permit of the limit helps the caller, and not only one of the holder's own client.
    pub is_of_limit: bool,
}

/// The limit or the client's quota has no free permit, and the queue is full or the wait was too long.
#[derive(Debug)]
pub struct Saturated;

/// The keys of a client: its network, and the hash of its credential.
pub fn client_keys(network: Option<IpAddr>, credential: Option<u64>) -> ClientKeys {
    let site = match network {
        Some(IpAddr::V6(network)) => Some(Ipv6Addr::from_bits(network.to_bits() & (u128::MAX << 80))),
        _ => None,
    };
    [network.map(ClientKey::Network), site.map(ClientKey::Site), credential.map(ClientKey::Credential)]
}

impl ConcurrencyLimit {
    /// A limit of `permits`. At most `max_waiting` callers wait for one, each for at most `max_wait`.
    pub fn new(permits: usize, max_wait: Duration, max_waiting: usize) -> Self {
        Self {
            size: permits,
            permits: Permits::new(permits),
            max_wait,
            bounds: Bounds { callers: max_waiting, callers_per_client: max_waiting },
            share: permits,
            clients: SharedMap::default(),
            bytes: Arc::default(),
        }
    }

    /// At most `share` permits for one client. Its part of the queue is in proportion to its part of the permits.
    pub fn with_share(mut self, share: usize) -> Self {
        self.bounds.callers_per_client = (self.bounds.callers / self.share.max(1)).saturating_mul(share);
        Self { share, ..self }
    }

    /// Counts the memory of the callers' requests together with the requests of other limits.
    pub fn with_bytes(self, bytes: Arc<BytesByClient>) -> Self {
        Self { bytes, ..self }
    }

    pub fn available(&self) -> usize {
        self.permits.available()
    }

    pub fn taken(&self) -> usize {
        self.size.saturating_sub(self.available())
    }

    pub fn waiting(&self) -> usize {
        self.permits.waiting()
    }

    /// Takes a permit if one is free.
    pub fn try_acquire(&self, client: ClientKeys) -> Option<Permit> {
        self.permits.try_acquire(self.client(client)).ok()
    }

    /// Takes a permit, and waits for one if none is free.
    pub async fn acquire(&self, client: ClientKeys) -> Result<Permit, Saturated> {
        self.acquire_by(client, Instant::now() + self.max_wait).await
    }

    /// As [`Self::acquire`], until `deadline`, for a caller that has waited elsewhere before.
    pub async fn acquire_by(&self, client: ClientKeys, deadline: Instant) -> Result<Permit, Saturated> {
        let acquire = self.permits.acquire(self.client(client), Some(self.bounds));
        tokio::time::timeout_at(deadline, acquire).await.ok().and_then(Result::ok).ok_or(Saturated)
    }

    fn client(&self, client: ClientKeys) -> Client {
        let share = |key| ClientQuota::new(self.share, self.bytes.get_or_insert_with(key, AtomicU64::default));
        Client(client.map(|key| key.map(|key| self.clients.get_or_insert_with(key, || share(key)))))
    }
}

impl Permit {
    pub fn wait_queue(&self) -> WaitQueue {
        WaitQueue { client: self.client.clone(), permits: self.permits.clone() }
    }

    /// The memory of the client.
    pub fn client_bytes(&self) -> ClientBytes {
        self.client.bytes()
    }
}

impl WaitQueue {
    /// Returns once a caller waits for a permit that the holder could give back.
    pub async fn wait(self) -> Report {
        let of_shares = self.client.0.iter().flatten().map(|share| (share.reports.clone(), false));
        let reports = of_shares.chain([(self.permits.reports.clone(), true)]);
        let wait = |(reports, is_of_limit): (Arc<PermitStats>, bool)| async move {
            reports.wait().await;
            Report { reports, is_of_limit }
        };
        select_all(reports.map(|reports| wait(reports).boxed())).await.0
    }

    /// The memory of the holder's client.
    pub fn client_bytes(&self) -> ClientBytes {
        self.client.bytes()
    }

    /// How many permits the holder's client has.
    pub fn taken_by_client(&self) -> usize {
        self.client.taken()
    }

    /// Takes a permit of the same client again, if one is free.
    pub fn try_acquire(&self) -> Option<Permit> {
        self.permits.try_acquire(self.client.clone()).ok()
    }

    /// Waits for a permit of the same client, also if the queue is full.
    pub async fn acquire(self) -> Permit {
        loop {
            // Without bounds, no other caller displaces this one, so the loop runs once.
            if let Ok(permit) = self.permits.acquire(self.client.clone(), None).await {
                return permit;
            }
        }
    }
}

impl Report {
    /// Whether a caller still waits.
    pub fn is_current(&self) -> bool {
        self.reports.are_current()
    }

    /// Passes the report on to another holder.
    pub fn pass_on(self) {
        if self.is_current() {
            self.reports.report();
        }
    }
}

/// The part of a limit that one key of a client may have.
#[derive(Debug)]
pub struct ClientQuota {
    permits: usize,
    taken: AtomicUsize,
    /// Callers in the queue, which is locked while this changes.
    queued: AtomicUsize,
    /// Reports of callers that wait because the quota has no free permit, even if the limit has.
    pub reports: Arc<PermitStats>,
    /// The memory of the key's requests.
    bytes: Arc<AtomicU64>,
}

/// The quotas of a client, one for each of its keys.
#[derive(Clone, Debug)]
pub struct Client(pub [Option<Arc<ClientQuota>>; 3]);

impl ClientQuota {
    pub fn new(permits: usize, bytes: Arc<AtomicU64>) -> Self {
        Self { permits, taken: AtomicUsize::new(0), queued: AtomicUsize::new(0), reports: Arc::default(), bytes }
    }

    fn try_take(&self, free: usize) -> bool {
        let take = |taken: usize| (taken < self.permits && taken <= free).then_some(taken + 1);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok()
    }

    fn give_back(&self) {
        self.taken.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Client {
    /// Takes a permit of each quota. False if a quota has none left, or has more taken than the limit has `free`.
    pub fn try_take(&self, free: usize) -> bool {
        for (taken, share) in self.shares().enumerate() {
            if !share.try_take(free) {
                self.shares().take(taken).for_each(|share| share.give_back());
                return false;
            }
        }
        true
    }

    /// Gives a permit of each quota back. The caller gives the limit's permit back afterwards, which serves the queue.
    pub fn give_back(&self) {
        self.shares().for_each(|share| share.give_back());
    }

    /// A quota without a free permit.
    pub fn full_share(&self) -> Option<&ClientQuota> {
        self.shares().map(|share| &**share).find(|share| share.taken.load(Ordering::Acquire) >= share.permits)
    }

    /// Whether the client may take one more of the limit's `free` permits.
    pub fn may_take(&self, free: usize) -> bool {
        self.full_share().is_none() && self.taken() <= free
    }

    /// How many permits the client has. Of its keys, the one with the most counts: an address counts those of all its
    /// credentials, and a credential those of all its addresses. The host itself has no quota, and so none.
    pub fn taken(&self) -> usize {
        self.shares().map(|share| share.taken.load(Ordering::Acquire)).max().unwrap_or(0)
    }

    /// How many of the client's callers are in the queue.
    pub fn queued(&self) -> usize {
        self.shares().map(|share| share.queued.load(Ordering::Relaxed)).max().unwrap_or(0)
    }

    pub fn enter_queue(&self) {
        for share in self.shares() {
            share.queued.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn leave_queue(&self) {
        for share in self.shares() {
            share.queued.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub fn bytes(&self) -> ClientBytes {
        ClientBytes(self.0.each_ref().map(|share| share.as_ref().map(|share| share.bytes.clone())))
    }

    /// Whether both have the same quotas.
    pub fn is(&self, other: &Self) -> bool {
        let pointers = |client: &Self| client.0.each_ref().map(|share| share.as_ref().map(Arc::as_ptr));
        pointers(self) == pointers(other)
    }

    fn shares(&self) -> impl Iterator<Item = &Arc<ClientQuota>> {
        self.0.iter().flatten()
    }
}

/// Bytes by client key, for all limits of a host.
pub type BytesByClient = SharedMap<ClientKey, AtomicU64>;

/// The memory of one client's requests, for each of its keys. It is stored with the quotas of the client's permits, so
/// that a request needs no second look-up. The default is for the host itself, which no key counts.
#[derive(Clone, Debug, Default)]
pub struct ClientBytes(pub(super) [Option<Arc<AtomicU64>>; 3]);

impl ClientBytes {
    pub fn add(&self, bytes: u64) {
        for of_key in self.0.iter().flatten() {
            of_key.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub fn subtract(&self, bytes: u64) {
        for of_key in self.0.iter().flatten() {
            of_key.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// The client's bytes, if it has others than the `own` of one request; otherwise 0. Of its keys, the one with the
    /// most counts.
    pub fn with_others(&self, own: u64) -> u64 {
        let of_keys = self.0.iter().flatten().map(|of_key| of_key.load(Ordering::Relaxed));
        of_keys.filter(|bytes| *bytes > own).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
