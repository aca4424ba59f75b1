//! A bound on concurrent work: callers wait for a permit in a bounded queue, for a bounded time, and
//! no client has more than its share of the permits and of the queue.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::select_all;
use tokio::sync::{Notify, Semaphore};

use crate::shared_map::SharedMap;

/// How often a caller that still waits reports its wait again: for each report one holder that waits for its client
/// makes way, or ends.
pub const REPORT_INTERVAL: Duration = Duration::from_millis(50);

/// What tells a client apart from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientKey {
    /// An IPv4 address, or a /64 of IPv6.
    Network(IpAddr),
    /// The hash of a credential, which the host has not verified.
    Credential(u64),
}

/// The keys of one request's client. Each has a share, so that neither an address with many
/// credentials nor a credential with many addresses has more than one. The host itself has no key.
pub type ClientKeys = [Option<ClientKey>; 2];

/// Permits for concurrent work.
#[derive(Debug)]
pub struct ConcurrencyLimit {
    permits: usize,
    all: Arc<Gate>,
    max_wait: Duration,
    max_waiting: usize,
    /// Permits of one client, and how many of its callers may wait.
    share: usize,
    max_waiting_per_client: usize,
    clients: SharedMap<ClientKey, Gate>,
}

/// The permits of a limit, or of one client's share.
#[derive(Debug)]
struct Gate {
    permits: Semaphore,
    /// Callers in the queue that need a permit of this gate.
    queued: AtomicUsize,
    /// Those of them that wait at this gate.
    blocked: AtomicUsize,
    /// The blocked callers report here.
    reports: Notify,
}

/// The gates of one caller: its client's shares first, and the limit last.
type Gates = [Option<Arc<Gate>>; 3];

/// Dropping it gives the permit back.
#[derive(Debug)]
pub struct Permit {
    gates: Gates,
    /// How many of the gates have given a permit.
    acquired: usize,
}

/// The gates of a permit, for a holder that wants to know whether others wait for it. It does not hold
/// the permit.
#[derive(Clone, Debug)]
pub struct Contention(Gates);

/// One caller's report that it waits.
#[derive(Debug)]
pub struct Report(Arc<Gate>);

/// Every permit is taken, or every one of the client's share, and the queue is full or the wait was
/// too long.
#[derive(Debug)]
pub struct Saturated;

impl ConcurrencyLimit {
    /// `permits` at once; at most `max_waiting` callers wait for one, each for at most `max_wait`.
    pub fn new(permits: usize, max_wait: Duration, max_waiting: usize) -> Self {
        Self {
            permits,
            all: Arc::new(Gate::new(permits)),
            max_wait,
            max_waiting,
            share: permits,
            max_waiting_per_client: max_waiting,
            clients: SharedMap::default(),
        }
    }

    /// At most `share` permits for one client, and as many times more callers in the queue as the limit
    /// has for a permit.
    pub fn with_share(self, share: usize) -> Self {
        let max_waiting_per_client = (self.max_waiting / self.share.max(1)).saturating_mul(share);
        Self { share, max_waiting_per_client, ..self }
    }

    /// How many permits are free.
    pub fn available(&self) -> usize {
        self.all.permits.available_permits()
    }

    /// How many permits are taken.
    pub fn taken(&self) -> usize {
        self.permits.saturating_sub(self.available())
    }

    /// How many callers wait for a permit.
    pub fn waiting(&self) -> usize {
        self.all.queued.load(Ordering::Relaxed)
    }

    /// Takes a permit if one is free.
    pub fn try_acquire(&self, client: ClientKeys) -> Option<Permit> {
        let mut permit = self.unacquired(client);
        permit.try_acquire().then_some(permit)
    }

    fn unacquired(&self, client: ClientKeys) -> Permit {
        // Everyone takes them in this order, so that no two callers wait for each other.
        let [first, second] = client.map(|key| Some(self.clients.get_or_insert_with(key?, || Gate::new(self.share))));
        Permit { gates: [first, second, Some(self.all.clone())], acquired: 0 }
    }

