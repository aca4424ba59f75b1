//! The permit of one request's instance. While the instance waits for its client, it makes way for other requests.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::concurrency_limit::{ClientKeys, ConcurrencyLimit, Contention, Counted, Permit, REPORT_INTERVAL};

/// How many instances of all components may be stalled, unless the host is started with another number.
pub const STALLED_INSTANCES: usize = 256;

/// How long an instance must have waited for its client: the pauses of a fast client are shorter.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);

/// Whether an instance may keep its memory while another begins.
pub type HasMemory = Box<dyn Fn() -> bool + Send + Sync>;

/// The instances of one component that wait for their clients and do not count in its limit.
pub struct StalledInstances {
    /// Of all components.
    limit: Arc<ConcurrencyLimit>,
    has_memory: HasMemory,
    count: AtomicUsize,
}

impl StalledInstances {
    /// `limit` is the host's.
    pub fn new(limit: Arc<ConcurrencyLimit>, has_memory: HasMemory) -> Arc<Self> {
        Arc::new(Self { limit, has_memory, count: AtomicUsize::new(0) })
    }

    /// A limit for all components of a host. A client has half of it at most.
    pub fn limit(instances: usize) -> Arc<ConcurrencyLimit> {
        // Those that wait to be stalled have an instance each, which bounds them.
        let limit = ConcurrencyLimit::new(instances, REPORT_INTERVAL, usize::MAX);
        Arc::new(limit.with_share(instances.div_ceil(2)))
    }

    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

/// A place among the stalled instances.
struct Place {
    permit: Permit,
    of: Arc<StalledInstances>,
}

impl Place {
    fn new(permit: Permit, of: &Arc<StalledInstances>) -> Self {
        of.count.fetch_add(1, Ordering::Relaxed);
        Self { permit, of: of.clone() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.of.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A permit of a component's limit, or a place among the stalled instances instead.
pub struct InstancePermit {
    state: Mutex<State>,
    /// Told when the state is another.
    changed: Notify,
    client: ClientKeys,
    stalled: Arc<StalledInstances>,
    /// How many parts of the host wait for the client on behalf of the instance.
    waits: AtomicUsize,
    /// Outbound requests under way. They have permits of their own, which others may wait for.
    outbound: AtomicUsize,
    /// Held by the one that waits for the component's permit.
    resumption: tokio::sync::Mutex<()>,
}

enum State {
    Counted(Permit),
    /// The component's permit was given back.
    Stalled(Place, Contention),
    /// The instance has ended.
    Released,
}

/// An outbound request that is under way.
pub struct OutboundInProgress(Arc<InstancePermit>);

impl InstancePermit {
    /// `permit` is of the component's limit.
    pub fn new(permit: Permit, client: ClientKeys, stalled: Arc<StalledInstances>) -> Self {
        Self {
            state: Mutex::new(State::Counted(permit)),
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
        let before = std::mem::replace(&mut *self.state(), State::Released);
        if !matches!(before, State::Released) {
            self.changed.notify_waiters();
        }
    }

    /// Returns once another request waits for the permit, or another instance for the place. Of several instances
    /// that could give it theirs, one returns.
    pub async fn contended(&self) {
        loop {
            let changed = self.changed.notified();
            let Some(contention) = self.contention() else {
                return pending().await;
            };
            tokio::select! {
                biased;
                () = changed => {}
                _ = contention.wait() => return,
            }
        }
    }

    /// Gives the component's permit to a request that waits for it, once there is one. To be polled while the instance
    /// waits for its client; it is never ready.
    pub async fn make_way(&self) {
        let _wait = Counted::new(&self.waits);
        tokio::time::sleep(SHORTEST_WAIT).await;
        loop {
            let changed = self.changed.notified();
            let Some(contention) = self.contention_of_component() else {
                changed.await;
                continue;
            };
            let report = tokio::select! {
                biased;
                () = changed => continue,
                report = contention.wait() => report,
            };
            if self.may_stall() {
                // This waits for a moment, so that an instance that is too slow gives up its place.
                let place = self.stalled.limit.acquire(self.client).await;
                // The other request may have been served by now.
                let place = place.ok().filter(|_| report.is_current());
                if place.is_some_and(|place| self.stall(place)) {
                    continue;
                }
            }
            report.pass_on();
            tokio::time::sleep(REPORT_INTERVAL).await;
        }
    }

    /// The same at once, for a request that waits. False if the instance does not wait for its client, or cannot be
    /// stalled.
    pub fn try_make_way(&self) -> bool {
        self.waits.load(Ordering::Relaxed) > 0
            && self.contention_of_component().is_some()
            && self.may_stall()
            && self.stalled.limit.try_acquire(self.client).is_some_and(|place| self.stall(place))
    }

    /// Counts a stalled instance in its component's limit again, if that has a permit left.
    pub fn try_resume(&self) {
        if let Some(permit) = self.limit_of_component().and_then(|of_component| of_component.try_acquire()) {
            self.count(permit);
        }
    }

    /// Begins an outbound request. A stalled instance counts in its component's limit before, and is not stalled
    /// again until the request has ended. `None` if it gets no permit in this time.
    pub async fn begin_outbound(self: &Arc<Self>, patience: Duration) -> Option<OutboundInProgress> {
        // Before a look at the state, so that it is not stalled afterwards.
        self.outbound.fetch_add(1, Ordering::Relaxed);
        let begun = OutboundInProgress(self.clone());
        if self.limit_of_component().is_some() {
            tokio::time::timeout(patience, self.resume()).await.ok()?;
        }
        Some(begun)
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
        if let State::Stalled(..) = &*state {
            let before = std::mem::replace(&mut *state, State::Counted(permit));
            drop(state);
            self.changed.notify_waiters();
            drop(before);
        }
    }

    /// Where a stalled instance gets a permit again.
    fn limit_of_component(&self) -> Option<Contention> {
        match &*self.state() {
            State::Stalled(_, of_component) => Some(of_component.clone()),
            _ => None,
        }
    }

    fn may_stall(&self) -> bool {
        self.outbound.load(Ordering::Relaxed) == 0 && (self.stalled.has_memory)()
    }

    /// Who else wants what the instance holds.
    fn contention(&self) -> Option<Contention> {
        match &*self.state() {
            State::Counted(permit) => Some(permit.contention()),
            State::Stalled(place, _) => Some(place.permit.contention()),
            State::Released => None,
        }
    }

    fn contention_of_component(&self) -> Option<Contention> {
        match &*self.state() {
            State::Counted(permit) => Some(permit.contention()),
            _ => None,
        }
    }

    /// False if the instance is stalled already, has ended, or has begun an outbound request.
    fn stall(&self, place: Permit) -> bool {
        let mut state = self.state();
        let State::Counted(permit) = &*state else {
            return false;
        };
        if self.outbound.load(Ordering::Relaxed) > 0 {
            return false;
        }
        let stalled = State::Stalled(Place::new(place, &self.stalled), permit.contention());
        let before = std::mem::replace(&mut *state, stalled);
        drop(state);
        self.changed.notify_waiters();
        drop(before);
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OutboundInProgress {
    fn drop(&mut self) {
        self.0.outbound.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
