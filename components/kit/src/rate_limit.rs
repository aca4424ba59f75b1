//! Rate limits: a bound on the requests of each caller in a window of time.
//!
//! An area limits an endpoint with one call:
//!
//! ```ignore
//! let limit = RateLimit { variable: "issues_search_rate_limit", seconds: 60, keys: "issue-statistics/v1/rate/" };
//! rate_limit::check(&env, &limit, &caller)?;
//! ```
//!
//! The variable holds the number of requests; empty or 0 disables the limit at no cost.
//!
//! Counts are in the store, so they hold across instances and hosts. A hash assigns callers to a fixed number of roots.
//! Each root holds only the callers of the present window, so former callers take no space. The hash has a stored
//! random key, so a client cannot choose addresses that share a root with another client's. A full root evicts its
//! caller with the fewest requests, so a flood of callers gets no other caller refused.
//!
//! A store that cannot count, because it is full or locked, stops no request. Meanwhile an instance without permits
//! counts in its memory, from the beginning of a window.
//!
//! A counted request costs one read and one swap, whose flush is shared with concurrent writers. A refused request
//! costs the read only. A limit that is on by default must cost less: with [`check_leased`] an instance takes several
//! permits at once and counts them in its memory.

use crate::clock::Timestamp;
use crate::env::Env;
use crate::error::Error;
use crate::root::{self, Decision};
use crate::store::StoreError;
use lru::LruCache;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::num::NonZeroUsize;
use std::rc::Rc;

/// The number of roots. Callers in one root wait for each other's swaps.
const SLOTS: u64 = 1024;

/// The most callers of one root in one window. It bounds the root's size in a flood of addresses.
const MAX_CALLERS: usize = 1000;

/// The most distinct items of a caller in a root. Beyond it, each request counts.
const MAX_ITEMS: usize = 1000;

/// The most callers whose leases an instance caches.
const MAX_LEASES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4095);

/// A rate limit.
pub struct RateLimit<'a> {
    /// The variable with the number of requests per caller and window. The response 429 names it.
    pub variable: &'a str,
    /// The length of the window, in seconds.
    pub seconds: i64,
    /// The key prefix of this limit's roots.
    pub keys: &'a str,
}

/// The random key of the hash that assigns a caller to a slot.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct HashKey {
    key: u64,
}

/// The callers of one slot.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Slot {
    callers: BTreeMap<String, Window>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Window {
    began: Timestamp,
    count: u64,
    /// The id of the call that counted last. Earlier builds did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<u32>,
    /// The distinct items that were counted ([`check_distinct`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    items: Vec<u32>,
}

/// Counts a request of `caller`, or refuses it with 429. A window begins with its first request.
pub fn check(env: &Env, limit: &RateLimit, caller: &str) -> Result<(), Error> {
    match env.variables.number(limit.variable, 0) {
        0 => Ok(()),
        allowed => match take(env, limit, allowed, caller, Demand::up_to(1)) {
            Ok(lease) if lease.permits == 0 => Err(lease.refusal(env, limit)),
            Ok(_) => Ok(()),
            Err(_) => count_leased(env, limit, caller, |_| Lease::of_instance(env, allowed)),
        },
    }
}

/// Like [`check`], with a `default` for an unset variable, and with leases: an instance takes several permits at once,
/// so that most requests cost nothing. It takes a quarter of the permits that it has used in the window, at least 1 and
/// at most `max_lease`. Unused permits of an instance are lost to the caller. So a caller gets at least four fifths of
/// the allowed requests and never more, for any number and lifetime of instances.
pub fn check_leased(env: &Env, limit: &RateLimit, default: u64, max_lease: u64, caller: &str) -> Result<(), Error> {
    let allowed = env.variables.number(limit.variable, default);
    if allowed == 0 {
        return Ok(());
    }
    count_leased(env, limit, caller, |used| {
        let wanted = (used / 4).clamp(1, max_lease.max(1));
        take(env, limit, allowed, caller, Demand::up_to(wanted)).unwrap_or_else(|_| Lease::of_instance(env, allowed))
    })
}