    /// Takes a permit, and waits for one if none is free.
    pub async fn acquire(&self, client: ClientKeys) -> Result<Permit, Saturated> {
        let mut permit = self.unacquired(client);
        if permit.try_acquire() {
            return Ok(permit);
        }
        let gates = permit.gates.clone();
        let [first, second, all] = gates.each_ref().map(|gate| gate.as_ref().map(|gate| Counted::new(&gate.queued)));
        let before = |caller: &Option<Counted<'_>>| caller.as_ref().map_or(0, |caller| caller.before);
        if before(&all) >= self.max_waiting || before(&first).max(before(&second)) >= self.max_waiting_per_client {
            return Err(Saturated);
        }
        match tokio::time::timeout(self.max_wait, permit.acquire()).await {
            Ok(()) => Ok(permit),
            Err(_) => Err(Saturated),
        }
    }
}

impl Gate {
    fn new(permits: usize) -> Self {
        let permits = Semaphore::new(permits.min(Semaphore::MAX_PERMITS));
        Self { permits, queued: AtomicUsize::new(0), blocked: AtomicUsize::new(0), reports: Notify::new() }
    }

    fn try_acquire(&self) -> bool {
        self.permits.try_acquire().map(|permit| permit.forget()).is_ok()
    }

    async fn acquire(&self) {
        if self.try_acquire() {
            return;
        }
        let _blocked = Counted::new(&self.blocked);
        let acquire = self.permits.acquire();
        tokio::pin!(acquire);
        loop {
            self.reports.notify_one();
            if let Ok(acquired) = tokio::time::timeout(REPORT_INTERVAL, &mut acquire).await {
                // The semaphore is never closed.
                if let Ok(permit) = acquired {
                    permit.forget();
                }
                return;
            }
        }
    }

    /// Returns once a caller is blocked. Of several that wait here, one returns for each report, the
    /// one that has waited longest first.
    async fn contended(&self) {
        loop {
            self.reports.notified().await;
            // A report that no task took may be old.
            if self.blocked.load(Ordering::Relaxed) > 0 {
                return;
            }
        }
    }
}

impl Permit {
    /// Takes a permit of each gate that is left. False if one has none.
    fn try_acquire(&mut self) -> bool {
        while let Some(gate) = self.gates.get(self.acquired) {
            if gate.as_ref().is_some_and(|gate| !gate.try_acquire()) {
                return false;
            }
            self.acquired += 1;
        }
        true
    }

    async fn acquire(&mut self) {
        while let Some(gate) = self.gates.get(self.acquired) {
            if let Some(gate) = gate {
                gate.acquire().await;
            }
            self.acquired += 1;
        }
    }

    pub fn contention(&self) -> Contention {
        Contention(self.gates.clone())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        for gate in self.gates.iter().take(self.acquired).flatten() {
            gate.permits.add_permits(1);
        }
    }
}

impl Contention {
    /// Returns once a caller waits for a permit that the holder could give back.
    pub async fn wait(self) -> Report {
        let gates: Vec<_> = self.0.into_iter().flatten().collect();
        let contended = gates.iter().map(|gate| gate.contended().map(|()| Report(gate.clone())).boxed());
        select_all(contended).await.0
    }

    /// Takes a permit of the same client again, if one is free.
    pub fn try_acquire(&self) -> Option<Permit> {
        let mut permit = Permit { gates: self.0.clone(), acquired: 0 };
        permit.try_acquire().then_some(permit)
    }

    /// Waits for a permit of the same client.
    pub async fn acquire(self) -> Permit {
        let _queued = self.0.each_ref().map(|gate| gate.as_ref().map(|gate| Counted::new(&gate.queued)));
        let mut permit = Permit { gates: self.0.clone(), acquired: 0 };
        permit.acquire().await;
        permit
    }
}

impl Report {
    /// Whether a caller waits still.
    pub fn is_current(&self) -> bool {
        self.0.blocked.load(Ordering::Relaxed) > 0
    }

    /// Hands the report on to another holder.
    pub fn pass_on(self) {
        if self.is_current() {
            self.0.reports.notify_one();
        }
    }
}

/// Counts a caller until it is dropped, also if the caller gives up.
pub struct Counted<'a> {
    count: &'a AtomicUsize,
    before: usize,
}

