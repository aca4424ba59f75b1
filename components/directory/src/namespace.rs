//! Groups and personal namespaces, which contain projects. They share one series of ids and one tree of paths.

pub use crate::model::namespace::{Details, MAX_DEPTH, Namespace, NamespaceKind, NewGroup, Visibility};

use crate::path::{self, Identifier, PathOwner, Unconfirmed};
use crate::save_error::{InvalidRecord, SaveError};
use crate::store::{self, Existence, Incarnated as _, Key, NamespaceRecord};
use kit::Env;
use kit::store::StoreError;
use std::collections::BTreeSet;

/// The namespace with this id. 1 read for each level. A group below itself, or deeper than imports allow, is not part
/// of the tree; `hexad fsck` reports it.
pub fn by_id(env: &Env, id: u64) -> Result<Option<Namespace>, StoreError> {
    let mut records = Vec::new();
    let mut next = Some(id);
    while let Some(id) = next {
        if records.len() > MAX_DEPTH {
            return Ok(None);
        }
        // Everything below a deleted namespace is deleted too.
        let Some(record) = store::read::<NamespaceRecord>(env, &Key::Namespace(id))? else {
            return Ok(None);
        };
        next = record.parent_id;
        records.push((id, record));
    }
    let above =
        |parent: Option<Namespace>, (id, record): (u64, NamespaceRecord)| Some(record.into_namespace(id, parent));
    Ok(records.into_iter().rev().fold(None, above))
}

/// The namespace with this id (all digits) or full path, in any letter case. By path, 2 reads for each level. A former
/// path leads to no namespace.
pub fn find(env: &Env, id_or_path: &str) -> Result<Option<Namespace>, StoreError> {
    match Identifier::parse(id_or_path) {
        Identifier::Id(id) => by_id(env, id),
        Identifier::Path(path) => by_path(env, path),
        Identifier::Invalid => Ok(None),
    }
}

/// Like [`find`], for groups only.
pub fn find_group(env: &Env, id_or_path: &str) -> Result<Option<Namespace>, StoreError> {
    Ok(find(env, id_or_path)?.filter(Namespace::is_group))
}

/// The namespace whose present path is `path`.
pub(crate) fn by_path(env: &Env, path: &str) -> Result<Option<Namespace>, StoreError> {
    let mut resolution = Resolution::default();
    for segment in path.split('/') {
        if !resolution.enter(env, segment)? || resolution.is_former {
            return Ok(None);
        }
    }
    Ok(resolution.namespace)
}

/// The namespace whose present or former path is `path`, and whether the path is a former one.
pub(crate) fn by_present_or_former_path(env: &Env, path: &str) -> Result<Option<(Namespace, bool)>, StoreError> {
    let mut resolution = Resolution::default();
    for segment in path.split('/') {
        if !resolution.enter(env, segment)? {
            return Ok(None);
        }
    }
    let is_former = resolution.is_former;
    Ok(resolution.namespace.map(|namespace| (namespace, is_former)))
}

/// A path that is being resolved, from the top level down.
#[derive(Default)]
struct Resolution {
    /// The namespace that the segments so far lead to; `None` at the top.
    namespace: Option<Namespace>,
    /// Whether any of these segments is a former path.
    is_former: bool,
}

impl Resolution {
    /// Resolves the next segment; false if it leads to no namespace. 2 reads, and more for a former path.
    fn enter(&mut self, env: &Env, segment: &str) -> Result<bool, StoreError> {
        let parent_id = self.namespace.as_ref().map(|namespace| namespace.id);
        let Some((PathOwner::Namespace(id), incarnation)) = path::owner(env, parent_id, segment)? else {
            return Ok(false);
        };
        let Some(record) = store::read::<NamespaceRecord>(env, &Key::Namespace(id))? else {
            return Ok(false);
        };
        if record.parent_id == parent_id && record.path.eq_ignore_ascii_case(segment) {
            self.namespace = Some(record.into_namespace(id, self.namespace.take()));
        } else if *record.incarnation() != incarnation {
            return Ok(false);
        } else {
            self.is_former = true;
            self.namespace = by_id(env, id)?;
        }
        Ok(self.namespace.is_some())
    }
}