/// Counts a request that costs `cost` permits, or refuses it with 429 if fewer are left. A higher cost counts as the
/// whole limit.
pub fn check_cost(env: &Env, limit: &RateLimit, default: u64, cost: u64, caller: &str) -> Result<(), Error> {
    let allowed = env.variables.number(limit.variable, default);
    let cost = cost.min(allowed);
    if cost == 0 {
        return Ok(());
    }
    match take(env, limit, allowed, caller, Demand { permits: cost, min: cost, item: None }) {
        Ok(lease) if lease.permits == 0 => Err(lease.refusal(env, limit)),
        Ok(_) => Ok(()),
        // Without the store, an instance counts requests, not their costs.
        Err(_) => count_leased(env, limit, caller, |_| Lease::of_instance(env, (allowed / cost).max(1))),
    }
}

/// Counts an item of `caller`, such as a hash of a sent value; 429 beyond the limit. An item that was counted in the
/// window is accepted and does not count again. An instance that has cached the item reads nothing.
pub fn check_distinct(env: &Env, limit: &RateLimit, default: u64, caller: &str, item: u32) -> Result<(), Error> {
    let allowed = env.variables.number(limit.variable, default);
    let item_key = Leases::key(limit, &format!("{caller} {item}"));
    let leases = leases(env);
    if allowed == 0 || leases.current(env, limit, &item_key).is_some() {
        return Ok(());
    }
    let Ok(lease) = take(env, limit, allowed, caller, Demand { item: Some(item), ..Demand::up_to(1) }) else {
        count_leased(env, limit, caller, |_| Lease::of_instance(env, allowed))?;
        leases.put(item_key, Lease::of_instance(env, allowed));
        return Ok(());
    };
    if lease.is_last {
        leases.put(Leases::key(limit, caller), Lease { permits: 0, ..lease });
    }
    if lease.permits == 0 {
        return Err(lease.refusal(env, limit));
    }
    leases.put(item_key, lease);
    Ok(())
}

/// Counts a request by the instance's lease for the caller, or by a new lease from `take`. The argument of `take` is
/// the number of permits that the instance has used in the window.
fn count_leased(env: &Env, limit: &RateLimit, caller: &str, take: impl FnOnce(u64) -> Lease) -> Result<(), Error> {
    let (leases, key) = (leases(env), Leases::key(limit, caller));
    let present = leases.current(env, limit, &key);
    let mut lease = match present {
        Some(lease) if lease.permits > 0 || lease.is_last => lease,
        _ => {
            let used = present.map_or(0, |lease| lease.used);
            Lease { used, ..take(used) }
        }
    };
    let outcome = match lease.permits.checked_sub(1) {
        None => Err(lease.refusal(env, limit)),
        Some(left) => {
            (lease.permits, lease.used) = (left, lease.used + 1);
            Ok(())
        }
    };
    leases.put(key, lease);
    outcome
}

/// The 429 for the caller's next request, if this instance knows that the window has no permits left. Reads nothing.
pub fn known_refusal(env: &Env, limit: &RateLimit, caller: &str) -> Option<Error> {
    let leases = leases(env);
    if leases.leases.borrow().is_empty() {
        return None;
    }
    let lease = leases.current(env, limit, &Leases::key(limit, caller))?;
    (lease.permits == 0 && lease.is_last).then(|| lease.refusal(env, limit))
}

/// The state of rate limits in an instance.
struct Leases {
    /// The leases by limit and caller.
    leases: RefCell<LruCache<String, Lease>>,
    /// The hash keys by limit.
    hash_keys: RefCell<BTreeMap<String, u64>>,
}

impl Leases {
    fn key(limit: &RateLimit, caller: &str) -> String {
        [limit.keys, caller].concat()
    }

    fn current(&self, env: &Env, limit: &RateLimit, key: &str) -> Option<Lease> {
        self.leases.borrow_mut().get(key).copied().filter(|lease| is_current(env, limit, lease.began))
    }

    fn put(&self, key: String, lease: Lease) {
        self.leases.borrow_mut().put(key, lease);
    }
}

/// Permits that were taken from the store and are unused.
#[derive(Clone, Copy)]
struct Lease {
    began: Timestamp,
    permits: u64,
    /// The number of permits that the instance has used in the window.
    used: u64,
    /// Whether the store has no more permits for the window.
    is_last: bool,
}

impl Lease {
    /// All permits of a window, counted without the store.
    fn of_instance(env: &Env, allowed: u64) -> Self {
        Self { began: env.now, permits: allowed, used: 0, is_last: true }
    }

    /// 429 until the window ends.
    fn refusal(&self, env: &Env, limit: &RateLimit) -> Error {
        let left = (window_millis(limit) - (env.now.millis() - self.began.millis())).min(window_millis(limit));
        Error::too_many_requests(limit.variable, u64::try_from(left).unwrap_or(0).div_ceil(1000).max(1))
    }
}

