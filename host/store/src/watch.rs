//! A key that a thread of the host follows, to apply each change to the host's components.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::backend::Key;
use super::change_clock::{ChangeClock, VersionBucket};
use super::error::StoreError;
use super::problem::StoreProblem;

/// How far the thread has followed the key. Requests wait until the thread has applied every change that the change
/// clock knows.
pub struct Watch {
    bucket: VersionBucket,
    /// The clock's number before the read that was applied last.
    applied: watch::Sender<Option<u64>>,
    signal: Mutex<Signal>,
    signalled: Condvar,
}

#[derive(Clone, Copy, Default)]
struct Signal {
    is_due: bool,
    is_stopped: bool,
}

impl Watch {
    pub fn new(clock: &ChangeClock, key: &Key) -> Self {
        let applied = watch::Sender::new(None);
        Self { bucket: clock.bucket(key), applied, signal: Mutex::default(), signalled: Condvar::new() }
    }

    /// Whether every change that the clock knows is applied.
    pub fn is_applied(&self, clock: &ChangeClock) -> bool {
        self.applied.borrow().is_some_and(|number| clock.is_unchanged_since(number, self.bucket))
    }

    /// Returns once every change that the clock knows is applied, or fails after `patience`.
    pub async fn wait_until_applied(&self, clock: &ChangeClock, patience: Duration) -> Result<(), StoreError> {
        if self.is_applied(clock) {
            return Ok(());
        }
        let end = Instant::now() + patience;
        let mut applied = self.applied.subscribe();
        loop {
            applied.mark_unchanged();
            if self.is_applied(clock) {
                return Ok(());
            }
            self.wake();
            if tokio::time::timeout_at(end.into(), applied.changed()).await.is_err() {
                let reason = "this host has not got the component that the other hosts serve";
                return Err(StoreError::Unavailable { problem: StoreProblem::Unavailable, reason: reason.into() });
            }
        }
    }

    /// Makes the thread read the key now.
    pub fn wake(&self) {
        self.signal().is_due = true;
        self.signalled.notify_all();
    }

    pub fn stop(&self) {
        self.signal().is_stopped = true;
        self.signalled.notify_all();
    }

    /// Waits for the thread's next turn, at most this long. False once the thread is to stop.
    pub fn wait_for_turn(&self, at_most: Duration) -> bool {
        let signal = self.signal();
        let waited = self.signalled.wait_timeout_while(signal, at_most, |signal| !signal.is_due && !signal.is_stopped);
        let (mut signal, _) = waited.unwrap_or_else(PoisonError::into_inner);
        signal.is_due = false;
        !signal.is_stopped
    }

    /// Records that the thread has applied a value that it read after the clock had this number.
    pub fn record_applied(&self, number: u64) {
        self.applied.send_replace(Some(number));
    }

    fn signal(&self) -> MutexGuard<'_, Signal> {
        self.signal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use hexad_testing::wait::{SOON, join};

    fn followed() -> (Arc<ChangeClock>, Arc<Watch>, VersionBucket) {
        let clock = Arc::new(ChangeClock::default());
        let key = Key { store: Arc::from("hexad"), key: Arc::from("serving") };
        let followed = Arc::new(Watch::new(&clock, &key));
        let bucket = clock.bucket(&key);
        (clock, followed, bucket)
    }

    #[tokio::test]
    async fn a_request_waits_until_the_change_is_applied() {
        let (clock, followed, bucket) = followed();
        followed.record_applied(clock.now());
        followed.wait_until_applied(&clock, SOON).await.unwrap();
        clock.begin_commit(&[bucket]);
        clock.end_commit();
        assert!(!followed.is_applied(&clock));
        let thread = std::thread::spawn({
            let (clock, followed) = (clock.clone(), followed.clone());
            move || {
                // The request makes the thread read the key now.
                assert!(followed.wait_for_turn(SOON));
                followed.record_applied(clock.now());
            }
        });
        followed.wait_until_applied(&clock, SOON).await.unwrap();
        join(thread, "the end of the thread that applies changes");
    }

    #[tokio::test]
    async fn a_change_that_is_not_applied_in_time_is_an_outage() {
        let (clock, followed, _) = followed();
        let error = followed.wait_until_applied(&clock, Duration::ZERO).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
        followed.stop();
        assert!(!followed.wait_for_turn(Duration::ZERO));
    }
}
