//! The permit of one request's instance. An instance that waits for its client is *stalled*: it yields its permit to
//! other requests and holds a stalled permit instead (decision 0060).

use std::collections::HashMap;
use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::futures::Notified;
use tokio::sync::{Notify, oneshot};

use crate::concurrency_limit::{ClientBytes, ClientKey, ClientKeys, CountedWaiter, Permit, REPORT_INTERVAL, WaitQueue};
use crate::memory_budget::MemoryBudget;

/// How many instances of all components may be stalled, unless an option of the host says otherwise.
pub const STALLED_INSTANCES: usize = 256;

/// How long an instance must have waited for its client before it yields its permit. A fast client's pauses add up to
/// less.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);

/// The stalled instances of one component, which do not count in its limit.
pub struct StalledInstances {
    /// The stalled permits of all components.
    yielded_permits: Arc<StalledPermits>,
    memory: Arc<MemoryBudget>,
    count: AtomicUsize,
}

impl StalledInstances {
    /// `yielded_permits` and `memory` are the host's.
    pub fn new(yielded_permits: Arc<StalledPermits>, memory: Arc<MemoryBudget>) -> Arc<Self> {
        Arc::new(Self { yielded_permits, memory, count: AtomicUsize::new(0) })
    }

    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

struct StalledInstance {
    stalled_permit: YieldedPermit,
    of: Arc<StalledInstances>,
}

impl StalledInstance {
    fn new(stalled_permit: YieldedPermit, of: &Arc<StalledInstances>) -> Self {
        of.count.fetch_add(1, Ordering::Relaxed);
        Self { stalled_permit, of: of.clone() }
    }
}

impl Drop for StalledInstance {
    fn drop(&mut self) {
        self.of.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A permit of a component's limit, or a stalled permit in its place.
pub struct InstancePermit {
    state: Mutex<PermitState>,
    /// Notified when the state changes.
    changed: Notify,
    client: ClientKeys,
    stalled: Arc<StalledInstances>,
    /// How many parts of the host wait for the client on behalf of the instance.
    waits: AtomicUsize,
    /// Outbound requests under way. They hold permits of their own, for which others may wait.
    outbound: AtomicUsize,
    /// Held by the task that waits for the component's permit.
    resumption: tokio::sync::Mutex<()>,
}

enum PermitState {
    Counted(Permit),
    /// The instance has given its component's permit back.
    Stalled(StalledInstance, WaitQueue),
    Released,
}

/// An outbound request that is under way.
pub struct OutboundInProgress(Arc<InstancePermit>);

impl InstancePermit {
    /// `permit` is of the component's limit.
    pub fn new(permit: Permit, client: ClientKeys, stalled: Arc<StalledInstances>) -> Self {
        Self {
            state: Mutex::new(PermitState::Counted(permit)),
            changed: Notify::new(),
            client,
            stalled,
            waits: AtomicUsize::new(0),
            outbound: AtomicUsize::new(0),
            resumption: tokio::sync::Mutex::new(()),
        }
    }

    /// Gives the permit back: the instance has ended.
    pub fn release(&self) {
        let before = std::mem::replace(&mut *self.state(), PermitState::Released);
        if !matches!(before, PermitState::Released) {
            self.changed.notify_waiters();
        }
    }

    /// Returns once another request waits for the permit. If several instances could give theirs, one returns.
    pub async fn contended(&self) {
        loop {
            let changed = self.changed.notified();
            let Some(wait_queue) = self.wait_queue() else {
                changed.await;
                continue;
            };
            tokio::select! {
                biased;
                () = changed => {}
                _ = wait_queue.wait() => return,
            }
        }
    }

    /// Call while the instance is blocked on its client. Yields the component's permit to the next waiting request.
    /// `waited`: how long the instance was blocked shortly before. Returns only if the instance has to end for a
    /// request of another client.
    pub async fn yield_permit(&self, waited: Duration) {
        let _wait = CountedWaiter::new(&self.waits);
        tokio::time::sleep(SHORTEST_WAIT.saturating_sub(waited)).await;
        loop {
            let changed = self.changed.notified();
            let Some(wait_queue) = self.wait_queue() else {
                if self.is_ended_while_stalled(changed).await {
                    return;
                }
                continue;
            };
            let report = tokio::select! {
                biased;
                () = changed => continue,
                report = wait_queue.clone().wait() => report,
            };
            if self.stall() {
                continue;
            }
            if report.is_of_limit && !self.has_outbound() {
                let yielded_permits = &self.stalled.yielded_permits;
                if self.stalled.memory.keeps_reserve() && yielded_permits.end_one_for(self.client) {
                    let stalled_permit = tokio::time::timeout(REPORT_INTERVAL, yielded_permits.take(self.client)).await;
                    // The waiting request may have been served by now.
                    if stalled_permit.is_ok_and(|stalled_permit| report.is_current() && self.stall_in(stalled_permit)) {
                        continue;
                    }
                } else if wait_queue.taken_by_client() + yielded_permits.taken_by(self.client) > 1 {
                    return;
                }
            }
            report.pass_on();
            tokio::time::sleep(REPORT_INTERVAL).await;
        }
    }

    /// Waits until the state changes. True if the instance has to end because another client needs its stalled permit.
    async fn is_ended_while_stalled(&self, changed: Notified<'_>) -> bool {
        let stalled_permit = match &*self.state() {
            PermitState::Stalled(stalled, _) => Some(stalled.stalled_permit.number),
            _ => None,
        };
        let ended = async {
            match stalled_permit {
                Some(stalled_permit) => self.stalled.yielded_permits.begin_wait(stalled_permit).ended().await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = changed => false,
            () = ended => true,
        }
    }

    /// As [`Self::yield_permit`], at once, for a request that waits. False if the instance does not wait for its
    /// client, or cannot be stalled.
    pub fn try_yield_permit(&self) -> bool {
        self.waits.load(Ordering::Relaxed) > 0 && self.stall()
    }

    /// Counts a stalled instance in its component's limit again, if the limit has a free permit.
    pub fn try_resume(&self) {
        if let Some(permit) = self.limit_of_component().and_then(|of_component| of_component.try_acquire()) {
            self.count(permit);
        }
    }

    /// Begins an outbound request. Before it, a stalled instance takes a permit of its component's limit again. It
    /// cannot be stalled until the request has ended. `None` if it gets no permit within `patience`.
    pub async fn begin_outbound(self: &Arc<Self>, patience: Duration) -> Option<OutboundInProgress> {
        // Counted before the state is read, so that the instance is not stalled afterwards.
        self.outbound.fetch_add(1, Ordering::Relaxed);
        let begun = OutboundInProgress(self.clone());
        if self.limit_of_component().is_some() {
            tokio::time::timeout(patience, self.resume()).await.ok()?;
        }
        Some(begun)
    }

    /// Whether an outbound request is under way: the guest has neither read all of its response nor dropped it.
    pub fn has_outbound(&self) -> bool {
        self.outbound.load(Ordering::Relaxed) > 0
    }

    /// Waits for a permit of the component, if the instance is stalled.
    async fn resume(&self) {
        let _resumption = self.resumption.lock().await;
        let changed = self.changed.notified();
        let Some(of_component) = self.limit_of_component() else {
            return;
        };
        tokio::select! {
            biased;
            () = changed => {}
            permit = of_component.acquire() => self.count(permit),
        }
    }

    /// Counts a stalled instance in its component's limit again.
    fn count(&self, permit: Permit) {
        let mut state = self.state();
        if let PermitState::Stalled(..) = &*state {
            let before = std::mem::replace(&mut *state, PermitState::Counted(permit));
            drop(state);
            self.changed.notify_waiters();
            drop(before);
        }
    }

    /// The queue in which a stalled instance gets a permit again.
    fn limit_of_component(&self) -> Option<WaitQueue> {
        match &*self.state() {
            PermitState::Stalled(_, of_component) => Some(of_component.clone()),
            _ => None,
        }
    }

    /// The queue for the permit. `None` if the instance is stalled or has ended.
    fn wait_queue(&self) -> Option<WaitQueue> {
        match &*self.state() {
            PermitState::Counted(permit) => Some(permit.wait_queue()),
            _ => None,
        }
    }

    /// Stalls the instance, if it may be stalled and a stalled permit is free.
    fn stall(&self) -> bool {
        // First, because an instance that is stalled already needs no check of memory and permits.
        self.wait_queue().is_some()
            && self.stalled.memory.keeps_reserve()
            && self
                .stalled
                .yielded_permits
                .try_take(self.client)
                .is_some_and(|stalled_permit| self.stall_in(stalled_permit))
    }

    /// False if the instance is stalled already, has ended, or has an outbound request under way.
    fn stall_in(&self, stalled_permit: YieldedPermit) -> bool {
        let mut state = self.state();
        let PermitState::Counted(permit) = &*state else {
            return false;
        };
        if self.has_outbound() {
            return false;
        }
        let stalled = PermitState::Stalled(StalledInstance::new(stalled_permit, &self.stalled), permit.wait_queue());
        let before = std::mem::replace(&mut *state, stalled);
        drop(state);
        self.changed.notify_waiters();
        drop(before);
        true
    }

    /// The memory of the request's client.
    pub fn client_bytes(&self) -> ClientBytes {
        match &*self.state() {
            PermitState::Counted(permit) => permit.client_bytes(),
            PermitState::Stalled(_, wait_queue) => wait_queue.client_bytes(),
            PermitState::Released => ClientBytes::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, PermitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OutboundInProgress {
    fn drop(&mut self) {
        self.0.outbound.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The stalled permits of a host.
pub struct StalledPermits {
    size: usize,
    table: Mutex<PermitTable>,
    /// Notified when a permit is given back.
    freed: Notify,
}

#[derive(Default)]
struct PermitTable {
    next: u64,
    taken: HashMap<u64, Taken>,
}

struct Taken {
    client: Option<ClientKey>,
    wait: Wait,
}

/// Whether an instance waits for its client.
enum Wait {
    No,
    /// The number of the wait, and the channel that asks the instance to end.
    Since(u64, oneshot::Sender<()>),
    /// The host has asked the instance to end.
    Ended,
}

/// One instance's stalled permit. Dropping it gives the permit back.
pub struct YieldedPermit {
    permits: Arc<StalledPermits>,
    pub number: u64,
}

/// The wait of a stalled instance for its client. Only during this wait may another client end the instance.
pub struct StalledWait<'a> {
    permits: &'a StalledPermits,
    number: u64,
    ended: oneshot::Receiver<()>,
}

impl StalledPermits {
    pub fn new(size: usize) -> Arc<Self> {
        Arc::new(Self { size, table: Mutex::default(), freed: Notify::new() })
    }

    pub fn taken(&self) -> usize {
        self.table().taken.len()
    }

    pub fn try_take(self: &Arc<Self>, client: ClientKeys) -> Option<YieldedPermit> {
        let mut table = self.table();
        if table.taken.len() >= self.size {
            return None;
        }
        let number = table.next();
        table.taken.insert(number, Taken { client: key(client), wait: Wait::No });
        Some(YieldedPermit { permits: self.clone(), number })
    }

    /// Takes a permit once one is free.
    pub async fn take(self: &Arc<Self>, client: ClientKeys) -> YieldedPermit {
        loop {
            let mut freed = pin!(self.freed.notified());
            // Enabled before the check, so that each waiting caller gets the notification of a permit of its own.
            freed.as_mut().enable();
            if let Some(permit) = self.try_take(client) {
                return permit;
            }
            freed.await;
        }
    }

    /// Begins a wait of the instance with this permit for its client. The wait ends at once if the host has asked the
    /// instance to end before.
    pub fn begin_wait(&self, number: u64) -> StalledWait<'_> {
        let (sender, ended) = oneshot::channel();
        let mut table = self.table();
        let since = table.next();
        if let Some(taken) = table.taken.get_mut(&number)
            && !matches!(taken.wait, Wait::Ended)
        {
            taken.wait = Wait::Since(since, sender);
        }
        StalledWait { permits: self, number, ended }
    }

    /// How many permits a client has.
    pub fn taken_by(&self, client: ClientKeys) -> usize {
        let client = key(client);
        self.table().taken.values().filter(|taken| taken.client == client).count()
    }

    /// Ends one waiting instance, the longest waiting one of the client that has the most permits, if these are more
    /// than `client` has. Returns whether an instance was ended.
    pub fn end_one_for(&self, client: ClientKeys) -> bool {
        let mut table = self.table();
        let mut counts: HashMap<Option<ClientKey>, usize> = HashMap::new();
        for taken in table.taken.values().filter(|taken| !matches!(taken.wait, Wait::Ended)) {
            *counts.entry(taken.client).or_default() += 1;
        }
        let own = counts.get(&key(client)).copied().unwrap_or(0);
        let waits = table.taken.iter().filter_map(|(number, taken)| match &taken.wait {
            Wait::Since(since, _) => {
                let count = counts.get(&taken.client).copied().unwrap_or(0);
                Some((count, std::cmp::Reverse(*since), *number))
            }
            Wait::No | Wait::Ended => None,
        });
        let Some((_, _, number)) = waits.max().filter(|(count, ..)| *count > own) else { return false };
        if let Some(taken) = table.taken.get_mut(&number)
            && let Wait::Since(_, sender) = std::mem::replace(&mut taken.wait, Wait::Ended)
        {
            let _ = sender.send(());
        }
        true
    }

    fn table(&self) -> MutexGuard<'_, PermitTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PermitTable {
    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// The client of a permit: a site if there is one, because a site's addresses cost nothing, or else an address.
fn key([network, site, _]: ClientKeys) -> Option<ClientKey> {
    site.or(network)
}

impl StalledWait<'_> {
    /// Returns once the instance has to end.
    pub async fn ended(&mut self) {
        // An instance that was asked to end before has no sender.
        let _ = (&mut self.ended).await;
    }
}

impl Drop for StalledWait<'_> {
    fn drop(&mut self) {
        if let Some(taken) = self.permits.table().taken.get_mut(&self.number)
            && !matches!(taken.wait, Wait::Ended)
        {
            taken.wait = Wait::No;
        }
    }
}

impl Drop for YieldedPermit {
    fn drop(&mut self) {
        self.permits.table().taken.remove(&self.number);
        self.permits.freed.notify_one();
    }
}

#[cfg(test)]
mod tests;
