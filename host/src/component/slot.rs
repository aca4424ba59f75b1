//! The place that routes lead to. What stands in it can be replaced between two requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Generation;
use crate::exchange::Lease;
use crate::manifest::Component;

/// Requests that may wait, for each that may run.
const WAITING_PER_INSTANCE: usize = 16;

/// A component's place: its current generation, and the bound on its concurrent requests, which
/// outlives the generations.
pub struct Slot {
    component: Arc<Component>,
    current: ArcSwap<Generation>,
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// Every place is taken and the wait is too long.
#[derive(Debug)]
pub struct Busy;

impl Slot {
    pub fn new(component: Arc<Component>, generation: Generation) -> Self {
        let places = Arc::new(Semaphore::new(component.limits.instances));
        Self { component, current: ArcSwap::from_pointee(generation), places, waiting: AtomicUsize::new(0) }
    }

    pub fn component(&self) -> &Arc<Component> {
        &self.component
    }

    /// The generation that the next request gets.
    pub fn current(&self) -> Arc<Generation> {
        self.current.load_full()
    }

    /// Replaces the generation for all requests that come after; those under way keep theirs.
    /// Returns the one before.
    pub fn replace(&self, next: Arc<Generation>) -> Arc<Generation> {
        self.current.swap(next)
    }

    /// Waits for a place and leases the current generation.
    pub async fn lease(&self) -> Result<(Arc<Generation>, Arc<Lease>), Busy> {
        let place = self.place().await?;
        let generation = self.current();
        let lease = Arc::new(Lease::new(place, generation.clone()));
        Ok((generation, lease))
    }

    async fn place(&self) -> Result<OwnedSemaphorePermit, Busy> {
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            return Ok(place);
        }
        let most = self.component.limits.instances * WAITING_PER_INSTANCE;
        let waiting = Waiting::enter(&self.waiting);
        if waiting.before >= most {
            return Err(Busy);
        }
        match tokio::time::timeout(self.component.limits.queue_timeout, self.places.clone().acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => Err(Busy),
        }
    }
}

/// Counts a waiting request, also one whose client gives up.
struct Waiting<'a> {
    count: &'a AtomicUsize,
    before: usize,
}

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize) -> Self {
        Self { count, before: count.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}
