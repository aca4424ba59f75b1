//! The personal tokens of whole users, for lists. A list that ends early does not read further tokens.

use super::{issued, list};
use crate::model::incarnation::Incarnation;
use crate::model::token::{PersonalToken, TokenId};
use crate::store::UserTokenRecord;
use kit::Env;
use kit::store::StoreError;
use std::collections::BTreeMap;

/// A user's personal tokens, by id, including expired and revoked ones, without last uses. 3 reads, and 1 for each
/// token.
pub fn of_user(env: &Env, user_id: u64) -> Result<Vec<PersonalToken>, StoreError> {
    let tokens = PersonalTokens::open(env)?.of_user(user_id)?;
    tokens.ids().filter_map(|id| tokens.find(env, id).transpose()).collect()
}

/// The personal tokens of all users.
pub struct PersonalTokens<'a>(&'a Env);

impl<'a> PersonalTokens<'a> {
    /// 1 read.
    pub fn open(env: &'a Env) -> Result<Self, StoreError> {
        list::migrate(env)?;
        Ok(PersonalTokens(env))
    }

    /// The ids of a user's tokens, without their records. 1 read, and 1 more if the list has entries.
    pub fn of_user(&self, user_id: u64) -> Result<UserTokens, StoreError> {
        let mut entries = list::read(self.0, user_id)?.tokens;
        let owner = if entries.is_empty() { None } else { issued::owner_incarnation(self.0, user_id)? };
        if owner.is_none() {
            entries.clear();
        }
        Ok(UserTokens { user_id, owner: owner.unwrap_or_default(), entries })
    }
}

/// The personal tokens in a user's list.
pub struct UserTokens {
    user_id: u64,
    owner: Incarnation,
    entries: BTreeMap<u64, UserTokenRecord>,
}

impl UserTokens {
    /// The ids in ascending order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = TokenId> {
        self.entries.keys().map(|number| TokenId::new(self.user_id, *number))
    }

    /// A token of the list, without its last use; `None` if its record is absent or belongs to another user. 1 read.
    pub fn find(&self, env: &Env, id: TokenId) -> Result<Option<PersonalToken>, StoreError> {
        match self.entries.get(&id.number) {
            Some(entry) => list::resolve(env, id, &self.owner, entry),
            None => Ok(None),
        }
    }
}
