//! Listed tokens whose records are lost or cannot be read, for checks and repairs.

use super::issued;
use super::last_use::was_used;
use super::list::read;
use crate::model::token::{Fingerprint, Subject, Token, TokenId};
use crate::store::{self, Key, TokenRecord, UserTokenRecord, UserTokensRecord};
use kit::Env;
use kit::root;
use kit::store::StoreError;
use serde::de::IgnoredAny;
use std::collections::{BTreeMap, BTreeSet};

/// The damage of a listed token's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// The record existed, and now not even a deletion's `null` is left.
    Lost,
    Unreadable,
}

/// The damaged tokens of a user's list. 1 read, and 1 for each token; 1 more for each if one has no record.
///
/// An entry without a record is not always damaged, because a token is listed before its record is written. A token
/// without a record is lost if its entry was migrated from a record, if it was used, or if a rotation names it as the
/// successor.
pub(crate) fn damaged(env: &Env, user_id: u64) -> Result<Vec<(TokenId, Damage)>, StoreError> {
    let tokens = read(env, user_id)?.tokens;
    let (mut damaged, mut successors) = (Vec::new(), None);
    for (number, entry) in &tokens {
        let Some(fingerprint) = Fingerprint::from_hex(&entry.fingerprint) else { continue };
        let id = TokenId::new(user_id, *number);
        let is_absent = match record(env, &fingerprint) {
            Err(StoreError::Corrupt { .. }) => {
                damaged.push((id, Damage::Unreadable));
                continue;
            }
            record => record?.is_none(),
        };
        let is_lost = is_absent
            && (entry.created_at.is_none() || was_used(env, &fingerprint)? || {
                let known = successors.take().map_or_else(|| numbers_of_successors(env, &tokens), Ok)?;
                successors.insert(known).contains(number)
            });
        if is_lost {
            damaged.push((id, Damage::Lost));
        }
    }
    Ok(damaged)
}

/// The record of a token; `Some(None)` if it was deleted. 1 read.
fn record(env: &Env, fingerprint: &Fingerprint) -> Result<Option<Option<TokenRecord>>, StoreError> {
    let key = Key::Token(fingerprint);
    root::read(&*env.store, &key.text()).map_err(|error| key.redact(error))
}

/// The numbers of the tokens that have replaced one of these. 1 read for each.
fn numbers_of_successors(env: &Env, tokens: &BTreeMap<u64, UserTokenRecord>) -> Result<BTreeSet<u64>, StoreError> {
    let mut numbers = BTreeSet::new();
    for fingerprint in tokens.values().filter_map(|entry| Fingerprint::from_hex(&entry.fingerprint)) {
        match record(env, &fingerprint) {
            // Its own check reports it.
            Err(StoreError::Corrupt { .. }) => {}
            record => numbers.extend(record?.flatten().and_then(|record| record.rotated_to)),
        }
    }
    Ok(numbers)
}

/// Deletes the record of a token if it is not JSON, and returns whether it did. 1 read, and 1 more for an unreadable
/// record.
pub(crate) fn delete_unreadable(env: &Env, fingerprint: &Fingerprint) -> Result<bool, StoreError> {
    replace_unreadable(env, fingerprint, || Ok(None))
}

/// Replaces the record of a token if it is not JSON, and returns whether it did. Other unreadable records may be from a
/// later build.
fn replace_unreadable(
    env: &Env,
    fingerprint: &Fingerprint,
    new: impl FnOnce() -> Result<Option<TokenRecord>, StoreError>,
) -> Result<bool, StoreError> {
    let key = Key::Token(fingerprint);
    match record(env, fingerprint) {
        Err(StoreError::Corrupt { .. }) if is_json(env, &key)? => Ok(false),
        Err(StoreError::Corrupt { .. }) => {
            store::replace_unreadable(env, &key, new()?.as_ref()).map_err(|error| key.redact(error))
        }
        record => record.map(|_| false),
    }
}

fn is_json(env: &Env, key: &Key) -> Result<bool, StoreError> {
    match root::read::<IgnoredAny>(&*env.store, &key.text()) {
        Err(StoreError::Corrupt { .. }) => Ok(false),
        read => read.map(|_| true).map_err(|error| key.redact(error)),
    }
}

/// The repair of a damaged token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repair {
    /// It had no record.
    Unlisted,
    Revoked,
    /// Its record is JSON, or is readable now.
    Kept,
}

/// Removes tokens without a record from the user's list, and revokes tokens whose record is not JSON. Such a token may
/// have been revoked before, and an import must not bring it back. 1 read, and 2 for each token.
pub(crate) fn repair(
    env: &Env,
    user_id: u64,
    damaged: &[(TokenId, Damage)],
) -> Result<Vec<(TokenId, Damage, Repair)>, StoreError> {
    let listed = read(env, user_id)?.tokens;
    let (mut repaired, mut lost) = (Vec::new(), BTreeSet::new());
    for (number, entry) in &listed {
        let id = TokenId::new(user_id, *number);
        let Some((_, damage)) = damaged.iter().find(|(damaged, _)| *damaged == id) else { continue };
        let Some(fingerprint) = Fingerprint::from_hex(&entry.fingerprint) else { continue };
        let repair = match record(env, &fingerprint) {
            Ok(None | Some(None)) => {
                lost.insert(*number);
                Repair::Unlisted
            }
            _ if replace_unreadable(env, &fingerprint, || revoked(env, user_id).map(Some))? => Repair::Revoked,
            _ => Repair::Kept,
        };
        repaired.push((id, *damage, repair));
    }
    store::update(env, &Key::UserTokens(user_id), |current: Option<UserTokensRecord>| {
        let mut tokens = current.unwrap_or_default();
        tokens.tokens.retain(|number, _| !lost.contains(number));
        tokens
    })?;
    Ok(repaired)
}

/// The record of a revoked token of which only the user is known.
fn revoked(env: &Env, user_id: u64) -> Result<TokenRecord, StoreError> {
    let (name, scopes) = ("could not be read".to_owned(), Vec::new());
    issued::record(env, Token { subject: Subject::User(user_id), name, scopes, expires_at: None, revoked: true })
}
