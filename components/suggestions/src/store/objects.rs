//! Git objects, by id: in packs ([`super::packs`]), or loose, as imports and earlier builds have written them. A loose
//! object is header and contents in zlib; a large one is in chunks, which the record under its key lists.

mod corruption;
mod inflate;
mod look_up;
mod loose;
mod scan;
mod stream;
mod writer;

pub use corruption::missing;
pub use loose::LooseObject;
pub use scan::scan;
pub use stream::LooseStream;
pub use writer::ObjectWriter;

use super::key::Key;
use super::packs::{Location, Packs, ReadObject};
use super::semispace::Semispace;
use super::semispace_roles;
use crate::git::{Commit, Object, ObjectId, ObjectKind, Tree};
use crate::repository_id::RepositoryId;
use bytes::Bytes;
use corruption::corrupt;
use inflate::ObjectInflater;
use kit::Env;
use kit::store::StoreError;
use look_up::look_up;
use scan::scan_loose;

/// The largest object that is read as a whole, in bytes.
pub const MAX_WHOLE: u64 = 16 << 20;

/// An object as git stores it; `None` if the repository lacks it. 1 read, or 2.
pub fn read_loose(env: &Env, project: RepositoryId, id: ObjectId) -> Result<Option<LooseObject>, StoreError> {
    let keys = Semispace::BOTH.map(|semispace| (semispace, Key::Object(semispace, project, id).to_string()));
    // A cached object of either semispace costs no read of the other one.
    let cached = keys.iter().find_map(|(semispace, key)| Some((*semispace, key, env.blobs.peek(key)?)));
    if let Some((semispace, key, bytes)) = cached {
        return LooseObject::parse(semispace, key, bytes).map(Some);
    }
    for (semispace, key) in &keys {
        if let Some(bytes) = env.blob(key)? {
            return LooseObject::parse(*semispace, key, bytes).map(Some);
        }
    }
    Ok(None)
}

/// Whether a semispace has an object. 1 read.
pub fn exists(env: &Env, semispace: Semispace, project: RepositoryId, id: ObjectId) -> Result<bool, StoreError> {
    env.store.exists(&Key::Object(semispace, project, id).to_string())
}

/// Whether a repository has an object.
pub fn exists_anywhere(env: &Env, project: RepositoryId, id: ObjectId) -> Result<bool, StoreError> {
    let in_packs = |packs: &Packs| Ok(packs.find(id)?.map(drop));
    let loose = || Ok(is_loose(env, project, id)?.then_some(()));
    Ok(look_up(env, project, in_packs, loose)?.is_some())
}

/// Whether an object is in a pack.
pub fn is_packed(env: &Env, project: RepositoryId, id: ObjectId) -> Result<bool, StoreError> {
    Ok(Packs::with(env, project, |packs| packs.find(id))?.is_some())
}

/// Whether either semispace has an object. 1 read, or 2.
fn is_loose(env: &Env, project: RepositoryId, id: ObjectId) -> Result<bool, StoreError> {
    let [first, second] = Semispace::BOTH.map(|semispace| exists(env, semispace, project, id));
    Ok(first? || second?)
}

/// Copies a blob to the current semispace unless that has it, so that the blob is not swept before a
/// discussion names it.
pub fn copy_to_current(env: &Env, project: RepositoryId, id: ObjectId, contents: &Bytes) -> Result<(), StoreError> {
    let semispace = semispace_roles::read_current(env)?;
    if is_packed(env, project, id)? || exists(env, semispace, project, id)? {
        return Ok(());
    }
    save(env, semispace, project, &Object { id, kind: ObjectKind::Blob, contents: contents.to_vec() })
}

/// An object's contents, if it has at most `limit` bytes; `None` if the repository lacks it. A loose one takes 1 read,
/// and 1 for each chunk.
fn find(env: &Env, project: RepositoryId, id: ObjectId, limit: u64) -> Result<Option<ReadObject>, StoreError> {
    let in_packs = |packs: &Packs| read_at(packs, packs.find(id)?, limit);
    look_up(env, project, in_packs, || find_loose(env, project, id, limit))
}

fn read_at(packs: &Packs, location: Option<Location>, limit: u64) -> Result<Option<ReadObject>, StoreError> {
    location.map(|location| packs.read(&location, limit)).transpose()
}

fn find_loose(env: &Env, project: RepositoryId, id: ObjectId, limit: u64) -> Result<Option<ReadObject>, StoreError> {
    let mut inflater = ObjectInflater::new(env, limit);
    match read_loose(env, project, id)? {
        None => return Ok(None),
        Some(LooseObject::Whole(bytes)) => inflater.feed(&bytes).map_err(|why| corrupt(project, id, why))?,
        Some(LooseObject::Chunks(keys)) => {
            for key in keys {
                let bytes = loose::read_chunk(env, project, id, &key)?;
                inflater.feed(&bytes).map_err(|why| corrupt(project, id, why))?;
                if inflater.excess_size().is_some() {
                    break;
                }
            }
        }
    }
    if let Some(size) = inflater.excess_size() {
        return Ok(Some(ReadObject::TooLarge(size)));
    }
    let (kind, contents) = inflater.finish().ok_or_else(|| corrupt(project, id, "it is not a whole object"))?;
    Ok(Some(ReadObject::Object(kind, contents)))
}

