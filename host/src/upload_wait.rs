//! The wait of a guest for its client to send more of a request's body. Its instance makes way for others meanwhile.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::instance_permit::InstancePermit;
use crate::request_context::RequestContext;
use crate::send_buffer::{BelowMinRate, MinRateMonitor, Progress};

/// Waits count together until the client has sent so many bytes: one that sends a little again and again would make the
/// guest wait for a short time only, as often as it likes.
const BYTES_BETWEEN_WAITS: u64 = 64 * 1024;

/// The waits of one request.
#[derive(Default)]
pub struct UploadWait {
    /// There since the first wait.
    monitor: Option<MinRateMonitor>,
    /// There while the guest waits, so that it is in no queue afterwards.
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
    /// Ready if the instance has to end: the client is too slow while another request waits for it, or has too many
    /// that wait. To be polled while the guest runs and its response is waited for.
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
        // A client has all of the request's time, unless others wait for the instance.
        while let Poll::Ready(slow) = monitor.poll(upload, upload, cx) {
            if slow == BelowMinRate::Contended {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    /// Ends the wait, if there is one. Its client may be too slow all the same.
    pub fn end(&mut self, permit: &InstancePermit) {
        if let Some(present) = self.present.take() {
            self.waited += present.since.elapsed();
            permit.try_resume();
        }
    }
}
