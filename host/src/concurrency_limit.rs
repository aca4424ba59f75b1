//! A bound on concurrent work: callers wait for a permit in a bounded queue, for a bounded time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Dropping it gives the permit back.
pub type Permit = OwnedSemaphorePermit;

/// Permits for concurrent work.
#[derive(Debug)]
pub struct ConcurrencyLimit {
    permits: Arc<Semaphore>,
    max_wait: Duration,
    max_waiting: usize,
    waiting: AtomicUsize,
}

/// Every permit is taken, and the queue is full or the wait was too long.
#[derive(Debug)]
pub struct Saturated;

impl ConcurrencyLimit {
    /// `permits` at once; at most `max_waiting` callers wait for one, each for at most `max_wait`.
    pub fn new(permits: usize, max_wait: Duration, max_waiting: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(permits)), max_wait, max_waiting, waiting: AtomicUsize::new(0) }
    }

    /// How many permits are free.
    pub fn available(&self) -> usize {
        self.permits.available_permits()
    }

    /// How many callers wait for a permit.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Takes a permit, and waits for one if none is free.
    pub async fn acquire(&self) -> Result<Permit, Saturated> {
        if let Ok(permit) = self.permits.clone().try_acquire_owned() {
            return Ok(permit);
        }
        let waiter = Waiter::enter(&self.waiting);
        if waiter.before >= self.max_waiting {
            return Err(Saturated);
        }
        match tokio::time::timeout(self.max_wait, self.permits.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(Saturated),
        }
    }
}

/// Counts a waiting caller until it is dropped, also if the caller gives up.
struct Waiter<'a> {
    count: &'a AtomicUsize,
    before: usize,
}

impl<'a> Waiter<'a> {
    fn enter(count: &'a AtomicUsize) -> Self {
        Self { count, before: count.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn callers_wait_for_a_permit_in_a_bounded_queue() {
        let limit = ConcurrencyLimit::new(1, Duration::from_secs(3600), 1);
        let first = limit.acquire().await.unwrap();
        // One caller may wait, and gets the permit; the next is refused at once.
        let (second, third) = tokio::join!(limit.acquire(), async {
            let third = limit.acquire().await;
            drop(first);
            third
        });
        third.unwrap_err();
        drop(second.unwrap());
        assert_eq!(limit.available(), 1);
    }

    #[tokio::test]
    async fn a_wait_ends_and_makes_room_for_another() {
        let limit = ConcurrencyLimit::new(1, Duration::from_millis(1), 1);
        let _permit = limit.acquire().await.unwrap();
        for _ in 0..2 {
            limit.acquire().await.map(drop).unwrap_err();
            assert_eq!(limit.waiting.load(Ordering::Relaxed), 0);
        }
    }
}
