//! The place that routes lead to. What stands in it can be replaced between two requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::OwnedSemaphorePermit;

use super::canary::{Canary, Terms};
use super::lease::Lease;
use super::{Generation, Verdict};
use crate::concurrency_limit::{Busy, Places};
use crate::imports::outbound::Outbound;
use crate::manifest::Component;
use crate::metrics::Metrics;
use crate::runtime::Digest;
use crate::throttle::Throttle;

/// Requests that may wait, for each that may run.
const WAITING_PER_INSTANCE: usize = 16;

/// A component's place: its generations, and the bound on its concurrent requests, which
/// outlives them.
pub struct Slot {
    component: Arc<Component>,
    stage: ArcSwap<Stage>,
    generations: AtomicU64,
    places: Places,
    outbound: Option<Arc<Outbound>>,
    metrics: Metrics,
    /// What is logged of requests that went wrong: there can be as many as there are requests.
    complaints: Throttle,
}

/// What stands in a slot. A change replaces the whole in one step.
#[derive(Clone)]
pub struct Stage {
    /// Serves, all requests or those that the canary leaves.
    pub current: Arc<Generation>,
    /// Served before, and is ready to do so again.
    pub previous: Option<Arc<Generation>>,
    pub canary: Option<Arc<Canary>>,
}

/// Why a request does not get an instance.
#[derive(Debug)]
pub enum Refused {
    /// Every instance is busy, and the wait is too long.
    Busy,
    /// The generation keeps failing; a request may try again after this long.
    Failing(Duration),
}

/// A trial, as one request takes part in it.
pub struct Trial {
    canary: Arc<Canary>,
    of_canary: bool,
}

impl Trial {
    /// The generation on trial.
    pub fn digest(&self) -> Digest {
        self.canary.generation.digest
    }

    /// Counts the answer. Returns the reason if it is the one that decides against the canary.
    pub fn answered(&self, status: u16, latency: Duration) -> Option<String> {
        self.canary.count(self.of_canary, status, latency);
        match self.canary.verdict() {
            Verdict::Failed(reason) if self.canary.conclude() => Some(reason),
            _ => None,
        }
    }
}

impl Slot {
    /// `outbound` is `None` for a component that may reach nobody.
    pub fn new(
        component: Arc<Component>,
        generation: Generation,
        outbound: Option<Arc<Outbound>>,
        metrics: Metrics,
    ) -> Self {
        let limits = &component.limits;
        let places = Places::new(limits.instances, limits.queue_timeout, limits.instances * WAITING_PER_INSTANCE);
        let generations = AtomicU64::new(generation.number);
        let stage = Stage { current: Arc::new(generation), previous: None, canary: None };
        Self {
            component,
            stage: ArcSwap::from_pointee(stage),
            generations,
            places,
            outbound,
            metrics,
            complaints: Throttle::new(1, 10),
        }
    }

    pub fn component(&self) -> &Arc<Component> {
        &self.component
    }

    /// The component's requests to others.
    pub fn outbound(&self) -> Option<&Arc<Outbound>> {
        self.outbound.as_ref()
    }

    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Bounds what is logged of the component's requests.
    pub fn complaints(&self) -> &Throttle {
        &self.complaints
    }

    pub fn stage(&self) -> Arc<Stage> {
        self.stage.load_full()
    }

    /// The generation that the next request gets, unless it is the canary's.
    pub fn current(&self) -> Arc<Generation> {
        self.stage.load().current.clone()
    }

    /// The code that answers every request, unless there is a canary.
    pub fn sole_code(&self) -> Option<Digest> {
        let stage = self.stage.load();
        stage.canary.is_none().then_some(stage.current.digest)
    }

    /// The number for a generation that is to be loaded.
    pub fn next_number(&self) -> u64 {
        self.generations.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Requests that are being served, and requests that wait for a place.
    pub fn load(&self) -> (usize, usize) {
        let busy = self.component.limits.instances.saturating_sub(self.places.free());
        (busy, self.places.waiting())
    }

    /// Replaces the generation for all requests that come after; those under way keep theirs.
    /// The one before stays ready, unless it is the same code: then the one before that does.
    pub fn replace(&self, next: Arc<Generation>) {
        next.resume();
        self.change(|stage| {
            let previous = match stage.current.digest == next.digest {
                true => stage.previous.clone(),
                false => Some(stage.current.clone()),
            };
            Some(Stage { current: next.clone(), previous, canary: None })
        });
    }

    /// Gives some of the callers another generation. False if some have one already.
    pub fn begin_trial(&self, generation: Arc<Generation>, terms: Terms) -> bool {
        let canary = Arc::new(Canary::new(generation, terms));
        let begun = self.change(|stage| match stage.canary {
            Some(_) => None,
            None => Some(Stage { canary: Some(canary.clone()), ..stage.clone() }),
        });
        begun.is_some()
    }

    /// Ends the trial of this generation, if it is still on: all callers get the present one.
    pub fn end_trial(&self, digest: &Digest) -> bool {
        let ended = self.change(|stage| match &stage.canary {
            Some(canary) if canary.generation.digest == *digest => Some(Stage { canary: None, ..stage.clone() }),
            _ => None,
        });
        ended.is_some()
    }

    /// Makes one change of the stage, or none. Whoever left the stage for the wings rests.
    fn change(&self, change: impl Fn(&Stage) -> Option<Stage>) -> Option<Arc<Stage>> {
        loop {
            let before = self.stage.load();
            let after = Arc::new(change(&before)?);
            let seen = self.stage.compare_and_swap(&*before, after.clone());
            if !Arc::ptr_eq(&seen, &before) {
                continue;
            }
            let canary = |stage: &Stage| stage.canary.as_ref().map(|canary| canary.generation.clone());
            let acting: Vec<_> = [Some(after.current.clone()), canary(&after)].into_iter().flatten().collect();
            for left in [Some(before.current.clone()), canary(&before)].into_iter().flatten() {
                if !acting.iter().any(|generation| Arc::ptr_eq(generation, &left)) {
                    left.retire();
                }
            }
            return Some(after);
        }
    }

    /// Waits for a place and leases a generation, on the given shard. `caller` is asked only during
    /// a trial, which `trial` then is; it is the same number for the same caller.
    pub async fn lease(
        &self,
        shard: usize,
        path: &str,
        caller: impl FnOnce() -> u64,
        trial: &mut Option<Trial>,
    ) -> Result<(Arc<Generation>, Arc<Lease>), Refused> {
        let place = self.place(shard).await.map_err(|Busy| Refused::Busy)?;
        let stage = self.stage.load();
        *trial = stage.canary.as_ref().map(|canary| {
            let of_canary = canary.takes(caller());
            Trial { canary: canary.clone(), of_canary }
        });
        let generation = match &*trial {
            Some(Trial { canary, of_canary: true }) => canary.generation.clone(),
            _ => stage.current.clone(),
        };
        generation.admit(path).map_err(Refused::Failing)?;
        let counters = self.metrics.shard(shard).cloned().unwrap_or_default();
        let lease = Arc::new(Lease::new(place, generation.clone(), counters));
        Ok((generation, lease))
    }

    async fn place(&self, shard: usize) -> Result<OwnedSemaphorePermit, Busy> {
        if self.places.free() > 0 {
            return self.places.take().await;
        }
        let started = Instant::now();
        let place = self.places.take().await;
        if let Some(counters) = self.metrics.shard(shard) {
            counters.queue_wait.observe(started.elapsed());
        }
        place
    }
}
