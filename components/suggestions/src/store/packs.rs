//! Packs: immutable blobs with the entries of many objects, as git's packs have them, and an index of each.
//! A repository's packs are listed in a root, in the order in which they were added.
//!
//! A stored pack is the entries of a pack without header and trailer, so that packs are joined by joining their bytes.
//! A delta names its base by distance, or by an id that may be in an earlier pack. If two packs have an object, the
//! copy of the earlier pack counts. So a delta's base is always in its own or an earlier pack, and chains of deltas
//! end.

mod add;
pub mod bytes;
mod index;
mod read;

pub use super::record::PackListRecord;
pub use add::{NewPack, add, of_all as tips_of_all};
pub use bytes::{PackBytes, PackWriter, header_at};
pub use index::{IndexEntry, write as write_index};
pub use read::{Location, MAX_DELTIFIED, Packs, ReadObject};

use super::key::Key;
use crate::git::ObjectId;
use crate::repository_id::RepositoryId;
use crate::store::packs::add::ListedIndex;
use kit::Env;
use kit::reachability::Tracer;
use kit::store::StoreError;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Fails if the list has lost packs. A list is written with its first pack, so an empty list has lost packs. So has a
/// list if one of its packs builds on a commit that none of them has. With `expects_blobs`, also fails if a pack has
/// lost one of its blobs. A check also reads the parts of each pack that no object leads to: its index and its tips. A
/// collection reads only the parts of indexes that may have such commits.
pub fn check(
    env: &Env,
    project: RepositoryId,
    list: PackListRecord,
    expects_blobs: bool,
    tracer: &mut Tracer,
) -> Result<(), StoreError> {
    if list.packs.is_empty() {
        return Err(StoreError::corrupt(&Key::Packs(project).to_string(), "it names no pack"));
    }
    // Each commit of another pack, and the pack that builds on it.
    let mut builders: BTreeMap<ObjectId, String> = BTreeMap::new();
    let mut is_readable = true;
    for (number, pack) in list.packs.iter().enumerate() {
        if tracer.check {
            match tracer.tolerate(index::PackIndex::new(env, project, pack).check())? {
                Some((entries, size)) => {
                    tracer.read(size);
                    let index = ListedIndex { env, project, packs: &list.packs, pack: number, entries: &entries };
                    tracer.tolerate(index.check_deltas())?;
                }
                None => is_readable = false,
            }
        }
        if expects_blobs {
            tolerate_in_check(tracer, PackBytes::new(env, project, &pack.id).expect_blobs(pack.size))?;
        }
        let tips = tolerate_in_check(tracer, add::of_all(env, project, std::slice::from_ref(pack)))?.flatten();
        let [_, bases] = tips.unwrap_or_default();
        builders.extend(bases.into_iter().map(|base| (base, pack.id.clone())));
    }
    if !is_readable {
        return Ok(());
    }
    let bases: BTreeSet<ObjectId> = builders.keys().copied().collect();
    let found = Packs::over(env, project, Rc::new(list)).find_all(&bases)?;
    match builders.iter().find(|(base, _)| !found.contains_key(base)) {
        None => Ok(()),
        Some((base, builder)) => {
            let why = format!("no pack has {base}, on which pack {builder} builds");
            Err(StoreError::corrupt(&Key::Packs(project).to_string(), why))
        }
    }
}

/// In a check, reports damage; in a collection, returns it as an error.
fn tolerate_in_check<T>(tracer: &mut Tracer, outcome: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    if tracer.check { tracer.tolerate(outcome) } else { outcome.map(Some) }
}
