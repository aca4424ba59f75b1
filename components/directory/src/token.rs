//! Tokens. Only the SHA-256 of a token is stored, and authentication looks a token up only by it.
//!
//! A user's personal tokens are listed in one record ([`list`]). A token is listed before its own record is written, so
//! every working token is visible to its owner. An entry is no token of the user if the token has no record, or belongs
//! to another user.

mod issued;
mod last_use;
mod list;

pub use crate::model::token::{Fingerprint, PERSONAL_SCOPES, PersonalToken, Subject, Token, TokenId};
pub(crate) use issued::{IssuedToken, find_issued, owner_incarnation};
pub use issued::{find, revoke};
pub(crate) use last_use::last_use;
pub use last_use::{LAST_USE_MINUTES, record_use, with_last_use};
pub(crate) use list::{Damage, Repair, damaged, delete_of_former, delete_unreadable, repair};
pub use list::{
    MAX_TOKENS, NewPersonalToken, PersonalTokens, Rotation, UserTokens, by_fingerprint, by_id, create, of_user,
    revoke_successors, rotate,
};

use crate::store::{self, Key, TokenRecord};
use kit::Env;
use kit::store::StoreError;

/// Creates or replaces the token with this fingerprint, for the present user, group or project with the id. `None`
/// deletes it.
pub fn save(env: &Env, fingerprint: &Fingerprint, token: Option<Token>) -> Result<(), StoreError> {
    match token {
        Some(token) => save_with(env, fingerprint, token, false),
        None => list::delete(env, fingerprint),
    }
}

/// Creates or replaces a token without changing whether it is revoked. A token that was revoked or rotated here stays
/// so, because a repeated import must not bring it back.
pub fn save_keeping_revocation(env: &Env, fingerprint: &Fingerprint, token: Token) -> Result<(), StoreError> {
    save_with(env, fingerprint, token, true)
}

fn save_with(env: &Env, fingerprint: &Fingerprint, token: Token, keeps_revocation: bool) -> Result<(), StoreError> {
    if let Subject::User(user_id) = token.subject {
        list::add(env, user_id, fingerprint, "")?;
    }
    let new = issued::record(env, token)?;
    store::update(env, &Key::Token(fingerprint), |current: Option<TokenRecord>| {
        let mut record = new.clone();
        if let Some(current) = current {
            record.revoked |= keeps_revocation && current.revoked && current.is_of_same(&record);
            // A token that stays revoked still leads to its successor.
            record.rotated_to = current.rotated_to.filter(|_| record.revoked);
        }
        record
    })
    .map_err(|error| Key::Token(fingerprint).redact(error))
}

#[cfg(test)]
mod tests;