impl<'a> Counted<'a> {
    pub fn new(count: &'a AtomicUsize) -> Self {
        Self { count, before: count.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: ClientKeys = [None, None];
    const LONG: Duration = Duration::from_secs(3600);

    fn client(address: u8, credential: Option<u64>) -> ClientKeys {
        [Some(ClientKey::Network([192, 0, 2, address].into())), credential.map(ClientKey::Credential)]
    }

    #[tokio::test]
    async fn callers_wait_for_a_permit_in_a_bounded_queue() {
        let limit = ConcurrencyLimit::new(1, LONG, 1);
        let first = limit.acquire(HOST).await.unwrap();
        // One caller may wait, and gets the permit; the next is refused at once.
        let (second, third) = tokio::join!(limit.acquire(HOST), async {
            let third = limit.acquire(HOST).await;
            drop(first);
            third
        });
        third.unwrap_err();
        drop(second.unwrap());
        assert_eq!(limit.available(), 1);
    }

    #[tokio::test]
    async fn a_wait_ends_and_makes_room_for_another() {
        let limit = ConcurrencyLimit::new(1, Duration::from_millis(1), 1);
        let _permit = limit.acquire(HOST).await.unwrap();
        for _ in 0..2 {
            limit.acquire(HOST).await.map(drop).unwrap_err();
            assert_eq!(limit.waiting(), 0);
        }
    }

    #[tokio::test]
    async fn an_address_and_a_credential_have_a_share_each() {
        let limit = ConcurrencyLimit::new(4, Duration::from_millis(1), 100).with_share(2);
        let first = limit.acquire(client(1, Some(1))).await.unwrap();
        let second = limit.acquire(client(1, Some(2))).await.unwrap();
        limit.acquire(client(1, Some(3))).await.map(drop).unwrap_err();
        let third = limit.acquire(client(2, Some(1))).await.unwrap();
        limit.acquire(client(3, Some(1))).await.map(drop).unwrap_err();
        // Only the permits of those that have them are taken.
        assert_eq!(limit.available(), 1);
        drop(second);
        drop(limit.acquire(client(1, None)).await.unwrap());
        drop((first, third));
        assert_eq!(limit.available(), 4);
        assert!(limit.acquire(HOST).await.is_ok());
    }

    #[tokio::test]
    async fn a_client_has_a_share_of_the_queue() {
        let limit = ConcurrencyLimit::new(2, LONG, 4).with_share(1);
        let _first = limit.acquire(client(1, None)).await.unwrap();
        let mut waiting: Vec<_> = (0..2).map(|_| Box::pin(limit.acquire(client(1, None)))).collect();
        for caller in &mut waiting {
            assert!(futures::poll!(caller).is_pending());
        }
        limit.acquire(client(1, None)).await.map(drop).unwrap_err();
        // Another client need not wait for those.
        let _second = limit.acquire(client(2, None)).await.unwrap();
        drop(waiting);
        assert_eq!(limit.waiting(), 0);
    }

    #[tokio::test]
    async fn a_caller_that_gives_up_leaves_its_part_of_the_permits() {
        let limit = ConcurrencyLimit::new(1, LONG, 4).with_share(1);
        let first = limit.acquire(HOST).await.unwrap();
        let mut waiting = Box::pin(limit.acquire(client(1, None)));
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(waiting);
        drop(first);
        drop(limit.acquire(client(1, None)).await.unwrap());
    }

    #[tokio::test]
    async fn a_holder_sees_that_others_wait_for_it() {
        let limit = ConcurrencyLimit::new(2, LONG, 4).with_share(1);
        let first = limit.acquire(client(1, None)).await.unwrap();
        let second = limit.acquire(client(2, None)).await.unwrap();
        let mut unaffected = Box::pin(second.contention().wait());
        let contention = first.contention();
        let (waiter, ()) = tokio::join!(limit.acquire(client(1, None)), async {
            contention.wait().await;
            // The other client's permit would not help.
            assert!(futures::poll!(&mut unaffected).is_pending());
            drop(first);
        });
        waiter.unwrap();
    }
}
