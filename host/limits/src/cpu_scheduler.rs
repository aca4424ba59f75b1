//! The run queue of a shard's CPU-bound guests (decision 0021).
//!
//! After each slice, the shard first polls all other ready tasks. If CPU-bound guests only yielded to tokio, a new
//! request would wait for one slice of each of them. Clients take turns, and a client's guests run in the order in
//! which they came.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::concurrency_limit::ClientKey;

/// How long a CPU-bound guest occupies its shard before other tasks run, approximately.
pub const SLICE: Duration = Duration::from_millis(5);

thread_local! {
    /// The guests of this shard that wait for a slice.
    static WAITING: RefCell<SliceQueue> = RefCell::default();
}

/// Guests with their numbers, in the order in which they came.
type GuestQueue = VecDeque<(u64, Waker)>;

#[derive(Default)]
struct SliceQueue {
    /// One queue for each client with a waiting guest, never empty. A client whose guest got a slice goes to the end.
    queues: VecDeque<(Option<ClientKey>, GuestQueue)>,
    next_id: u64,
    /// Whether a task gives slices.
    is_served: bool,
}

/// A guest's wait for its next slice. Ready when the slice begins.
pub struct NextSlice {
    client: Option<ClientKey>,
    /// The guest's number, once it waits.
    id: Option<u64>,
}

/// Waits for a slice of the calling shard.
pub fn yield_to_queue(client: Option<ClientKey>) -> NextSlice {
    NextSlice { client, id: None }
}

impl SliceQueue {
    fn add(&mut self, client: Option<ClientKey>, waker: Waker) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        match self.queues.iter_mut().find(|(of, _)| *of == client) {
            Some((_, queue)) => queue.push_back((id, waker)),
            None => self.queues.push_back((client, [(id, waker)].into())),
        }
        id
    }

    /// The waker of a guest that still waits.
    fn waker(&mut self, client: Option<ClientKey>, id: u64) -> Option<&mut Waker> {
        let (_, queue) = self.queues.iter_mut().find(|(of, _)| *of == client)?;
        queue.iter_mut().find(|(other, _)| *other == id).map(|(_, waker)| waker)
    }

    fn remove(&mut self, client: Option<ClientKey>, id: u64) {
        if let Some((_, queue)) = self.queues.iter_mut().find(|(of, _)| *of == client) {
            queue.retain(|(other, _)| *other != id);
        }
        self.queues.retain(|(_, queue)| !queue.is_empty());
    }

    fn take_next(&mut self) -> Option<Waker> {
        let (client, mut queue) = self.queues.pop_front()?;
        let (_, waker) = queue.pop_front()?;
        if !queue.is_empty() {
            self.queues.push_back((client, queue));
        }
        Some(waker)
    }
}

/// Gives slices until no guest waits for one.
async fn serve() {
    loop {
        // Tokio's `yield_now` lets the shard run all ready tasks, and poll its sockets and timers.
        tokio::task::yield_now().await;
        let next = WAITING.with_borrow_mut(|waiting| {
            let next = waiting.take_next();
            waiting.is_served = next.is_some();
            next
        });
        match next {
            Some(waker) => waker.wake(),
            None => return,
        }
    }
}

impl Future for NextSlice {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let client = self.client;
        let Some(id) = self.id else {
            let is_served = WAITING.with_borrow_mut(|waiting| {
                self.id = Some(waiting.add(client, cx.waker().clone()));
                std::mem::replace(&mut waiting.is_served, true)
            });
            if !is_served {
                tokio::spawn(serve());
            }
            return Poll::Pending;
        };
        WAITING.with_borrow_mut(|waiting| match waiting.waker(client, id) {
            Some(waker) => {
                waker.clone_from(cx.waker());
                Poll::Pending
            }
            None => Poll::Ready(()),
        })
    }
}

impl Drop for NextSlice {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            WAITING.with_borrow_mut(|waiting| waiting.remove(self.client, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use tokio::task::LocalSet;

    use super::*;
    use hexad_testing::wait_async::next_turn;

    fn client(number: u64) -> Option<ClientKey> {
        Some(ClientKey::Credential(number))
    }

    /// The names of the guests that ran on a shard, in order.
    type Log = Rc<RefCell<Vec<&'static str>>>;

    /// A guest that computes for this many slices.
    async fn compute(log: Log, name: &'static str, of: Option<ClientKey>, slices: usize) {
        for _ in 0..slices {
            yield_to_queue(of).await;
            log.borrow_mut().push(name);
        }
    }

    fn run(tasks: impl FnOnce(&LocalSet, &Log)) -> Vec<&'static str> {
        let (log, set) = (Log::default(), LocalSet::new());
        tasks(&set, &log);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(set);
        WAITING.with_borrow(|waiting| assert!(waiting.queues.is_empty()));
        log.take()
    }

    #[test]
    fn between_two_slices_everything_else_runs() {
        let ran = run(|set, log| {
            for _ in 0..8 {
                set.spawn_local(compute(log.clone(), "computes", client(1), 4));
            }
            let log = log.clone();
            set.spawn_local(async move {
                for _ in 0..16 {
                    next_turn().await;
                    log.borrow_mut().push("other");
                }
            });
        });
        let slices: Vec<_> = ran.split(|name| *name == "other").map(<[_]>::len).collect();
        assert!(slices[..16].iter().all(|slices| *slices <= 1), "{ran:?}");
        assert_eq!(slices.iter().sum::<usize>(), 32, "each guest has its slices");
    }

    #[test]
    fn clients_take_turns() {
        let ran = run(|set, log| {
            for _ in 0..4 {
                set.spawn_local(compute(log.clone(), "greedy", client(1), 4));
            }
            set.spawn_local(compute(log.clone(), "modest", client(2), 4));
        });
        let last = ran.iter().rposition(|name| *name == "modest").unwrap();
        let greedy = ran[..last].iter().filter(|name| **name == "greedy").count();
        assert!((3..=6).contains(&greedy), "{ran:?}");
        assert_eq!(ran.len(), 20);
    }

    #[test]
    fn a_guest_that_has_ended_keeps_no_other_from_its_slice() {
        let ran = run(|set, log| {
            let gone = set.spawn_local(compute(log.clone(), "gone", client(1), 4));
            set.spawn_local(compute(log.clone(), "computes", client(1), 4));
            set.spawn_local(async move {
                next_turn().await;
                gone.abort();
            });
        });
        assert_eq!(ran.iter().filter(|name| **name == "computes").count(), 4, "{ran:?}");
    }
}