fn leases(env: &Env) -> Rc<Leases> {
    let make = || Leases { leases: RefCell::new(LruCache::new(MAX_LEASES)), hash_keys: RefCell::default() };
    env.instance_cache.get_or_insert_with(make)
}

/// The length of a window, in milliseconds.
fn window_millis(limit: &RateLimit) -> i64 {
    limit.seconds.saturating_mul(1000)
}

fn is_current(env: &Env, limit: &RateLimit, began: Timestamp) -> bool {
    (env.now.millis() - began.millis()).abs() < window_millis(limit)
}

/// A request for permits.
struct Demand {
    permits: u64,
    /// If fewer permits are left, none is taken.
    min: u64,
    /// If this item was counted in the window, no permit is taken, and the request is accepted.
    item: Option<u32>,
}

impl Demand {
    fn up_to(permits: u64) -> Self {
        Demand { permits, min: 1, item: None }
    }
}

/// Takes permits of the caller. If the store cannot count, the host logs the reason.
fn take(env: &Env, limit: &RateLimit, allowed: u64, caller: &str, wanted: Demand) -> Result<Lease, StoreError> {
    let Demand { permits: wanted, min, item } = wanted;
    let key = format!("{}{}", limit.keys, slot(env, limit, caller)?);
    // If a swap is reported lost although it took place, and another call counts in between, the call counts twice. A
    // rate limit may be that imprecise; recording every request would cost more.
    let mut taken: Option<(u32, Lease)> = None;
    root::update(env, &key, |slot: Option<Slot>| {
        let mut slot = slot.unwrap_or_default();
        slot.callers.retain(|_, window| is_current(env, limit, window.began));
        if slot.callers.len() >= MAX_CALLERS && !slot.callers.contains_key(caller) {
            let fewest = slot.callers.iter().min_by_key(|(_, window)| window.count).map(|(caller, _)| caller.clone());
            fewest.and_then(|caller| slot.callers.remove(&caller));
        }
        let window = slot.callers.entry(caller.to_owned());
        let window = window.or_insert_with(|| Window { began: env.now, count: 0, last: None, items: Vec::new() });
        if let Some((_, lease)) = taken.filter(|(id, _)| window.last == Some(*id)) {
            return Ok(Decision::Keep(Lease { is_last: window.count >= allowed, ..lease }));
        }
        let is_known = item.is_some_and(|item| window.items.contains(&item));
        let left = allowed.saturating_sub(window.count);
        let permits = if is_known {
            1
        } else if left < min {
            0
        } else {
            wanted.min(left)
        };
        let count = if is_known { window.count } else { window.count + permits };
        let lease = Lease { began: window.began, permits, used: 0, is_last: count >= allowed };
        if permits == 0 || is_known {
            return Ok(Decision::Keep(lease));
        }
        let id = taken.map_or_else(|| random(env) as u32, |(id, _)| id);
        taken = Some((id, lease));
        (window.count, window.last) = (count, Some(id));
        window.items.extend(item.filter(|_| window.items.len() < MAX_ITEMS));
        Ok(Decision::Replace(slot, lease))
    })
}

fn random(env: &Env) -> u64 {
    let mut bytes = [0; 8];
    env.entropy.fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// The slot of a caller. An instance's first request reads the hash key, and a store's first request writes it.
fn slot(env: &Env, limit: &RateLimit, caller: &str) -> Result<u64, StoreError> {
    let leases = leases(env);
    let cached = leases.hash_keys.borrow().get(limit.keys).copied();
    let key = match cached {
        Some(key) => key,
        None => {
            let stored = [limit.keys, "key"].concat();
            let key = match root::read(&*env.store, &stored)? {
                Some(HashKey { key }) => key,
                None => root::update(env, &stored, |present: Option<HashKey>| {
                    let new = HashKey { key: random(env) };
                    Ok::<_, StoreError>(match present {
                        Some(present) => Decision::Keep(present.key),
                        None => Decision::Replace(new, new.key),
                    })
                })?,
            };
            leases.hash_keys.borrow_mut().insert(limit.keys.to_owned(), key);
            key
        }
    };
    let mut hasher = DefaultHasher::new();
    (key, caller).hash(&mut hasher);
    Ok(hasher.finish() % SLOTS)
}

#[cfg(test)]
mod tests;
