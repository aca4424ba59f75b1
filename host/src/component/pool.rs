//! The instances of one generation on one shard: made when they are needed, kept while they are,
//! each with one request at a time.
//!
//! What a guest does to itself (trap, loop, run out of memory) it does to one request. The instance
//! that was used last is used next, because it is the one whose memory the processor still has.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use wasmtime::component::Func;
use wasmtime::{Store, Trap};
use wasmtime_wasi_http::handler::{Proxy, ProxyPre};

use super::breaker::Breakers;
use crate::guest::{Guest, Outward, Printer};
use crate::imports::keyvalue::KeyValue;
use crate::log_throttle::LogThrottle;
use crate::manifest::Component;
use crate::metrics::{Busy, Counters};
use crate::runtime::Runtime;
use crate::store::Backend;
use crate::trace::Trace;

/// How long an instance without work is kept. It saves a busy component the instantiation, and
/// gives back the memory of one that fell quiet.
const IDLE: Duration = Duration::from_secs(10);

/// Requests per instance, unless the manifest says otherwise: what a guest leaks is bounded by its
/// memory, and making an instance costs as much as some ten requests. Guests of the 0.2 interface
/// are written for an instance of their own, which is what every host gives them.
const REUSE: usize = 1000;
const REUSE_0_2: usize = 1;

/// Failures logged of one component on one shard: a guest that traps at every request must not
/// flood the log.
const FAILURES_PER_SECOND: u32 = 5;

/// One instance, between two requests or with one.
pub struct Instance {
    pub store: Store<Guest>,
    pub proxy: Proxy,
    pub busy: Arc<Busy>,
    /// Requests that it was given.
    served: usize,
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

/// What every instance of a generation on a shard is made of.
pub struct Origin {
    pub runtime: Arc<Runtime>,
    pub pre: Arc<ProxyPre<Guest>>,
    pub component: Arc<Component>,
    pub printer: Arc<Printer>,
    pub backend: Arc<dyn Backend>,
    pub outward: Outward,
    pub breakers: Arc<Breakers>,
    pub counters: Arc<Counters>,
}

/// The instances of one generation on one shard.
pub struct Pool {
    pub(super) origin: Origin,
    /// Bounds the failures that are logged.
    pub(super) failures: LogThrottle,
    reuse: usize,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    /// Those with nothing to do, and since when. The last one came last.
    instances: VecDeque<(Instance, Instant)>,
    /// The generation serves no requests: no instance is kept, so that a host that swaps often does not run
    /// out of memory and of slots in wasmtime's pool.
    retired: bool,
    /// A task ends the instances that have been idle for too long.
    watched: bool,
}

impl Pool {
    pub fn new(origin: Origin) -> Self {
        let reuse = origin.component.limits.reuse.unwrap_or(match *origin.pre {
            ProxyPre::P2(_) => REUSE_0_2,
            ProxyPre::P3(_) => REUSE,
        });
        let failures = LogThrottle::new(FAILURES_PER_SECOND, 2 * FAILURES_PER_SECOND);
        Self { origin, failures, reuse, idle: Mutex::default() }
    }

    /// An instance for one request.
    pub async fn take(&self, trace: Option<&Arc<Trace>>) -> wasmtime::Result<Instance> {
        let idle = self.idle().instances.pop_back();
        let mut instance = match idle {
            Some((instance, _)) => instance,
            None => {
                let _span = trace.and_then(|trace| trace.instantiation());
                self.instantiate().await?
            }
        };
        instance.served += 1;
        Ok(instance)
    }

    /// Keeps an instance for the next request, unless its time has come.
    pub fn give_back(self: &Arc<Self>, instance: Instance) {
        if instance.served >= self.reuse {
            return;
        }
        let mut idle = self.idle();
        if idle.retired {
            // Dropping an instance takes too long to do it under this lock.
            drop(idle);
            return drop(instance);
        }
        idle.instances.push_back((instance, Instant::now()));
        if !std::mem::replace(&mut idle.watched, true) {
            drop(idle);
            self.watch();
        }
    }

    /// Ends the idle instances now, and the busy ones as soon as they are idle.
    pub fn retire(&self) {
        let mut idle = self.idle();
        idle.retired = true;
        let instances = std::mem::take(&mut idle.instances);
        drop(idle);
        drop(instances);
    }

    /// Keeps instances again after [`retire`](Self::retire).
    pub fn revive(&self) {
        self.idle().retired = false;
    }

    async fn instantiate(&self) -> wasmtime::Result<Instance> {
        let Origin { runtime, pre, component, printer, backend, outward, breakers, counters } = &self.origin;
        let limits = &component.limits;
        let busy = Arc::new(Busy::new(counters.clone()));
        let mut store = Guest::store(
            runtime.engine(),
            KeyValue::new(backend.clone(), component.grants.clone(), counters.clone()),
            component.variables.clone(),
            outward.clone(),
            printer.log(),
            limits,
            busy.clone(),
        );
        // A component may run code before its first request, also without end.
        let instantiated = pre.instantiate_async(&mut store);
        let made = tokio::time::timeout(limits.request_timeout, instantiated).await;
        let proxy = made.map_err(wasmtime::Error::from).flatten().inspect_err(|error| {
            counters.unmade.add(1);
            // A full pool is not the component's failure.
            if error.is::<Trap>() && breakers.record_failure(None) {
                counters.tripped.add(1);
            }
        })?;
        counters.instantiations.add(1);
        Ok(Instance { store, proxy, busy, served: 0 })
    }

    /// Ends what is idle for too long, until nothing is left. It does not keep the pool alive.
    fn watch(self: &Arc<Self>) {
        let pool = Arc::downgrade(self);
        tokio::spawn(async move {
            while let Some(next) = pool.upgrade().and_then(|pool| pool.end_idle(Instant::now())) {
                tokio::time::sleep_until(next.into()).await;
            }
        });
    }

    /// Returns when to come again, or `None` if nothing is left.
    fn end_idle(&self, now: Instant) -> Option<Instant> {
        let mut idle = self.idle();
        let old = idle.instances.partition_point(|(_, since)| *since + IDLE <= now);
        let ended: Vec<_> = idle.instances.drain(..old).collect();
        let next = idle.instances.front().map(|(_, since)| *since + IDLE);
        idle.watched = next.is_some();
        drop(idle);
        drop(ended);
        next
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
