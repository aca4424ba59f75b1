//! The instances of one revision on one shard. The host makes an instance when no idle one is left. An instance serves
//! one request at a time, so that a trap, a loop or a lack of memory ends one request (decision 0016).
//!
//! The instance that was used last is used next, because its memory is still in the processor's cache.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hexad_imports::keyvalue::KeyValue;
use hexad_limits::memory_budget::{IdleInstances, MemoryBudget};
use hexad_manifest::Component;
use hexad_store::Backend;
use hexad_support::log_throttle::LogThrottle;
use hexad_telemetry::metrics::{Counters, CpuTimer, InstanceCloseReason, OutOfCpuTime};
use tokio::time::error::Elapsed;
use wasmtime::component::Func;
use wasmtime::{PoolConcurrencyLimitError, Store, Trap};
use wasmtime_wasi_http::handler::{Proxy, ProxyPre};
use wasmtime_wasi_http::p3::bindings::Service;

use super::breaker::Breakers;
use super::by_value::{ByValueExport, ByValueHandler};
use crate::engine::Runtime;
use crate::guest::{Guest, GuestBounds, GuestLog, GuestState, HasGuestState as _, OutboundHooks};
use crate::request_context::RequestContext;

/// Requests per instance, unless the manifest has `max_requests_per_instance`. An instance's memory limit bounds what a
/// guest can leak, and an instantiation costs as much as about ten requests. Guests of the 0.2 interface expect a new
/// instance for each request, as other hosts give them.
const MAX_REQUESTS: usize = 1000;
const MAX_REQUESTS_0_2: usize = 1;

/// How many failures of one component on one shard are logged. A guest that traps at every request must not flood the
/// log.
const FAILURES_PER_SECOND: u32 = 5;

/// One instance of a component.
pub struct Instance {
    pub store: Store<Guest>,
    pub proxy: Proxy,
    /// `None` if the component takes requests only by WASI's interface.
    pub by_value: Option<ByValueHandler>,
    pub cpu_timer: Arc<CpuTimer>,
    /// Requests served, including the current one.
    served: usize,
    /// The store's losses when the instance was made (see [`Backend::losses`]).
    losses: u64,
}

impl Instance {
    /// The export that takes requests.
    pub fn handler(&self) -> Func {
        match &self.proxy {
            Proxy::P2(guest) => *guest.wasi_http_incoming_handler().func_handle().func(),
            Proxy::P3(guest) => *guest.wasi_http_handler().func_handle().func(),
        }
    }
}

/// The parts that all instances of a revision on a shard share.
pub struct InstanceTemplate {
    pub runtime: Arc<Runtime>,
    pub pre: Arc<ProxyPre<Guest>>,
    pub by_value: Option<ByValueExport>,
    pub component: Arc<Component>,
    pub guest_log: Arc<GuestLog>,
    pub backend: Arc<dyn Backend>,
    pub outbound_hooks: OutboundHooks,
    pub memory: Arc<MemoryBudget>,
    pub breakers: Arc<Breakers>,
    pub counters: Arc<Counters>,
}

/// The instances of one revision on one shard.
pub struct InstancePool {
    pub(super) template: InstanceTemplate,
    /// Limits the log lines about failed instances.
    pub(super) failure_throttle: LogThrottle,
    /// Requests after which an instance ends.
    max_requests: usize,
    state: Mutex<PoolState>,
}

#[derive(Default)]
struct PoolState {
    /// Idle instances with their times, in the order in which they became idle.
    instances: VecDeque<(Instance, Instant)>,
    /// The revision serves no requests and keeps no instances. So a host that swaps often does not use up its memory
    /// and the entries of wasmtime's pool.
    retired: bool,
    /// Whether a task ends the instances that have been idle for too long.
    has_reaper: bool,
}

impl InstancePool {
    pub fn new(template: InstanceTemplate) -> Self {
        let max_requests = template.component.limits.max_requests_per_instance.unwrap_or(match *template.pre {
            ProxyPre::P2(_) => MAX_REQUESTS_0_2,
            ProxyPre::P3(_) => MAX_REQUESTS,
        });
        let failure_throttle = LogThrottle::new(FAILURES_PER_SECOND, 2 * FAILURES_PER_SECOND);
        Self { template, failure_throttle, max_requests, state: Mutex::default() }
    }

    /// Takes an idle instance for one request, or makes one.
    pub async fn take(&self, context: &RequestContext) -> wasmtime::Result<Instance> {
        // First: when the store loses data later, it refuses this request's writes. They may depend on lost data that
        // the instance keeps.
        context.writes.bind_reads(&*self.template.backend);
        let mut instance = match self.take_idle() {
            Some(instance) => {
                instance.cpu_timer.begin_request();
                instance
            }
            // The request pays for the start of its instance.
            None => {
                let _span = context.trace().and_then(|trace| trace.begin_instantiation());
                self.instantiate().await?
            }
        };
        instance.served += 1;
        Ok(instance)
    }

    /// The idle instance that was used last. Ends instances that may keep data that the store has lost, such as numbers
    /// of a counter, records, or the remainder of a rate limit.
    fn take_idle(&self) -> Option<Instance> {
        let losses = self.template.backend.losses();
        loop {
            let (instance, _) = self.state().instances.pop_back()?;
            if instance.losses == losses {
                return Some(instance);
            }
            self.template.counters.record_close(InstanceCloseReason::Lost);
        }
    }

