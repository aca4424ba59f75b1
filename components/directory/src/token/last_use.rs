//! The last use of a token, to within some minutes.
//!
//! Every area records uses, because a token is used everywhere; of two areas' records the later one stays. An instance
//! caches the uses that it recorded or read. So it accesses the store once in that time for each token, and most
//! requests need no access.

use crate::model::token::{Fingerprint, PersonalToken};
use kit::root::{self, Decision};
use kit::store::StoreError;
use kit::{Env, Timestamp};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::HashMap;

/// The variable with the minutes within which a token's last use is recorded once; empty or 0: uses are not recorded.
pub const LAST_USE_MINUTES: &str = "token_last_use_minutes";

/// The most tokens in an instance's cache.
const MAX_CACHED: usize = 10_000;

#[derive(Serialize, Deserialize)]
struct LastUseRecord {
    at: Timestamp,
}

/// Uses that this instance recorded or read.
#[derive(Default)]
struct RecentUses(RefCell<HashMap<[u8; 32], Timestamp>>);

fn key(fingerprint: &str) -> String {
    format!("token-use/v1/{fingerprint}")
}

/// Records that a token is used now, unless a use was recorded some minutes ago. If the store cannot record it, the
/// request continues.
pub fn record_use(env: &Env, fingerprint: &Fingerprint) {
    let minutes = i64::try_from(env.variables.number(LAST_USE_MINUTES, 0)).unwrap_or(i64::MAX);
    if minutes == 0 {
        return;
    }
    let is_recent = |at: Timestamp| env.now.millis() - at.millis() < minutes.saturating_mul(60_000);
    let recent = env.instance_cache.get_or_insert_with(RecentUses::default);
    if recent.0.borrow().get(fingerprint.bytes()).copied().is_some_and(is_recent) {
        return;
    }
    let key = key(&fingerprint.to_hex());
    let recorded = root::update(env, &key, |last: Option<LastUseRecord>| {
        Ok::<_, StoreError>(match last.filter(|last| is_recent(last.at)) {
            Some(last) => Decision::Keep(last.at),
            None => Decision::Replace(LastUseRecord { at: env.now }, env.now),
        })
    });
    if let Err(StoreError::Corrupt { .. }) = recorded {
        // The next use is recorded again. If the record stays, the token has no last use.
        let _ = env.store.delete(&key);
    }
    let mut recent = recent.0.borrow_mut();
    if recent.len() >= MAX_CACHED {
        recent.clear();
    }
    // After a failure the next attempt is in some minutes, not with each request.
    recent.insert(*fingerprint.bytes(), recorded.unwrap_or(env.now));
}

/// Whether a use of the token was recorded. The token then had a record. 1 read.
pub fn was_used(env: &Env, fingerprint: &Fingerprint) -> Result<bool, StoreError> {
    env.store.exists(&key(&fingerprint.to_hex()))
}

/// The token with its last use. 1 read.
pub fn with_last_use(env: &Env, token: PersonalToken) -> Result<PersonalToken, StoreError> {
    Ok(PersonalToken { last_used_at: last_use(env, &token.fingerprint)?, ..token })
}

/// The last use of a token; `None` if no use was recorded. 1 read. Every area can write the record. So an unreadable
/// record counts as absent, because it must not keep a user's tokens from being listed and revoked.
pub(crate) fn last_use(env: &Env, fingerprint: &Fingerprint) -> Result<Option<Timestamp>, StoreError> {
    match root::read::<LastUseRecord>(&*env.store, &key(&fingerprint.to_hex())) {
        Err(StoreError::Corrupt { .. }) => Ok(None),
        last => Ok(last?.map(|last| last.at)),
    }
}

/// Deletes the last use of a deleted token. An area that is recording a use may leave a record.
pub(super) fn delete_use(env: &Env, fingerprint: &Fingerprint) -> Result<(), StoreError> {
    let key = key(&fingerprint.to_hex());
    env.store.delete(&root::counter(&key))?;
    env.store.delete(&key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::store::Store as _;
    use kit::testing::{FailingStore, MemoryStore, env};
    use std::rc::Rc;

    fn at(store: impl kit::store::Store + 'static, minute: i64, warm: &Env) -> Env {
        let now = Timestamp::from_millis(warm.now.millis() + minute * 60_000);
        Env { store: Rc::new(store), now, instance_cache: warm.instance_cache.clone(), ..warm.clone() }
    }

    #[test]
    fn a_use_is_recorded_once_in_ten_minutes_and_an_instance_asks_once() {
        let store = MemoryStore::default();
        let first = env(store.clone(), &[(LAST_USE_MINUTES, "10")]);
        let token = Fingerprint::of(b"t");
        record_use(&first, &token);
        assert_eq!(last_use(&first, &token), Ok(Some(first.now)));
        let untouched = FailingStore::after(0, store.clone());
        record_use(&at(untouched.clone(), 9, &first), &token);
        assert!(!untouched.failed(), "this instance remembers");
        let other = Env { instance_cache: Rc::default(), ..first.clone() };
        record_use(&at(store.clone(), 9, &other), &token);
        assert_eq!(last_use(&first, &token), Ok(Some(first.now)), "another instance reads that it is recent");
        let later = at(store.clone(), 10, &first);
        record_use(&later, &token);
        assert_eq!(last_use(&first, &token), Ok(Some(later.now)));
    }

    #[test]
    fn an_unreadable_record_is_no_use_and_is_replaced() {
        let store = MemoryStore::default();
        let first = env(store.clone(), &[(LAST_USE_MINUTES, "10")]);
        let token = Fingerprint::of(b"t");
        store.set(&key(&token.to_hex()), b"{\"at\":").unwrap();
        assert_eq!(last_use(&first, &token), Ok(None));
        record_use(&first, &token);
        let later = at(store.clone(), 10, &first);
        record_use(&later, &token);
        assert_eq!(last_use(&first, &token), Ok(Some(later.now)));
    }

    #[test]
    fn without_the_variable_nothing_is_recorded_and_a_failure_is_none_of_the_request() {
        let store = MemoryStore::default();
        let token = Fingerprint::of(b"t");
        record_use(&env(store.clone(), &[]), &token);
        assert_eq!(store.keys(), [""; 0]);
        let failing = env(FailingStore::after(0, store.clone()), &[(LAST_USE_MINUTES, "10")]);
        record_use(&failing, &token);
        let untouched = FailingStore::after(0, store);
        record_use(&at(untouched.clone(), 1, &failing), &token);
        assert!(!untouched.failed(), "it is not tried with each request");
    }
}
