//! People and bots.

pub use crate::model::user::{NewUser, User, UserState};

use crate::namespace::{self, NamespaceKind};
use crate::path::Identifier;
use crate::save_error::SaveError;
use crate::store::{self, Key, NamespaceRecord, UserRecord};
use kit::Env;
use kit::store::StoreError;

/// Personal namespaces share one series of ids with groups. A user who is recorded without a
/// namespace id gets this number plus their own id, far above the ids that forges hand out.
const FIRST_PERSONAL_NAMESPACE: u64 = 4_000_000_000;

/// The user with this id. 1 read.
pub fn by_id(env: &Env, id: u64) -> Result<Option<User>, StoreError> {
    Ok(store::read::<UserRecord>(env, &Key::User(id))?.map(|record| record.into_user(id)))
}

/// The user with this name, in any letter case. 3 reads.
pub fn by_username(env: &Env, username: &str) -> Result<Option<User>, StoreError> {
    match namespace::by_path(env, username)?.map(|namespace| namespace.kind) {
        Some(NamespaceKind::User { owner }) => by_id(env, owner),
        Some(NamespaceKind::Group) | None => Ok(None),
    }
}

/// The user named by an id (all digits) or by a username.
pub fn find(env: &Env, id_or_username: &str) -> Result<Option<User>, StoreError> {
    match Identifier::parse(id_or_username) {
        Identifier::Id(id) => by_id(env, id),
        Identifier::Path(username) => by_username(env, username),
        Identifier::Invalid => Ok(None),
    }
}

/// Creates or replaces a user and their personal namespace.
pub fn save(env: &Env, new: NewUser) -> Result<(), SaveError> {
    let known = || -> Result<Option<u64>, StoreError> { Ok(by_id(env, new.id)?.map(|user| user.namespace_id)) };
    let namespace_id = match new.namespace_id {
        Some(id) => id,
        None => known()?.unwrap_or_else(|| default_namespace(new.id)),
    };
    let namespace = NamespaceRecord::personal(new.id, &new.username, &new.name, new.details);
    namespace::save(env, namespace_id, namespace)?;
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
    Ok(store::write(env, &Key::User(user.id), Some(UserRecord::from(&user)))?)
}

/// The personal namespace of a user who is recorded without one.
pub(crate) fn default_namespace(id: u64) -> u64 {
    FIRST_PERSONAL_NAMESPACE.saturating_add(id)
}

/// Deletes a user and their personal namespace, and with it its projects. Their tokens stop
/// working, because a token's user is read on every request.
pub fn delete(env: &Env, id: u64) -> Result<(), StoreError> {
    if let Some(user) = by_id(env, id)? {
        store::write::<NamespaceRecord>(env, &Key::Namespace(user.namespace_id), None)?;
    }
    store::write::<UserRecord>(env, &Key::User(id), None)
}
