//! One request in one instance.
//!
//! A run is a future, and whoever wants the answer polls it: as a rule a guest reads the store,
//! computes and answers without ever waiting, and then a request is answered in one poll of its
//! connection, without a task, a queue or a timer of its own. A run that has more to do when the
//! head of its response goes out, or whose client is gone, becomes a task.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use futures::channel::oneshot;
use http::{Request, Response};
use tokio::time::Sleep;
use wasmtime::AsContextMut;
use wasmtime_wasi_http::handler::Prepared;
use wasmtime_wasi_http::{WasiBody, WasiHttpView};

use super::lease::Lease;
use super::pool::{Instance, Pool};
use crate::guest::Guest;
use crate::metrics::{Busy, Ended, Failure};
use crate::request_context::Exchange;

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum Unanswered {
    #[error("no instance could be made: {0:#}")]
    NoInstance(wasmtime::Error),
    /// Why is in the log.
    #[error("the instance ended before it answered")]
    Ended,
    #[error("{0:#}")]
    Refused(wasmtime::Error),
}

/// A request on its way through an instance. Dropping it does not end it.
pub struct Run {
    guest: Option<Driven>,
    head: oneshot::Receiver<wasmtime::Result<Response<WasiBody>>>,
    unmade: oneshot::Receiver<wasmtime::Error>,
    exchange: Arc<Exchange>,
    answered: bool,
}

/// The guest's part, and its clock.
struct Driven {
    guest: Pin<Box<dyn Future<Output = ()> + Send>>,
    exchange: Arc<Exchange>,
    /// A timer only once somebody has to wait.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Run {
    /// Nothing happens before the first poll.
    pub fn new(pool: Arc<Pool>, exchange: Arc<Exchange>, lease: Arc<Lease>, request: Request<WasiBody>) -> Self {
        let (answers, head) = oneshot::channel();
        let (fails, unmade) = oneshot::channel();
        let guest = Box::pin(guest(pool, exchange.clone(), lease, request, answers, fails));
        let driven = Driven { guest, exchange: exchange.clone(), alarm: None };
        Self { guest: Some(driven), head, unmade, exchange, answered: false }
    }

    /// The head of the response. It is to be asked for once.
    pub fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response<WasiBody>, Unanswered>> {
        self.go_on(cx);
        // Only a run sends, and this one was polled just now.
        let mut heard = self.head.try_recv();
        if let Ok(None) = heard {
            // It waits, so its time matters; without that, no request sets a timer.
            if self.guest.as_mut().is_some_and(|guest| guest.poll_clock(cx).is_ready()) {
                self.go_on(cx);
            }
            heard = self.head.try_recv();
        }
        Poll::Ready(match heard {
            Ok(None) => return Poll::Pending,
            Ok(Some(Ok(response))) => Ok(response),
            Ok(Some(Err(error))) => Err(Unanswered::Refused(error)),
            Err(oneshot::Canceled) => Err(match self.unmade.try_recv() {
                Ok(Some(error)) => Unanswered::NoInstance(error),
                _ => Unanswered::Ended,
            }),
        })
    }

    /// Lets the guest go on, and ends it if its time is over.
    pub fn drive(&mut self, cx: &mut Context<'_>) {
        if let Some(guest) = &mut self.guest
            && Pin::new(guest).poll(cx).is_ready()
        {
            self.guest = None;
        }
    }

    /// Returns once the guest has nothing more to do.
    pub async fn over(&mut self) {
        poll_fn(|cx| {
            self.drive(cx);
            if self.guest.is_some() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await
    }

    /// The response goes to the client, and somebody will say when it has ended.
    pub fn answered(&mut self) {
        self.answered = true;
    }

    /// Lets the guest do what it can without waiting. To be used only by who waits for nothing
    /// either: nobody is woken when it can go on.
    pub fn nudge(&mut self) {
        self.go_on(&mut Context::from_waker(Waker::noop()));
    }

    /// Lets the guest go on, whatever the time is.
    fn go_on(&mut self, cx: &mut Context<'_>) {
        if let Some(guest) = &mut self.guest
            && guest.guest.as_mut().poll(cx).is_ready()
        {
            self.guest = None;
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.answered {
            self.exchange.ended();
        }
        // Outside of a runtime the host has stopped, and after a panic of its own there is no going on.
        if let Some(guest) = self.guest.take()
            && !std::thread::panicking()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(guest);
        }
    }
}

impl Driven {
    /// Ready, once, when the guest is to be polled because its time is over. One that is still being
    /// made then ends by a clock of its own.
    fn poll_clock(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.exchange.is_expired() {
            // The exchange moves its deadline as it goes on.
            let at = self.exchange.expires_at();
            let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at.into())));
            if alarm.deadline() != at.into() {
                alarm.as_mut().reset(at.into());
            }
            ready!(alarm.as_mut().poll(cx));
            if self.exchange.expires_at() <= Instant::now() {
                self.exchange.expire();
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }
}

impl Future for Driven {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.guest.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            ready!(self.poll_clock(cx));
        }
    }
}

