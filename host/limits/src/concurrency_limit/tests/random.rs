//! Random operations of callers, in one task and on several threads.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use fastrand::Rng;
use hexad_testing::wait::SOON;
use hexad_testing::wait_async::{next_turn, within_async};

use super::*;

const PERMITS: usize = 6;
const SHARE: usize = 3;
const QUEUE: usize = 12;

/// The clients that have a permit.
struct Holders(Vec<ClientKeys>);

impl Holders {
    /// How many permits a client has.
    fn taken(&self, client: ClientKeys) -> usize {
        let of = |key: ClientKey| self.0.iter().filter(|holder| holder.contains(&Some(key))).count();
        client.into_iter().flatten().map(of).max().unwrap_or(0)
    }

    fn may_have_more(&self, client: ClientKeys) -> bool {
        let free = PERMITS - self.0.len();
        free > 0 && self.taken(client) < SHARE && self.taken(client) <= free
    }
}

/// Callers of a limit. The test checks the limit after each step.
struct Callers<'a> {
    limit: &'a ConcurrencyLimit,
    held: Vec<(ClientKeys, Permit)>,
    queue: Vec<(ClientKeys, Caller<'a>)>,
}

impl<'a> Callers<'a> {
    fn holders(&self) -> Holders {
        Holders(self.held.iter().map(|(client, _)| *client).collect())
    }

    async fn step(&mut self, rng: &mut Rng) {
        match rng.usize(..4) {
            0 if !self.held.is_empty() => {
                let given_back = self.held.swap_remove(rng.usize(..self.held.len()));
                let before = self.holders();
                drop(given_back);
                let served = self.poll_all().await;
                self.assert_order(&before, &served);
            }
            1 if !self.queue.is_empty() => drop(self.queue.swap_remove(rng.usize(..self.queue.len()))),
            _ => self.begin(rng).await,
        }
        // Others have displaced some.
        assert!(self.poll_all().await.is_empty());
        self.assert_rules();
    }

    async fn begin(&mut self, rng: &mut Rng) {
        let credential = Some(rng.usize(..8)).filter(|credential| *credential < 4);
        let client = match rng.usize(..8) {
            0 => HOST,
            address => client(u8::try_from(address).unwrap(), credential.map(|credential| credential as u64)),
        };
        let may_begin = self.holders().may_have_more(client);
        let mut caller: Caller<'a> = Box::pin(self.limit.acquire(client));
        match poll!(&mut caller) {
            Poll::Ready(Ok(permit)) => {
                assert!(may_begin);
                self.held.push((client, permit));
            }
            Poll::Ready(Err(Saturated)) => assert!(!may_begin),
            Poll::Pending => {
                assert!(!may_begin);
                self.queue.push((client, caller));
            }
        }
    }

    /// Removes the callers that no longer wait. Returns the clients that got a permit.
    async fn poll_all(&mut self) -> Vec<ClientKeys> {
        let (mut waiting, mut served) = (Vec::new(), Vec::new());
        for (client, mut caller) in self.queue.drain(..) {
            match poll!(&mut caller) {
                Poll::Pending => waiting.push((client, caller)),
                Poll::Ready(Err(Saturated)) => {}
                Poll::Ready(Ok(permit)) => {
                    served.push(client);
                    self.held.push((client, permit));
                }
            }
        }
        self.queue = waiting;
        served
    }

    /// No waiting client had fewer permits than the client that got one.
    fn assert_order(&self, before: &Holders, served: &[ClientKeys]) {
        // Several are served if a permit was free that none of them could take.
        let [served] = served else { return };
        for (waiting, _) in self.queue.iter().filter(|(client, _)| before.taken(*client) < SHARE) {
            assert!(before.taken(*served) <= before.taken(*waiting), "{served:?} before {waiting:?}");
        }
    }

    fn assert_rules(&self) {
        let holders = self.holders();
        assert_eq!((self.limit.taken(), self.limit.waiting()), (self.held.len(), self.queue.len()));
        assert!(self.held.len() <= PERMITS && self.queue.len() <= QUEUE);
        for client in &holders.0 {
            assert!(holders.taken(*client) <= SHARE, "{client:?} has more than its share");
        }
        for (client, _) in &self.queue {
            assert!(!holders.may_have_more(*client), "{client:?} is forgotten");
        }
    }
}

#[tokio::test]
async fn random_callers_break_no_rule() {
    for seed in 1..300 {
        let mut rng = Rng::with_seed(seed);
        let limit = ConcurrencyLimit::new(PERMITS, LONG, QUEUE).with_share(SHARE);
        let mut callers = Callers { limit: &limit, held: Vec::new(), queue: Vec::new() };
        // Otherwise tokio lets a task of many polls wait for the next turn.
        tokio::task::unconstrained(async {
            for _ in 0..200 {
                callers.step(&mut rng).await;
            }
        })
        .await;
        drop(callers);
        assert_eq!((limit.available(), limit.waiting()), (PERMITS, 0), "seed {seed}");
    }
}

/// Takes permits, returns them and gives up.
async fn work(limit: &ConcurrencyLimit, held: &HashMap<Option<ClientKey>, AtomicUsize>, rng: &mut Rng) {
    for _ in 0..3_000 {
        let [address, credential] = [1, 2].map(|_| 1 + u8::try_from(rng.usize(..3)).unwrap());
        let keys = client(address, Some(credential.into()));
        let mut caller = Box::pin(limit.acquire(keys));
        let permit = match poll!(&mut caller) {
            Poll::Ready(permit) => permit.unwrap(),
            // It may have got a permit meanwhile.
            Poll::Pending if rng.usize(..2) == 0 => continue,
            Poll::Pending => within_async(SOON, "a permit of another thread", caller).await.unwrap(),
        };
        for (key, most) in [(None, 3), (keys[0], 2), (keys[2], 2)] {
            assert!(held[&key].fetch_add(1, Ordering::SeqCst) < most);
        }
        // Other threads may run while it holds the permit.
        next_turn().await;
        for key in [None, keys[0], keys[2]] {
            held[&key].fetch_sub(1, Ordering::SeqCst);
        }
        drop(permit);
    }
}

/// A caller that is forgotten gets no permit.
#[test]
fn no_caller_of_another_thread_is_forgotten() {
    let limit = ConcurrencyLimit::new(3, LONG, usize::MAX).with_share(2);
    let keys = (1..4).flat_map(|n| client(n, Some(n.into()))).chain([None]);
    let held = keys.map(|key| (key, AtomicUsize::new(0))).collect();
    std::thread::scope(|scope| {
        for thread in 1..7 {
            let (limit, held) = (&limit, &held);
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                runtime.block_on(work(limit, held, &mut Rng::with_seed(thread)));
            });
        }
    });
    assert_eq!((limit.available(), limit.waiting()), (3, 0));
}
