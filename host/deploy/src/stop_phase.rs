//! How far the stop of the host has come. Work that takes longer than the stop reads it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The phases of a stop, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopPhase {
    #[default]
    Serving,
    /// The host refuses unfinished requests of operators.
    Stopping,
    /// The host serves no request any more, so that it does not have to follow the other hosts either.
    Ended,
}

/// Signals the phase to all waiting threads.
#[derive(Clone, Debug, Default)]
pub struct StopPhases(Arc<SharedPhase>);

#[derive(Debug, Default)]
struct SharedPhase {
    phase: Mutex<StopPhase>,
    /// Notified when the phase changes, or when a result is ready.
    changed: Condvar,
}

impl StopPhases {
    pub fn enter(&self, phase: StopPhase) {
        let mut present = self.lock();
        *present = phase.max(*present);
        self.0.changed.notify_all();
    }

    /// Whether the stop has reached this phase.
    pub fn is_in(&self, phase: StopPhase) -> bool {
        *self.lock() >= phase
    }

    /// Waits until `result` returns a value. `None` once the stop has reached this phase.
    pub fn wait_for<T>(&self, phase: StopPhase, mut result: impl FnMut() -> Option<T>) -> Option<T> {
        let mut present = self.lock();
        loop {
            let found = result();
            if found.is_some() || *present >= phase {
                return found;
            }
            present = self.0.changed.wait(present).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Wakes the threads that wait for a result.
    pub fn notify(&self) {
        // Without the lock, a thread between its check and its wait would miss the notification.
        let _present = self.lock();
        self.0.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, StopPhase> {
        self.0.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
