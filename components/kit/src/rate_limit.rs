//! Rate limits: at most so many requests per caller in a window of time.
//!
//! An area limits an endpoint with one call:
//!
//! ```ignore
//! rate_limit::check(&env, &rate_limit::RateLimit { variable: "issues_search_rate_limit", seconds: 60, keys: "issue-statistics/v1/rate/" }, &caller)?;
//! ```
//!
//! The variable holds the number of requests; empty or 0 disables the limit at no cost.
//!
//! Counts are in the store, so they hold across instances and hosts. Callers are hashed to a fixed
//! number of roots ([`SLOTS`]), each of which holds only the callers of the present window, so the
//! stored size does not grow with the number of callers ever seen.
//!
//! A counted request costs one read and one swap, whose flush is shared with concurrent writers; a
//! refused request costs the read alone.

use crate::clock::Timestamp;
use crate::env::Env;
use crate::error::Error;
use crate::root::{self, Decision};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The number of roots. Callers in one root wait for each other's swaps.
const SLOTS: u64 = 1024;

/// The most callers of one root in one window, so that a flood of addresses cannot grow it.
const MAX_CALLERS: usize = 1000;

/// A rate limit.
pub struct RateLimit<'a> {
    /// The variable with the number of requests per caller and window.
    pub variable: &'a str,
    /// The length of the window.
    pub seconds: i64,
    /// The key prefix of this limit's roots.
    pub keys: &'a str,
}

/// The callers of one slot.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Slot {
    callers: BTreeMap<String, Window>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Window {
    began: Timestamp,
    count: u64,
}

/// Counts a request of `caller`, or refuses it with 429. A window begins with its first request.
pub fn check(env: &Env, limit: &RateLimit, caller: &str) -> Result<(), Error> {
    let allowed = env.variables.number(limit.variable, 0);
    if allowed == 0 {
        return Ok(());
    }
    let key = format!("{}{}", limit.keys, slot(caller));
    let length = limit.seconds.saturating_mul(1000);
    // A swap that took place but was reported lost is counted twice. That is within the precision of
    // a rate limit, and cheaper than recording every request.
    root::update(env, &key, |slot: Option<Slot>| {
        let mut slot = slot.unwrap_or_default();
        slot.callers.retain(|_, window| (env.now.millis() - window.began.millis()).abs() < length);
        let is_full = slot.callers.len() >= MAX_CALLERS && !slot.callers.contains_key(caller);
        let window = slot.callers.entry(caller.to_owned()).or_insert(Window { began: env.now, count: 0 });
        if is_full || window.count >= allowed {
            return Err(Error::too_many_requests());
        }
        window.count += 1;
        Ok(Decision::Write(slot, ()))
    })
}

/// FNV-1a. It need not resist attacks: a caller who shares a slot only shares its swaps.
fn slot(caller: &str) -> u64 {
    caller
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
        % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, FailingStore, MemoryStore, NOW};

    const LIMIT: RateLimit = RateLimit { variable: "limit", seconds: 15, keys: "a/rate/" };

    fn ask(store: &MemoryStore, limit: &str, caller: &str, after: i64) -> bool {
        let mut env = testing::env(store.clone(), &[("limit", limit)]);
        env.now = Timestamp::from_millis(NOW.millis() + after);
        match check(&env, &LIMIT, caller) {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error, Error::too_many_requests());
                false
            }
        }
    }

    #[test]
    fn a_window_begins_with_its_first_request_and_ends() {
        let store = MemoryStore::default();
        let asked = [0, 1, 2, 14_999, 15_000, 15_001, 29_999].map(|after| ask(&store, "2", "u", after));
        assert_eq!(asked, [true, true, false, false, true, true, false]);
    }

    #[test]
    fn callers_do_not_count_for_each_other() {
        let store = MemoryStore::default();
        for n in 0..5000 {
            assert!(ask(&store, "1", &format!("u{n}"), 0), "{n}");
        }
        assert!(!ask(&store, "1", "u0", 0));
    }

    #[test]
    fn what_is_kept_does_not_grow() {
        let store = MemoryStore::default();
        for n in 0..20_000 {
            assert!(ask(&store, "1", &format!("u{n}"), n * 15_000));
        }
        let slots = store.keys().into_iter().filter(|key| !key.ends_with("/init"));
        let largest = slots.map(|key| crate::store::Store::get(&store, &key).unwrap().unwrap().len()).max();
        assert!(largest < Some(100), "{largest:?}");
    }

    #[test]
    fn without_a_limit_nothing_is_read() {
        for limit in ["", "0", "many"] {
            let env = testing::env(FailingStore::after(0, MemoryStore::default()), &[("limit", limit)]);
            assert_eq!(check(&env, &LIMIT, "u"), Ok(()), "{limit}");
        }
    }

    #[test]
    fn a_refused_request_writes_nothing() {
        let store = MemoryStore::default();
        assert!(ask(&store, "1", "u", 0));
        let env = testing::env(FailingStore::after(2, store), &[("limit", "1")]);
        assert_eq!(check(&env, &LIMIT, "u"), Err(Error::too_many_requests()));
    }
}