/// The id of the namespace directly below `parent_id` (`None`: at the top) whose present path is `segment`, in any
/// letter case. 2 reads.
pub fn child(env: &Env, parent_id: Option<u64>, segment: &str) -> Result<Option<u64>, StoreError> {
    match path::owner(env, parent_id, segment)? {
        Some((owner @ PathOwner::Namespace(id), _)) if path::is_present_path(env, owner, parent_id, segment)? => {
            Ok(Some(id))
        }
        _ => Ok(None),
    }
}

/// The id of the namespace directly above this one; `None` at the top, or without a record. 1 read.
pub(crate) fn parent_of(env: &Env, id: u64) -> Result<Option<u64>, StoreError> {
    Ok(store::read::<NamespaceRecord>(env, &Key::Namespace(id))?.and_then(|record| record.parent_id))
}

/// Whether a namespace with this id exists or existed. 1 read.
pub(crate) fn existence(env: &Env, id: u64) -> Result<Existence, StoreError> {
    store::existence::<NamespaceRecord>(env, &Key::Namespace(id))
}

/// Whether a group with this id exists, but not directly below `parent_id`. 1 read.
pub fn is_elsewhere(env: &Env, id: u64, parent_id: u64) -> Result<bool, StoreError> {
    let record = store::read::<NamespaceRecord>(env, &Key::Namespace(id))?;
    Ok(record.is_some_and(|record| record.parent_id != Some(parent_id)))
}

/// Creates or replaces a group with `height` levels of groups, including itself ([`crate::dependents::write_group`]). If
/// it is renamed or moved, everything below it moves, because groups and projects name their parents by id.
pub(crate) fn write_subtree(env: &Env, new: NewGroup, height: usize) -> Result<Unconfirmed, SaveError> {
    let (id, parent_id) = (new.id, new.parent_id);
    let check = move |env: &Env| parent_id.map_or(Ok(()), |parent_id| check_parent(env, id, parent_id, height));
    check(env)?;
    write_checked(env, id, NamespaceRecord::group(new), None, check)
}

/// Refuses a parent if a group with `height` levels must not be directly below it. 1 read for each level above.
fn check_parent(env: &Env, id: u64, parent_id: u64, height: usize) -> Result<(), SaveError> {
    let mut next = Some(parent_id);
    let mut depth = height;
    while let Some(above) = next {
        if above == id {
            return Err(InvalidRecord::OwnAncestor(id).into());
        }
        depth += 1;
        if depth > MAX_DEPTH {
            return Err(InvalidRecord::TooDeep.into());
        }
        let record = store::read::<NamespaceRecord>(env, &Key::Namespace(above))?;
        let record = record.ok_or(InvalidRecord::UnknownNamespace(parent_id))?;
        if record.owner_id.is_some() {
            return Err(InvalidRecord::NotAGroup(above).into());
        }
        next = record.parent_id;
    }
    Ok(())
}

/// Makes `new` the namespace at its path, unless its id belongs to a namespace of another kind or to another user. It
/// may take the path from the namespace `former`.
pub(crate) fn write(env: &Env, id: u64, new: NamespaceRecord, former: Option<u64>) -> Result<Unconfirmed, SaveError> {
    write_checked(env, id, new, former, |_| Ok(()))
}

