//! How many requests of a component may be in progress. All permits are free after each change, except the beginning
//! of a trial: requests of a version that was rolled back because they never end take no permits of another version.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::concurrency_limit::{ClientKeys, ConcurrencyLimit, Permit, Saturated};
use crate::manifest::Limits;
use crate::nested_request::{Depth, DepthLimits};

/// Requests that may wait for a permit, for each permit.
const WAITING_PER_INSTANCE: usize = 16;

/// The permits of one deployment.
pub struct InstanceLimits {
    limits: DepthLimits,
    /// Cancelled once other limits replace these.
    replaced: CancellationToken,
}

/// Limits that were replaced, while requests have permits of them.
#[derive(Default)]
pub struct ReplacedLimits(Mutex<Vec<Arc<InstanceLimits>>>);

impl InstanceLimits {
    pub fn new(limits: &Limits) -> Arc<Self> {
        let limits = DepthLimits::new(|| {
            ConcurrencyLimit::new(limits.instances, limits.queue_timeout, limits.instances * WAITING_PER_INSTANCE)
                .with_share(limits.instances_per_client)
        });
        Arc::new(Self { limits, replaced: CancellationToken::new() })
    }

    /// Requests that are being served, and requests that wait for a permit.
    pub fn load(&self) -> (usize, usize) {
        (self.limits.taken(), self.limits.waiting())
    }

    /// Takes a permit if one is free.
    pub fn try_acquire(&self, depth: Depth, client: ClientKeys) -> Option<Permit> {
        self.limits.at(depth).try_acquire(client)
    }

    /// Waits for a permit. `None` once other limits replace these.
    pub async fn acquire(&self, depth: Depth, client: ClientKeys) -> Option<Result<Permit, Saturated>> {
        self.replaced.run_until_cancelled(self.limits.at(depth).acquire(client)).await
    }
}

impl ReplacedLimits {
    /// Adds replaced limits. Requests that wait for their permits go on to wait for permits of the new ones.
    pub fn add(&self, limits: Arc<InstanceLimits>) {
        limits.replaced.cancel();
        self.in_use().push(limits);
    }

    /// Requests that are being served, and requests that wait for a permit.
    pub fn load(&self) -> (usize, usize) {
        self.in_use().iter().map(|limits| limits.load()).fold((0, 0), |sum, load| (sum.0 + load.0, sum.1 + load.1))
    }

    /// The limits that are still in use, after the others are removed.
    fn in_use(&self) -> MutexGuard<'_, Vec<Arc<InstanceLimits>>> {
        let mut limits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        limits.retain(|limits| limits.load() != (0, 0));
        limits
    }
}
