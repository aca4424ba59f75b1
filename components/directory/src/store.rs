//! Keys and stored records, and how one record is read and changed.

mod key;
mod record;

pub(crate) use key::Key;
pub(crate) use record::{
    FeatureRecords, MembershipsRecord, NamespaceRecord, PathRecord, ProjectRecord, ShareRecord, TokenMigrationRecord,
    TokenRecord, UserRecord, UserTokenRecord, UserTokensRecord,
};

use crate::save_error::SaveError;
use kit::Env;
use kit::root::{self, Decision};
use kit::store::StoreError;
use serde::{Serialize, de::DeserializeOwned};

/// A record; `None` if it is absent or deleted.
///
/// A deleted record is kept as `null`: a root that was removed altogether could not be created
/// again by compare-and-swap alone (see [`kit::root::update`]).
pub(crate) fn read<R: DeserializeOwned>(env: &Env, key: &Key) -> Result<Option<R>, StoreError> {
    let record = root::read::<Option<R>>(&*env.store, &key.to_string()).map_err(|error| key.redact(error))?;
    Ok(record.flatten())
}

/// Makes `new` the record; `None` deletes it. An unchanged record is not written.
pub(crate) fn write<R>(env: &Env, key: &Key, new: Option<R>) -> Result<(), StoreError>
where
    R: Serialize + DeserializeOwned + PartialEq + Clone,
{
    root::update(env, &key.to_string(), |current: Option<Option<R>>| {
        let unchanged = current.flatten() == new;
        Ok(if unchanged { Decision::Done(()) } else { Decision::Write(new.clone(), ()) })
    })
    .map_err(|error| key.redact(error))
}

/// Replaces a record by what `change` makes of it. `change` must be idempotent: it is called again
/// after a lost swap, also if that swap in fact took place.
pub(crate) fn update<R>(env: &Env, key: &Key, mut change: impl FnMut(Option<R>) -> R) -> Result<(), StoreError>
where
    R: Serialize + DeserializeOwned + PartialEq + Clone,
{
    root::update(env, &key.to_string(), |current: Option<Option<R>>| {
        let current = current.flatten();
        let new = change(current.clone());
        Ok(if current.as_ref() == Some(&new) { Decision::Done(()) } else { Decision::Write(Some(new), ()) })
    })
}

/// The same with a `change` that can fail.
pub(crate) fn try_update<R>(
    env: &Env,
    key: &Key,
    mut change: impl FnMut(Option<R>) -> Result<R, SaveError>,
) -> Result<(), SaveError>
where
    R: Serialize + DeserializeOwned + PartialEq + Clone,
{
    root::update(env, &key.to_string(), |current: Option<Option<R>>| {
        let current = current.flatten();
        let new = change(current.clone())?;
        Ok(if current.as_ref() == Some(&new) { Decision::Done(()) } else { Decision::Write(Some(new), ()) })
    })
}
