//! Requests that wait for the next barrier.
//!
//! Barriers are answered on the thread of the connections, and requests run on the threads of the shards. To wake a
//! task of another thread takes a system call. So each shard has one task that asks for a barrier, and that is woken
//! when the barrier is over.
//!
//! On a busy machine most of what a barrier costs is the threads that it wakes. So the task of a shard asks for one when
//! no further request of the shard is ready to join, and the thread of the connections lets the other shards go on: whoever
//! comes before it begins shares it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{mem, thread};

use tokio::sync::{Notify, mpsc};
use tokio::task::yield_now;

use crate::store::{CatchUp, CaughtUp, StoreError};

/// How often other threads have the processor before a barrier begins.
const MOST_TURNS: usize = 16;

/// How long a shard goes on to gather requests for a barrier.
const LONGEST_GATHERING: Duration = Duration::from_millis(1);

type Outcome = Result<(), StoreError>;
type Answered = (Vec<Waiting>, Outcome);

/// A request that waits.
struct Waiting {
    until: Instant,
    caught_up: CaughtUp,
}

#[derive(Default)]
pub struct BarrierQueue {
    shards: Mutex<Vec<Shard>>,
    /// A shard asks for a barrier.
    asked: Arc<Notify>,
}

/// The requests of a shard that wait for a barrier which has not begun.
#[derive(Default)]
struct Shard {
    waiting: Vec<Waiting>,
    /// Requests so far.
    joins: Arc<AtomicUsize>,
    /// Leads to its task.
    task: Option<Task>,
}

type Task = mpsc::UnboundedSender<Message>;

/// What the task of a shard is told.
enum Message {
    /// A request is the first that waits for the next barrier.
    Joined,
    Answered(Answered),
}

/// All requests that waited when a barrier began.
pub struct Round(Vec<(Vec<Waiting>, Task)>);

impl BarrierQueue {
    /// Waits for a barrier that begins after this call. It must be called on the thread of the shard.
    pub fn join(&self, shard: usize, until: Instant) -> CatchUp {
        let (caught_up, catch_up) = CatchUp::new();
        let mut shards = self.shards();
        if shards.len() <= shard {
            shards.resize_with(shard + 1, Shard::default);
        }
        if let Some(shard) = shards.get_mut(shard) {
            shard.waiting.push(Waiting { until, caught_up });
            shard.joins.fetch_add(1, Ordering::Relaxed);
            if shard.waiting.len() == 1 {
                let task = shard.task.take_if(|task| !task.is_closed());
                let task = task.unwrap_or_else(|| spawn_task(shard.joins.clone(), self.asked.clone()));
                let _ = task.send(Message::Joined);
                shard.task = Some(task);
            }
        }
        catch_up
    }

    /// Returns once a shard has asked for a barrier since it last did.
    pub async fn asked(&self) {
        self.asked.notified().await;
    }

    /// Lets other threads have the processor for as long as they bring requests. Where a processor is idle, this takes
    /// no time.
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

    /// See [`Round::expire`], of those that wait for the next barrier.
    pub fn expire(&self, now: Instant, error: impl Fn() -> StoreError) -> Option<Instant> {
        self.shards().iter_mut().filter_map(|shard| expire(&mut shard.waiting, now, &error)).min()
    }

    /// Takes all who wait.
    pub fn take(&self) -> Round {
        let mut shards = self.shards();
        let waiting = shards.iter_mut().filter(|shard| !shard.waiting.is_empty());
        Round(waiting.filter_map(|shard| Some((mem::take(&mut shard.waiting), shard.task.clone()?))).collect())
    }

    fn shards(&self) -> MutexGuard<'_, Vec<Shard>> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Round {
    /// Whether all of them have stopped waiting.
    pub fn is_abandoned(&self) -> bool {
        self.0.iter().flat_map(|(waiting, _)| waiting).all(|waiting| waiting.caught_up.is_closed())
    }

    /// Ends the wait of those who wait until `now` at the latest. Returns when the next one's wait ends.
    pub fn expire(&mut self, now: Instant, error: impl Fn() -> StoreError) -> Option<Instant> {
        self.0.iter_mut().filter_map(|(waiting, _)| expire(waiting, now, &error)).min()
    }

