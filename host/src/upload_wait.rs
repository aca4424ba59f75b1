//! The wait of a guest for its client to send more of a request's body. Its instance makes way for others meanwhile.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::instance_permit::InstancePermit;
use crate::send_buffer::{DrainMonitor, DrainPolicy, Flow, TooSlow};

/// What is known of the waits of one request.
#[derive(Default)]
pub struct UploadWait {
    /// There since the first wait.
    monitor: Option<DrainMonitor>,
    /// There while the guest waits, so that it is in no queue afterwards.
    make_way: Option<BoxFuture<'static, ()>>,
}

impl UploadWait {
    /// Ready if the client is too slow while another request waits for the instance. To be polled while the guest runs
    /// and what it writes is waited for.
    pub fn poll(&mut self, upload: &Flow, permit: &Arc<InstancePermit>, cx: &mut Context<'_>) -> Poll<()> {
        if !upload.is_waiting() {
            self.end(permit);
            return Poll::Pending;
        }
        let monitor = self.monitor.get_or_insert_with(|| {
            upload.begin(Some(permit.clone()));
            DrainMonitor::new(DrainPolicy::default())
        });
        let make_way = self.make_way.get_or_insert_with(|| {
            let permit = permit.clone();
            async move { permit.make_way().await }.boxed()
        });
        // It is never ready.
        let _ = make_way.as_mut().poll(cx);
        // A client has all of the request's time, unless others wait for the instance.
        while let Poll::Ready(slow) = monitor.poll(upload, upload, cx) {
            if slow == TooSlow::Contended {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    /// Ends the wait, if there is one. Its client may be too slow all the same.
    pub fn end(&mut self, permit: &InstancePermit) {
        if self.make_way.take().is_some() {
            permit.try_resume();
        }
    }
}
