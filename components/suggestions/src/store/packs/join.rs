//! Joining small packs, so that a repository has few.

use super::bytes::{PackBytes, PackWriter, header_at};
use super::delta_check::ListedIndex;
use super::index::{self, IndexEntry, PackIndex};
use super::tips;
use crate::git::ObjectId;
use crate::git::pack_entry::EntryKind;
use crate::repository_id::RepositoryId;
use crate::store::json_blob;
use crate::store::key::Key;
use crate::store::record::{PackListRecord, PackRecord, ReplacedPacksRecord};
use kit::Env;
use kit::gc;
use kit::root::{self, Decision};
use kit::store::StoreError;
use std::collections::BTreeMap;
use std::ops::Range;

/// How many packs of a tier are joined, and how much larger the packs of the next tier are. A repository has up to so
/// many packs of each tier, and a byte is written once more for each tier.
const FAN_OUT: usize = 8;

/// The packs of the lowest tier have fewer bytes than this, times [`FAN_OUT`].
const SMALLEST: u64 = 2 << 10;

/// Packs are joined as long as the result has at most so many bytes and objects.
const MAX_JOINED_BYTES: u64 = 4 << 20;
const MAX_JOINED_OBJECTS: u32 = 20_000;

/// The list with its last packs joined, if there are [`FAN_OUT`] of one tier; then the packs of the next tier. The
/// joined pack is written and not listed yet. Also returns its id.
pub fn with_joined(
    env: &Env,
    project: RepositoryId,
    list: &PackListRecord,
) -> Result<Option<(PackListRecord, String)>, StoreError> {
    let mut packs = list.packs.clone();
    let mut last = packs.len().saturating_sub(1);
    let mut joined_id = None;
    while let Some(run) = full_tier(&packs, last) {
        let joined = join(env, project, &packs, run.clone())?;
        joined_id = Some(joined.id.clone());
        last = run.start;
        packs.splice(run, [joined]);
    }
    let Some(id) = joined_id else { return Ok(None) };
    let is_kept = |pack: &PackRecord| packs.iter().any(|kept| kept.id == pack.id);
    let replaced = list.packs.iter().filter(|pack| !is_kept(pack)).map(|pack| pack.id.clone()).collect();
    keep_replaced(env, replaced)?;
    Ok(Some((PackListRecord { packs }, id)))
}

/// Joins the last packs of a list that another writer has changed meanwhile. Packs that are added meanwhile stay behind
/// them.
pub fn join_small(env: &Env, project: RepositoryId, mut list: PackListRecord) -> Result<(), StoreError> {
    let mut last = list.packs.len().saturating_sub(1);
    while let Some(run) = full_tier(&list.packs, last) {
        let Some(parts) = list.packs.get(run.clone()) else { return Ok(()) };
        let joined = join(env, project, &list.packs, run)?;
        let parts: Vec<String> = parts.iter().map(|part| part.id.clone()).collect();
        keep_replaced(env, parts.clone())?;
        match replace(env, project, &parts, &joined)? {
            Some(replaced) => (list, last) = replaced,
            None => return Ok(()),
        }
    }
    Ok(())
}

/// Keeps packs that are about to be replaced, for the clones that read them. A record of their own names them, because
/// each push reads and writes the list.
fn keep_replaced(env: &Env, packs: Vec<String>) -> Result<(), StoreError> {
    json_blob::write(env, &Key::ReplacedPacks(&env.with_current_time().id()), &ReplacedPacksRecord { packs })
}

/// The packs to be joined up to the position `last`: packs of its tier or a lower one, as many as fit into one pack. Of
/// packs of one tier, only the request that completes another [`FAN_OUT`] of them joins them, so concurrent requests do
/// not. If it breaks off, a later request joins them.
fn full_tier(packs: &[PackRecord], last: usize) -> Option<Range<usize>> {
    let tier = |pack: &PackRecord| (pack.size / SMALLEST).checked_ilog(FAN_OUT as u64).unwrap_or(0);
    let of_last = tier(packs.get(last)?);
    let (mut bytes, mut objects) = (0, 0_u32);
    let before = packs.iter().take(last + 1).rev().take_while(|pack| {
        bytes += pack.size;
        objects = objects.saturating_add(pack.objects);
        tier(pack) <= of_last && bytes <= MAX_JOINED_BYTES && objects <= MAX_JOINED_OBJECTS
    });
    let run = last + 1 - before.count()..last + 1;
    let parts = packs.get(run.clone())?;
    let has_lower = parts.iter().any(|pack| tier(pack) < of_last);
    let is_full = parts.len() >= FAN_OUT && (has_lower || parts.len().is_multiple_of(FAN_OUT));
    is_full.then_some(run)
}

