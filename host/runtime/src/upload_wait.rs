//! A guest's wait for its client to send more of a request's body. Meanwhile, its instance yields its permit.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use hexad_http::send_buffer::{BelowMinRate, MinRateMonitor, Progress};
use hexad_limits::instance_permit::InstancePermit;

use crate::request_context::RequestContext;

/// The host adds up a request's waits until the client has sent this many bytes. Otherwise a client that sends a little
/// now and then would keep each wait short, and hold the instance (decision 0060).
const BYTES_BETWEEN_WAITS: u64 = 64 * 1024;

/// The waits of one request.
#[derive(Default)]
pub struct UploadWait {
    /// Set since the first wait.
    monitor: Option<MinRateMonitor>,
    /// Set while the guest waits. Removing it leaves the permit's queue.
    present: Option<PresentWait>,
    /// How long the guest has waited since the client had sent `received` bytes.
    waited: Duration,
    received: u64,
}

struct PresentWait {
    since: Instant,
    yield_permit: BoxFuture<'static, ()>,
}

impl UploadWait {
    /// Polled while the guest runs and the host waits for its response. Ready if the instance has to end. Then the
    /// client is too slow while another request waits for the instance, or the client has too many such instances.
    pub fn poll(&mut self, context: &RequestContext, permit: &Arc<InstancePermit>, cx: &mut Context<'_>) -> Poll<()> {
        let upload = &context.upload;
        if !upload.is_waiting() {
            self.end(permit);
            return Poll::Pending;
        }
        let monitor = self.monitor.get_or_insert_with(|| {
            upload.begin(Some(permit.clone()));
            MinRateMonitor::new(context.min_rate())
        });
        if self.present.is_none() {
            let received = upload.taken();
            if received.saturating_sub(self.received) >= BYTES_BETWEEN_WAITS {
                (self.waited, self.received) = (Duration::ZERO, received);
            }
            let (permit, waited) = (permit.clone(), self.waited);
            let yield_permit = async move { permit.yield_permit(waited).await }.boxed();
            self.present = Some(PresentWait { since: Instant::now(), yield_permit });
        }
        if let Some(present) = &mut self.present
            && present.yield_permit.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(());
        }
        // Unless others wait for the instance, the client has all of the request's time.
        while let Poll::Ready(slow) = monitor.poll(upload, upload, cx) {
            if slow == BelowMinRate::Contended {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    /// Ends the current wait, if any, but not the period of the minimum rate.
    pub fn end(&mut self, permit: &InstancePermit) {
        if let Some(present) = self.present.take() {
            self.waited += present.since.elapsed();
            permit.try_resume();
        }
    }
}
