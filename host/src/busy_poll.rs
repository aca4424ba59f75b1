//! A shard that has just had work polls its sockets for more before its thread sleeps.
//!
//! To wake a thread, and as a rule its processor, takes tens of microseconds, and then the caches of the processor are
//! cold. The next request of a client, or the response to an outbound request, is often there sooner.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::machine;

/// How long a shard polls if the operator names no other time, and each has a processor.
const DEFAULT: Duration = Duration::from_micros(50);

/// If a poll, or a turn that was offered to other threads, took longer, another thread had the processor.
const SWITCH: Duration = Duration::from_micros(3);

thread_local! {
    static THIS_SHARD: BusyPoll = BusyPoll::default();
}

/// How long each of so many shards polls if the operator names no time. Where they share processors, polling keeps others
/// from their work; where they have a part of one, it uses that up, and the kernel stops them until the next period.
pub fn default_window(threads: usize) -> Duration {
    if machine::has_processors_for(threads) { DEFAULT } else { Duration::ZERO }
}

/// The time for which a shard has polled and found nothing, in nanoseconds.
#[derive(Debug, Default)]
pub struct PollingTime {
    /// It had a processor.
    running: AtomicU64,
    /// Other threads had it.
    waiting: AtomicU64,
}

#[derive(Default)]
struct BusyPoll {
    has_worked: Cell<bool>,
    /// When it sleeps.
    until: Cell<Option<Instant>>,
    /// When it last began to poll its sockets.
    began: Cell<Option<Instant>>,
    /// Of the task that keeps the runtime from sleeping.
    waker: RefCell<Option<Waker>>,
}

/// Records that the shard of this thread has got work, after which it polls for more.
pub fn record_work() {
    THIS_SHARD.with(|shard| shard.has_worked.set(true));
}

/// For the runtime of a shard: it calls this whenever it has nothing to do, and polls its sockets without waiting for
/// them if that has woken a task.
pub fn before_sleep(window: Duration, time: &PollingTime) {
    THIS_SHARD.with(|shard| {
        if !shard.polls_on(window, time, Instant::now()) {
            return;
        }
        let yielded = Instant::now();
        thread::yield_now();
        shard.began.set(Some(time.count(yielded, Instant::now())));
        if let Some(waker) = &*shard.waker.borrow() {
            waker.wake_by_ref();
        }
    });
}

/// The task that is woken so that the runtime does not sleep. It has nothing to do, and does not end.
pub async fn keep_awake() {
    poll_fn(|cx| {
        THIS_SHARD.with(|shard| {
            let mut waker = shard.waker.borrow_mut();
            if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                *waker = Some(cx.waker().clone());
            }
        });
        Poll::Pending
    })
    .await
}

impl BusyPoll {
    /// Whether the shard, which has nothing to do now, polls its sockets once more.
    fn polls_on(&self, window: Duration, time: &PollingTime, now: Instant) -> bool {
        let began = self.began.take();
        if self.has_worked.take() {
            self.until.set(Some(now + window));
        } else if let Some(began) = began {
            time.count(began, now);
        }
        self.until.get().is_some_and(|until| now < until)
    }
}

impl PollingTime {
    /// Counts a poll, or the time for which the thread gave its processor away. Returns its end.
    fn count(&self, from: Instant, to: Instant) -> Instant {
        let time = to.saturating_duration_since(from);
        add(if time < SWITCH { &self.running } else { &self.waiting }, time);
        to
    }

    pub fn running(&self) -> Duration {
        Duration::from_nanos(self.running.load(Ordering::Relaxed))
    }

    pub fn waiting(&self) -> Duration {
        Duration::from_nanos(self.waiting.load(Ordering::Relaxed))
    }
}

fn add(total: &AtomicU64, time: Duration) {
    total.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const WINDOW: Duration = Duration::from_micros(50);
    const MICROSECOND: Duration = Duration::from_micros(1);

    #[test]
    fn it_polls_for_a_window_after_work_and_then_sleeps() {
        let (shard, start) = (BusyPoll::default(), Instant::now());
        let polls_on = |now| shard.polls_on(WINDOW, &PollingTime::default(), now);
        assert!(!polls_on(start), "it has had no work yet");
        shard.has_worked.set(true);
        assert!(polls_on(start));
        assert!(polls_on(start + WINDOW - MICROSECOND));
        assert!(!polls_on(start + WINDOW));
        shard.has_worked.set(true);
        assert!(polls_on(start + WINDOW * 3), "new work, a new window");
        assert!(!polls_on(start + WINDOW * 4));
    }

    #[test]
    fn it_never_polls_without_a_window() {
        let shard = BusyPoll::default();
        shard.has_worked.set(true);
        assert!(!shard.polls_on(Duration::ZERO, &PollingTime::default(), Instant::now()));
    }

    #[test]
    fn only_polls_without_work_are_counted() {
        let (shard, time, start) = (BusyPoll::default(), PollingTime::default(), Instant::now());
        shard.began.set(Some(start));
        shard.polls_on(WINDOW, &time, start + MICROSECOND);
        shard.began.set(Some(start));
        shard.has_worked.set(true);
        shard.polls_on(WINDOW, &time, start + WINDOW);
        assert_eq!((time.running(), time.waiting()), (MICROSECOND, Duration::ZERO));
        time.count(start, start + MICROSECOND);
        time.count(start, start + WINDOW);
        assert_eq!((time.running(), time.waiting()), (MICROSECOND * 2, WINDOW));
    }

    #[test]
    fn a_runtime_polls_on_and_then_sleeps() {
        let time = Arc::<PollingTime>::default();
        let (of_hook, window) = (time.clone(), Duration::from_millis(1));
        let hook = move || before_sleep(window, &of_hook);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().on_thread_park(hook).build().unwrap();
        runtime.spawn(keep_awake());
        let polled_by_the_end = || {
            runtime.block_on(async { tokio::time::sleep(window * 50).await });
            time.running() + time.waiting()
        };
        assert_eq!(polled_by_the_end(), Duration::ZERO, "there was no work");
        record_work();
        let polled = polled_by_the_end();
        assert!(polled > Duration::ZERO, "it has polled after work");
        assert_eq!(polled_by_the_end(), polled, "it sleeps again");
    }
}
