//! Limits on a component's concurrent requests. Each change of the active revisions, except the beginning of a trial,
//! starts with all permits free (decision 0061). So requests of a rolled-back revision that never end take no permits
//! of the next one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hexad_http::nested_request::{Depth, DepthLimits};
use hexad_limits::concurrency_limit::{BytesByClient, ClientKeys, ConcurrencyLimit, Permit, Saturated};
use hexad_manifest::Limits;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How many requests may wait, for each permit.
const WAITING_PER_INSTANCE: usize = 16;

/// The permits of one set of active revisions.
pub struct InstanceLimits {
    limits: DepthLimits,
    memory: Arc<BytesByClient>,
    /// Cancelled when new limits replace these.
    replaced: CancellationToken,
}

/// Replaced limits whose permits requests still hold.
#[derive(Default)]
pub struct ReplacedLimits(Mutex<Vec<Arc<InstanceLimits>>>);

impl InstanceLimits {
    /// `memory` is the host's.
    pub fn new(limits: &Limits, memory: Arc<BytesByClient>) -> Arc<Self> {
        let limits = DepthLimits::new(|| {
            ConcurrencyLimit::new(limits.instances, limits.queue_timeout, limits.instances * WAITING_PER_INSTANCE)
                .with_share(limits.instances_per_client)
                .with_bytes(memory.clone())
        });
        Arc::new(Self { limits, memory, replaced: CancellationToken::new() })
    }

    /// New limits that replace these.
    pub fn renewed(&self, limits: &Limits) -> Arc<Self> {
        Self::new(limits, self.memory.clone())
    }

    /// How many requests hold a permit, and how many wait for one.
    pub fn load(&self) -> (usize, usize) {
        (self.limits.taken(), self.limits.waiting())
    }

    /// Takes a permit if one is free.
    pub fn try_acquire(&self, depth: Depth, client: ClientKeys) -> Option<Permit> {
        self.limits.at(depth).try_acquire(client)
    }

    /// Waits for a permit until `deadline`. When the `latest` limits replace these, it waits for one of their permits.
    pub async fn acquire(
        self: Arc<Self>,
        latest: impl Fn() -> Arc<Self>,
        depth: Depth,
        client: ClientKeys,
        deadline: Instant,
    ) -> Result<Permit, Saturated> {
        let mut limits = self;
        loop {
            let acquire = limits.limits.at(depth).acquire_by(client, deadline);
            match limits.replaced.run_until_cancelled(acquire).await {
                Some(permit) => return permit,
                None => limits = latest(),
            }
        }
    }
}

impl ReplacedLimits {
    /// Runs `replace`, which installs new limits unless it returns false. Requests that wait for these limits' permits
    /// then wait for permits of the new ones.
    pub fn replace(&self, limits: &Arc<InstanceLimits>, replace: impl FnOnce() -> bool) -> bool {
        let mut in_use = self.in_use();
        if !replace() {
            return false;
        }
        in_use.push(limits.clone());
        drop(in_use);
        limits.replaced.cancel();
        true
    }

    /// How many requests hold a permit, and how many wait for one, of the replaced limits and of the `present` ones. A
    /// replacement under way hides none.
    pub fn load_with(&self, present: impl FnOnce() -> Arc<InstanceLimits>) -> (usize, usize) {
        let in_use = self.in_use();
        let loads = in_use.iter().map(|limits| limits.load());
        loads.fold(present().load(), |sum, load| (sum.0 + load.0, sum.1 + load.1))
    }

    /// The limits in use, after it has removed the others.
    fn in_use(&self) -> MutexGuard<'_, Vec<Arc<InstanceLimits>>> {
        let mut limits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        limits.retain(|limits| limits.load() != (0, 0));
        limits
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Poll;
    use std::time::Duration;

    use futures::poll;

    use super::*;
    use hexad_limits::concurrency_limit::HOST;
    use hexad_testing::wait::{SOON, wait_until};
    use hexad_testing::wait_async::next_turn;

    #[tokio::test]
    async fn a_caller_waits_no_longer_because_the_limits_are_replaced() {
        let limits = Limits { instances: 1, instances_per_client: 1, ..Limits::default() };
        let [first, second] = [(); 2].map(|()| InstanceLimits::new(&limits, Arc::default()));
        let _taken = [&first, &second].map(|limits| limits.try_acquire(Depth::default(), HOST).unwrap());
        let deadline = Instant::now() + Duration::from_millis(50);
        let mut permit = pin!(first.clone().acquire(|| second.clone(), Depth::default(), HOST, deadline));
        assert!(poll!(permit.as_mut()).is_pending());
        assert!(ReplacedLimits::default().replace(&first, || true));
        // The runtime's clock counts whole milliseconds.
        wait_until(SOON, "the caller's deadline", || Instant::now() >= deadline + Duration::from_millis(5));
        // The runtime checks its clock only in some turns.
        let mut answer = poll!(permit.as_mut());
        for _ in 0..1000 {
            if answer.is_ready() {
                break;
            }
            next_turn().await;
            answer = poll!(permit.as_mut());
        }
        assert!(matches!(answer, Poll::Ready(Err(Saturated))));
    }
}
