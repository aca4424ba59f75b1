//! Instances and their workers, as wasmtime's `ProxyHandler` drives them.
//!
//! An instance serves one request at a time, and "at a time" includes the response's body: what
//! a guest does to itself (trap, loop, run out of memory) it does to one request. A worker
//! therefore refuses its next request while the lease of the current one lives, and is woken
//! when that ends.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::task::AtomicWaker;
use tokio::time::Sleep;
use wasmtime::component::GuestTaskId;
use wasmtime::{Store, StoreContextMut, Trap};
use wasmtime_wasi_http::WasiHttpView;
use wasmtime_wasi_http::handler::{
    HandlerState, Instance, ProxyPre, ShouldAccept, WorkerExpiration, WorkerState, WorkerStatus,
};

use super::breaker::Breakers;
use super::rest::Rest;
use crate::exchange::{Exchange, Lease};
use crate::guest::{Guest, Outward, Printer};
use crate::keyvalue::KeyValue;
use crate::manifest::Component;
use crate::metrics::{Busy, Counters, Failure};
use crate::runtime::Runtime;
use crate::store::Backend;
use crate::throttle::Throttle;

/// How long an instance without work is kept. It saves a busy component the instantiation, and
/// gives back the memory of one that fell quiet.
const IDLE: Duration = Duration::from_secs(10);

/// Requests per instance, unless the manifest says otherwise. Guests of the 0.2 interface are
/// written for an instance of their own, which is what every host gives them.
const REUSE: usize = 128;
const REUSE_0_2: usize = 1;

/// Failures logged of one component on one shard: a guest that traps at every request must not
/// flood the log.
const FAILURES_PER_SECOND: u32 = 5;

/// Makes the instances of one generation on one shard.
pub struct Instances {
    pub runtime: Arc<Runtime>,
    pub pre: Arc<ProxyPre<Guest>>,
    pub component: Arc<Component>,
    pub printer: Arc<Printer>,
    pub backend: Arc<dyn Backend>,
    pub outward: Outward,
    pub failures: Arc<Throttle>,
    pub breakers: Arc<Breakers>,
    pub rest: Arc<Rest>,
    pub counters: Arc<Counters>,
}

/// The failures of one component on one shard that are logged.
pub fn failures() -> Arc<Throttle> {
    Arc::new(Throttle::new(FAILURES_PER_SECOND, 2 * FAILURES_PER_SECOND))
}

impl HandlerState for Instances {
    type StoreData = Guest;
    type WorkerExpiration = Expiration;
    type WorkerState = Worker;

    async fn instantiate(&self) -> wasmtime::Result<Instance<Guest, Expiration, Worker>> {
        let limits = &self.component.limits;
        let current = Arc::new(Current::new(self.counters.clone()));
        let mut store = Guest::store(
            self.runtime.engine(),
            KeyValue::new(self.backend.clone(), self.component.grants.clone(), current.busy.clone()),
            self.component.variables.clone(),
            self.outward.clone(),
            self.printer.log(),
            limits,
            current.busy.clone(),
        );
        // A component may run code before its first request, also without end.
        let instantiated = self.pre.instantiate_async(&mut store);
        let made = tokio::time::timeout(limits.request_timeout, instantiated).await;
        let proxy = made.map_err(wasmtime::Error::from).flatten().inspect_err(|error| {
            self.counters.unmade.add(1);
            // A pool without a place is not the component's failure.
            if error.is::<Trap>() && self.breakers.failed(None) {
                self.counters.tripped.add(1);
            }
        })?;
        self.counters.instantiations.add(1);
        self.rest.enter(&current.waker);
        Ok(Instance {
            store,
            proxy,
            view: Guest::http,
            expiration: Expiration {
                current: current.clone(),
                after_response: limits.request_timeout,
                rest: self.rest.clone(),
                sleep: Box::pin(tokio::time::sleep(IDLE)),
            },
            state: Worker {
                current,
                component: self.component.clone(),
                reuse: limits.reuse.unwrap_or(match *self.pre {
                    ProxyPre::P2(_) => REUSE_0_2,
                    ProxyPre::P3(_) => REUSE,
                }),
                failures: self.failures.clone(),
                breakers: self.breakers.clone(),
                counters: self.counters.clone(),
            },
        })
    }
}

/// What a worker is doing.
struct Current {
    request: Mutex<Option<(Arc<Exchange>, Weak<Lease>)>>,
    waker: Arc<AtomicWaker>,
    busy: Arc<Busy>,
}

impl Current {
    fn new(counters: Arc<Counters>) -> Self {
        Self { request: Mutex::default(), waker: Arc::default(), busy: Arc::new(Busy::new(counters)) }
    }

