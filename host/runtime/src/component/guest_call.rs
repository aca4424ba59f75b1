//! A guest call: one request in one instance.
//!
//! A guest call is a future that its connection polls (decision 0016). Usually a guest reads the store, computes and
//! responds without waiting. Then one poll of the connection completes the request, without a task, a queue or a timer.
//! If the guest has more to do when the head of its response goes out, the call becomes a task. If the client has gone,
//! the host ends the call and frees its permit.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use futures::channel::oneshot;
use hexad_limits::instance_permit::InstancePermit;
use hexad_telemetry::metrics::{InstanceEnd, InstanceFailure};
use http::{Request, Response};
use tokio::time::Sleep;
use tokio_util::task::TaskTracker;
use wasmtime::AsContextMut;
use wasmtime_wasi_http::handler::{Prepared, Proxy};
use wasmtime_wasi_http::{WasiBody, WasiHttpView};

use super::by_value::{self, Passed};
use super::lease::Lease;
use super::pool::{Instance, InstancePool};
use super::timed_run::TimedRun;
use super::unfinished_bodies;
use crate::guest::{Guest, HasGuestState as _};
use crate::request_context::RequestContext;

/// Why a guest call has no response.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("no instance could be made: {0:#}")]
    NoInstance(wasmtime::Error),
    /// The cause is in the log.
    #[error("the instance ended before it responded")]
    Ended,
    #[error("{0:#}")]
    /// The guest returned an error, or the host cannot send its response.
    Refused(wasmtime::Error),
}

/// A request in an instance. Dropping it before a response ends the guest and its instance, because the client has
/// gone. Dropping it after a response makes the guest a task.
pub struct GuestCall {
    task: Option<GuestTask>,
    head: oneshot::Receiver<wasmtime::Result<Response<WasiBody>>>,
    context: Arc<RequestContext>,
    /// The shard's tasks. A stopping host waits for them.
    tasks: TaskTracker,
    /// The response's body reports the end of the response.
    response_sent: bool,
    /// The host responds in place of the guest.
    refused: bool,
}

/// The guest's future, and its clock.
struct GuestTask {
    guest: Pin<Box<dyn Future<Output = ()> + Send>>,
    context: Arc<RequestContext>,
    /// Set once the guest has to wait.
    timer: Option<Pin<Box<Sleep>>>,
}

impl GuestCall {
    /// The guest starts at the first poll. If it becomes a task, it is added to `tasks`.
    pub fn new(
        pool: Arc<InstancePool>,
        context: Arc<RequestContext>,
        lease: Arc<Lease>,
        request: Request<WasiBody>,
        tasks: TaskTracker,
    ) -> Self {
        let (send_head, head) = oneshot::channel();
        let guest = Box::pin(run_guest(pool, context.clone(), lease, request, send_head));
        let task = GuestTask { guest, context: context.clone(), timer: None };
        let (response_sent, refused) = (false, false);
        Self { task: Some(task), head, context, tasks, response_sent, refused }
    }

    /// Polls for the head of the response. It must not be polled again once it is ready.
    pub fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response<WasiBody>, CallError>> {
        self.poll_guest(cx);
        // The guest is the only sender, and was polled just now.
        let mut received = self.head.try_recv();
        if let Ok(None) = received {
            // The guest waits, so its call needs a timer.
            if self.task.as_mut().is_some_and(|task| task.poll_clock(cx).is_ready()) {
                self.poll_guest(cx);
            }
            received = self.head.try_recv();
        }
        Poll::Ready(match received {
            Ok(None) => return Poll::Pending,
            Ok(Some(Ok(response))) => Ok(response),
            Ok(Some(Err(error))) => Err(error.downcast().unwrap_or_else(CallError::Refused)),
            Err(oneshot::Canceled) => Err(CallError::Ended),
        })
    }

    /// Polls the guest and its clock.
    fn poll_task(&mut self, cx: &mut Context<'_>) {
        if let Some(task) = &mut self.task
            && Pin::new(task).poll(cx).is_ready()
        {
            self.task = None;
        }
    }

