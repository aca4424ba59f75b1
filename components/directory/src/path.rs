//! The tree of paths that users, groups and projects share.
//!
//! A path is resolved one segment at a time: the entry of a segment below a namespace names its
//! owner by id. No full path is stored, so renaming a group is one write however much is below it.
//! An entry is a present path only if the owner's record says so too; else it is a former one, which
//! leads to the owner until another record claims it. Resolving costs two reads a segment.

pub use crate::model::address::{Identifier, PathOwner, is_segment};

use crate::save_error::{InvalidRecord, SaveError};
use crate::store::{self, Key, NamespaceRecord, PathRecord, ProjectRecord};
use kit::Env;
use kit::store::StoreError;

/// The present or former owner of `segment` below the namespace `parent_id`. 1 read.
pub(crate) fn owner(env: &Env, parent_id: Option<u64>, segment: &str) -> Result<Option<PathOwner>, StoreError> {
    Ok(store::read::<PathRecord>(env, &Key::path(parent_id, segment))?.map(PathOwner::from))
}

/// Makes `owner` the owner of `segment` below the namespace `parent_id`. Refused while it is the
/// present path of another.
///
/// Claim first and write the record after: between the two the entry looks like a former path, and
/// repeating both completes them.
pub(crate) fn claim(env: &Env, parent_id: Option<u64>, segment: &str, owner: PathOwner) -> Result<(), SaveError> {
    if !is_segment(segment) {
        return Err(InvalidRecord::InvalidPath(segment.to_owned()).into());
    }
    let key = Key::path(parent_id, segment);
    store::try_update(env, &key, |current: Option<PathRecord>| match current.map(PathOwner::from) {
        Some(other) if other != owner && is_present_path(env, other, parent_id, segment)? => {
            Err(InvalidRecord::PathTaken { path: segment.to_owned(), by: other }.into())
        }
        _ => Ok(PathRecord::from(owner)),
    })
}

/// Whether the owner's record says that this is its path. 1 read.
pub(crate) fn is_present_path(
    env: &Env,
    owner: PathOwner,
    parent_id: Option<u64>,
    segment: &str,
) -> Result<bool, StoreError> {
    let (parent, path) = match owner {
        PathOwner::Namespace(id) => match store::read::<NamespaceRecord>(env, &Key::Namespace(id))? {
            Some(record) => (record.parent_id, record.path),
            None => return Ok(false),
        },
        PathOwner::Project(id) => match store::read::<ProjectRecord>(env, &Key::Project(id))? {
            Some(record) => (Some(record.namespace_id), record.path),
            None => return Ok(false),
        },
    };
    Ok(parent == parent_id && path.eq_ignore_ascii_case(segment))
}

#[cfg(test)]
mod tests;
