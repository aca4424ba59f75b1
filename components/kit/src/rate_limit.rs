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
//! A store that cannot count, because it is full or locked, stops no request: until it can again, an instance that
//! has no permits left counts by itself, from the beginning of a window.
//!
//! A counted request costs one read and one swap, whose flush is shared with concurrent writers; a
//! refused request costs the read alone. Limits that are on by default must cost less: [`check_leased`]
//! takes several permits at once, and an instance counts those in its memory.

use crate::clock::Timestamp;
use crate::env::Env;
use crate::error::Error;
use crate::root::{self, Decision};
use crate::store::StoreError;
use lru::LruCache;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::rc::Rc;

/// The number of roots. Callers in one root wait for each other's swaps.
const SLOTS: u64 = 1024;

/// The most callers of one root in one window, so that a flood of addresses cannot grow it.
const MAX_CALLERS: usize = 1000;

/// The most callers whose leases an instance remembers.
const MAX_LEASES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4095);

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
    /// Names the call that counted last. Earlier builds wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<u32>,
}

/// Counts a request of `caller`, or refuses it with 429. A window begins with its first request.
pub fn check(env: &Env, limit: &RateLimit, caller: &str) -> Result<(), Error> {
    match env.variables.number(limit.variable, 0) {
        0 => Ok(()),
        allowed => match take(env, limit, allowed, caller, 1) {
            Ok(Lease { permits: 0, .. }) | Err(NotTaken::Refused) => Err(Error::too_many_requests()),
            Ok(_) => Ok(()),
            Err(NotTaken::Store) => count_leased(env, limit, caller, |_| Ok(Lease::of_instance(env, allowed))),
        },
    }
}

/// The same with a `default` for a variable that is unset, where 0 disables the limit too. The instance takes the
/// permits of up to `lease` requests at once, so that most requests cost nothing. Permits that it has taken and does
/// not use are lost to the caller, so with several instances a caller may be refused after fewer requests than are
/// allowed, and never after more.
pub fn check_leased(env: &Env, limit: &RateLimit, default: u64, lease: u64, caller: &str) -> Result<(), Error> {
    let allowed = env.variables.number(limit.variable, default);
    if allowed == 0 {
        return Ok(());
    }
    count_leased(env, limit, caller, |env| match take(env, limit, allowed, caller, lease.max(1)) {
        Err(NotTaken::Refused) => Err(Error::too_many_requests()),
        Err(NotTaken::Store) => Ok(Lease::of_instance(env, allowed)),
        Ok(taken) => Ok(taken),
    })
}

/// Counts a request by the lease that the instance has for the caller, or by one that `take` gives.
fn count_leased(
    env: &Env,
    limit: &RateLimit,
    caller: &str,
    take: impl FnOnce(&Env) -> Result<Lease, Error>,
) -> Result<(), Error> {
    let leases = leases(env);
    let key = [limit.keys, caller].concat();
    if let Some(lease) = leases.0.borrow_mut().get_mut(&key).filter(|lease| lease.is_current(env, limit)) {
        if lease.permits == 0 && lease.is_last {
            return Err(Error::too_many_requests());
        }
        if lease.permits > 0 {
            lease.permits -= 1;
            return Ok(());
        }
    }
    let mut taken = take(env)?;
    let outcome = match taken.permits.checked_sub(1) {
        None => Err(Error::too_many_requests()),
        Some(left) => {
            taken.permits = left;
            Ok(())
        }
    };
    leases.0.borrow_mut().put(key, taken);
    outcome
}

/// Whether this instance knows that [`check_leased`] refuses the caller. Reads nothing.
pub fn is_refused(env: &Env, limit: &RateLimit, caller: &str) -> bool {
    let leases = leases(env);
    let leases = leases.0.borrow();
    let known = (!leases.is_empty()).then(|| leases.peek(&[limit.keys, caller].concat()).copied()).flatten();
    known.is_some_and(|lease| lease.permits == 0 && lease.is_last && lease.is_current(env, limit))
}

/// The leases of an instance by limit and caller.
struct Leases(RefCell<LruCache<String, Lease>>);

/// Permits that were taken from the store and not used yet.
#[derive(Clone, Copy)]
struct Lease {
    /// When the window began.
    began: Timestamp,
    permits: u64,
    /// Whether the window has no more permits in the store.
    is_last: bool,
}

impl Lease {
    /// All permits of a window, without the store.
    fn of_instance(env: &Env, allowed: u64) -> Self {
        Self { began: env.now, permits: allowed, is_last: true }
    }

    fn is_current(&self, env: &Env, limit: &RateLimit) -> bool {
        (env.now.millis() - self.began.millis()).abs() < length(limit)
    }
}

fn leases(env: &Env) -> Rc<Leases> {
    env.instance_cache.get().unwrap_or_else(|| {
        let leases = Rc::new(Leases(RefCell::new(LruCache::new(MAX_LEASES))));
        env.instance_cache.put(leases.clone());
        leases
    })
}

/// The length of a window, in milliseconds.
fn length(limit: &RateLimit) -> i64 {
    limit.seconds.saturating_mul(1000)
}

/// Why the store gave no permits.
enum NotTaken {
    /// The caller's slot has no room.
    Refused,
    /// It cannot count. The host logs why.
    Store,
}

impl From<StoreError> for NotTaken {
    fn from(_: StoreError) -> Self {
        Self::Store
    }
}