/// Takes the request through an instance, and sees to what becomes of the instance.
async fn guest(
    pool: Arc<Pool>,
    exchange: Arc<Exchange>,
    lease: Arc<Lease>,
    request: Request<WasiBody>,
    head: oneshot::Sender<wasmtime::Result<Response<WasiBody>>>,
    unmade: oneshot::Sender<wasmtime::Error>,
) {
    let instance = match pool.take(exchange.trace()).await {
        Ok(instance) => instance,
        Err(error) => {
            let _ = unmade.send(error);
            return;
        }
    };
    let mut occupied = Occupied { instance: Some(instance), pool, exchange, lease };
    let Occupied { instance: Some(instance), exchange, .. } = &mut occupied else {
        return;
    };
    instance.busy.begin_request();
    instance.store.data_mut().enter(exchange);
    let ended = serve(instance, exchange, request, head).await;
    occupied.end(ended);
}

/// Returns whether the instance can take another request.
async fn serve(
    instance: &mut Instance,
    exchange: &Exchange,
    request: Request<WasiBody>,
    head: oneshot::Sender<wasmtime::Result<Response<WasiBody>>>,
) -> wasmtime::Result<bool> {
    let handler = instance.handler();
    let Instance { store, proxy, busy, .. } = instance;
    let run = pin!(store.run_concurrent(async |accessor| {
        let prepared =
            accessor.with(|mut store| Prepared::new(store.as_context_mut(), proxy, request, Guest::http, head))?;
        // The clock is looked at from outside: in here, nothing runs while the guest computes.
        prepared.run(accessor, std::future::pending()).await?;
        // An instance is not free before its response is: what is on its way may still need it.
        poll_fn(|cx| {
            ready!(accessor.poll_no_interesting_tasks(cx));
            exchange.poll_ended(cx)
        })
        .await;
        let mut cx = Context::from_waker(Waker::noop());
        wasmtime::error::Ok(accessor.poll_ready_for_concurrent_call(handler, &mut cx).is_ready())
    }));
    Timed { run, exchange, busy }.await.flatten()
}

/// A guest at work, measured, until its exchange expires.
struct Timed<'a, R> {
    run: Pin<&'a mut R>,
    exchange: &'a Exchange,
    busy: &'a Busy,
}

impl<T, R: Future<Output = wasmtime::Result<T>>> Future for Timed<'_, R> {
    type Output = wasmtime::Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<wasmtime::Result<T>> {
        if self.exchange.is_expired() {
            return Poll::Ready(Err(Ended::TimedOut.into()));
        }
        self.busy.begin();
        // A fault of the host costs the request and its instance, and not the connection. Neither is
        // used again.
        let polled = catch_unwind(AssertUnwindSafe(|| self.run.as_mut().poll(cx)));
        self.busy.end();
        polled.unwrap_or_else(|_| Poll::Ready(Err(Ended::Panicked.into())))
    }
}

/// An instance with a request. Whatever ends it is seen and counted.
struct Occupied {
    instance: Option<Instance>,
    pool: Arc<Pool>,
    exchange: Arc<Exchange>,
    lease: Arc<Lease>,
}

impl Occupied {
    fn end(mut self, ended: wasmtime::Result<bool>) {
        match (ended, self.instance.take()) {
            (Ok(true), Some(instance)) => self.pool.give_back(instance),
            (Ok(false), instance) => drop(instance),
            (Err(error), Some(instance)) => self.failed(instance, &error),
            (_, None) => {}
        }
    }

    fn failed(&self, instance: Instance, error: &wasmtime::Error) {
        let Self { pool, exchange, lease, .. } = self;
        let failure = Failure::of(error);
        let counters = &pool.origin.counters;
        counters.failed(failure);
        // Before the store goes: its end is what the response's body sees.
        exchange.broke(failure);
        match failure {
            // Whose fault that is, nobody knows: clients and other services are slow as well.
            Failure::TimedOut | Failure::Cancelled | Failure::Panicked => {}
            _ if pool.origin.breakers.failed(Some(exchange.path())) => counters.tripped.add(1),
            _ => {}
        }
        if let Some(trace) = exchange.trace() {
            trace.failed(failure.name());
        }
        let component = &pool.origin.component.id;
        match failure {
            // The host stops and has no more time. Its shard says so.
            Failure::Cancelled => {}
            Failure::Panicked => tracing::error!(component, "the host panicked; this is a fault of its own"),
            _ => {
                if let Some(suppressed) = pool.failures.pass() {
                    let memory_denied = instance.store.data().limiter().denied();
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
        drop(instance);
        // The response may still wait for a client that does not read it.
        lease.instance_ended();
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        if let Some(instance) = self.instance.take() {
            self.failed(instance, &Ended::Dropped.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Limits;

    async fn timed<T>(exchange: &Exchange, run: impl Future<Output = wasmtime::Result<T>>) -> wasmtime::Result<T> {
        Timed { run: pin!(run), exchange, busy: &Busy::default() }.await
    }

    #[tokio::test]
    async fn a_panic_of_the_host_ends_the_run_and_nothing_else() {
        let exchange = Exchange::new(&Limits::default(), "/".parse().unwrap(), None);
        let panics = async { panic!("on purpose") };
        let error = timed::<()>(&exchange, panics).await.unwrap_err();
        assert_eq!(Failure::of(&error), Failure::Panicked);
    }

    #[tokio::test]
    async fn a_run_that_expired_goes_no_further() {
        let exchange = Exchange::new(&Limits::default(), "/".parse().unwrap(), None);
        assert_eq!(timed(&exchange, async { Ok(1) }).await.unwrap(), 1);
        exchange.expire();
        let error = timed(&exchange, async { Ok(1) }).await.unwrap_err();
        assert_eq!(Failure::of(&error), Failure::TimedOut);
    }
}
