//! Reports of waiting callers to the holders that could give a permit back.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// How often a waiting caller repeats its report. For each report, one holder that waits for its client yields its
/// permit, or ends.
pub const REPORT_INTERVAL: Duration = Duration::from_millis(50);

/// The reports of callers that wait for a permit of one client's quota, or of the limit.
#[derive(Debug, Default)]
pub struct PermitStats {
    blocked: AtomicUsize,
    reported: Notify,
}

impl PermitStats {
    pub fn begin(&self) -> CountedWaiter<'_> {
        CountedWaiter::new(&self.blocked)
    }

    pub fn report(&self) {
        self.reported.notify_one();
    }

    /// Whether a caller waits.
    pub fn are_current(&self) -> bool {
        self.blocked.load(Ordering::Relaxed) > 0
    }

    /// Returns once a caller waits. For each report, one of the waiting holders returns, the longest waiting one first.
    pub async fn wait(&self) {
        loop {
            self.reported.notified().await;
            // The report may be old: no task took it when it was made.
            if self.are_current() {
                return;
            }
        }
    }
}

/// Counts a caller until it is dropped, also if the caller gives up.
pub struct CountedWaiter<'a>(&'a AtomicUsize);

impl<'a> CountedWaiter<'a> {
    pub fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for CountedWaiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