/// The kind of an object; `None` if the repository lacks it.
pub fn kind(env: &Env, project: RepositoryId, id: ObjectId) -> Result<Option<ObjectKind>, StoreError> {
    let in_packs = |packs: &Packs| Ok(packs.find(id)?.map(|location| location.entry.kind));
    look_up(env, project, in_packs, || loose_kind(env, project, id))
}

/// The kind of a loose object; `None` if neither semispace has it. 2 reads.
pub fn loose_kind(env: &Env, project: RepositoryId, id: ObjectId) -> Result<Option<ObjectKind>, StoreError> {
    Ok(scan_loose(env, project, id, false)?.map(|scanned| scanned.kind))
}

/// How many deltas are to be applied to read an object; 0 if it is stored whole.
pub fn delta_depth(env: &Env, project: RepositoryId, id: ObjectId) -> Result<u8, StoreError> {
    let location = Packs::with(env, project, |packs| packs.find(id))?;
    Ok(location.map_or(0, |location| location.entry.depth))
}

/// The kind and contents of an object of at most `limit` bytes; `None` if the repository lacks it.
pub fn read_any(
    env: &Env,
    project: RepositoryId,
    id: ObjectId,
    limit: u64,
) -> Result<Option<(ObjectKind, Bytes)>, StoreError> {
    match find(env, project, id, limit)? {
        None => Ok(None),
        Some(ReadObject::TooLarge(size)) => {
            Err(corrupt(project, id, &format!("it has {size} bytes, more than {limit}")))
        }
        Some(ReadObject::Object(kind, contents)) => Ok(Some((kind, contents))),
    }
}

/// The contents of an object; `None` if the repository lacks it, or it has more than `limit` bytes.
pub fn read_at_most(env: &Env, project: RepositoryId, id: ObjectId, limit: u64) -> Result<Option<Bytes>, StoreError> {
    Ok(match find(env, project, id, limit)? {
        Some(ReadObject::Object(_, contents)) => Some(contents),
        None | Some(ReadObject::TooLarge(_)) => None,
    })
}

/// The contents of an object that another one names, so that its absence is damage.
fn expect_kind(
    found: Option<ReadObject>,
    project: RepositoryId,
    id: ObjectId,
    kind: ObjectKind,
) -> Result<Bytes, StoreError> {
    match found {
        Some(ReadObject::Object(found, contents)) if found == kind => Ok(contents),
        Some(ReadObject::Object(found, _)) => {
            Err(corrupt(project, id, &format!("a {} and not a {}", found.as_str(), kind.as_str())))
        }
        Some(ReadObject::TooLarge(size)) => Err(corrupt(project, id, &format!("a {} of {size} bytes", kind.as_str()))),
        None => Err(missing(project, id)),
    }
}

/// The contents of a blob; `None` if it is larger than [`MAX_WHOLE`].
pub fn read_blob(env: &Env, project: RepositoryId, id: ObjectId) -> Result<Option<Bytes>, StoreError> {
    match find(env, project, id, MAX_WHOLE)? {
        Some(ReadObject::TooLarge(_)) => Ok(None),
        found => expect_kind(found, project, id, ObjectKind::Blob).map(Some),
    }
}

pub fn read_tree(env: &Env, project: RepositoryId, id: ObjectId) -> Result<Tree, StoreError> {
    let contents = expect_kind(find(env, project, id, MAX_WHOLE)?, project, id, ObjectKind::Tree)?;
    Tree::parse(contents).ok_or_else(|| corrupt(project, id, "it is not a tree"))
}

/// A commit; `None` if there is no such object, or it is no commit.
pub fn read_commit(env: &Env, project: RepositoryId, id: ObjectId) -> Result<Option<Commit>, StoreError> {
    Ok(match find(env, project, id, MAX_WHOLE)? {
        Some(ReadObject::Object(ObjectKind::Commit, contents)) => Commit::parse(&contents),
        _ => None,
    })
}

/// Writes an object.
pub fn save(env: &Env, semispace: Semispace, project: RepositoryId, object: &Object) -> Result<(), StoreError> {
    let mut writer = ObjectWriter::new(env, semispace, project);
    writer.begin(object.id, object.kind, object.contents.len() as u64)?;
    writer.write(&object.contents)?;
    writer.finish().map(drop)
}

/// An object that is in a pack: its contents, unless it has more than [`MAX_WHOLE`] bytes, and how many deltas are to be
/// applied to read it, 255 at most.
pub fn read_packed(env: &Env, project: RepositoryId, id: ObjectId) -> Result<Option<(Option<Bytes>, u8)>, StoreError> {
    Packs::with(env, project, |packs| {
        let Some(location) = packs.find(id)? else { return Ok(None) };
        let contents = match packs.read(&location, MAX_WHOLE)? {
            ReadObject::Object(_, contents) => Some(contents),
            ReadObject::TooLarge(_) => None,
        };
        Ok(Some((contents, location.entry.depth)))
    })
}

/// Whether an object has at most so many bytes.
pub fn is_at_most(env: &Env, project: RepositoryId, id: ObjectId, limit: u64) -> Result<bool, StoreError> {
    Ok(!matches!(find(env, project, id, limit)?, Some(ReadObject::TooLarge(_))))
}
