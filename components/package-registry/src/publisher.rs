//! The publisher of a version.

use directory::caller::Caller;
use directory::project::Incarnation;
use directory::user::{self, User};
use kit::Env;
use kit::store::StoreError;

/// The publisher of a version, as it is stored with the upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publisher {
    /// The id under which a caller publishes (see `api/request.rs`).
    pub id: String,
    /// The user's incarnation, because users can have one id after another. `None` for deploy tokens, and in records of
    /// old builds, which count as the id's current user.
    pub incarnation: Option<Incarnation>,
}

impl Publisher {
    /// The caller, as the publisher with this id.
    pub fn of(caller: &Caller, id: String) -> Self {
        Publisher { id, incarnation: caller.user().map(|user| user.incarnation.clone()) }
    }

    /// Whether this stored publisher is `now`, the current request's publisher.
    pub fn is(&self, now: &Publisher) -> bool {
        self.id == now.id && (self.incarnation.is_none() || self.incarnation == now.incarnation)
    }

    /// The user; `None` if the user was deleted, even if another user has the id now.
    pub fn user(&self, env: &Env) -> Result<Option<User>, StoreError> {
        let id = self.id.strip_prefix("user:").and_then(|id| id.parse().ok());
        let user = id.map(|id| user::by_id(env, id)).transpose()?.flatten();
        Ok(user.filter(|user| self.incarnation.as_ref().is_none_or(|incarnation| *incarnation == user.incarnation)))
    }
}
