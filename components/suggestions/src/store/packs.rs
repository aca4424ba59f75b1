//! Packs: immutable blobs with the entries of many objects, as git's packs have them, and an index of each.
//! A repository's packs are listed in a root, in the order in which they were added.
//!
//! A stored pack is the entries of a pack without header and trailer, so that packs are joined by joining
//! their bytes: a delta names its base by distance, or by an id that may be in an earlier pack. If two packs
//! have an object, that of the earlier one counts. So a delta's base is always in an earlier pack, or in
//! its own, and chains of deltas end.

mod add;
mod base_cache;
mod bytes;
mod index;
pub mod inflate;
mod join;
mod read;
mod tips;

pub use super::record::PackListRecord;
pub use add::{NewPack, add};
pub use bytes::{PackBytes, PackWriter, header_at};
pub use index::{IndexEntry, write as write_index};
pub use read::{Location, MAX_DELTIFIED, Packs, ReadObject};
pub use tips::of_all as tips_of_all;

use super::record::PackRecord;
use crate::repository_id::RepositoryId;
use kit::Env;
use kit::reachability::Tracer;
use kit::store::StoreError;

/// Checks the parts of a listed pack that no object leads to: its index and its tips.
pub fn check(env: &Env, project: RepositoryId, pack: &PackRecord, tracer: &mut Tracer) -> Result<(), StoreError> {
    if let Some(size) = tracer.note(index::PackIndex::new(env, project, pack).check())? {
        tracer.read(size);
    }
    let tips = tips::of_all(env, project, std::slice::from_ref(pack));
    tracer.note(tips).map(drop)
}