    pub async fn wait_until_done(&mut self) {
        poll_fn(|cx| {
            self.poll_task(cx);
            if self.task.is_some() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await
    }

    /// Records that the response's body reports the end of the response to the request's context.
    pub fn mark_response_sent(&mut self) {
        self.response_sent = true;
    }

    /// Records that the host responds in place of the guest, which may still finish.
    pub fn mark_refused(&mut self) {
        self.refused = true;
    }

    /// Records that the guest has failed and the host responds in its place. A guest with no work left keeps its
    /// instance. Otherwise, dropping the call ends it.
    pub fn fail(&mut self) {
        self.context.end_response();
        self.poll_once();
    }

    /// Polls the guest once, without a waker. A caller that has to wait must poll again with one.
    pub fn poll_once(&mut self) {
        self.poll_guest(&mut noop());
    }

    /// Polls the guest without its clock.
    fn poll_guest(&mut self, cx: &mut Context<'_>) {
        if let Some(task) = &mut self.task
            && task.guest.as_mut().poll(cx).is_ready()
        {
            self.task = None;
        }
    }
}

impl Drop for GuestCall {
    fn drop(&mut self) {
        if !self.response_sent {
            self.context.end_response();
        }
        if !self.response_sent && !self.refused {
            self.context.abandon();
        }
        // Without a runtime, the host has stopped. After a panic of the host, the guest must not be polled again.
        if let Some(task) = self.task.take()
            && !self.context.is_abandoned()
            && !std::thread::panicking()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            self.tasks.spawn_on(task, &runtime);
        }
    }
}

impl GuestTask {
    /// Ready once, when the guest's time is over. The caller must then poll the guest, which ends it. Instantiation has
    /// a time-out of its own.
    fn poll_clock(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.context.is_expired() {
            if self.context.poll_abandoned(cx).is_ready() {
                self.context.expire();
                return Poll::Ready(());
            }
            // The deadline moves as the request progresses.
            let at = self.context.expires_at();
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at.into())));
            if timer.deadline() != at.into() {
                timer.as_mut().reset(at.into());
            }
            ready!(timer.as_mut().poll(cx));
            if self.context.expires_at() <= Instant::now() {
                self.context.expire();
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }
}

