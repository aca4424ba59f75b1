//! The permit of one request's instance. While the instance waits for its client, it makes way for other requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::concurrency_limit::{ClientKeys, ConcurrencyLimit, Contention, Permit};

/// How many instances of all components may be stalled, unless the host is started with another number.
pub const STALLED_INSTANCES: usize = 256;

/// Bounds the instances that wait for their clients and do not count in the limits of their components. A client has
/// half of them at most.
pub fn stalled_limit(instances: usize) -> Arc<ConcurrencyLimit> {
    // Those that wait to be counted hold an instance each, which bounds them.
    let limit = ConcurrencyLimit::new(instances, Duration::MAX, usize::MAX);
    Arc::new(limit.with_share(instances.div_ceil(2)))
}

/// A permit of a component's limit, or of the limit for stalled instances in its place.
#[derive(Debug)]
pub struct InstancePermit {
    held: Mutex<Held>,
    /// Told when another permit is held, or none.
    changed: Notify,
    client: ClientKeys,
    stalled: Arc<ConcurrencyLimit>,
}

#[derive(Debug)]
enum Held {
    OfComponent(Permit),
    OfStalled(Permit),
    /// The instance has ended.
    None,
}

impl Held {
    fn contention(&self) -> Option<Contention> {
        match self {
            Self::OfComponent(permit) | Self::OfStalled(permit) => Some(permit.contention()),
            Self::None => None,
        }
    }
}

impl InstancePermit {
    /// `permit` is of the component's limit.
    pub fn new(permit: Permit, client: ClientKeys, stalled: Arc<ConcurrencyLimit>) -> Self {
        Self { held: Mutex::new(Held::OfComponent(permit)), changed: Notify::new(), client, stalled }
    }

    /// Gives the permit back: the instance has ended.
    pub fn release(&self) {
        let held = std::mem::replace(&mut *self.held(), Held::None);
        self.changed.notify_waiters();
        drop(held);
    }

    /// Returns once another request waits for the permit. Of several instances that could give it theirs, one
    /// returns.
    pub async fn contended(&self) {
        loop {
            let changed = self.changed.notified();
            let Some(contention) = self.held().contention() else {
                return std::future::pending().await;
            };
            tokio::select! {
                () = contention.wait() => return,
                () = changed => {}
            }
        }
    }

    /// Gives the component's permit to a request that waits for it, once there is one, and counts the instance as
    /// stalled from then on. To be polled while the instance waits for its client.
    pub async fn make_way(&self) {
        if self.is_of_component() {
            self.contended().await;
            if let Ok(stalled) = self.stalled.acquire(self.client).await {
                self.count_as_stalled(stalled);
            }
        }
        std::future::pending().await
    }

    fn is_of_component(&self) -> bool {
        matches!(*self.held(), Held::OfComponent(_))
    }

    fn count_as_stalled(&self, permit: Permit) {
        let mut held = self.held();
        if let Held::OfComponent(_) = *held {
            let before = std::mem::replace(&mut *held, Held::OfStalled(permit));
            drop(held);
            self.changed.notify_waiters();
            drop(before);
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
