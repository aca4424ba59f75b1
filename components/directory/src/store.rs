//! Keys and stored bytes; nothing else knows them. The table of keys is in the crate's
//! documentation.

mod record;

pub(crate) use record::{Access, Entry, Features, Namespace, Project, Share, Token, User};

use crate::path::{self, PathOwner};
use crate::save_error::{Rejection, SaveError};
use crate::token::Fingerprint;
use kit::Env;
use kit::root::{self, Decision};
use kit::store::StoreError;
use serde::{Serialize, de::DeserializeOwned};
use std::fmt;

pub(crate) enum Key<'a> {
    User(u64),
    Token(&'a Fingerprint),
    Namespace(u64),
    Project(u64),
    /// A path segment, in lower case, below a namespace (0 is the top).
    Path(u64, String),
    /// A user's memberships.
    Access(u64),
    Settings,
    Features,
    Catalog,
    /// A blob of the catalog, by its id.
    CatalogBlob(&'a str),
    CatalogChanges,
}

impl Key<'_> {
    pub fn entry(parent_id: Option<u64>, segment: &str) -> Self {
        Key::Path(parent_id.unwrap_or(0), segment.to_ascii_lowercase())
    }

    /// A fault as it may be logged: without the fingerprint of a token.
    fn redact(&self, fault: StoreError) -> StoreError {
        let hidden = || "directory/v1/token/(hidden)".to_owned();
        match (self, fault) {
            (Key::Token(_), StoreError::Corrupt { why, .. }) => StoreError::Corrupt { key: hidden(), why },
            (Key::Token(_), StoreError::Contended(_)) => StoreError::Contended(hidden()),
            (Key::Token(_), StoreError::Denied(_)) => StoreError::Denied(hidden()),
            (_, fault) => fault,
        }
    }
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("directory/v1/")?;
        match self {
            Key::User(id) => write!(f, "user/{id}"),
            Key::Token(fingerprint) => {
                // Not by the formatter of numbers: this is part of every request.
                let digit = |value: u8| char::from(if value < 10 { b'0' + value } else { b'a' + value - 10 });
                let digits = fingerprint.bytes().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
                f.write_str("token/")?;
                f.write_str(&digits.collect::<String>())
            }
            Key::Namespace(id) => write!(f, "namespace/{id}"),
            Key::Project(id) => write!(f, "project/{id}"),
            Key::Path(parent_id, segment) => write!(f, "path/{parent_id}/{segment}"),
            Key::Access(user_id) => write!(f, "access/{user_id}"),
            Key::Settings => f.write_str("settings"),
            Key::Features => f.write_str("features"),
            Key::Catalog => f.write_str("catalog"),
            Key::CatalogBlob(id) => write!(f, "catalog/blob/{id}"),
            Key::CatalogChanges => f.write_str("catalog/changes"),
        }
    }
}

/// A record; `None` if it is absent or deleted.
///
/// A deleted record is kept as `null`: a root that was removed altogether could not be created
/// again by compare-and-swap alone (see [`kit::root::update`]).
pub(crate) fn read<R: DeserializeOwned>(env: &Env, key: &Key) -> Result<Option<R>, StoreError> {
    let record = root::read::<Option<R>>(&*env.store, &key.to_string()).map_err(|fault| key.redact(fault))?;
    Ok(record.flatten())
}

/// Makes `new` the record; `None` deletes it. Writes nothing that is there already.
pub(crate) fn write<R>(env: &Env, key: &Key, new: Option<R>) -> Result<(), StoreError>
where
    R: Serialize + DeserializeOwned + PartialEq + Clone,
{
    root::update(&*env.store, &key.to_string(), |current: Option<Option<R>>| {
        let unchanged = current.flatten() == new;
        Ok(if unchanged { Decision::Done(()) } else { Decision::Write(new.clone(), ()) })
    })
    .map_err(|fault| key.redact(fault))
}

/// Replaces a record by what `change` makes of it. `change` MUST be idempotent: it is asked again
/// after a lost swap, also if that swap in fact took place.
pub(crate) fn update<R>(env: &Env, key: &Key, mut change: impl FnMut(Option<R>) -> R) -> Result<(), StoreError>
where
    R: Serialize + DeserializeOwned + PartialEq + Clone,
{
    root::update(&*env.store, &key.to_string(), |current: Option<Option<R>>| {
        let current = current.flatten();
        let new = change(current.clone());
        Ok(if current.as_ref() == Some(&new) { Decision::Done(()) } else { Decision::Write(Some(new), ()) })
    })
}

/// The same with a `change` that may refuse.
pub(crate) fn try_update<R>(
    env: &Env,
    key: &Key,
    mut change: impl FnMut(Option<R>) -> Result<R, SaveError>,
) -> Result<(), SaveError>
where
    R: Serialize + DeserializeOwned + PartialEq + Clone,
{
    root::update(&*env.store, &key.to_string(), |current: Option<Option<R>>| {
        let current = current.flatten();
        let new = change(current.clone())?;
        Ok(if current.as_ref() == Some(&new) { Decision::Done(()) } else { Decision::Write(Some(new), ()) })
    })
}

/// Makes `new` the namespace at its address, unless its id belongs to a namespace of another kind
/// or to another user.
pub(crate) fn save_namespace(env: &Env, id: u64, new: Namespace) -> Result<(), SaveError> {
    let key = Key::Namespace(id);
    let is_foreign = |current: Option<&Namespace>| current.is_some_and(|current| current.owner_id != new.owner_id);
    // Asked before the claim, so that a refused record claims nothing.
    if is_foreign(read(env, &key)?.as_ref()) {
        return Err(Rejection::NamespaceInUse(id).into());
    }
    path::claim(env, new.parent_id, &new.path, PathOwner::Namespace(id))?;
    try_update(env, &key, |current| match is_foreign(current.as_ref()) {
        true => Err(Rejection::NamespaceInUse(id).into()),
        false => Ok(new.clone()),
    })
}