    fn enter(&self, exchange: Arc<Exchange>, lease: &Arc<Lease>) {
        lease.taken_by(self.waker.clone());
        *self.lock() = Some((exchange, Arc::downgrade(lease)));
    }

    fn exchange(&self) -> Option<Arc<Exchange>> {
        self.lock().as_ref().map(|(exchange, _)| exchange.clone())
    }

    fn lease(&self) -> Option<Arc<Lease>> {
        self.lock().as_ref().and_then(|(_, lease)| lease.upgrade())
    }

    fn is_leased(&self) -> bool {
        self.lock().as_ref().is_some_and(|(_, lease)| lease.strong_count() > 0)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Arc<Exchange>, Weak<Lease>)>> {
        self.request.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decides which requests an instance takes.
pub struct Worker {
    current: Arc<Current>,
    component: Arc<Component>,
    reuse: usize,
    failures: Arc<Throttle>,
    breakers: Arc<Breakers>,
    counters: Arc<Counters>,
}

impl WorkerState for Worker {
    type StoreData = Guest;
    type RequestData = (Arc<Exchange>, Arc<Lease>);

    fn should_accept_request(&self, concurrent_count: usize, total_count: usize) -> ShouldAccept {
        if total_count >= self.reuse {
            ShouldAccept::Never
        } else if concurrent_count > 0 || self.current.is_leased() {
            ShouldAccept::No
        } else {
            ShouldAccept::Yes
        }
    }

    fn on_request_start(
        &self,
        mut store: StoreContextMut<'_, Guest>,
        (exchange, lease): Self::RequestData,
        _task: GuestTaskId,
    ) -> Pin<Box<dyn Future<Output = ()> + 'static + Send + Sync>> {
        self.current.busy.begin_request();
        store.data_mut().enter(&exchange);
        self.current.enter(exchange.clone(), &lease);
        Box::pin(async move {
            exchange.expired().await;
            drop(lease);
        })
    }

    fn drop(&self, store: Store<Guest>, result: Result<(), wasmtime::Error>) {
        self.current.busy.end();
        if let Err(error) = result {
            let failure = Failure::of(&error);
            self.counters.failed(failure);
            // Before the store goes: its end is what the response's body sees.
            if let Some(exchange) = self.current.exchange() {
                exchange.broke(failure);
                match failure {
                    // Whose fault that is, nobody knows: clients and other services are slow as well.
                    Failure::TimedOut | Failure::Cancelled | Failure::Panicked => {}
                    _ if self.breakers.failed(Some(exchange.path())) => self.counters.tripped.add(1),
                    _ => {}
                }
                if let Some(trace) = exchange.trace() {
                    trace.failed(failure.name());
                }
            }
            let component = &self.component.id;
            match failure {
                // The host stops and has no more time. Its shard says so, and an idle instance is no loss.
                Failure::Cancelled => {}
                Failure::Panicked => tracing::error!(component, "the host panicked; this is a fault of its own"),
                _ => {
                    if let Some(suppressed) = self.failures.pass() {
                        let memory_denied = store.data().limiter().denied();
                        let error = format!("{error:#}");
                        tracing::warn!(
                            component,
                            error,
                            memory_denied,
                            suppressed,
                            "the component failed; its instance ends"
                        );
                    }
                }
            }
        }
        drop(store);
        if let Some(lease) = self.current.lease() {
            lease.instance_ended();
        }
    }
}

/// Ends an instance: one whose time is over, and one that has been idle, or is and is not needed.
///
/// It is polled even while the guest computes without end or a call of the host holds the store,
/// when the deadline inside the store is not.
pub struct Expiration {
    current: Arc<Current>,
    after_response: Duration,
    rest: Arc<Rest>,
    sleep: Pin<Box<Sleep>>,
}

impl WorkerExpiration for Expiration {
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>, status: WorkerStatus, start: Instant) -> Poll<()> {
        // The guest has been polled just before.
        self.current.busy.end();
        self.current.waker.register(cx.waker());
        if status == WorkerStatus::Idle && self.rest.is_resting() {
            return Poll::Ready(());
        }
        loop {
            let expires_at = match (status, self.current.exchange()) {
                (WorkerStatus::Idle, _) => start + IDLE,
                (_, Some(exchange)) => exchange.expires_at(),
                (_, None) => start + self.after_response,
            };
            if self.sleep.deadline() != expires_at.into() {
                self.sleep.as_mut().reset(expires_at.into());
            }
            match self.sleep.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                // The exchange may have moved its deadline since.
                Poll::Ready(())
                    if status != WorkerStatus::Idle
                        && self.current.exchange().is_some_and(|e| e.expires_at() > Instant::now()) => {}
                Poll::Ready(()) => return Poll::Ready(()),
            }
        }
    }
}
