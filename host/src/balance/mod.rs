//! How many of the shards serve. As a rule all of them; where they and other programs wait for one another's
//! processors, as few as carry the load: fewer threads handle more requests in each turn.

mod handover;
mod meter;
mod policy;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

pub use handover::{Handover, HandoverQueue};
use meter::{Meter, Schedule};
use policy::BalancePolicy;

use crate::busy_poll::PollingTime;

/// How often the load is measured: while the shards have work or some of them do not serve, and otherwise.
const PERIOD: Duration = Duration::from_millis(100);
const QUIET_PERIOD: Duration = Duration::from_secs(1);

/// Processors from which on the shards have work.
const BUSY: f64 = 0.25;

/// Bits of the state: the number of shards that serve, whether it is fixed, and above these the number of changes.
const SERVING: u64 = 0xffff;
const FIXED: u64 = 0x1_0000;
const CHANGE: u64 = 0x2_0000;

/// Values that no state has, because one shard serves at least: for a connection that has followed no change yet, and
/// for one that follows none any more.
const NONE: u64 = 0;
const FOR_GOOD: u64 = CHANGE;

/// The first so many shards serve. The others keep connections that cannot change the shard.
pub struct Balance {
    state: AtomicU64,
    /// Connections that have chosen a shard after a change.
    chosen: AtomicUsize,
    /// For each shard.
    queues: Vec<HandoverQueue>,
    schedules: Vec<OnceLock<Option<Schedule>>>,
}

/// The last change that a connection has followed.
#[derive(Debug)]
pub struct Followed(AtomicU64);

impl Balance {
    /// All shards serve, of which these are the queues.
    pub fn new(queues: Vec<HandoverQueue>) -> Self {
        Self {
            state: AtomicU64::new(queues.len() as u64),
            chosen: AtomicUsize::default(),
            schedules: queues.iter().map(|_| OnceLock::new()).collect(),
            queues,
        }
    }

    /// Gives a shard a connection. Returns it if the shard has stopped.
    pub fn hand_over(&self, shard: usize, handover: Handover) -> Result<(), Handover> {
        match self.queues.get(shard) {
            Some(queue) => queue(handover),
            None => Err(handover),
        }
    }

    /// Each shard's thread calls this, so that its processor time is measured.
    pub fn enter(&self, shard: usize, polling: Arc<PollingTime>) {
        if let Some(schedule) = self.schedules.get(shard) {
            let _ = schedule.set(Schedule::of_this_thread(polling));
        }
    }

    /// How many shards serve.
    pub fn serving(&self) -> usize {
        usize::try_from(self.state.load(Ordering::Relaxed) & SERVING).unwrap_or(usize::MAX)
    }

    /// Has so many shards serve, whatever the load from now on.
    pub fn fix(&self, shards: usize) {
        self.change(shards, FIXED);
    }

