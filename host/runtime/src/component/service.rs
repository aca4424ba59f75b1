//! A component's service: its routes lead here. Its revisions and settings can change between two requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use hexad_http::nested_request::Depth;
use hexad_imports::outbound::Outbound;
use hexad_limits::concurrency_limit::{BytesByClient, ClientKeys, Permit, Saturated};
use hexad_limits::instance_permit::{InstancePermit, StalledInstances};
use hexad_manifest::Component;
use hexad_support::digest::Digest;
use hexad_support::log_throttle::LogThrottle;
use hexad_telemetry::metrics::Metrics;
use tokio::time::Instant;

use super::canary::CanaryStats;
use super::canary::{Canary, CanaryPolicy};
use super::instance_limits::{InstanceLimits, ReplacedLimits};
use super::lease::{Lease, ResponseEnd};
use super::revision::Revision;
use crate::request_context::{Awaited, RequestContext};

/// A component's revisions, and the state that outlives them.
pub struct ComponentService {
    id: String,
    deployment: ArcSwap<ActiveRevisions>,
    /// The number of the latest revision.
    last_number: AtomicU64,
    /// How often the active revisions have changed.
    changes: AtomicU64,
    /// The component that a rollback restores, even if it is not loaded.
    rollback_target: ArcSwapOption<Digest>,
    metrics: Metrics,
    stalled: Arc<StalledInstances>,
    replaced_limits: ReplacedLimits,
    /// Limits the log lines about failed requests.
    log_throttle: LogThrottle,
}

/// A service's settings in the manifest, and its outbound HTTP. All active revisions share them.
pub struct Settings {
    pub component: Arc<Component>,
    /// Sends the component's outbound requests. `None` if it may send none.
    pub outbound: Option<Arc<Outbound>>,
}

/// The settings and the revisions that a service uses. A change replaces all of them in one step.
#[derive(Clone)]
pub struct ActiveRevisions {
    pub settings: Arc<Settings>,
    /// New after each change, except the beginning of a trial.
    limits: Arc<InstanceLimits>,
    /// Serves all requests, or the rest beside the canary's.
    pub current: Arc<Revision>,
    /// The standby: a former current revision. A rollback makes it current again.
    pub previous: Option<Arc<Revision>>,
    pub canary: Option<Arc<Canary>>,
}

/// Why a request gets no instance.
#[derive(Debug)]
pub enum LeaseError {
    /// Every instance is busy, and the queue is full or the wait was too long.
    Saturated,
    /// The circuit breaker is open; the client should wait this long before it retries.
    Failing(Duration),
}

/// One request's part in a trial.
pub struct Trial {
    canary: Arc<Canary>,
    by_canary: bool,
    /// The request's number in the [`CanaryStats`].
    number: u64,
    context: Arc<RequestContext>,
    /// Whether the outcome of the response is recorded. It counts, unless the client is its cause.
    is_recorded: bool,
}

impl Trial {
    /// From now on, the request counts as overdue when its client has waited for too long.
    fn begin(canary: Arc<Canary>, caller: u64, context: &Arc<RequestContext>) -> Self {
        let by_canary = canary.serves(caller);
        let number = canary.stats(by_canary).begin(context.clone());
        Self { canary, by_canary, number, context: context.clone(), is_recorded: false }
    }

    /// The code on trial.
    pub fn digest(&self) -> Digest {
        self.canary.revision.digest
    }

    /// Records how a response has ended. Returns the reason if this decides against the canary. The canary then serves
    /// no further requests, and the caller must end the trial.
    pub fn record(mut self, is_error: bool, end: ResponseEnd) -> Option<String> {
        // The guest waited in vain for its client, which says nothing about the component.
        let is_of_client = match end {
            ResponseEnd::TimedOut => self.context.is_waiting_for_client(),
            ResponseEnd::BrokenByClient(_) => true,
            _ => false,
        };
        if is_of_client {
            self.is_recorded = true;
            return None;
        }
        let failed = is_error
            || match end {
                ResponseEnd::Broken | ResponseEnd::TimedOut => true,
                // The client did not wait for a stalled body.
                ResponseEnd::Abandoned => self.overdue() == Some(Awaited::Body),
                ResponseEnd::Complete | ResponseEnd::BrokenByClient(_) => false,
            };
        self.count(failed, self.context.service_time() > self.canary.policy.max_latency);
        self.canary.fail_by_verdict()
    }

    fn count(&mut self, failed: bool, slow: bool) {
        self.stats().count(failed, slow);
        self.is_recorded = true;
    }