impl Future for GuestTask {
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

/// Serves the request in an instance, and gives the instance back or ends it.
async fn run_guest(
    pool: Arc<InstancePool>,
    context: Arc<RequestContext>,
    lease: Arc<Lease>,
    request: Request<WasiBody>,
    head: oneshot::Sender<wasmtime::Result<Response<WasiBody>>>,
) {
    let instance = match pool.take(&context).await {
        Ok(instance) => instance,
        Err(error) => {
            let _ = head.send(Err(CallError::NoInstance(error).into()));
            return;
        }
    };
    let mut in_use = InUse { instance: Some(instance), pool, context, lease };
    let InUse { instance: Some(instance), context, lease, .. } = &mut in_use else {
        return;
    };
    if !instance.store.data_mut().state_mut().enter(context, lease.permit()) {
        return in_use.refuse();
    }
    // Epoch ticks while the instance was idle do not count for this request. Otherwise the guest would yield at its
    // first instruction.
    instance.store.set_epoch_deadline(1);
    let ended = serve(instance, context, lease.permit(), request, head).await;
    in_use.end(ended);
}

/// Serves the request. Returns whether the instance can take another one. It cannot if the guest keeps an unread body
/// of its client or of another server, because the body holds budgets and permits that others need.
async fn serve(
    instance: &mut Instance,
    context: &RequestContext,
    permit: &InstancePermit,
    request: Request<WasiBody>,
    head: oneshot::Sender<wasmtime::Result<Response<WasiBody>>>,
) -> wasmtime::Result<bool> {
    let handler = instance.handler();
    let Instance { store, proxy, by_value, cpu_timer, .. } = instance;
    let run = pin!(store.run_concurrent(async |accessor| {
        match by_value::pass(*by_value, request, context) {
            Passed::ByValue(handler, request) => {
                let _ = head.send(handler.call(accessor, request).await?);
            }
            Passed::AsStream(request) => {
                let prepared = accessor
                    .with(|mut store| Prepared::new(store.as_context_mut(), proxy, request, Guest::http, head))?;
                // `TimedRun` checks the clock: this future does not run while the guest computes.
                prepared.run(accessor, std::future::pending()).await?;
                let has_left_bodies = |guest: &mut Guest| unfinished_bodies::abort(guest.http().table);
                if matches!(proxy, Proxy::P2(_)) && accessor.with(|mut store| has_left_bodies(store.data_mut())) {
                    return Ok(false);
                }
            }
        }
        // The guest may write the body until the response has ended.
        poll_fn(|cx| {
            // Polled first: the end of the response wakes the guest's task, whose deadline moves.
            let response_ended = context.poll_response_ended(cx);
            ready!(accessor.poll_no_interesting_tasks(cx));
            response_ended
        })
        .await;
        let is_ready = accessor.poll_ready_for_concurrent_call(handler, &mut noop()).is_ready();
        let has_unread_body = context.has_open_body.load(Ordering::Relaxed) || permit.has_outbound();
        wasmtime::error::Ok(is_ready && !has_unread_body)
    }));
    TimedRun { run, context, cpu_timer }.await.flatten()
}

/// A context without a waker.
fn noop() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// An instance that serves a request. Its failure is logged and counted, whatever the cause.
struct InUse {
    instance: Option<Instance>,
    pool: Arc<InstancePool>,
    context: Arc<RequestContext>,
    lease: Arc<Lease>,
}

impl InUse {
    /// Refuses the request, because its client has its share of the memory. Other requests get the instance.
    fn refuse(self) {
        let failure = InstanceFailure::HostMemory;
        self.pool.template.counters.record_failure(failure);
        self.context.mark_failed(failure);
        if let Some(trace) = self.context.trace() {
            trace.record_failure(failure.name());
        }
        self.end(Ok(true));
    }

    fn end(mut self, ended: wasmtime::Result<bool>) {
        match (ended, self.instance.take()) {
            (Ok(true), Some(mut instance)) => {
                instance.store.data_mut().state_mut().leave();
                self.pool.give_back(instance, &self.context);
            }
            (Ok(false), instance) => drop(instance),
            (Err(error), Some(instance)) => self.failed(instance, &error),
            (_, None) => {}
        }
    }

    fn failed(&self, instance: Instance, error: &wasmtime::Error) {
        let Self { pool, context, lease, .. } = self;
        let failure = match instance.store.data().state().limiter().lacked_host_memory() {
            true => InstanceFailure::HostMemory,
            false => InstanceFailure::from_error(error),
        };
        let counters = &pool.template.counters;
        counters.record_failure(failure);
        // Before the store is dropped, which ends the response's body: the body then asks for the failure.
        context.mark_failed(failure);
        match failure {
            // A slow client, another service or the host may be the cause, so the breaker does not count it.
            InstanceFailure::TimedOut
            | InstanceFailure::HostMemory
            | InstanceFailure::UnsupportedImport
            | InstanceFailure::Cancelled
            | InstanceFailure::Panicked => {}
            _ if pool.template.breakers.record_failure(Some(context.path())) => counters.breaker_trips.add(1),
            _ => {}
        }
        if let Some(trace) = context.trace() {
            trace.record_failure(failure.name());
        }
        let component = &pool.template.component.id;
        match failure {
            // The host stops and its grace period is over; the shard logs that.
            InstanceFailure::Cancelled => {}
            InstanceFailure::Panicked => tracing::error!(component, "the host panicked; this is a defect of the host"),
            _ => {
                if let Some(suppressed) = pool.failure_throttle.pass() {
                    let memory_denied = instance.store.data().state().limiter().denied();
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
        lease.release_permit();
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        if let Some(instance) = self.instance.take() {
            self.failed(instance, &InstanceEnd::Dropped.into());
        }
    }
}
