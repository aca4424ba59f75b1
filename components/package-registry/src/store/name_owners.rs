//! The owners of names, one root for each top-level namespace and name, and the reservations of a namespace.

use super::key::{Key, RootKey};
use crate::name::PackageName;
use crate::name_owner::{NameOwner, Reservations};
use kit::Env;
use kit::root::{self, Decision};
use kit::store::StoreError;
use std::rc::Rc;

/// Who may publish a name below a namespace; `None` if no project has claimed it. 1 read; an instance decodes a record
/// once for each of its changes.
pub fn name_owner(env: &Env, root: &RootKey, name: &PackageName) -> Result<Option<Rc<NameOwner>>, StoreError> {
    root::read_cached(env, &Key::NameOwner(root, name).text(), Ok)
}

/// Changes who may publish a name, as [`root::update`] does.
pub fn update_name_owner<T, E: From<StoreError>>(
    env: &Env,
    root: &RootKey,
    name: &PackageName,
    decide: impl FnMut(Option<NameOwner>) -> Result<Decision<NameOwner, T>, E>,
) -> Result<T, E> {
    root::update(env, &Key::NameOwner(root, name).text(), decide)
}

/// The reservations of a namespace. 1 read.
pub fn reservations(env: &Env, root: &RootKey) -> Result<Rc<Reservations>, StoreError> {
    let found = root::read_cached(env, &Key::Reservations(root).text(), Ok)?;
    Ok(found.unwrap_or_default())
}

/// Changes the reservations of a namespace, as [`root::update`] does.
pub fn update_reservations<T, E: From<StoreError>>(
    env: &Env,
    root: &RootKey,
    mut decide: impl FnMut(Reservations) -> Result<Decision<Reservations, T>, E>,
) -> Result<T, E> {
    let key = Key::Reservations(root).text();
    root::update(env, &key, |reservations: Option<Reservations>| decide(reservations.unwrap_or_default()))
}