    /// Changes the number. False if it is fixed.
    fn change(&self, shards: usize, fixed: u64) -> bool {
        let shards = shards.clamp(1, self.schedules.len().max(1)) as u64;
        let changed = self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| {
            let next = (state & !SERVING).wrapping_add(if state & SERVING == shards { 0 } else { CHANGE }) | shards;
            (state & FIXED == 0 || fixed == FIXED).then_some(next | fixed)
        });
        changed.is_ok()
    }

    /// For a connection that begins on this shard, which may not serve any more since the connection was given to it.
    pub fn followed(&self, shard: usize) -> Followed {
        let state = self.state.load(Ordering::Relaxed);
        let serves = (shard as u64) < state & SERVING;
        Followed(AtomicU64::new(if serves { state } else { NONE }))
    }

    /// Whether there was a change that the connection has not followed.
    pub fn has_changed(&self, followed: &Followed) -> bool {
        followed.0.load(Ordering::Relaxed) != self.state.load(Ordering::Relaxed)
    }

    /// Once after each change, the shard on which the connection goes on: the connections that have requests are
    /// dealt out to the shards that serve. Connections without requests do not ask.
    pub fn deal(&self, followed: &Followed) -> Option<usize> {
        let state = self.state.load(Ordering::Relaxed);
        if followed.0.load(Ordering::Relaxed) == state {
            return None;
        }
        followed.0.store(state, Ordering::Relaxed);
        Some(self.chosen.fetch_add(1, Ordering::Relaxed) % self.serving())
    }

    /// The same for a connection that cannot move later: while not all shards serve, it gets any of them, once.
    pub fn deal_for_good(&self, followed: &Followed) -> Option<usize> {
        let (serving, shards) = (self.serving(), self.queues.len());
        let has_begun = followed.0.swap(FOR_GOOD, Ordering::Relaxed) == FOR_GOOD;
        (!has_begun && serving < shards).then(|| self.chosen.fetch_add(1, Ordering::Relaxed) % shards)
    }

    /// Follows the load until the number is fixed.
    pub async fn follow(self: Arc<Self>) {
        let mut policy = BalancePolicy::new(self.schedules.len());
        let mut meter = None;
        let mut period = QUIET_PERIOD;
        loop {
            tokio::time::sleep(period).await;
            let Some(meter) = &mut meter else {
                // A thread that has just started may not have called `enter` yet.
                let Some(told) = self.schedules.iter().map(|schedule| schedule.get().cloned()).collect() else {
                    continue;
                };
                let schedules: Vec<Option<Schedule>> = told;
                meter = schedules.into_iter().collect::<Option<_>>().and_then(Meter::new);
                match meter {
                    Some(_) => continue,
                    None => return,
                }
            };
            let Some(used) = meter.measure() else {
                self.change(self.schedules.len(), 0);
                return;
            };
            let before = self.serving();
            let serving = policy.next(before, used, Instant::now());
            if !self.change(serving, 0) {
                return;
            }
            if serving != before {
                tracing::debug!(serving, ?used, "the number of shards that serve has changed");
            }
            let is_busy = used.running >= BUSY || serving < self.schedules.len();
            period = if is_busy { PERIOD } else { QUIET_PERIOD };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn balance(shards: usize) -> Balance {
        let stopped = |_| -> HandoverQueue { Box::new(Err) };
        Balance::new((0..shards).map(stopped).collect())
    }

    #[test]
    fn connections_follow_each_change_once_and_in_equal_parts() {
        let balance = balance(4);
        let connections: Vec<_> = (0..8).map(|index| balance.followed(index % 4)).collect();
        let dealt = || {
            let mut counts = [0; 4];
            connections.iter().filter_map(|followed| balance.deal(followed)).for_each(|shard| counts[shard] += 1);
            counts
        };
        assert_eq!(dealt(), [0; 4], "nothing has changed");
        for (serving, counts) in [(2, [4, 4, 0, 0]), (1, [8, 0, 0, 0]), (4, [2; 4])] {
            balance.fix(serving);
            assert_eq!(balance.serving(), serving);
            assert_eq!(dealt(), counts);
            assert_eq!(dealt(), [0; 4], "each has followed");
            balance.fix(serving);
            assert!(!balance.change(3, 0), "it is fixed");
            assert_eq!(dealt(), [0; 4], "nothing has changed");
        }
    }

    #[test]
    fn a_connection_that_begins_on_a_shard_that_serves_no_more_moves() {
        let balance = balance(2);
        balance.fix(1);
        assert_eq!(balance.deal(&balance.followed(0)), None);
        let late = balance.followed(1);
        assert_eq!((balance.deal(&late), balance.deal(&late)), (Some(0), None));
    }

    #[test]
    fn a_connection_that_cannot_move_later_gets_any_shard_while_some_do_not_serve() {
        let balance = balance(2);
        assert_eq!(balance.deal_for_good(&balance.followed(0)), None);
        balance.fix(1);
        let connections = [balance.followed(0), balance.followed(0)];
        assert_eq!(connections.each_ref().map(|followed| balance.deal_for_good(followed)), [Some(0), Some(1)]);
        assert_eq!(connections.each_ref().map(|followed| balance.deal_for_good(followed)), [None, None]);
    }

    #[test]
    fn there_are_as_many_as_there_are_and_one_at_least() {
        let balance = balance(2);
        balance.fix(0);
        assert_eq!(balance.serving(), 1);
        balance.fix(70_000);
        assert_eq!(balance.serving(), 2);
    }
}
