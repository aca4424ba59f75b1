//! When fewer shards serve, and when all of them.

use std::time::{Duration, Instant};

/// How many processors, on average over a period:
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// Ran the shards.
    pub running: f64,
    /// Were missing: shards that were ready to run waited, because other threads had the processors.
    pub missing: f64,
    /// Ran nothing.
    pub idle: f64,
}

/// From here on the shards are in each other's way, or other programs in theirs. A busy shard that has a processor to
/// itself measures a hundredth.
const CROWDED: f64 = 0.08;

/// With more idle processors than this, the shards have room.
const ROOM: f64 = 0.75;

/// The work of several shards that one can do: it needs less time for it than they do, because it handles more requests
/// in each turn and is woken more rarely.
const LOAD_OF_ONE: f64 = 1.05;

/// The same for each of several, which are never equally busy.
const LOAD_OF_EACH: f64 = 0.75;

/// The share of its time from which on a shard may be too slow for its clients.
const FULL: f64 = 0.9;

/// Idle processors from which on another shard would run. Clients on the same machine that wait for a full shard leave
/// half a processor or more idle, those that are as busy as the shard a quarter at most.
const IDLE: f64 = 0.4;

/// Missing processors for each shard from which on more threads get a larger share of the processors.
const CROWDED_OUT: f64 = 0.2;

/// Idle processors with which all shards serve again after a time, if none is missing: fewer would gain nothing, and a
/// request that takes long delays fewer others.
const PLENTY: f64 = 1.0;
const PLENTY_PERIOD: Duration = Duration::from_secs(3);

/// After so long at full load, all shards are tried although no processor seems to be idle: the system's figures may
/// be wrong, as they are in some containers. The time doubles after each such trial.
const FIRST_FULL_PERIOD: Duration = Duration::from_secs(10);

/// A choice that is undone so soon was wrong.
const TRIAL: Duration = Duration::from_secs(5);

/// How long fewer shards are not tried again after they were too few. Each time in succession it is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Decides from period to period.
pub struct BalancePolicy {
    shards: usize,
    /// The number of shards that the last period proposed. Two proposals in succession must agree.
    proposed: usize,
    /// When fewer shards were chosen.
    reduced: Option<Instant>,
    not_before: Option<Instant>,
    pause: Duration,
    plenty_since: Option<Instant>,
    full_since: Option<Instant>,
    full_period: Duration,
}

impl BalancePolicy {
    pub fn new(shards: usize) -> Self {
        Self {
            shards,
            proposed: shards,
            reduced: None,
            not_before: None,
            pause: FIRST_PAUSE,
            plenty_since: None,
            full_since: None,
            full_period: FIRST_FULL_PERIOD,
        }
    }

    /// How many shards serve from now on, after a period that ended now and in which `serving` did.
    pub fn next(&mut self, serving: usize, period: Use, now: Instant) -> usize {
        let (proposal, is_trial) = self.proposal(serving, period, now);
        if std::mem::replace(&mut self.proposed, proposal) != proposal {
            return serving;
        }
        if proposal < serving {
            self.reduced = Some(now);
        } else if proposal > serving && is_trial {
            self.full_period = (self.full_period * 2).min(LONGEST_PAUSE);
        } else if proposal > serving {
            let is_wrong = self.reduced.is_some_and(|reduced| now < reduced + TRIAL);
            self.pause = if is_wrong { (self.pause * 2).min(LONGEST_PAUSE) } else { FIRST_PAUSE };
            self.not_before = Some(now + self.pause);
            self.full_period = FIRST_FULL_PERIOD;
        }
        proposal
    }

    /// How many should serve, and whether that is a trial.
    fn proposal(&mut self, serving: usize, used: Use, now: Instant) -> (usize, bool) {
        let Use { running, missing, idle } = used;
        let of_each = |load: f64| load * serving as f64;
        let is_full = running + missing >= of_each(FULL);
        let full_for = lasting(&mut self.full_since, is_full && serving < self.shards, now);
        let plenty_for = lasting(&mut self.plenty_since, missing < CROWDED && idle >= PLENTY, now);
        if serving < self.shards {
            let has_help = idle >= IDLE || missing >= of_each(CROWDED_OUT);
            if is_full && has_help || plenty_for >= PLENTY_PERIOD {
                return (self.shards, false);
            }
            if full_for >= self.full_period {
                return (self.shards, true);
            }
        }
        let may_reduce = self.not_before.is_none_or(|not_before| now >= not_before);
        let is_crowded = missing >= CROWDED && idle < ROOM;
        match enough(running) {
            fewer if fewer < serving && is_crowded && may_reduce => (fewer, false),
            _ => (serving, false),
        }
    }
}

/// How long the condition has held.
fn lasting(since: &mut Option<Instant>, holds: bool, now: Instant) -> Duration {
    if !holds {
        *since = None;
        return Duration::ZERO;
    }
    now - *since.get_or_insert(now)
}

