//! Keys and stored records, and operations on one record.

mod record;

use crate::model::incarnation::Incarnation;
use crate::model::token::Fingerprint;
use crate::save_error::SaveError;
pub(crate) use crate::store::record::{
    Incarnated, MembershipsRecord, NamespaceRecord, PathRecord, ProjectRecord, ShareRecord, TokenMigrationRecord,
    TokenRecord, UserTokenRecord, UserTokensRecord,
};
use kit::Env;
use kit::root::{self, Decision};
use kit::store::{StoreError, SwapOutcome};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::{self, Write as _};
use std::rc::Rc;

/// The most attempts of [`replace_unreadable`]. Some hosts report a swap as lost although it took place.
const MAX_REPLACEMENTS: u32 = 5;

/// A record; `None` if it is absent or deleted.
///
/// A deleted record is kept as `null`. A root that was removed completely could not be created again by
/// compare-and-swap alone (see [`kit::root::update`]).
pub(crate) fn read<R: DeserializeOwned>(env: &Env, key: &Key) -> Result<Option<R>, StoreError> {
    let record = root::read::<Option<R>>(&*env.store, &key.text()).map_err(|error| key.redact(error))?;
    Ok(record.flatten())
}

/// Like [`read`], with `convert` applied. An instance decodes and converts each value of a record once. Each kind of
/// record needs its own `T`.
pub(crate) fn read_cached<R: DeserializeOwned, T: 'static>(
    env: &Env,
    key: &Key,
    convert: impl FnOnce(R) -> T,
) -> Result<Option<Rc<T>>, StoreError> {
    let convert = |record: Option<R>| Ok(record.map(|record| Rc::new(convert(record))));
    let value = root::read_cached(env, &key.text(), convert).map_err(|error| key.redact(error))?;
    Ok(value.and_then(|value: Rc<Option<Rc<T>>>| Option::clone(&value)))
}

/// Writes a record; `None` deletes it. An unchanged record is not written.
pub(crate) fn write<R>(env: &Env, key: &Key, new: Option<R>) -> Result<(), StoreError>
where
    R: Serialize + DeserializeOwned + PartialEq + Clone,
{
    root::update(env, &key.to_string(), |current: Option<Option<R>>| {
        let unchanged = current.flatten() == new;
        Ok(if unchanged { Decision::Keep(()) } else { Decision::Replace(new.clone(), ()) })
    })
    .map_err(|error| key.redact(error))
}

/// Replaces a record that cannot be read. False if it can be read, or is absent.
pub(crate) fn replace_unreadable<R>(env: &Env, key: &Key, new: Option<&R>) -> Result<bool, StoreError>
where
    R: Serialize + DeserializeOwned,
{
    let (text, mut has_swapped) = (key.text(), false);
    for _ in 0..MAX_REPLACEMENTS {
        let record = env.store.begin_cas(&text)?;
        let is_readable = record.current()?.is_none_or(|bytes| serde_json::from_slice::<Option<R>>(&bytes).is_ok());
        if is_readable {
            return Ok(has_swapped);
        }
        let new = serde_json::to_vec(&new).map_err(|why| StoreError::corrupt(&text, why))?;
        has_swapped = true;
        if matches!(record.swap(&new)?, SwapOutcome::Yes) {
            return Ok(true);
        }
    }
    Err(StoreError::Contended(text))
}

/// Creates or replaces a record. `change` gets the present record and the incarnation of the new one, and must be
/// idempotent. Returns the record before and after.
pub(crate) fn put<R>(
    env: &Env,
    key: &Key,
    mut change: impl FnMut(Option<&R>, Incarnation) -> Result<R, SaveError>,
) -> Result<Put<R>, SaveError>
where
    R: Serialize + DeserializeOwned + PartialEq + Clone + Incarnated,
{
    // A swap that was reported as lost, or as unknown, may have taken place.
    let mut attempt: Option<Put<R>> = None;
    root::update(env, &key.to_string(), |current: Option<Option<R>>| {
        if let Some(own) = attempt.take_if(|own| current.as_ref().is_some_and(|now| now.as_ref() == Some(&own.after))) {
            return Ok(Decision::Keep(own));
        }
        let incarnation = match &current {
            None => Incarnation::default(),
            Some(None) => Incarnation::new(env.id()),
            Some(Some(record)) => record.incarnation().clone(),
        };
        let before = current.flatten();
        let after = change(before.as_ref(), incarnation)?;
        if before.as_ref() == Some(&after) {
            return Ok(Decision::Keep(Put { before, after }));
        }
        attempt = Some(Put { before: before.clone(), after: after.clone() });
        Ok(Decision::Replace(Some(after.clone()), Put { before, after }))
    })
}