    /// Keeps an instance for the next request, or ends it after its last one. Ends an instance whose request has lost
    /// writes, because it may keep the lost data.
    pub fn give_back(self: &Arc<Self>, instance: Instance, context: &RequestContext) {
        let counters = &self.template.counters;
        if context.writes.has_failed() {
            return counters.record_close(InstanceCloseReason::Lost);
        }
        if instance.served >= self.max_requests {
            return counters.record_close(InstanceCloseReason::Requests);
        }
        if instance.store.data().state().limiter().is_nearly_used_up() {
            return counters.record_close(InstanceCloseReason::Memory);
        }
        let mut state = self.state();
        if state.retired {
            // Dropping an instance takes too long under this lock.
            drop(state);
            return drop(instance);
        }
        state.instances.push_back((instance, Instant::now()));
        if !std::mem::replace(&mut state.has_reaper, true) {
            drop(state);
            self.spawn_reaper();
        }
    }

    /// Ends the idle instances now, and the busy ones as soon as they are idle.
    pub fn retire(&self) {
        let mut state = self.state();
        state.retired = true;
        let instances = std::mem::take(&mut state.instances);
        drop(state);
        drop(instances);
    }

    /// Keeps instances again after [`retire`](Self::retire).
    pub fn revive(&self) {
        self.state().retired = false;
    }

    /// Makes an instance. If wasmtime's pool is full, it evicts idle instances.
    async fn instantiate(&self) -> wasmtime::Result<Instance> {
        loop {
            match self.try_instantiate().await {
                Err(error) if error.is::<PoolConcurrencyLimitError>() && self.template.memory.evict_idle() => {}
                result => return result,
            }
        }
    }

    async fn try_instantiate(&self) -> wasmtime::Result<Instance> {
        let InstanceTemplate { runtime, pre, component, guest_log, backend, outbound_hooks, .. } = &self.template;
        let InstanceTemplate { by_value, memory, breakers, counters, .. } = &self.template;
        let limits = &component.limits;
        let losses = backend.losses();
        let cpu_timer = Arc::new(CpuTimer::new(counters.clone()));
        let mut store = GuestState::store(
            runtime.engine(),
            KeyValue::new(backend.clone(), component.grants.clone(), counters.clone()),
            component.variables.clone(),
            outbound_hooks.clone(),
            guest_log.output(),
            GuestBounds { limits, memory },
            cpu_timer.clone(),
        );
        // A component may run code before its first request, and this code may not end.
        let made = {
            let mut instantiated = pin!(instantiate(pre, *by_value, &mut store));
            let timed = poll_fn(|cx| cpu_timer.measure(|| instantiated.as_mut().poll(cx)));
            tokio::time::timeout(limits.request.request_timeout, timed).await
        };
        let (proxy, by_value) = made.map_err(wasmtime::Error::from).flatten().inspect_err(|error| {
            counters.failed_instantiations.add(1);
            // A full pool of wasmtime or a lack of the host's memory is not a failure of the component.
            let is_of_component = error.is::<Trap>() || error.is::<OutOfCpuTime>() || error.is::<Elapsed>();
            if is_of_component && breakers.record_failure(None) {
                counters.breaker_trips.add(1);
            }
        })?;
        counters.instantiations.add(1);
        Ok(Instance { store, proxy, by_value, cpu_timer, served: 0, losses })
    }

    /// Starts a task that ends instances that were idle for too long, until none is left. The task does not keep the
    /// pool alive.
    fn spawn_reaper(self: &Arc<Self>) {
        let pool = Arc::downgrade(self);
        tokio::spawn(async move {
            while let Some(next) = pool.upgrade().and_then(|pool| pool.end_idle(Instant::now())) {
                tokio::time::sleep_until(next.into()).await;
            }
        });
    }

    /// Ends the instances that were idle for too long. Returns the time of the next call, or `None` if no instance is
    /// idle.
    fn end_idle(&self, now: Instant) -> Option<Instant> {
        let timeout = self.template.component.limits.idle_timeout;
        let mut state = self.state();
        let expired = state.instances.partition_point(|(_, since)| *since + timeout <= now);
        let ended: Vec<_> = state.instances.drain(..expired).collect();
        let next = state.instances.front().map(|(_, since)| *since + timeout);
        state.has_reaper = next.is_some();
        drop(state);
        for ended in ended {
            drop(ended);
            self.template.counters.record_close(InstanceCloseReason::Idle);
        }
        next
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn instantiate(
    pre: &ProxyPre<Guest>,
    by_value: Option<ByValueExport>,
    store: &mut Store<Guest>,
) -> wasmtime::Result<(Proxy, Option<ByValueHandler>)> {
    let (ProxyPre::P3(pre), Some(by_value)) = (pre, by_value) else {
        return Ok((pre.instantiate_async(store).await?, None));
    };
    let instance = pre.instance_pre().instantiate_async(&mut *store).await?;
    let proxy = Service::new(&mut *store, &instance)?;
    Ok((Proxy::P3(proxy), Some(by_value.of_instance(store, &instance)?)))
}

impl IdleInstances for InstancePool {
    fn idle_since(&self) -> Option<Instant> {
        self.state().instances.front().map(|(_, since)| *since)
    }

    fn bytes(&self) -> u64 {
        let bytes = |instance: &Instance| instance.store.data().state().limiter().used() as u64;
        self.state().instances.iter().map(|(instance, _)| bytes(instance)).sum()
    }

    fn evict(&self) -> bool {
        let evicted = self.state().instances.pop_front();
        let is_evicted = evicted.is_some();
        if is_evicted {
            self.template.counters.record_close(InstanceCloseReason::Evicted);
        }
        is_evicted
    }
}