/// Like [`write`]. `check` runs at the confirmation, and if it refuses the record, the write is undone. So if two
/// writers move groups below each other, the later writer sees both.
fn write_checked(
    env: &Env,
    id: u64,
    new: NamespaceRecord,
    former: Option<u64>,
    check: impl Fn(&Env) -> Result<(), SaveError> + 'static,
) -> Result<Unconfirmed, SaveError> {
    let key = Key::Namespace(id);
    let is_foreign =
        |current: Option<&NamespaceRecord>| current.is_some_and(|current| current.owner_id != new.owner_id);
    // Checked before the claim, so that a refused record claims no path.
    if is_foreign(store::read(env, &key)?.as_ref()) {
        return Err(InvalidRecord::NamespaceIdTaken(id).into());
    }
    let owner = PathOwner::Namespace(id);
    path::claim(env, new.parent_id, &new.path, owner, former.map(PathOwner::Namespace))?;
    let put = store::put(env, &key, |current, incarnation| match is_foreign(current) {
        true => Err(InvalidRecord::NamespaceIdTaken(id).into()),
        false => Ok(new.clone().of(incarnation)),
    })?;
    Ok(Unconfirmed::new(move |env| {
        let key = Key::Namespace(id);
        // Two existing groups can be moved below each other. The writer of a move below a new group sees the new record.
        if put.former().is_some_and(|former| former.parent_id != new.parent_id) {
            store::read_barrier(env, &key)?;
        }
        let checked = if put.is_change() { check(env) } else { Ok(()) };
        checked
            .and_then(|()| path::confirm(env, new.parent_id, &new.path, owner, put.incarnation()))
            .map_err(|error| put.undo(env, &key, error))
    }))
}

/// Makes the path of a personal namespace lead to the user's next personal namespace, which has another path.
pub(crate) fn take_former_path(env: &Env, former: u64, present: u64) -> Result<(), SaveError> {
    let Some(record) = store::read::<NamespaceRecord>(env, &Key::Namespace(former))? else { return Ok(()) };
    let Existence::Present(incarnation) = existence(env, present)? else { return Ok(()) };
    let (path, former, present) = (record.path, PathOwner::Namespace(former), PathOwner::Namespace(present));
    if path::owner(env, None, &path)?.is_none_or(|(owner, _)| owner != former) {
        return Ok(());
    }
    path::claim(env, None, &path, present, Some(former))?;
    path::confirm(env, None, &path, present, &incarnation)
}

/// Moves a group to the top level, where its path becomes `segment`. False if another writer has moved it from below
/// `parent_id` meanwhile. Refused if the path is taken.
pub(crate) fn move_to_top(env: &Env, id: u64, parent_id: u64, segment: &str) -> Result<bool, SaveError> {
    let (key, owner) = (Key::Namespace(id), PathOwner::Namespace(id));
    path::claim(env, None, segment, owner, None)?;
    store::change(env, &key, |record: &mut NamespaceRecord| {
        if record.parent_id == Some(parent_id) {
            record.parent_id = None;
            segment.clone_into(&mut record.path);
        }
    })?;
    match store::read::<NamespaceRecord>(env, &key)? {
        Some(record) if record.parent_id.is_none() && record.path == segment => {
            path::confirm(env, None, segment, owner, record.incarnation()).map(|()| true)
        }
        _ => Ok(false),
    }
}

/// Deletes the record of a group. [`crate::dependents`] deletes everything below it.
pub(crate) fn delete_group(env: &Env, id: u64) -> Result<(), StoreError> {
    match store::read::<NamespaceRecord>(env, &Key::Namespace(id))? {
        Some(record) if record.owner_id.is_some() => Ok(()),
        _ => store::write::<NamespaceRecord>(env, &Key::Namespace(id), None),
    }
}

/// Deletes the record of a group with its parent, unless another writer has moved the group elsewhere meanwhile.
pub(crate) fn delete_group_in(env: &Env, id: u64, parents: &BTreeSet<u64>) -> Result<(), StoreError> {
    store::delete_if(env, &Key::Namespace(id), |record: &NamespaceRecord| {
        record.parent_id.is_some_and(|parent| parents.contains(&parent))
    })
}

/// Deletes the record of a user's personal namespace.
pub(crate) fn delete_personal(env: &Env, id: u64, owner: u64) -> Result<(), StoreError> {
    match store::read::<NamespaceRecord>(env, &Key::Namespace(id))? {
        Some(record) if record.owner_id != Some(owner) => Ok(()),
        _ => store::write::<NamespaceRecord>(env, &Key::Namespace(id), None),
    }
}

/// Removes the invitation of a group from a group.
pub(crate) fn remove_share(env: &Env, id: u64, invited: u64) -> Result<(), StoreError> {
    store::change(env, &Key::Namespace(id), |record: &mut NamespaceRecord| {
        record.shares.retain(|share| share.group_id != invited);
    })
}

#[cfg(test)]
mod tests;