/// Takes up to `wanted` of the caller's permits.
fn take(env: &Env, limit: &RateLimit, allowed: u64, caller: &str, wanted: u64) -> Result<Lease, NotTaken> {
    let key = format!("{}{}", limit.keys, slot(caller));
    // A swap that took place but was reported lost is counted twice if another call counted in between. That is within
    // the precision of a rate limit, and cheaper than recording every request.
    let mut taken: Option<(u32, Lease)> = None;
    root::update(env, &key, |slot: Option<Slot>| {
        let mut slot = slot.unwrap_or_default();
        slot.callers.retain(|_, window| (env.now.millis() - window.began.millis()).abs() < length(limit));
        if slot.callers.len() >= MAX_CALLERS && !slot.callers.contains_key(caller) {
            return Err(NotTaken::Refused);
        }
        let window = slot.callers.entry(caller.to_owned()).or_insert(Window { began: env.now, count: 0, last: None });
        if let Some((_, lease)) = taken.filter(|(id, _)| window.last == Some(*id)) {
            return Ok(Decision::Done(Lease { is_last: window.count >= allowed, ..lease }));
        }
        let permits = wanted.min(allowed.saturating_sub(window.count));
        let lease = Lease { began: window.began, permits, is_last: window.count + permits >= allowed };
        if permits == 0 {
            return Ok(Decision::Done(lease));
        }
        let id = taken.map_or_else(|| random(env), |(id, _)| id);
        taken = Some((id, lease));
        window.count += permits;
        window.last = Some(id);
        Ok(Decision::Write(slot, lease))
    })
}

fn random(env: &Env) -> u32 {
    let mut bytes = [0; 4];
    env.entropy.fill(&mut bytes);
    u32::from_le_bytes(bytes)
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
    use crate::testing::{self, FailingStore, LostReplyStore, MemoryStore, NOW, SwapReply};

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
    fn slots_do_not_grow_with_former_callers() {
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
    fn leased_permits_cost_no_operation_and_are_never_more_than_allowed() {
        let store = MemoryStore::default();
        let ask = |env: &Env| check_leased(env, &LIMIT, 10, 4, "u").is_ok();
        let [one, other] = [(), ()].map(|()| testing::env(store.clone(), &[]));
        // One instance takes 4, the other 4, then the first the last 2.
        assert_eq!([(); 3].map(|()| ask(&one)), [true, true, true]);
        assert_eq!([(); 3].map(|()| ask(&other)), [true, true, true]);
        let offline = Env { store: Rc::new(FailingStore::after(0, store.clone())), ..one.clone() };
        assert!(ask(&offline), "leased");
        assert_eq!([(); 4].map(|()| ask(&one)), [true, true, false, false]);
        assert_eq!([(); 2].map(|()| ask(&other)), [true, false]);
        assert!(is_refused(&one, &LIMIT, "u") && !is_refused(&one, &LIMIT, "v"));
        assert!(!ask(&offline), "a refusal is remembered");
        let later = Env { now: Timestamp::from_millis(NOW.millis() + 15_000), ..one.clone() };
        assert!(!is_refused(&later, &LIMIT, "u") && ask(&later));
    }

    /// Spin with Redis reports every swap as lost.
    #[test]
    fn a_swap_that_is_reported_as_lost_is_counted_once() {
        let store = MemoryStore::default();
        let env = testing::env(LostReplyStore::with(store.clone(), |_| SwapReply::Denied), &[("limit", "3")]);
        let asked = [(); 5].map(|()| check(&env, &LIMIT, "u").is_ok());
        assert_eq!(asked, [true, true, true, false, false]);
        let asked = [(); 12].map(|()| check_leased(&env, &LIMIT, 10, 4, "v").is_ok());
        assert_eq!(asked.iter().filter(|passed| **passed).count(), 3, "the variable is set");
        let env = testing::env(LostReplyStore::with(store, |_| SwapReply::Denied), &[]);
        let asked = [(); 12].map(|()| check_leased(&env, &LIMIT, 10, 4, "w").is_ok());
        assert_eq!(asked.iter().filter(|passed| **passed).count(), 10);
    }

    #[test]
    fn while_the_store_cannot_count_each_instance_does() {
        let store = MemoryStore::default();
        let full = || testing::env(FailingStore::after(0, store.clone()), &[("limit", "3")]);
        let env = full();
        assert_eq!([(); 5].map(|()| check(&env, &LIMIT, "u").is_ok()), [true, true, true, false, false]);
        assert_eq!([(); 4].map(|()| check_leased(&env, &LIMIT, 10, 2, "v").is_ok()), [true, true, true, false]);
        let later = Env { now: Timestamp::from_millis(NOW.millis() + 15_000), ..env.clone() };
        assert!(check(&later, &LIMIT, "u").is_ok());
        let again = Env { store: Rc::new(store.clone()), ..env };
        assert_eq!([(); 4].map(|()| check(&again, &LIMIT, "u").is_ok()), [true, true, true, false]);
    }

    #[test]
    fn counts_stored_by_an_earlier_build_are_continued() {
        let store = MemoryStore::default();
        assert!(ask(&store, "2", "u", 0));
        let key = store.keys().into_iter().find(|key| !key.ends_with("/init")).unwrap();
        let earlier =
            format!(r#"{{"callers":{{"u":{{"began":{},"count":2}}}}}}"#, serde_json::to_string(&NOW).unwrap());
        crate::store::Store::set(&store, &key, earlier.as_bytes()).unwrap();
        assert!(!ask(&store, "2", "u", 0) && ask(&store, "3", "u", 0));
    }

    #[test]
    fn a_default_holds_until_the_variable_is_set() {
        for (variable, allowed) in [("", 2), ("0", 20), ("5", 5)] {
            let env = testing::env(MemoryStore::default(), &[("limit", variable)]);
            let passed = (0..20).filter(|_| check_leased(&env, &LIMIT, 2, 3, "u").is_ok()).count();
            assert_eq!(passed, allowed, "{variable}");
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
