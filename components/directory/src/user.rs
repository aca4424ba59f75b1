//! People and bots.

pub use crate::model::user::{NewUser, User, UserKey, UserState};

use crate::model::incarnation::Incarnation;
use crate::namespace::{self, NamespaceKind};
use crate::path::{Identifier, Unconfirmed};
use crate::record_cache::Derived;
use crate::save_error::SaveError;
use crate::store::{self, Existence, Incarnated, Key, MembershipsRecord, NamespaceRecord};
use kit::Env;
use kit::store::StoreError;
use std::rc::Rc;

/// Personal namespaces and groups share one series of ids. A user without a recorded namespace id gets this number plus
/// the user's id, far above the ids that forges assign.
const FIRST_PERSONAL_NAMESPACE: u64 = 4_000_000_000;

impl Incarnated for User {
    fn incarnation(&self) -> &Incarnation {
        &self.incarnation
    }
}

/// The user with this id. 1 read.
pub fn by_id(env: &Env, id: u64) -> Result<Option<User>, StoreError> {
    Ok(store::read::<User>(env, &Key::User(id))?.map(|user| User { id, ..user }))
}

/// This user; `None` after a deletion, even if another user has the id now. 1 read.
pub fn by_key(env: &Env, key: &UserKey) -> Result<Option<User>, StoreError> {
    Ok(by_id(env, key.id)?.filter(|user| user.incarnation == key.incarnation))
}

/// Whether this user was deleted, even if another user has the id now. A user without any record was not deleted, and
/// may be imported later. 1 read.
pub fn is_deleted(env: &Env, key: &UserKey) -> Result<bool, StoreError> {
    Ok(match existence(env, key.id)? {
        Existence::Unknown => false,
        Existence::Deleted => true,
        Existence::Present(incarnation) => incarnation != key.incarnation,
    })
}

/// The key of the present user with this id. Without one, the key of the first user, who may be created later. 1 read.
pub fn key_of(env: &Env, id: u64) -> Result<UserKey, StoreError> {
    Ok(UserKey { id, incarnation: existence(env, id)?.or_first() })
}

/// Like [`by_id`]; an instance decodes the user once.
pub(crate) fn shared_by_id(env: &Env, id: u64) -> Result<Option<Rc<User>>, StoreError> {
    let known = Derived::<u64, User>::of(env);
    if let Some(user) = known.as_ref().and_then(|known| known.get(&id)) {
        return Ok(Some(user));
    }
    let user = store::read_cached(env, &Key::User(id), |user: User| User { id, ..user })?;
    if let (Some(known), Some(user)) = (known, &user) {
        known.put(id, user.clone());
    }
    Ok(user)
}

/// Whether a user with this id exists or existed. 1 read.
pub(crate) fn existence(env: &Env, id: u64) -> Result<Existence, StoreError> {
    store::existence::<User>(env, &Key::User(id))
}

/// The user with this name, in any letter case. 3 reads.
pub fn by_username(env: &Env, username: &str) -> Result<Option<User>, StoreError> {
    match namespace::by_path(env, username)?.map(|namespace| namespace.kind) {
        Some(NamespaceKind::User { owner }) => by_id(env, owner),
        Some(NamespaceKind::Group) | None => Ok(None),
    }
}

/// The user with this id (all digits) or username.
pub fn find(env: &Env, id_or_username: &str) -> Result<Option<User>, StoreError> {
    match Identifier::parse(id_or_username) {
        Identifier::Id(id) => by_id(env, id),
        Identifier::Path(username) => by_username(env, username),
        Identifier::Invalid => Ok(None),
    }
}

/// Creates or replaces a user and their personal namespace.
pub fn save(env: &Env, new: NewUser) -> Result<(), SaveError> {
    write_with(env, new, |_, _| Ok(()))?.confirm(env)
}

/// Like [`save`], without the confirmation. If the personal namespace gets another id, `relocate` moves its projects to
/// the new namespace before the old one is deleted.
pub(crate) fn write_with(
    env: &Env,
    new: NewUser,
    relocate: impl FnOnce(u64, u64) -> Result<(), SaveError>,
) -> Result<Unconfirmed, SaveError> {
    let known = by_id(env, new.id)?.map(|user| user.namespace_id);
    let namespace_id = new.namespace_id.or(known).unwrap_or_else(|| default_namespace(new.id));
    let former = known.filter(|known| *known != namespace_id);
    let namespace = NamespaceRecord::personal(new.id, &new.username, &new.name, new.details);
    let mut personal = Some(namespace::write(env, namespace_id, namespace, former)?);
    if let Some(former) = former {
        personal.take().map_or(Ok(()), |personal| personal.confirm(env))?;
        namespace::take_former_path(env, former, namespace_id)?;
        relocate(former, namespace_id)?;
        namespace::delete_personal(env, former, new.id)?;
    }
    let user = |incarnation| User {
        id: new.id,
        incarnation,
        username: new.username.clone(),
        name: new.name.clone(),
        commit_email: new.commit_email.clone(),
        state: new.state,
        is_admin: new.is_admin,
        external: new.external,
        bot: new.bot,
        namespace_id,
    };
    let put = store::put(env, &Key::User(new.id), |_, incarnation| Ok(user(incarnation)))?;
    Ok(Unconfirmed::new(move |env| {
        let confirmed = personal.map_or(Ok(()), |personal| personal.confirm(env));
        confirmed.map_err(|error| put.undo(env, &Key::User(new.id), error))
    }))
}

/// The personal namespace of a user without a recorded namespace id.
pub(crate) fn default_namespace(id: u64) -> u64 {
    FIRST_PERSONAL_NAMESPACE.saturating_add(id)
}

/// Deletes the records of a user, of the personal namespace and of the memberships. [`crate::dependents`] deletes the
/// namespace's projects. The user's tokens stop working: every request reads its token's user, and the next user with
/// the id has another incarnation.
pub(crate) fn delete(env: &Env, id: u64) -> Result<(), StoreError> {
    if let Some(user) = by_id(env, id)? {
        namespace::delete_personal(env, user.namespace_id, id)?;
    }
    store::write::<MembershipsRecord>(env, &Key::Memberships(id), None)?;
    store::write::<User>(env, &Key::User(id), None)
}
