//! Rotation: a new token replaces a token, which is revoked.

use super::list::{self, NewPersonalToken};
use super::lookup;
use crate::model::token::{Fingerprint, PersonalToken, TokenId};
use crate::store::{self, Key, TokenRecord};
use kit::store::StoreError;
use kit::{Env, Timestamp};

/// The outcome of a rotation.
pub enum Rotation {
    Done(PersonalToken),
    /// The old token is already revoked. If two rotations run at the same time, one succeeds.
    AlreadyRevoked,
    /// The user has [`list::MAX_TOKENS`] active tokens.
    TooManyTokens,
}

/// Creates a token with the name, description and scopes of `old`, and revokes `old`.
pub fn rotate(
    env: &Env,
    old: &PersonalToken,
    fingerprint: &Fingerprint,
    expires_at: Timestamp,
) -> Result<Rotation, StoreError> {
    if old.token.revoked {
        return Ok(Rotation::AlreadyRevoked);
    }
    let new = NewPersonalToken {
        name: old.token.name.clone(),
        description: old.description.clone(),
        scopes: old.token.scopes.clone(),
        expires_at: Some(expires_at),
    };
    // The new token comes first: an interrupted request leaves the owner the old one.
    let Some(new) = list::create(env, old.id.user_id, fingerprint, new)? else { return Ok(Rotation::TooManyTokens) };
    let key = Key::Token(&old.fingerprint);
    let mut is_ours = false;
    store::update(env, &key, |current: Option<TokenRecord>| {
        let mut record = current.unwrap_or_else(|| TokenRecord::from(old.token.clone()));
        // A swap that took place and was reported lost has this number.
        is_ours = !record.revoked || record.rotated_to == Some(new.id.number);
        if is_ours {
            record.revoked = true;
            record.rotated_to = Some(new.id.number);
        }
        record
    })
    .map_err(|error| key.redact(error))?;
    if is_ours {
        return Ok(Rotation::Done(new));
    }
    list::delete(env, fingerprint)?;
    Ok(Rotation::AlreadyRevoked)
}

/// If this token is revoked, revokes its successor in a rotation, and so on. When a rotated token is presented for
/// another rotation, two clients have it, and the server cannot know the owner.
pub fn revoke_successors(env: &Env, fingerprint: &Fingerprint) -> Result<(), StoreError> {
    let Some(mut token) = list::by_fingerprint(env, fingerprint)? else { return Ok(()) };
    while token.token.revoked {
        let record = store::read::<TokenRecord>(env, &Key::Token(&token.fingerprint))?;
        // A successor has a higher number, so the chain ends.
        let next = record.and_then(|record| record.rotated_to).filter(|number| *number > token.id.number);
        let Some(number) = next else { return Ok(()) };
        let Some(successor) = list::by_id(env, TokenId::new(token.id.user_id, number))? else { return Ok(()) };
        if !successor.token.revoked {
            return lookup::revoke(env, &successor.fingerprint);
        }
        token = successor;
    }
    Ok(())
}