    /// The part of the response for which the client has waited too long.
    fn overdue(&self) -> Option<Awaited> {
        self.context.awaited_for(self.canary.policy.max_latency)
    }

    fn stats(&self) -> &CanaryStats {
        self.canary.stats(self.by_canary)
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        // The client left before the head came. If it had waited for too long, the response counts as slow.
        if !self.is_recorded && self.overdue().is_some() {
            self.count(false, true);
        }
        self.stats().end(self.number);
    }
}

impl Settings {
    pub fn new(component: Arc<Component>, outbound: Option<Arc<Outbound>>) -> Self {
        Self { component, outbound }
    }
}

impl ActiveRevisions {
    /// The number of the revision that serves every request. `None` during a trial.
    pub fn sole_revision(&self) -> Option<u64> {
        self.canary.is_none().then_some(self.current.number)
    }

    fn renewed_limits(&self) -> Arc<InstanceLimits> {
        self.limits.renewed(&self.settings.component.limits)
    }
}

impl ComponentService {
    /// `memory` counts the clients of all components.
    pub fn new(
        settings: Settings,
        revision: Revision,
        metrics: Metrics,
        stalled: Arc<StalledInstances>,
        memory: Arc<BytesByClient>,
    ) -> Self {
        let (id, last_number) = (settings.component.id.clone(), AtomicU64::new(revision.number));
        let limits = InstanceLimits::new(&settings.component.limits, memory);
        let (settings, current) = (Arc::new(settings), Arc::new(revision));
        let deployment =
            ArcSwap::from_pointee(ActiveRevisions { settings, limits, current, previous: None, canary: None });
        Self {
            id,
            deployment,
            last_number,
            changes: AtomicU64::default(),
            rollback_target: ArcSwapOption::empty(),
            metrics,
            stalled,
            replaced_limits: ReplacedLimits::default(),
            log_throttle: LogThrottle::new(1, 10),
        }
    }

    /// The component's name in the manifest.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The component's settings in the manifest.
    pub fn component(&self) -> Arc<Component> {
        self.deployment.load().settings.component.clone()
    }

    /// Sends the component's outbound requests.
    pub fn outbound(&self) -> Option<Arc<Outbound>> {
        self.deployment.load().settings.outbound.clone()
    }

    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Limits the log lines about the component's failed requests.
    pub fn log_throttle(&self) -> &LogThrottle {
        &self.log_throttle
    }

    pub fn deployment(&self) -> Arc<ActiveRevisions> {
        self.deployment.load_full()
    }

    /// The component that a rollback restores, unless it ends a trial. It is the standby, or a recorded component that
    /// is not loaded, for example after a restart.
    pub fn rollback_target(&self) -> Option<Digest> {
        self.rollback_target.load().as_deref().copied()
    }

    pub fn set_rollback_target(&self, digest: Option<Digest>) {
        self.rollback_target.store(digest.map(Arc::new));
    }

    /// The revision that serves the next request, unless the canary does.
    pub fn current(&self) -> Arc<Revision> {
        self.deployment.load().current.clone()
    }

    pub fn next_number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// How often the active revisions have changed.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// How many requests hold a permit, and how many wait for one.
    pub fn load(&self) -> (usize, usize) {
        let (taken, waiting) = self.replaced_limits.load_with(|| self.deployment.load().limits.clone());
        (taken + self.stalled.count(), waiting)
    }

    /// Replaces the settings, and the current revision by the same code with these settings. Requests under way keep
    /// theirs. No standby is left, because it would have the old settings.
    pub fn reconfigure(&self, settings: Arc<Settings>, revision: Arc<Revision>) {
        self.change(|deployment| {
            let limits = deployment.limits.renewed(&settings.component.limits);
            let (settings, current) = (settings.clone(), revision.clone());
            Some(ActiveRevisions { limits, settings, current, previous: None, canary: None })
        });
    }

    /// Replaces the current revision for all later requests; requests under way keep theirs. The former one becomes the
    /// standby, unless it has the same code: then the standby stays.
    pub fn replace(&self, next: Arc<Revision>) {
        next.revive();
        self.change(|deployment| {
            let previous = match deployment.current.digest == next.digest {
                true => deployment.previous.clone(),
                false => Some(deployment.current.clone()),
            };
            let (limits, current) = (deployment.renewed_limits(), next.clone());
            Some(ActiveRevisions { limits, current, previous, canary: None, ..deployment.clone() })
        });
    }