/// The fewest shards for this load.
fn enough(running: f64) -> usize {
    if running <= LOAD_OF_ONE { 1 } else { (running / LOAD_OF_EACH).ceil() as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_millis(100);

    /// Measured with a client on the same machine of two processors: small cached responses on sixteen and on four
    /// connections, and calls of a component, on two shards and on one.
    const CACHED_ON_TWO: Use = Use { running: 0.95, missing: 0.71, idle: 0.20 };
    const CACHED_FOR_FOUR: Use = Use { running: 0.82, missing: 0.13, idle: 0.51 };
    const CACHED_ON_ONE: Use = Use { running: 0.97, missing: 0.01, idle: 0.12 };
    const CALLS_ON_TWO: Use = Use { running: 1.38, missing: 0.50, idle: 0.07 };
    const CALLS_ON_ONE: Use = Use { running: 0.98, missing: 0.01, idle: 0.64 };
    const NOTHING: Use = Use { running: 0.0, missing: 0.0, idle: 2.0 };

    struct Clock {
        policy: BalancePolicy,
        now: Instant,
        serving: usize,
    }

    impl Clock {
        fn new(shards: usize) -> Self {
            Self { policy: BalancePolicy::new(shards), now: Instant::now(), serving: shards }
        }

        /// The last choice after some periods like this one.
        fn after(&mut self, periods: u32, period: Use) -> usize {
            for _ in 0..periods {
                self.now += PERIOD;
                self.serving = self.policy.next(self.serving, period, self.now);
            }
            self.serving
        }
    }

    #[test]
    fn two_contending_shards_are_reduced_to_one() {
        let mut clock = Clock::new(2);
        assert_eq!(clock.after(1, CACHED_ON_TWO), 2, "one period may be chance");
        assert_eq!(clock.after(1, CACHED_ON_TWO), 1);
        assert_eq!(clock.after(90, CACHED_ON_ONE), 1);
        assert_eq!(Clock::new(2).after(2, CACHED_FOR_FOUR), 1);
    }

    #[test]
    fn shards_with_room_all_serve() {
        assert_eq!(Clock::new(8).after(1000, Use { running: 0.6, missing: 0.1, idle: 5.0 }), 8);
    }

    #[test]
    fn calls_of_components_stay_on_all_shards() {
        assert_eq!(Clock::new(2).after(1000, CALLS_ON_TWO), 2);
    }

    #[test]
    fn more_work_than_one_shard_can_do_is_on_all_again() {
        let mut clock = Clock::new(2);
        assert_eq!(clock.after(2, CACHED_ON_TWO), 1);
        assert_eq!(clock.after(2, CALLS_ON_ONE), 2);
    }

    #[test]
    fn a_shard_that_other_programs_crowd_out_gets_help() {
        let mut clock = Clock::new(2);
        assert_eq!(clock.after(2, CACHED_ON_TWO), 1);
        assert_eq!(clock.after(2, Use { running: 0.6, missing: 0.4, idle: 0.0 }), 2);
    }

    #[test]
    fn a_choice_that_was_wrong_is_tried_more_and_more_rarely() {
        let crowded = Use { running: 1.0, missing: 1.0, idle: 0.0 };
        let crowded_out = Use { running: 0.6, missing: 0.4, idle: 0.0 };
        let mut clock = Clock::new(2);
        let mut tries = 0;
        for _ in 0..10 * 60 * 10 {
            let before = clock.serving;
            let period = if before == 2 { crowded } else { crowded_out };
            tries += u32::from(clock.after(1, period) < before);
        }
        assert!((2..=12).contains(&tries), "{tries} tries in ten minutes");
    }

    #[test]
    fn a_choice_outlasts_a_short_pause_and_no_long_one() {
        let mut clock = Clock::new(2);
        clock.after(2, CACHED_ON_TWO);
        assert_eq!(clock.after(20, NOTHING), 1);
        assert_eq!(clock.after(10, CACHED_ON_ONE), 1);
        assert_eq!(clock.after(35, NOTHING), 2);
    }

    #[test]
    fn a_shard_that_has_become_busy_shares_with_the_others_once_there_is_room() {
        let mut clock = Clock::new(16);
        assert_eq!(clock.after(2, Use { running: 0.6, missing: 0.3, idle: 0.1 }), 1);
        assert_eq!(clock.after(40, Use { running: 0.8, missing: 0.0, idle: 15.0 }), 16);
    }

    #[test]
    fn all_shards_are_tried_now_and_then_even_if_no_processor_seems_to_be_idle() {
        let mut clock = Clock::new(2);
        clock.after(2, CACHED_ON_TWO);
        let full = Use { idle: 0.0, ..CALLS_ON_ONE };
        assert_eq!(clock.after(110, full), 2);
        assert_eq!(clock.after(1000, Use { idle: 0.0, ..CALLS_ON_TWO }), 2, "they are needed");
        let mut changes = 0;
        for _ in 0..10 * 60 * 10 {
            let before = clock.serving;
            changes += u32::from(clock.after(1, if before == 2 { CACHED_ON_TWO } else { CACHED_ON_ONE }) > before);
        }
        assert!((2..=6).contains(&changes), "{changes} tries in ten minutes");
    }

    #[test]
    fn many_shards_become_as_few_as_carry_the_load() {
        let mut clock = Clock::new(16);
        assert_eq!(clock.after(100, Use { running: 6.0, missing: 0.05, idle: 0.0 }), 16, "nobody waits");
        assert_eq!(clock.after(2, Use { running: 6.0, missing: 3.0, idle: 0.0 }), 8);
        assert_eq!(clock.after(100, Use { running: 6.0, missing: 0.5, idle: 1.0 }), 8);
        assert_eq!(clock.after(2, Use { running: 7.3, missing: 0.1, idle: 1.0 }), 16);
    }
}