/// Waits until other writers see this writer's write under `key`, and until it sees theirs. Without the barrier, two
/// writers may each write a record and then read the other's former one. 1 read.
///
/// A host shows a write to other hosts when it is committed, and waits for that before the writer reads the key. A host
/// that answers reads from memory asks the store for the changes of others.
pub(crate) fn read_barrier(env: &Env, key: &Key) -> Result<(), StoreError> {
    env.store.exists(&key.to_string()).map(drop)
}

/// The record before and after a write.
pub(crate) struct Put<R> {
    before: Option<R>,
    after: R,
}

impl<R: Incarnated> Put<R> {
    pub fn incarnation(&self) -> &Incarnation {
        self.after.incarnation()
    }
}

impl<R> Put<R> {
    /// The record that was replaced.
    pub fn former(&self) -> Option<&R> {
        self.before.as_ref()
    }
}

impl<R: PartialEq> Put<R> {
    /// Whether the record has changed.
    pub fn is_change(&self) -> bool {
        self.before.as_ref() != Some(&self.after)
    }
}

impl<R> Put<R>
where
    R: Serialize + DeserializeOwned + PartialEq + Clone,
{
    /// Undoes the write, unless another writer has changed the record since, and returns the error for which the record
    /// is refused. If storage failed, the record stays: the client repeats the request, which completes it.
    ///
    /// A new record becomes a deleted one, not an absent one. Other writers may have seen it and stored data for it,
    /// which must not belong to the next record with the id.
    pub fn undo(self, env: &Env, key: &Key, error: SaveError) -> SaveError {
        if matches!(error, SaveError::Store(_)) {
            return error;
        }
        let undone = root::update(env, &key.to_string(), |current: Option<Option<R>>| {
            let is_own = current.flatten().as_ref() == Some(&self.after);
            Ok(if is_own { Decision::Replace(self.before.clone(), ()) } else { Decision::Keep(()) })
        });
        undone.map_or_else(StoreError::into, |()| error)
    }
}

/// Whether a record's id is in use, or was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Existence {
    /// No record ever had the id.
    Unknown,
    Deleted,
    Present(Incarnation),
}

impl Existence {
    /// The incarnation of the present record. Without one, the first incarnation, which may be imported later.
    pub(crate) fn or_first(self) -> Incarnation {
        match self {
            Existence::Present(incarnation) => incarnation,
            Existence::Unknown | Existence::Deleted => Incarnation::default(),
        }
    }
}

/// Whether a record exists or existed. 1 read.
pub(crate) fn existence<R: DeserializeOwned + Incarnated>(env: &Env, key: &Key) -> Result<Existence, StoreError> {
    Ok(match root::read::<Option<R>>(&*env.store, &key.to_string())? {
        None => Existence::Unknown,
        Some(None) => Existence::Deleted,
        Some(Some(record)) => Existence::Present(record.incarnation().clone()),
    })
}

/// Deletes a record, if it exists and `condition` holds.
pub(crate) fn delete_if<R>(env: &Env, key: &Key, condition: impl Fn(&R) -> bool) -> Result<(), StoreError>
where
    R: Serialize + DeserializeOwned,
{
    root::update(env, &key.to_string(), |current: Option<Option<R>>| {
        let is_there = current.flatten().is_some_and(|record| condition(&record));
        Ok(if is_there { Decision::Replace(None, ()) } else { Decision::Keep(()) })
    })
}

/// Changes a record, if it exists. `change` must be idempotent.
pub(crate) fn change<R>(env: &Env, key: &Key, change: impl Fn(&mut R)) -> Result<(), StoreError>
where
    R: Serialize + DeserializeOwned + PartialEq + Clone,
{
    root::update(env, &key.to_string(), |current: Option<Option<R>>| {
        let Some(current) = current.flatten() else { return Ok(Decision::Keep(())) };
        let mut new = current.clone();
        change(&mut new);
        Ok(if new == current { Decision::Keep(()) } else { Decision::Replace(Some(new), ()) })
    })
}