    /// Begins a trial: another revision serves some of the callers. False if the service has a canary already.
    pub fn begin_trial(&self, revision: Arc<Revision>, policy: CanaryPolicy) -> bool {
        let canary = Arc::new(Canary::new(revision, policy));
        let begun = self.change(|deployment| match deployment.canary {
            Some(_) => None,
            None => Some(ActiveRevisions { canary: Some(canary.clone()), ..deployment.clone() }),
        });
        begun.is_some()
    }

    /// Ends the trial of this code: the current revision serves all callers. False if the code is not on trial.
    pub fn end_trial(&self, digest: &Digest) -> bool {
        let ended = self.change(|deployment| match &deployment.canary {
            Some(canary) if canary.revision.digest == *digest => {
                let limits = deployment.renewed_limits();
                Some(ActiveRevisions { limits, canary: None, ..deployment.clone() })
            }
            _ => None,
        });
        ended.is_some()
    }

    /// Makes one change of the active revisions, unless `change` returns `None`. Retires the revisions that no longer
    /// serve.
    fn change(&self, change: impl Fn(&ActiveRevisions) -> Option<ActiveRevisions>) -> Option<Arc<ActiveRevisions>> {
        loop {
            let before = self.deployment.load();
            let after = Arc::new(change(&before)?);
            let swap = || Arc::ptr_eq(&self.deployment.compare_and_swap(&*before, after.clone()), &before);
            let is_swapped = match Arc::ptr_eq(&before.limits, &after.limits) {
                true => swap(),
                false => self.replaced_limits.replace(&before.limits, swap),
            };
            if !is_swapped {
                continue;
            }
            // After the swap, so that a request that sees this number gets the change that it counts.
            self.changes.fetch_add(1, Ordering::SeqCst);
            let canary =
                |deployment: &ActiveRevisions| deployment.canary.as_ref().map(|canary| canary.revision.clone());
            let serving: Vec<_> = [Some(after.current.clone()), canary(&after)].into_iter().flatten().collect();
            for replaced in [Some(before.current.clone()), canary(&before)].into_iter().flatten() {
                if !serving.iter().any(|revision| Arc::ptr_eq(revision, &replaced)) {
                    replaced.retire();
                }
            }
            return Some(after);
        }
    }

    /// Waits for a permit of the client and leases a revision on the given shard. The request has this depth and began
    /// under the revisions `began`. During a trial, sets `trial`; `caller` then returns a number that identifies the
    /// caller.
    pub async fn lease(
        &self,
        began: &Arc<ActiveRevisions>,
        shard: usize,
        context: &Arc<RequestContext>,
        depth: Depth,
        caller: impl FnOnce() -> u64,
        trial: &mut Option<Trial>,
    ) -> Result<(Arc<Revision>, Arc<Lease>), LeaseError> {
        let client = context.client();
        let permit = match began.limits.try_acquire(depth, client) {
            Some(permit) => permit,
            // Boxed, because most requests do not wait.
            None => {
                let permit = Box::pin(self.wait_for_permit(began, shard, depth, client)).await;
                permit.map_err(|Saturated| LeaseError::Saturated)?
            }
        };
        context.mark_permit_obtained();
        let deployment = self.deployment.load();
        // A request keeps its settings from its beginning to its end.
        let deployment = if Arc::ptr_eq(&deployment.settings, &began.settings) { &deployment } else { began };
        *trial = deployment.canary.as_ref().map(|canary| Trial::begin(canary.clone(), caller(), context));
        let revision = match &*trial {
            Some(Trial { canary, by_canary: true, .. }) => canary.revision.clone(),
            _ => deployment.current.clone(),
        };
        revision.admit(context.path()).map_err(LeaseError::Failing)?;
        let counters = self.metrics.shard(shard).cloned().unwrap_or_default();
        let permit = InstancePermit::new(permit, client, self.stalled.clone());
        let lease = Arc::new(Lease::new(permit, revision.clone(), counters));
        Ok((revision, lease))
    }

    async fn wait_for_permit(
        &self,
        began: &Arc<ActiveRevisions>,
        shard: usize,
        depth: Depth,
        client: ClientKeys,
    ) -> Result<Permit, Saturated> {
        let started = Instant::now();
        let deadline = started + began.settings.component.limits.queue_timeout;
        let latest = || self.deployment.load().limits.clone();
        let permit = began.limits.clone().acquire(latest, depth, client, deadline).await;
        if let Some(counters) = self.metrics.shard(shard) {
            counters.queue_wait.observe(started.elapsed());
        }
        permit
    }
}
