//! Whether a generation is out of use. Its idle instances then end at once and give back their
//! memory and their places in the pool, which a host that swaps often would run out of.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures::task::AtomicWaker;

/// Shared by a generation and the workers of its instances.
#[derive(Default)]
pub struct Rest {
    resting: AtomicBool,
    workers: Mutex<Vec<Weak<AtomicWaker>>>,
}

impl Rest {
    /// Enters a new worker, which asks [`is_resting`](Self::is_resting) whenever it is woken.
    pub fn enter(&self, worker: &Arc<AtomicWaker>) {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        // Before the list would grow: it stays as long as there are workers alive.
        if workers.len() == workers.capacity() {
            workers.retain(|worker| worker.strong_count() > 0);
        }
        workers.push(Arc::downgrade(worker));
    }

    pub fn is_resting(&self) -> bool {
        self.resting.load(Ordering::Acquire)
    }

    pub fn begin(&self) {
        self.resting.store(true, Ordering::Release);
        let workers = std::mem::take(&mut *self.workers.lock().unwrap_or_else(PoisonError::into_inner));
        for worker in &workers {
            if let Some(worker) = worker.upgrade() {
                worker.wake();
            }
        }
        // Those with a request still are to be woken if this happens again.
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).extend(workers);
    }

    pub fn end(&self) {
        self.resting.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_workers_does_not_outgrow_the_living() {
        let rest = Rest::default();
        let living = Arc::new(AtomicWaker::new());
        rest.enter(&living);
        for _ in 0..1000 {
            rest.enter(&Arc::new(AtomicWaker::new()));
        }
        let workers = rest.workers.lock().unwrap();
        assert!(workers.len() <= 8, "{}", workers.len());
        assert_eq!(workers.iter().filter(|worker| worker.strong_count() > 0).count(), 1);
    }

    #[test]
    fn resting_begins_and_ends() {
        let rest = Rest::default();
        rest.begin();
        assert!(rest.is_resting());
        rest.end();
        assert!(!rest.is_resting());
    }
}
