//! People and bots.

use crate::namespace::{Details, Namespace};
use crate::path::{self, Identifier};
use crate::save_error::SaveError;
use crate::store::{self, Key};
use kit::Env;
use kit::store::StoreError;

/// Personal namespaces share one series of ids with groups. A user who is recorded without a
/// namespace id gets this number plus their own id, far above the ids that forges hand out.
const FIRST_PERSONAL_NAMESPACE: u64 = 4_000_000_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// From 1; 0 is the built-in administrator (see [`crate::caller`]).
    pub id: u64,
    pub username: String,
    pub name: String,
    /// The address in commits that are made in the user's name; if there is none, a made-up one is used.
    pub commit_email: Option<String>,
    pub state: State,
    pub is_admin: bool,
    /// Sees private and public resources only, never internal ones, unless a member of them.
    pub external: bool,
    /// A service account, or the user behind a project's or group's access token.
    pub bot: bool,
    /// The personal namespace, whose path is the username.
    pub namespace_id: u64,
}

/// Whether a user may use the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Active,
    Blocked,
    Deactivated,
    PendingApproval,
}

impl State {
    /// The reference service's word for the state.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "active" => Some(State::Active),
            "blocked" | "banned" | "ldap_blocked" => Some(State::Blocked),
            "deactivated" => Some(State::Deactivated),
            "blocked_pending_approval" => Some(State::PendingApproval),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            State::Active => "active",
            State::Blocked => "blocked",
            State::Deactivated => "deactivated",
            State::PendingApproval => "blocked_pending_approval",
        }
    }
}

/// The user with this id. 1 read.
pub fn by_id(env: &Env, id: u64) -> Result<Option<User>, StoreError> {
    Ok(store::read::<store::User>(env, &Key::User(id))?.map(|record| record.into_user(id)))
}

/// The user with this name, in any letter case. 3 reads.
pub fn by_username(env: &Env, username: &str) -> Result<Option<User>, StoreError> {
    let Some(Namespace { kind: crate::namespace::Kind::User { owner }, .. }) = path::namespace(env, username)? else {
        return Ok(None);
    };
    by_id(env, owner)
}

/// The user named by an id (all digits) or by a username.
pub fn find(env: &Env, id_or_username: &str) -> Result<Option<User>, StoreError> {
    match Identifier::parse(id_or_username) {
        Identifier::Id(id) => by_id(env, id),
        Identifier::Path(username) => by_username(env, username),
        Identifier::Impossible => Ok(None),
    }
}

/// A user as they are to be. `namespace_id` of an already known user is kept if it is not given.
pub struct NewUser {
    pub id: u64,
    pub username: String,
    pub name: String,
    pub commit_email: Option<String>,
    pub state: State,
    pub is_admin: bool,
    pub external: bool,
    pub bot: bool,
    pub namespace_id: Option<u64>,
    /// Of their personal namespace.
    pub details: Details,
}

/// Creates or replaces a user and their personal namespace.
pub fn save(env: &Env, new: NewUser) -> Result<(), SaveError> {
    let known = || -> Result<Option<u64>, StoreError> { Ok(by_id(env, new.id)?.map(|user| user.namespace_id)) };
    let namespace_id = match new.namespace_id {
        Some(id) => id,
        None => known()?.unwrap_or_else(|| default_namespace(new.id)),
    };
    store::save_namespace(
        env,
        namespace_id,
        store::Namespace::personal(new.id, &new.username, &new.name, new.details),
    )?;
    let user = User {
        id: new.id,
        username: new.username,
        name: new.name,
        commit_email: new.commit_email,
        state: new.state,
        is_admin: new.is_admin,
        external: new.external,
        bot: new.bot,
        namespace_id,
    };
    Ok(store::write(env, &Key::User(user.id), Some(store::User::from(&user)))?)
}

/// The personal namespace of a user who is recorded without one.
pub(crate) fn default_namespace(id: u64) -> u64 {
    FIRST_PERSONAL_NAMESPACE.saturating_add(id)
}

/// Forgets a user and their personal namespace, and with it its projects. Their tokens stop
/// working, because a token's user is read on every request.
pub fn delete(env: &Env, id: u64) -> Result<(), StoreError> {
    if let Some(user) = by_id(env, id)? {
        store::write::<store::Namespace>(env, &Key::Namespace(user.namespace_id), None)?;
    }
    store::write::<store::User>(env, &Key::User(id), None)
}