/// Lists a joined pack in place of its parts. Returns the list, and the position of the pack; `None` if the parts are
/// not listed any more.
fn replace(
    env: &Env,
    project: RepositoryId,
    parts: &[String],
    joined: &PackRecord,
) -> Result<Option<(PackListRecord, usize)>, StoreError> {
    root::update(env, &Key::Packs(project).to_string(), |list: Option<PackListRecord>| {
        let mut list = list.unwrap_or_default();
        let start = list.packs.iter().position(|pack| Some(&pack.id) == parts.first());
        let listed = start.and_then(|start| list.packs.get(start..start + parts.len()));
        let is_listed = listed.is_some_and(|listed| listed.iter().map(|pack| &pack.id).eq(parts));
        let Some(start) = start.filter(|_| is_listed) else { return Ok(Decision::Keep(None)) };
        if gc::is_too_late(env) {
            return Err(StoreError::TooLate);
        }
        list.packs.splice(start..start + parts.len(), [joined.clone()]);
        Ok(Decision::Replace(list.clone(), Some((list, start))))
    })
}

/// Writes one pack with the entries of a run of packs. A part whose index is damaged is not copied: the joined pack
/// would have the damage even after the part was restored.
fn join(env: &Env, project: RepositoryId, packs: &[PackRecord], run: Range<usize>) -> Result<PackRecord, StoreError> {
    let parts = packs.get(run.clone()).unwrap_or_default();
    let mut writer = PackWriter::new(env);
    // The entry of each object, and its base's id.
    let mut joined: BTreeMap<ObjectId, (IndexEntry, Option<ObjectId>)> = BTreeMap::new();
    for (pack, part) in run.zip(parts) {
        let entries = PackIndex::new(env, project, part).read_all()?;
        ListedIndex { env, project, packs, pack, entries: &entries }.check_deltas()?;
        let start = writer.size();
        let stored = PackBytes::new(env, project, &part.id);
        for bytes in stored.range(0, part.size) {
            writer.write(&bytes?)?;
        }
        for entry in &entries {
            if joined.contains_key(&entry.id) {
                continue;
            }
            let inside = entry.base.and_then(|base| entries.get(usize::try_from(base).ok()?));
            let base = match inside {
                Some(base) => Some(base.id),
                None if entry.depth == 0 => None,
                // A base that is in another pack may be in the joined one.
                None => match header_at(stored, entry.offset)?.kind {
                    EntryKind::RefDelta(id) => Some(id),
                    EntryKind::Object(_) | EntryKind::OffsetDelta(_) => None,
                },
            };
            joined.insert(entry.id, (IndexEntry { offset: start + entry.offset, ..*entry }, base));
        }
    }
    writer.finish()?;
    let positions: BTreeMap<ObjectId, u32> = joined.keys().copied().zip(0..).collect();
    let in_place = |(entry, base): &(IndexEntry, Option<ObjectId>)| {
        let base = base.and_then(|id| positions.get(&id).copied());
        IndexEntry { base, ..*entry }
    };
    let entries: Vec<IndexEntry> = joined.values().map(in_place).collect();
    index::write(env, writer.id(), &entries)?;
    let known = tips::of_all(env, project, parts)?;
    let is_self_contained = known.is_some();
    let [tips, mut bases] = known.unwrap_or_default();
    bases.retain(|base| !positions.contains_key(base));
    let mut record = PackRecord {
        id: writer.id().to_owned(),
        objects: u32::try_from(entries.len()).unwrap_or(u32::MAX),
        size: writer.size(),
        tips: tips.into_iter().collect(),
        bases: bases.into_iter().collect(),
        is_self_contained,
        has_tips_blob: false,
        has_copies: parts.iter().any(|part| part.has_copies),
        ids: Vec::new(),
    };
    tips::spill_tips(env, &mut record)?;
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(size: u64) -> PackRecord {
        let (id, objects) = (String::new(), u32::try_from(size / 200).unwrap());
        PackRecord { id, objects, size, is_self_contained: true, ..PackRecord::default() }
    }

    /// How many packs are left when packs of these sizes were added one by one.
    fn left(sizes: impl Iterator<Item = u64>) -> usize {
        let mut packs = Vec::new();
        for size in sizes {
            packs.push(pack(size));
            let mut last = packs.len() - 1;
            while let Some(run) = full_tier(&packs, last) {
                last = run.start;
                let joined = pack(packs[run.clone()].iter().map(|pack| pack.size).sum());
                packs.splice(run, [joined]);
            }
        }
        packs.len()
    }

    #[test]
    fn few_packs_are_left_whatever_their_sizes() {
        assert!(left((0..3000).map(|_| 1 << 10)) <= 3 * FAN_OUT);
        // Each pack of 4 MiB may be followed by up to so many that did not fit.
        let bound = |bytes: u64| usize::try_from(bytes / MAX_JOINED_BYTES).unwrap() * 4 + 4 * FAN_OUT;
        for (small, large) in [(9, 600), (7, 700), (19, 700), (1, 30), (15, 100)] {
            let sizes = |_| std::iter::repeat_n(1 << 10, small).chain([large << 10]);
            let total: u64 = (0..300).flat_map(sizes).sum();
            let left = left((0..300).flat_map(sizes));
            assert!(left <= bound(total), "{small} small ones beside one of {large} KiB: {left}");
        }
    }
}
