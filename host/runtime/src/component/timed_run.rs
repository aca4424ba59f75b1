//! Runs a guest in its instance, in wasmtime's event loop. Measures its processor time, and ends it when the request has
//! expired (decision 0021).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use hexad_telemetry::metrics::{CpuTimer, InstanceEnd};

use crate::request_context::RequestContext;

/// Measures the processor time of a guest, and ends it when the request has expired.
pub struct TimedRun<'a, R> {
    pub run: Pin<&'a mut R>,
    pub context: &'a RequestContext,
    pub cpu_timer: &'a CpuTimer,
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
        let Self { run, context, cpu_timer } = &mut *self;
        // A panic of the host ends the request and its instance, which are not used again, but not the connection.
        let polled = cpu_timer.measure(|| catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(cx))));
        context.charge_cpu_time(cpu_timer.request_time());
        polled.unwrap_or_else(|_| Poll::Ready(Err(InstanceEnd::Panicked.into())))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Instant;

    use super::*;
    use hexad_limits::concurrency_limit::HOST;
    use hexad_manifest::RequestLimits;
    use hexad_telemetry::metrics::InstanceFailure;

    fn context() -> RequestContext {
        RequestContext::new(&RequestLimits::default(), "/".parse().unwrap(), HOST, None, Instant::now())
    }

    async fn timed<T>(context: &RequestContext, run: impl Future<Output = wasmtime::Result<T>>) -> wasmtime::Result<T> {
        TimedRun { run: pin!(run), context, cpu_timer: &CpuTimer::default() }.await
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
