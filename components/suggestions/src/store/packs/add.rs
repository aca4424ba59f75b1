//! Adding a pack to a repository's list, and joining it with small ones.

use super::bytes::{PackBytes, PackWriter};
use super::index::{self, IndexEntry, PackIndex};
use super::read::{Packs, header_at};
use crate::git::ObjectId;
use crate::git::pack_entry::EntryKind;
use crate::store::key::Key;
use crate::store::record::{PackListRecord, PackRecord};
use kit::Env;
use kit::gc;
use kit::root::{self, Decision};
use kit::store::StoreError;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A pack whose blobs and index are written.
pub struct NewPack {
    pub record: PackRecord,
    /// Of its objects, sorted.
    pub ids: Vec<ObjectId>,
}

/// Packs are joined as long as the result has at most so many bytes and objects.
const MAX_JOINED_BYTES: u64 = 4 << 20;
const MAX_JOINED_OBJECTS: u32 = 20_000;

/// Lists a pack, which makes its objects readable. The last packs are joined with it unless they are more than twice
/// as large, so that a repository has few small packs and a byte is written again a logarithmic number of times.
pub fn add(env: &Env, project: u64, pack: &NewPack) -> Result<(), StoreError> {
    let key = Key::Packs(project).to_string();
    // The packs in which the objects were looked for.
    let mut checked = 0;
    let mut known = 0;
    root::update(env, &key, |list: Option<PackListRecord>| {
        let list = list.unwrap_or_default();
        if list.packs.iter().any(|listed| listed.id == pack.record.id) {
            return Ok(Decision::Done(()));
        }
        if gc::is_too_late(env) {
            return Err(StoreError::TooLate);
        }
        if checked == 0 || checked != list.packs.len() {
            known = count_known(env, project, &list, &pack.ids)?;
            checked = list.packs.len();
        }
        if known == pack.ids.len() {
            return Ok(Decision::Done(()));
        }
        let mut new = pack.record.clone();
        new.is_closed &= known == 0;
        Ok(Decision::Write(join_last(env, list, new)?, ()))
    })
}

/// How many of these objects the listed packs have.
fn count_known(env: &Env, project: u64, list: &PackListRecord, ids: &[ObjectId]) -> Result<usize, StoreError> {
    let packs = Packs::over(env, project, Rc::new(list.clone()));
    let mut known = 0;
    for id in ids {
        known += usize::from(packs.find(*id)?.is_some());
    }
    Ok(known)
}

/// The list with a new pack at its end, joined with those before it that are not much larger.
fn join_last(env: &Env, mut list: PackListRecord, new: PackRecord) -> Result<PackListRecord, StoreError> {
    let (mut size, mut objects, mut count) = (new.size, new.objects, 0);
    for pack in list.packs.iter().rev() {
        let is_small = pack.size <= size.saturating_mul(2)
            && pack.size + size <= MAX_JOINED_BYTES
            && pack.objects.saturating_add(objects) <= MAX_JOINED_OBJECTS;
        if !is_small {
            break;
        }
        (size, objects, count) = (size + pack.size, objects + pack.objects, count + 1);
    }
    let mut parts = list.packs.split_off(list.packs.len() - count);
    parts.push(new);
    list.packs.push(if parts.len() == 1 { parts.remove(0) } else { join(env, &parts)? });
    Ok(list)
}

/// Writes one pack with the entries of several.
fn join(env: &Env, parts: &[PackRecord]) -> Result<PackRecord, StoreError> {
    let mut writer = PackWriter::new(env);
    // Of each object its entry, and its base's id.
    let mut joined: BTreeMap<ObjectId, (IndexEntry, Option<ObjectId>)> = BTreeMap::new();
    let (mut tips, mut bases) = (BTreeSet::new(), BTreeSet::new());
    for part in parts {
        let start = writer.size();
        for bytes in PackBytes::new(env, &part.id).range(0, part.size) {
            writer.write(&bytes?)?;
        }
        let entries = PackIndex::new(env, &part.id).read_all(part.objects)?;
        for entry in &entries {
            let base = entry.base.and_then(|base| entries.get(usize::try_from(base).ok()?)).map(|base| base.id);
            let moved = IndexEntry { offset: start + entry.offset, ..*entry };
            joined.entry(entry.id).or_insert((moved, base));
        }
        tips.retain(|tip| !part.bases.contains(tip));
        bases.extend(part.bases.iter().copied());
        tips.extend(part.tips.iter().copied());
    }
    writer.finish()?;
    // A base that was in another pack may be in this one now.
    let external = |entry: &IndexEntry, base: Option<ObjectId>| -> Result<Option<ObjectId>, StoreError> {
        if base.is_some() || entry.depth == 0 {
            return Ok(base);
        }
        match header_at(PackBytes::new(env, writer.id()), entry.offset)?.kind {
            EntryKind::RefDelta(id) => Ok(Some(id)),
            _ => Ok(None),
        }
    };
    let positions: BTreeMap<ObjectId, u32> = joined.keys().copied().zip(0..).collect();
    let mut entries = Vec::with_capacity(joined.len());
    for (entry, base) in joined.values() {
        let base = external(entry, *base)?.and_then(|id| positions.get(&id).copied());
        entries.push(IndexEntry { base, ..*entry });
    }
    index::write(env, writer.id(), &entries)?;
    bases.retain(|base| !positions.contains_key(base));
    Ok(PackRecord {
        id: writer.id().to_owned(),
        objects: u32::try_from(entries.len()).unwrap_or(u32::MAX),
        size: writer.size(),
        tips: tips.into_iter().collect(),
        bases: bases.into_iter().collect(),
        is_closed: parts.iter().all(|part| part.is_closed),
    })
}
