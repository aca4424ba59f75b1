//! Checks that each personal token is in its user's list, and that each listed token has a record. A token is listed
//! before its record is written ([`crate::token`]). So the record of an unlisted token was damaged or inserted: the
//! token works, but its user does not see it.

use crate::model::token::{Fingerprint, Subject};
use crate::store::{self, Key, TokenMigrationRecord, UserTokensRecord};
use crate::token::{self, Damage, Repair, TokenId};
use kit::Env;
use kit::fsck::CheckReport;
use kit::reachability::StepError;
use kit::store::StoreError;
use lru::LruCache;
use std::cell::RefCell;
use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::rc::Rc;

/// The most lists in a step of a repair.
const MAX_LISTS: usize = 100;

/// The most tokens in a step of a repair.
const MAX_TOKENS: usize = 1000;

/// The most users whose lists a step caches.
const MAX_USERS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(999);

/// The lists of a step, each read once for all tokens of its user.
pub struct TokenLists(RefCell<LruCache<u64, Rc<HashSet<String>>>>);

impl Default for TokenLists {
    fn default() -> Self {
        TokenLists(RefCell::new(LruCache::new(MAX_USERS)))
    }
}

impl TokenLists {
    /// The problem of a token that its user does not see. 3 reads, and 1 for an uncached list.
    pub fn problem(&self, env: &Env, fingerprint: &Fingerprint) -> Result<Option<String>, StoreError> {
        let Some(issued) = token::find_issued(env, fingerprint)? else { return Ok(None) };
        let Subject::User(user_id) = issued.token.subject else { return Ok(None) };
        // A token of a former user with the id is invalid.
        if token::owner_incarnation(env, user_id)?.is_none_or(|owner| owner != issued.incarnation) {
            return Ok(None);
        }
        let fingerprint = fingerprint.to_hex();
        if self.list(env, user_id)?.contains(&fingerprint) {
            return Ok(None);
        }
        // A token that was created after its user's list was read is listed now.
        self.0.borrow_mut().pop(&user_id);
        let is_listed = self.list(env, user_id)?.contains(&fingerprint);
        // Earlier builds wrote no lists. The first read of a list migrates their tokens.
        let is_migrated = store::read::<TokenMigrationRecord>(env, &Key::TokenMigration)?.is_some_and(|m| m.done);
        let text = || format!("a token of user {user_id} works and is not listed among the user's; import it again");
        Ok((is_migrated && !is_listed).then(text))
    }

    fn list(&self, env: &Env, user_id: u64) -> Result<Rc<HashSet<String>>, StoreError> {
        if let Some(list) = self.0.borrow_mut().get(&user_id) {
            return Ok(list.clone());
        }
        let tokens = store::read::<UserTokensRecord>(env, &Key::UserTokens(user_id))?.unwrap_or_default().tokens;
        let list: Rc<HashSet<String>> = Rc::new(tokens.into_values().map(|entry| entry.fingerprint).collect());
        self.0.borrow_mut().put(user_id, list.clone());
        Ok(list)
    }
}

/// The problems of the list under this key: its damaged tokens.
pub fn problems(env: &Env, key: &str) -> Result<Vec<String>, StoreError> {
    let Some(user_id) = user_of_key(key) else { return Ok(Vec::new()) };
    let advice = |damage| match damage {
        Damage::Lost => "import it again, or remove it from the list by `hexad fsck --repair`",
        Damage::Unreadable => "restore it from a backup, or revoke the token by `hexad fsck --repair`",
    };
    let problem = |(id, damage)| format!("{}; {}", text(id, damage), advice(damage));
    Ok(damaged(env, user_id)?.into_iter().map(problem).collect())
}

/// Repairs the damaged tokens of up to [`MAX_LISTS`] lists after the key `after`.
pub(super) fn repair(env: &Env, after: &str) -> Result<CheckReport, StepError> {
    let mut report = CheckReport::default();
    let keys = env.store.list(Key::TOKEN_LISTS, after, MAX_LISTS)?;
    for (key, user_id) in keys.iter().filter_map(|key| Some((key, user_of_key(key)?))) {
        let Some(damaged) = super::tolerate(&mut report, damaged(env, user_id))?.filter(|damaged| !damaged.is_empty())
        else {
            continue;
        };
        for (id, damage, repair) in token::repair(env, user_id, &damaged)? {
            let outcome = match repair {
                Repair::Unlisted => "it is not listed any more",
                Repair::Revoked => "it is revoked",
                Repair::Kept => "it is left: another build may be able to",
            };
            report.add_problem(key, format!("{}, and {outcome}", text(id, damage)));
        }
    }
    report.cursor =
        Some(keys.last().filter(|_| keys.len() >= MAX_LISTS).map_or(Key::TOKENS, String::as_str).to_owned());
    Ok(report)
}

/// Removes tokens that cannot be read and that no list has, such as deploy tokens, among up to [`MAX_TOKENS`] after the
/// key `after`.
pub(super) fn remove_unlisted(env: &Env, after: &str) -> Result<CheckReport, StepError> {
    let mut report = CheckReport::default();
    let keys = env.store.list(Key::TOKENS, after, MAX_TOKENS)?;
    for fingerprint in keys.iter().filter_map(|key| Fingerprint::from_hex(key.strip_prefix(Key::TOKENS)?)) {
        if token::delete_unreadable(env, &fingerprint)? {
            let problem = "a token on no list that can be read could not be read, and is removed";
            report.add_problem(Key::HIDDEN_TOKEN, problem.to_owned());
        }
    }
    report.cursor = keys.last().filter(|_| keys.len() >= MAX_TOKENS).cloned();
    Ok(report)
}

/// The user of a list's key.
fn user_of_key(key: &str) -> Option<u64> {
    key.strip_prefix(Key::TOKEN_LISTS)?.parse().ok()
}

fn damaged(env: &Env, user_id: u64) -> Result<Vec<(TokenId, Damage)>, StoreError> {
    // The tokens of a deleted user are invalid.
    if token::owner_incarnation(env, user_id)?.is_none() { Ok(Vec::new()) } else { token::damaged(env, user_id) }
}

fn text(id: TokenId, damage: Damage) -> String {
    let what = match damage {
        Damage::Lost => "is missing",
        Damage::Unreadable => "cannot be read",
    };
    format!("token {} is listed, and its record {what}", id.get())
}
