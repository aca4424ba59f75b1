//! A bound on what goes on at the same moment, with a bounded wait in a bounded queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places to be taken, one each, and given back by dropping what [`take`](Self::take) returned.
#[derive(Debug)]
pub struct Places {
    free: Arc<Semaphore>,
    wait: Duration,
    most_waiting: usize,
    waiting: AtomicUsize,
}

/// Every place is taken and the wait is too long.
#[derive(Debug)]
pub struct Busy;

impl Places {
    /// `count` places, for which `most_waiting` may wait for at most `wait`.
    pub fn new(count: usize, wait: Duration, most_waiting: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(count)), wait, most_waiting, waiting: AtomicUsize::new(0) }
    }

    /// How many places are free.
    pub fn free(&self) -> usize {
        self.free.available_permits()
    }

    /// How many wait for one.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Takes a place, waiting for one if need be.
    pub async fn take(&self) -> Result<OwnedSemaphorePermit, Busy> {
        if let Ok(place) = self.free.clone().try_acquire_owned() {
            return Ok(place);
        }
        let waiting = Waiting::enter(&self.waiting);
        if waiting.before >= self.most_waiting {
            return Err(Busy);
        }
        match tokio::time::timeout(self.wait, self.free.clone().acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) | Err(_) => Err(Busy),
        }
    }
}

/// Counts one who waits, also one who gives up.
struct Waiting<'a> {
    count: &'a AtomicUsize,
    before: usize,
}

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize) -> Self {
        Self { count, before: count.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_place_is_waited_for_in_a_bounded_queue() {
        let places = Places::new(1, Duration::from_secs(3600), 1);
        let first = places.take().await.unwrap();
        // One may wait, and gets the place; the next is sent away at once.
        let (second, third) = tokio::join!(places.take(), async {
            let third = places.take().await;
            drop(first);
            third
        });
        third.unwrap_err();
        drop(second.unwrap());
        assert_eq!(places.free(), 1);
    }

    #[tokio::test]
    async fn a_wait_ends_and_makes_room_for_another() {
        let places = Places::new(1, Duration::from_millis(1), 1);
        let _taken = places.take().await.unwrap();
        for _ in 0..2 {
            places.take().await.map(drop).unwrap_err();
            assert_eq!(places.waiting.load(Ordering::Relaxed), 0);
        }
    }
}
