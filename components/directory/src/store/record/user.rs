//! The stored form of a user.

use super::is_default::is_default;
use crate::model::incarnation::Incarnation;
use crate::model::user::{User, UserState};
use crate::store::Incarnated;
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct UserRecord {
    username: String,
    name: String,
    #[serde(default, skip_serializing_if = "is_default")]
    commit_email: Option<String>,
    state: String,
    #[serde(default, skip_serializing_if = "is_default")]
    admin: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    external: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    bot: bool,
    namespace_id: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    incarnation: Incarnation,
}

impl Incarnated for UserRecord {
    fn incarnation(&self) -> &Incarnation {
        &self.incarnation
    }
}

impl UserRecord {
    pub fn into_user(self, id: u64) -> User {
        User {
            id,
            username: self.username,
            name: self.name,
            commit_email: self.commit_email,
            state: UserState::parse(&self.state).unwrap_or(UserState::Blocked),
            is_admin: self.admin,
            external: self.external,
            bot: self.bot,
            namespace_id: self.namespace_id,
            incarnation: self.incarnation,
        }
    }
}

impl From<&User> for UserRecord {
    fn from(user: &User) -> Self {
        UserRecord {
            username: user.username.clone(),
            name: user.name.clone(),
            commit_email: user.commit_email.clone(),
            state: user.state.as_str().to_owned(),
            admin: user.is_admin,
            external: user.external,
            bot: user.bot,
            namespace_id: user.namespace_id,
            incarnation: user.incarnation.clone(),
        }
    }
}
