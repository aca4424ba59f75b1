//! Requests that wait for the next barrier.
//!
//! The thread of the connections completes barriers, and requests run on the threads of the shards. Waking a task on
//! another thread takes a system call. So each barrier wakes one task per shard, and this task wakes the requests of
//! its shard.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use std::{mem, thread};

use hexad_store::{CatchUp, CaughtUp, StoreError};
use tokio::sync::{Notify, mpsc};

/// How often the thread yields to other threads before a barrier begins, at most.
const MOST_TURNS: usize = 16;

type BarrierResult = Result<(), StoreError>;
type Answered = (Vec<QueuedRequest>, BarrierResult);

struct QueuedRequest {
    /// When its wait ends.
    until: Instant,
    caught_up: CaughtUp,
}

#[derive(Default)]
pub struct BarrierQueue {
    shards: Mutex<Vec<ShardQueue>>,
    joined: Notify,
}

/// The requests of a shard that wait for a barrier that has not begun.
#[derive(Default)]
struct ShardQueue {
    waiting: Vec<QueuedRequest>,
    /// Leads to the task that wakes the requests.
    waker: Option<mpsc::UnboundedSender<Answered>>,
}

/// All requests that waited when a barrier began.
pub struct Round(Vec<(Vec<QueuedRequest>, mpsc::UnboundedSender<Answered>)>);

impl BarrierQueue {
    /// Waits for a barrier that begins after this call. Call it on the thread of the shard.
    pub fn join(&self, shard: usize, until: Instant) -> CatchUp {
        let (caught_up, catch_up) = CatchUp::new();
        let mut shards = self.shards();
        if shards.len() <= shard {
            shards.resize_with(shard + 1, ShardQueue::default);
        }
        if let Some(shard) = shards.get_mut(shard) {
            shard.waiting.push(QueuedRequest { until, caught_up });
            if shard.waker.as_ref().is_none_or(mpsc::UnboundedSender::is_closed) {
                shard.waker = Some(spawn_waker());
            }
        }
        drop(shards);
        self.joined.notify_one();
        catch_up
    }

    /// Returns once requests have joined since the last return.
    pub async fn joined(&self) {
        self.joined.notified().await;
    }

    /// Yields to other threads as long as they bring requests. On a busy machine, waking threads is most of a barrier's
    /// cost, and requests that come before the barrier begins share it. On an idle processor, the yield takes no time.
    pub fn gather(&self) {
        let mut waiting = self.waiting();
        for _ in 0..MOST_TURNS {
            thread::yield_now();
            let before = mem::replace(&mut waiting, self.waiting());
            if waiting <= before {
                return;
            }
        }
    }

    fn waiting(&self) -> usize {
        self.shards().iter().map(|shard| shard.waiting.len()).sum()
    }

    /// As [`Round::expire`], for the requests that wait for the next barrier.
    pub fn expire(&self, now: Instant, error: impl Fn() -> StoreError) -> Option<Instant> {
        self.shards().iter_mut().filter_map(|shard| expire(&mut shard.waiting, now, &error)).min()
    }

    /// Takes all waiting requests.
    pub fn take(&self) -> Round {
        let mut shards = self.shards();
        let waiting = shards.iter_mut().filter(|shard| !shard.waiting.is_empty());
        Round(waiting.filter_map(|shard| Some((mem::take(&mut shard.waiting), shard.waker.clone()?))).collect())
    }

    fn shards(&self) -> MutexGuard<'_, Vec<ShardQueue>> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Round {
    /// Whether all of its requests have stopped waiting.
    pub fn is_abandoned(&self) -> bool {
        self.0.iter().flat_map(|(requests, _)| requests).all(|request| request.caught_up.is_closed())
    }

    /// Ends the wait of requests whose time ends by `now`. Returns when the next wait ends.
    pub fn expire(&mut self, now: Instant, error: impl Fn() -> StoreError) -> Option<Instant> {
        self.0.iter_mut().filter_map(|(requests, _)| expire(requests, now, &error)).min()
    }

    pub fn answer(self, result: &BarrierResult) {
        for (requests, waker) in self.0 {
            // If the task is gone, its shard has ended or has another task by now.
            if let Err(mpsc::error::SendError(answered)) = waker.send((requests, result.clone())) {
                wake(answered);
            }
        }
    }
}

/// Starts the task of a shard. The task ends with the queue.
fn spawn_waker() -> mpsc::UnboundedSender<Answered> {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(answered) = receiver.recv().await {
            wake(answered);
        }
    });
    sender
}

fn wake((requests, result): Answered) {
    for request in requests {
        let _ = request.caught_up.send(result.clone());
    }
}

fn expire(waiting: &mut Vec<QueuedRequest>, now: Instant, error: impl Fn() -> StoreError) -> Option<Instant> {
    let expired = waiting.extract_if(.., |request| request.until <= now).collect();
    wake((expired, Err(error())));
    waiting.iter().map(|request| request.until).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use std::time::Duration;

    fn much_later() -> Instant {
        Instant::now() + Duration::from_secs(600)
    }

    #[tokio::test]
    async fn a_barrier_serves_the_requests_that_came_before_it_began_and_no_others() {
        let queue = BarrierQueue::default();
        let before = [0, 1, 1, 0].map(|shard| queue.join(shard, much_later()));
        queue.joined().await;
        let round = queue.take();
        let mut later = queue.join(1, much_later());
        assert!(!round.is_abandoned());
        round.answer(&Ok(()));
        for waiting in before {
            assert!(waiting.await.is_ok());
        }
        assert!((&mut later).now_or_never().is_none());
        queue.joined().await;
        let away = Err(StoreError::writer_stopped());
        queue.take().answer(&away);
        assert!(later.await.is_err());
        assert!(queue.take().is_abandoned(), "no request waits");
    }

    #[tokio::test]
    async fn a_barrier_is_not_needed_once_no_request_waits_for_it() {
        let queue = BarrierQueue::default();
        drop((queue.join(0, much_later()), queue.join(3, much_later())));
        assert!(queue.take().is_abandoned());
    }

    #[tokio::test]
    async fn gathering_ends_and_keeps_the_waiting_requests() {
        let queue = BarrierQueue::default();
        queue.gather();
        let waiting = [0, 2].map(|shard| queue.join(shard, much_later()));
        queue.gather();
        queue.take().answer(&Ok(()));
        for result in waiting {
            assert!(result.await.is_ok());
        }
    }

    #[tokio::test]
    async fn the_wait_of_a_request_ends_in_time() {
        let queue = BarrierQueue::default();
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let [first, last, second] = [(0, 1), (0, 3), (1, 2)].map(|(shard, until)| queue.join(shard, after(until)));
        assert_eq!(queue.expire(now, StoreError::writer_stopped), Some(after(1)));
        assert_eq!(queue.expire(after(2), StoreError::writer_stopped), Some(after(3)));
        assert!(first.await.is_err() && second.await.is_err());
        let mut round = queue.take();
        assert_eq!(round.expire(after(3), StoreError::writer_stopped), None);
        assert!(last.await.is_err() && round.is_abandoned());
    }

    #[test]
    fn a_shard_that_has_ended_keeps_no_other_from_its_answer() {
        let queue = BarrierQueue::default();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let waiting = {
            let _entered = runtime.enter();
            queue.join(0, much_later())
        };
        drop(runtime);
        queue.take().answer(&Ok(()));
        assert!(waiting.now_or_never().is_some_and(|result| result.is_ok()));
    }
}