    /// Adds those of another one.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub fn answer(self, outcome: &Outcome) {
        for (waiting, task) in self.0 {
            // Without the task, its shard has ended, or is another one by now.
            let sent = task.send(Message::Answered((waiting, outcome.clone())));
            if let Err(mpsc::error::SendError(Message::Answered(answered))) = sent {
                wake(answered);
            }
        }
    }
}

/// Starts the task of a shard. It ends with the queue.
fn spawn_task(joins: Arc<AtomicUsize>, asked: Arc<Notify>) -> Task {
    let (sender, mut messages) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        // While it gathers: since when, and how many requests there were at the last turn.
        let mut gathering = None;
        loop {
            tokio::select! {
                biased;
                message = messages.recv() => match message {
                    Some(Message::Joined) => gathering = Some((Instant::now(), joins.load(Ordering::Relaxed))),
                    Some(Message::Answered(answered)) => wake(answered),
                    None => return,
                },
                // The other tasks that are ready have their turn, and those whose clients have sent something.
                () = yield_now(), if gathering.is_some() => {
                    let joined = joins.load(Ordering::Relaxed);
                    gathering = gathering.filter(|(began, before)| *before < joined && began.elapsed() < LONGEST_GATHERING);
                    match &mut gathering {
                        Some((_, before)) => *before = joined,
                        None => asked.notify_one(),
                    }
                }
            }
        }
    });
    sender
}

fn wake((waiting, outcome): Answered) {
    for waiting in waiting {
        let _ = waiting.caught_up.send(outcome.clone());
    }
}

fn expire(waiting: &mut Vec<Waiting>, now: Instant, error: impl Fn() -> StoreError) -> Option<Instant> {
    let expired = waiting.extract_if(.., |waiting| waiting.until <= now).collect();
    wake((expired, Err(error())));
    waiting.iter().map(|waiting| waiting.until).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use tokio::sync::oneshot;

    fn much_later() -> Instant {
        Instant::now() + Duration::from_secs(600)
    }

    #[tokio::test]
    async fn a_barrier_serves_the_requests_that_came_before_it_began_and_no_others() {
        let queue = BarrierQueue::default();
        let before = [0, 1, 1, 0].map(|shard| queue.join(shard, much_later()));
        queue.asked().await;
        let round = queue.take();
        let mut later = queue.join(1, much_later());
        assert!(!round.is_abandoned());
        round.answer(&Ok(()));
        for waiting in before {
            assert!(waiting.await.is_ok());
        }
        assert!((&mut later).now_or_never().is_none());
        queue.asked().await;
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
    async fn requests_that_are_ready_join_before_a_barrier_is_asked_for() {
        let queue = Arc::new(BarrierQueue::default());
        // Each wakes the next one when it has joined.
        let (first, mut turn) = oneshot::channel();
        let mut waiting = Vec::new();
        for _ in 0..5 {
            let (queue, (next, next_turn)) = (queue.clone(), oneshot::channel());
            let turn = mem::replace(&mut turn, next_turn);
            waiting.push(tokio::spawn(async move {
                turn.await.unwrap();
                let caught_up = queue.join(0, much_later());
                let _ = next.send(());
                caught_up.await
            }));
        }
        first.send(()).unwrap();
        queue.asked().await;
        let round = queue.take();
        assert_eq!(round.0.iter().map(|(waiting, _)| waiting.len()).sum::<usize>(), 5);
        round.answer(&Ok(()));
        for request in waiting {
            assert!(request.await.unwrap().is_ok());
        }
    }

    #[tokio::test]
    async fn gathering_ends_and_takes_nobody_away() {
        let queue = BarrierQueue::default();
        queue.gather();
        let waiting = [0, 2].map(|shard| queue.join(shard, much_later()));
        queue.gather();
        queue.take().answer(&Ok(()));
        for outcome in waiting {
            assert!(outcome.await.is_ok());
        }
    }

    #[tokio::test]
    async fn a_shard_whose_requests_never_end_asks_all_the_same() {
        let queue = Arc::new(BarrierQueue::default());
        let endless = tokio::spawn({
            let queue = queue.clone();
            async move {
                loop {
                    drop(queue.join(0, much_later()));
                    yield_now().await;
                }
            }
        });
        queue.asked().await;
        endless.abort();
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
        assert!(waiting.now_or_never().is_some_and(|outcome| outcome.is_ok()));
    }
}