/// Replaces a record by the result of `change`, which must be idempotent. It is called again after a lost swap, even if
/// the swap in fact took place.
pub(crate) fn update<R>(env: &Env, key: &Key, mut change: impl FnMut(Option<R>) -> R) -> Result<(), StoreError>
where
    R: Serialize + DeserializeOwned + PartialEq + Clone,
{
    root::update(env, &key.to_string(), |current: Option<Option<R>>| {
        let current = current.flatten();
        let new = change(current.clone());
        Ok(if current.as_ref() == Some(&new) { Decision::Keep(()) } else { Decision::Replace(Some(new), ()) })
    })
}

/// Like [`update`], with a `change` that can fail. Returns the new record.
pub(crate) fn try_update<R>(
    env: &Env,
    key: &Key,
    mut change: impl FnMut(Option<R>) -> Result<R, SaveError>,
) -> Result<R, SaveError>
where
    R: Serialize + DeserializeOwned + PartialEq + Clone,
{
    root::update(env, &key.to_string(), |current: Option<Option<R>>| {
        let current = current.flatten();
        let new = change(current.clone())?;
        Ok(if current.as_ref() == Some(&new) { Decision::Keep(new) } else { Decision::Replace(Some(new.clone()), new) })
    })
}

/// The longest key, in bytes, except keys with a longer path or blob id.
const CAPACITY: usize = 88;

pub(crate) enum Key<'a> {
    User(u64),
    Token(&'a Fingerprint),
    /// A user's personal tokens.
    UserTokens(u64),
    TokenMigration,
    Namespace(u64),
    Project(u64),
    /// A path segment, in lower case, below a namespace (0 is the top).
    Path(u64, String),
    /// A user's memberships.
    Memberships(u64),
    Settings,
    Features,
    Catalog,
    /// A blob of the catalog, by its id.
    CatalogBlob(&'a str),
    CatalogChanges,
    Demo,
}

impl Key<'_> {
    /// The prefix of the keys of path entries.
    pub const PATHS: &'static str = "directory/v1/path/";

    /// The prefix of the keys of tokens.
    pub const TOKENS: &'static str = "directory/v1/token/";

    /// The key of a token in logs and reports, which other people than its user read.
    pub const HIDDEN_TOKEN: &'static str = "directory/v1/token/(hidden)";

    /// The prefix of the keys of the lists of users' tokens.
    pub const TOKEN_LISTS: &'static str = "directory/v1/tokens/";

    pub fn path(parent_id: Option<u64>, segment: &str) -> Self {
        Key::Path(parent_id.unwrap_or(0), segment.to_ascii_lowercase())
    }

    /// The namespace id and the segment in the key of a path entry.
    pub fn parse_path(key: &str) -> Option<(Option<u64>, &str)> {
        let (parent_id, segment) = key.strip_prefix(Self::PATHS)?.split_once('/')?;
        let parent_id = parent_id.parse().ok()?;
        // The key of the counter beside a root has one more part.
        (!segment.contains('/')).then_some(((parent_id != 0).then_some(parent_id), segment))
    }

    /// The key as text. `to_string` would grow an empty text.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(CAPACITY);
        let _ = write!(text, "{self}");
        text
    }

    /// An error for the log, without the fingerprint of a token.
    pub fn redact(&self, error: StoreError) -> StoreError {
        let hidden = || Self::HIDDEN_TOKEN.to_owned();
        match (self, error) {
            (Key::Token(_), StoreError::Corrupt { why, .. }) => StoreError::Corrupt { key: hidden(), why },
            (Key::Token(_), StoreError::Contended(_)) => StoreError::Contended(hidden()),
            (Key::Token(_), StoreError::Denied(_)) => StoreError::Denied(hidden()),
            (_, error) => error,
        }
    }
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("directory/v1/")?;
        match self {
            Key::User(id) => write!(f, "user/{id}"),
            Key::Token(fingerprint) => {
                f.write_str("token/")?;
                f.write_str(&fingerprint.to_hex())
            }
            Key::UserTokens(user_id) => write!(f, "tokens/{user_id}"),
            Key::TokenMigration => f.write_str("tokens/migration"),
            Key::Namespace(id) => write!(f, "namespace/{id}"),
            Key::Project(id) => write!(f, "project/{id}"),
            Key::Path(parent_id, segment) => write!(f, "path/{parent_id}/{segment}"),
            Key::Memberships(user_id) => write!(f, "access/{user_id}"),
            Key::Settings => f.write_str("settings"),
            Key::Features => f.write_str("features"),
            Key::Catalog => f.write_str("catalog"),
            Key::CatalogBlob(id) => write!(f, "catalog/blob/{id}"),
            Key::CatalogChanges => f.write_str("catalog/changes"),
            Key::Demo => f.write_str("demo"),
        }
    }
}
