//! Users.

use super::deserialize;
use crate::line_error::LineError;
use directory::dependents;
use directory::namespace::Details;
use directory::user::{self, NewUser, UserState};
use kit::Env;
use kit::store::StoreError;
use serde::Deserialize;
use std::num::NonZeroU64;

#[derive(Deserialize)]
pub struct User {
    #[serde(deserialize_with = "deserialize::user_id")]
    pub id: NonZeroU64,
    username: String,
    name: Option<String>,
    commit_email: Option<String>,
    email: Option<String>,
    #[serde(default, deserialize_with = "deserialize::state")]
    state: Option<UserState>,
    #[serde(default, alias = "admin")]
    is_admin: bool,
    #[serde(default)]
    external: bool,
    #[serde(default)]
    bot: bool,
    #[serde(default, deserialize_with = "deserialize::some_id")]
    pub namespace_id: Option<NonZeroU64>,
}

impl User {
    /// Whether the user gets another personal namespace.
    pub fn moves_namespace(&self, env: &Env) -> Result<bool, StoreError> {
        let Some(namespace_id) = self.namespace_id else { return Ok(false) };
        Ok(user::by_id(env, self.id.get())?.is_some_and(|known| known.namespace_id != namespace_id.get()))
    }

    pub fn save(self, env: &Env, details: Details) -> Result<(), LineError> {
        let new = NewUser {
            id: self.id.get(),
            name: self.name.unwrap_or_else(|| self.username.clone()),
            username: self.username,
            commit_email: self.commit_email.or(self.email).filter(|email| !email.is_empty()),
            state: self.state.unwrap_or(UserState::Active),
            is_admin: self.is_admin,
            external: self.external,
            bot: self.bot,
            namespace_id: self.namespace_id.map(NonZeroU64::get),
            details,
        };
        Ok(dependents::save_user(env, new)?)
    }
}
