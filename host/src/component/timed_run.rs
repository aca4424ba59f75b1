//! Runs a guest in its instance, in wasmtime's event loop. Measures its processor time, ends it when the request has
//! expired, and detects whether it is idle (decisions 0021 and 0147).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::metrics::{CpuTimer, InstanceEnd};
use crate::request_context::RequestContext;

/// Counts how often wasmtime's event loop polls the future that it runs.
#[derive(Default)]
pub struct LoopTurns(AtomicUsize);

impl LoopTurns {
    pub fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn take(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

/// How often one poll of an event loop polls its future if neither the guest nor the host has any work for the guest.
/// The loop polls the future before it looks for work, and again if no host call, read or write is under way. wasmtime
/// calls this a deadlock (`Trap::AsyncDeadlock`), except in `run_concurrent`, whose future may wait for something else.
const IDLE_TURNS: usize = 2;

/// Measures the processor time of a guest, and ends it when the request has expired.
pub struct TimedRun<'a, R> {
    pub run: Pin<&'a mut R>,
    pub context: &'a RequestContext,
    pub cpu_timer: &'a CpuTimer,
    /// Counted once the response has its head.
    pub turns: &'a LoopTurns,
}

impl<T, R: Future<Output = wasmtime::Result<T>>> TimedRun<'_, R> {
    /// Polls the guest. Also returns how often its event loop has polled the future.
    fn poll_run(&mut self, cx: &mut Context<'_>) -> (Poll<wasmtime::Result<T>>, usize) {
        self.turns.take();
        // A panic of the host ends the request and its instance, which are not used again, but not the connection.
        let run = &mut self.run;
        let polled = self.cpu_timer.measure(|| catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(cx))));
        self.context.charge_cpu_time(self.cpu_timer.request_time());
        (polled.unwrap_or_else(|_| Poll::Ready(Err(InstanceEnd::Panicked.into()))), self.turns.take())
    }

    /// Polls a guest that may be idle, and records whether it is.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<wasmtime::Result<T>> {
        let (polled, turns) = self.poll_run(cx);
        if polled.is_ready() || turns < IDLE_TURNS {
            return polled;
        }
        // The guest may have worked in that poll. It is idle if a poll finds no work and nothing has woken the loop
        // before.
        let wake = Arc::new(ObservedWake { task: cx.waker().clone(), is_woken: AtomicBool::new(false) });
        let waker = Waker::from(wake.clone());
        let cx = &mut Context::from_waker(&waker);
        let (polled, _) = self.poll_run(cx);
        if polled.is_ready() {
            return polled;
        }
        let (polled, turns) = self.poll_run(cx);
        if polled.is_pending() && turns == IDLE_TURNS && !wake.is_woken.load(Ordering::SeqCst) {
            self.context.mark_guest_idle();
            // The future reads that flag.
            cx.waker().wake_by_ref();
        }
        polled
    }
}

impl<T, R: Future<Output = wasmtime::Result<T>>> Future for TimedRun<'_, R> {
    type Output = wasmtime::Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<wasmtime::Result<T>> {
        if self.context.is_expired() {
            return Poll::Ready(Err(match self.context.is_abandoned() {
                true => InstanceEnd::Dropped.into(),
                false => InstanceEnd::TimedOut.into(),
            }));
        }
        let (polled, turns) = self.poll_run(cx);
        match polled.is_pending() && turns >= IDLE_TURNS && self.context.awaits_guest() {
            true => self.poll_idle(cx),
            false => polled,
        }
    }
}

/// Wakes a task, and records that it did.
struct ObservedWake {
    task: Waker,
    is_woken: AtomicBool,
}

impl Wake for ObservedWake {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.task.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Instant;

    use super::*;
    use crate::concurrency_limit::HOST;
    use crate::manifest::RequestLimits;
    use crate::metrics::InstanceFailure;

    fn context() -> RequestContext {
        RequestContext::new(&RequestLimits::default(), "/".parse().unwrap(), HOST, None, Instant::now())
    }

    async fn timed<T>(context: &RequestContext, run: impl Future<Output = wasmtime::Result<T>>) -> wasmtime::Result<T> {
        let (cpu_timer, turns) = (CpuTimer::default(), LoopTurns::default());
        TimedRun { run: pin!(run), context, cpu_timer: &cpu_timer, turns: &turns }.await
    }

    #[tokio::test]
    async fn a_panic_of_the_host_ends_the_call_and_nothing_else() {
        let context = context();
        let panics = async { panic!("on purpose") };
        let error = timed::<()>(&context, panics).await.unwrap_err();
        assert_eq!(InstanceFailure::from_error(&error), InstanceFailure::Panicked);
    }

    #[tokio::test]
    async fn an_expired_call_is_not_polled_again() {
        let context = context();
        assert_eq!(timed(&context, async { Ok(1) }).await.unwrap(), 1);
        context.expire();
        let error = timed(&context, async { Ok(1) }).await.unwrap_err();
        assert_eq!(InstanceFailure::from_error(&error), InstanceFailure::TimedOut);
    }
}
