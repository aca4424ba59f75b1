//! How far the stop of the host has come, for work that takes longer than the stop may.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The phases of a stop, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopPhase {
    #[default]
    Serving,
    /// Requests of operators that are not done yet are refused.
    Stopping,
    /// No request is served any more, so that this host does not have to follow the others either.
    Ended,
}

/// Tells the phase to all threads that wait for it.
#[derive(Clone, Debug, Default)]
pub struct StopPhases(Arc<SharedPhase>);

#[derive(Debug, Default)]
struct SharedPhase {
    phase: Mutex<StopPhase>,
    /// Notified of a change of the phase, or of a result that a thread waits for.
    changed: Condvar,
}

impl StopPhases {
    pub fn enter(&self, phase: StopPhase) {
        let mut present = self.lock();
        *present = phase.max(*present);
        self.0.changed.notify_all();
    }

    /// Whether this phase has come.
    pub fn is_in(&self, phase: StopPhase) -> bool {
        *self.lock() >= phase
    }

    /// Waits until `result` returns a value, or until this phase has come: `None`.
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
        // Without the lock, a thread that has just looked would miss the notification.
        let _present = self.lock();
        self.0.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, StopPhase> {
        self.0.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
