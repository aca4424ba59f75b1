//! The permit of one request's instance. While the instance waits for its client, it makes way for other requests.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::concurrency_limit::{ClientKeys, ConcurrencyLimit, Contention, Permit, REPORT_INTERVAL};
use crate::memory_budget::MemoryBudget;

/// How many instances of all components may be stalled, unless the host is started with another number.
pub const STALLED_INSTANCES: usize = 256;

/// How long an instance must have waited for its client: the pauses of a fast client are shorter.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);

/// The instances of one component that wait for their clients and do not count in its limit.
pub struct StalledInstances {
    /// Of all components.
    limit: Arc<ConcurrencyLimit>,
    memory: Arc<MemoryBudget>,
    count: AtomicUsize,
}

impl StalledInstances {
    /// `limit` and `memory` are those of the host.
    pub fn new(limit: Arc<ConcurrencyLimit>, memory: Arc<MemoryBudget>) -> Arc<Self> {
        Arc::new(Self { limit, memory, count: AtomicUsize::new(0) })
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

    /// Whether so much memory is left that instances may keep theirs while others begin.
    fn has_memory(&self) -> bool {
        self.memory.used() / 3 <= self.memory.limit() / 4
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
    /// Outbound requests under way. They have permits of their own, which others may wait for.
    outbound: AtomicUsize,
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
        let outbound = AtomicUsize::new(0);
        Self { state: Mutex::new(State::Counted(permit)), changed: Notify::new(), client, stalled, outbound }
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
                () = contention.wait() => return,
            }
        }
    }

    /// Gives the component's permit to a request that waits for it, once there is one. To be polled while the instance
    /// waits for its client; it is never ready.
    pub async fn make_way(&self) {
        tokio::time::sleep(SHORTEST_WAIT).await;
        loop {
            let changed = self.changed.notified();
            let Some(contention) = self.contention_of_component() else {
                changed.await;
                continue;
            };
            tokio::select! {
                biased;
                () = changed => continue,
                () = contention.clone().wait() => {}
            }
            if self.may_stall() {
                // This waits for a moment, so that an instance that is too slow gives up its place.
                let place = self.stalled.limit.acquire(self.client).await;
                // The other request may have been served by now.
                let place = place.ok().filter(|_| contention.is_contended());
                if place.is_some_and(|place| self.stall(place)) {
                    continue;
                }
            }
            contention.pass_on();
            tokio::time::sleep(REPORT_INTERVAL).await;
        }
    }

    /// The same without a wait, for a request that waits. False if there is no place.
    pub fn try_make_way(&self) -> bool {
        self.contention_of_component().is_some()
            && self.may_stall()
            && self.stalled.limit.try_acquire(self.client).is_some_and(|place| self.stall(place))
    }

    /// Counts a stalled instance in its component's limit again, if that has a permit left.
    pub fn try_resume(&self) {
        let mut state = self.state();
        if let State::Stalled(_, of_component) = &*state
            && let Some(permit) = of_component.try_acquire()
        {
            let before = std::mem::replace(&mut *state, State::Counted(permit));
            drop(state);
            self.changed.notify_waiters();
            drop(before);
        }
    }

    /// Begins an outbound request. A stalled instance counts in its component's limit before, and is not stalled
    /// again until the request has ended. `None` if it gets no permit in this time.
    pub async fn begin_outbound(self: &Arc<Self>, patience: Duration) -> Option<OutboundInProgress> {
        self.outbound.fetch_add(1, Ordering::Relaxed);
        let begun = OutboundInProgress(self.clone());
        let of_component = match &*self.state() {
            State::Stalled(_, of_component) => of_component.clone(),
            _ => return Some(begun),
        };
        let permit = tokio::time::timeout(patience, of_component.acquire()).await.ok()?;
        let before = match &mut *self.state() {
            state @ State::Stalled(..) => std::mem::replace(state, State::Counted(permit)),
            // The instance has ended, or counts again.
            _ => State::Counted(permit),
        };
        self.changed.notify_waiters();
        drop(before);
        Some(begun)
    }

    fn may_stall(&self) -> bool {
        self.outbound.load(Ordering::Relaxed) == 0 && self.stalled.has_memory()
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

    /// False if the instance is stalled already, or has ended.
    fn stall(&self, place: Permit) -> bool {
        let mut state = self.state();
        let State::Counted(permit) = &*state else {
            return false;
        };
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
mod tests {
    use std::future::Future;
    use std::pin::pin;

    use futures::poll;

    use super::*;
    use crate::concurrency_limit::ClientKey;

    const CLIENT: ClientKeys = [Some(ClientKey::Credential(1)), None];
    const PATIENCE: Duration = Duration::from_secs(60);
    /// Long enough for what happens after a report or two.
    const FOR_A_WHILE: Duration = Duration::from_millis(400);

    /// A component with so many permits, on a host with so many places for stalled instances.
    struct Component {
        limit: ConcurrencyLimit,
        stalled: Arc<StalledInstances>,
    }

    impl Component {
        fn new(permits: usize, places: usize, memory: u64) -> Self {
            let limit = ConcurrencyLimit::new(permits, PATIENCE, 100);
            Self { limit, stalled: StalledInstances::new(StalledInstances::limit(places), MemoryBudget::new(memory)) }
        }

        fn begin(&self) -> Arc<InstancePermit> {
            let permit = self.limit.try_acquire(CLIENT).unwrap();
            Arc::new(InstancePermit::new(permit, CLIENT, self.stalled.clone()))
        }

        /// The permit of another request, if the instance makes way in time.
        async fn serve_another(&self, make_way: impl Future<Output = ()>, patience: Duration) -> Option<Permit> {
            tokio::select! {
                () = make_way => None,
                permit = tokio::time::timeout(patience, self.limit.acquire(CLIENT)) => permit.ok()?.ok(),
            }
        }
    }

    #[tokio::test]
    async fn an_instance_makes_way_once_another_request_waits() {
        let component = Component::new(1, 2, 100);
        let instance = component.begin();
        let mut make_way = pin!(instance.make_way());
        assert!(tokio::time::timeout(FOR_A_WHILE, &mut make_way).await.is_err());
        assert_eq!((component.limit.taken(), component.stalled.count()), (1, 0));
        let other = component.serve_another(&mut make_way, PATIENCE).await.unwrap();
        assert_eq!((component.limit.taken(), component.stalled.count()), (1, 1));
        // It counts again as soon as it can.
        instance.try_resume();
        assert_eq!(component.stalled.count(), 1);
        drop(other);
        instance.try_resume();
        assert_eq!((component.limit.taken(), component.stalled.count()), (1, 0));
        drop(component.serve_another(&mut make_way, PATIENCE).await.unwrap());
        instance.release();
        assert_eq!((component.limit.taken(), component.stalled.count()), (0, 0));
    }

    #[tokio::test]
    async fn an_instance_with_an_outbound_request_keeps_its_permit() {
        let component = Component::new(1, 2, 100);
        let instance = component.begin();
        let outbound = instance.begin_outbound(PATIENCE).await.unwrap();
        assert!(component.serve_another(instance.make_way(), FOR_A_WHILE).await.is_none());
        assert!(!instance.try_make_way());
        drop(outbound);
        // A stalled one waits for a permit first.
        let other = component.serve_another(instance.make_way(), PATIENCE).await.unwrap();
        assert!(instance.begin_outbound(FOR_A_WHILE).await.is_none());
        let mut begins = pin!(instance.begin_outbound(PATIENCE));
        assert!(poll!(&mut begins).is_pending());
        drop(other);
        assert!(begins.await.is_some());
        assert_eq!((component.limit.taken(), component.stalled.count()), (1, 0));
    }

    #[tokio::test]
    async fn no_instance_makes_way_without_memory_or_a_place() {
        let component = Component::new(1, 2, 100);
        let instance = component.begin();
        assert!(component.stalled.memory.take(80));
        assert!(component.serve_another(instance.make_way(), FOR_A_WHILE).await.is_none());
        component.stalled.memory.give_back(80);

        // The client has one place of two.
        let place = component.stalled.limit.try_acquire(CLIENT).unwrap();
        assert!(component.serve_another(instance.make_way(), FOR_A_WHILE).await.is_none());
        assert!(!instance.try_make_way());
        drop(place);
        assert!(component.serve_another(instance.make_way(), PATIENCE).await.is_some());
    }

    #[tokio::test]
    async fn a_stalled_instance_sees_that_others_want_its_place() {
        let component = Component::new(1, 1, 100);
        let first = component.begin();
        let permit = component.serve_another(first.make_way(), PATIENCE).await.unwrap();
        let second = InstancePermit::new(permit, CLIENT, component.stalled.clone());
        let mut contended = pin!(first.contended());
        assert!(poll!(&mut contended).is_pending());
        tokio::select! {
            () = contended => {}
            _ = component.serve_another(second.make_way(), PATIENCE) => panic!("there is one place"),
        }
    }
}
