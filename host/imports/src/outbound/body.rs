//! A response body for a guest, bounded in time and size.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hexad_limits::concurrency_limit::Permit;
use hexad_limits::instance_permit::OutboundInProgress;
use hexad_limits::read_bounds::OverheadMeter;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use wasmtime_wasi_http::{Error as WasiError, WasiBody};

use super::component_outbound::ComponentOutbound;

/// A response body. It holds the request's permits until it ends or is dropped.
pub struct OutboundBody {
    /// `None` after the end, so that the connection is closed or returns to the pool.
    inner: Option<(WasiBody, OutboundPermits)>,
    egress: Arc<ComponentOutbound>,
    /// The meter of its HTTP/1 connection; `None` on HTTP/2.
    overhead: Option<Arc<OverheadMeter>>,
    remaining: u64,
    idle_timeout: Duration,
    deadline: Instant,
    /// Ends at the deadline or with the idle timeout. Set when the body begins to wait for a frame.
    sleep: Pin<Box<Sleep>>,
    is_waiting: bool,
}

/// A request's permits: the component's, and the host's if the request leaves the process.
pub type OutboundPermits = (Permit, Option<Permit>);

impl OutboundBody {
    pub fn new(
        inner: WasiBody,
        permits: OutboundPermits,
        egress: Arc<ComponentOutbound>,
        overhead: Option<Arc<OverheadMeter>>,
        (idle_timeout, deadline): (Duration, Instant),
    ) -> Self {
        let remaining = egress.limits.max_response;
        let sleep = Box::pin(tokio::time::sleep_until(deadline));
        if let Some(overhead) = &overhead {
            overhead.record_head();
        }
        let inner = Some((inner, permits));
        Self { inner, egress, overhead, remaining, idle_timeout, deadline, sleep, is_waiting: false }
    }

    fn end(&mut self, error: WasiError) -> Poll<Option<Result<Frame<Bytes>, WasiError>>> {
        self.inner = None;
        Poll::Ready(Some(Err(error)))
    }
}

impl Body for OutboundBody {
    type Data = Bytes;
    type Error = WasiError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, WasiError>>> {
        // The check comes before the body's poll: the body may have a frame at every poll of the guest.
        if self.inner.is_some() && Instant::now() >= self.deadline {
            self.egress.counters.timeouts.add(1);
            return self.end(WasiError::HttpResponseTimeout);
        }
        let Some((inner, _)) = &mut self.inner else {
            return Poll::Ready(None);
        };
        match Pin::new(inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.is_waiting = false;
                let length = frame.data_ref().map_or(0, |data| data.len() as u64);
                self.egress.counters.received.add(length);
                if let Some(overhead) = &self.overhead {
                    overhead.record_frame(length);
                }
                match self.remaining.checked_sub(length) {
                    Some(remaining) => {
                        self.remaining = remaining;
                        if self.is_end_stream() {
                            self.inner = None;
                        }
                        Poll::Ready(Some(Ok(frame)))
                    }
                    None => {
                        self.egress.counters.failed.add(1);
                        let limit = self.egress.limits.max_response;
                        self.end(WasiError::HttpResponseBodySize(Some(limit)))
                    }
                }
            }
            Poll::Ready(Some(Err(error))) => {
                self.egress.counters.failed.add(1);
                self.end(match error {
                    WasiError::ConnectionTerminated => WasiError::HttpResponseIncomplete,
                    code => code,
                })
            }
            Poll::Ready(None) => {
                self.inner = None;
                Poll::Ready(None)
            }
            Poll::Pending => {
                if !self.is_waiting {
                    self.is_waiting = true;
                    let timeout = self.deadline.min(Instant::now() + self.idle_timeout);
                    self.sleep.as_mut().reset(timeout);
                }
                ready!(self.sleep.as_mut().poll(cx));
                self.egress.counters.timeouts.add(1);
                match Instant::now() < self.deadline {
                    true => self.end(WasiError::ConnectionReadTimeout),
                    false => self.end(WasiError::HttpResponseTimeout),
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(|(inner, _)| inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), |(inner, _)| inner.size_hint())
    }
}

/// A response body whose request is in progress until it ends or is dropped.
pub struct BodyInProgress {
    inner: WasiBody,
    in_progress: Option<OutboundInProgress>,
}

impl BodyInProgress {
    pub fn new(inner: WasiBody, in_progress: OutboundInProgress) -> Self {
        let in_progress = Some(in_progress).filter(|_| !inner.is_end_stream());
        Self { inner, in_progress }
    }
}

impl Body for BodyInProgress {
    type Data = Bytes;
    type Error = WasiError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, WasiError>>> {
        let frame = Pin::new(&mut self.inner).poll_frame(cx);
        let has_ended = match &frame {
            Poll::Ready(None | Some(Err(_))) => true,
            // Before the next poll, the guest may have waited for its client.
            Poll::Ready(Some(Ok(_))) => self.inner.is_end_stream(),
            Poll::Pending => false,
        };
        if has_ended {
            self.in_progress = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use http_body_util::{BodyExt, StreamBody};

    use super::*;
    use crate::outbound::{OutboundLimits, OutboundOptions, SharedOutbound};
    use hexad_limits::concurrency_limit::{ConcurrencyLimit, HOST};
    use hexad_limits::memory_budget::MemoryBudget;

    #[tokio::test]
    async fn frames_that_are_there_do_not_outlast_the_deadline() {
        let network = Arc::new(SharedOutbound::new(&OutboundOptions::default(), MemoryBudget::new(u64::MAX)).unwrap());
        let egress = ComponentOutbound::new("a", Arc::default(), OutboundLimits::default(), network, Arc::default());
        let (egress, limit) = (Arc::new(egress), ConcurrencyLimit::new(2, Duration::ZERO, 0));
        let body = |deadline: Instant| {
            let frames = stream::repeat_with(|| Ok(Frame::data(Bytes::from_static(b"x"))));
            let permits = (limit.try_acquire(HOST).unwrap(), None);
            let inner = StreamBody::new(frames).boxed_unsync();
            OutboundBody::new(inner, permits, egress.clone(), None, (Duration::from_secs(60), deadline))
        };
        let mut early = body(Instant::now() + Duration::from_secs(600));
        assert!(early.frame().await.unwrap().is_ok());
        let mut late = body(Instant::now());
        assert!(matches!(late.frame().await, Some(Err(WasiError::HttpResponseTimeout))));
        assert!(late.frame().await.is_none());
        assert_eq!(egress.counters.timeouts.get(), 1);
    }
}
