//! How far the stop of the host has come, for work that takes longer than the stop may.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// They follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopPhase {
    #[default]
    Serving,
    /// What an operator has asked for and is not done is refused.
    Stopping,
    /// No request is served any more, so that this host does not have to follow the others either.
    Ended,
}

/// Tells the phase to all who wait for it.
#[derive(Clone, Debug, Default)]
pub struct StopPhases(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    phase: Mutex<StopPhase>,
    /// The phase, or what a thread waits for beside it.
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

    /// Waits until `result` has one, or until this phase has come: `None`.
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

    /// Has those who wait for a result look for it.
    pub fn notify(&self) {
        // Otherwise one that has just looked would miss it.
        let _present = self.lock();
        self.0.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, StopPhase> {
        self.0.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
