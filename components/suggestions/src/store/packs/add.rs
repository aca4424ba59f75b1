//! Adding a pack to a repository's list.
//!
//! The tips of a pack, which reach its objects, and the commits of other packs that it builds on.
//!
//! Each push and each applied suggestion reads and writes the list of packs. After commits on many branches, a joined
//! pack has as many tips, so a pack with more than a few has them in a blob.

use crate::git::pack_entry::EntryKind;
use crate::git::{ObjectId, id_from_hasher};
use crate::repository_id::RepositoryId;
use crate::store::counter;
use crate::store::key::Key;
use crate::store::packs::bytes::{PackBytes, PackWriter, header_at};
use crate::store::packs::index::{self, IndexEntry, PackIndex};
use crate::store::packs::read::{Location, MAX_DELTIFIED, Packs, ReadObject};
use crate::store::record::{PackListRecord, PackRecord, PackTipsRecord, ReplacedPacksRecord};
use kit::root::{self, Decision};
use kit::store::StoreError;
use kit::{Env, gc};
use sha1::Digest;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::rc::Rc;

/// A pack whose blobs and index are written.
pub struct NewPack {
    pub record: PackRecord,
    /// The ids of its objects, sorted.
    pub ids: Vec<ObjectId>,
    /// The record's `is_self_contained` holds only if the earlier packs have these commits and are all self-contained.
    /// Without such commits, it holds in any list.
    pub self_contained_with: Vec<ObjectId>,
}

/// The list names the objects of a pack that has at most so many. A writer that lost the swap to such a pack searches
/// the list without a read, which would wait until that pack is durable.
const MAX_NAMED: usize = 16;

/// Lists a pack, which makes its objects readable, and joins small packs if there are many. Returns how many of its
/// objects are in earlier packs; if all of them are, the pack is left out.
///
/// The packs are joined before the swap, which lists the joined one: a read of the list after the swap waits for a
/// flush. If another writer was first, the pack is listed as it is.
pub fn add(env: &Env, project: RepositoryId, pack: &NewPack) -> Result<usize, StoreError> {
    let key = Key::Packs(project).to_string();
    let mut known = KnownObjects { env, project, searched: BTreeSet::new(), found: BTreeSet::new() };
    let mut is_first = true;
    // The joined pack that has these objects in the first attempt's swap.
    let mut joined: Option<String> = None;
    let (known, unjoined) = root::update(env, &key, |list: Option<PackListRecord>| {
        let mut list = list.unwrap_or_default();
        if list.packs.iter().any(|listed| listed.id == pack.record.id || Some(&listed.id) == joined.as_ref()) {
            return Ok(Decision::Keep((known.found.len(), None)));
        }
        if gc::is_too_late(env) {
            return Err(StoreError::TooLate);
        }
        let known = known.count(&list, &pack.ids)?;
        if known == pack.ids.len() {
            return Ok(Decision::Keep((known, None)));
        }
        let mut record = pack.record.clone();
        record.has_copies |= known > 0;
        record.is_self_contained =
            record.is_self_contained && is_self_contained_with(env, project, &list, &pack.self_contained_with)?;
        spill_tips(env, &mut record)?;
        if pack.ids.len() <= MAX_NAMED {
            record.ids.clone_from(&pack.ids);
        }
        list.packs.push(record);
        if !std::mem::take(&mut is_first) {
            return Ok(Decision::Replace(list.clone(), (known, Some(list))));
        }
        match with_joined(env, project, &list) {
            Ok(Some((shorter, id))) => {
                joined = Some(id);
                list = shorter;
            }
            Ok(None) => {}
            Err(error) => log_unjoined(project, &error),
        }
        Ok(Decision::Replace(list, (known, None)))
    })?;
    if let Some(list) = unjoined
        && let Err(error) = join_small(env, project, list)
    {
        log_unjoined(project, &error);
    }
    Ok(known)
}

/// The pack is listed nevertheless, so the request goes on; a later request joins the packs.
fn log_unjoined(project: RepositoryId, error: &StoreError) {
    eprintln!("the small packs of repository {project} are not joined: {error}");
}

fn is_self_contained_with(
    env: &Env,
    project: RepositoryId,
    list: &PackListRecord,
    commits: &[ObjectId],
) -> Result<bool, StoreError> {
    if commits.is_empty() {
        return Ok(true);
    }
    if !list.packs.iter().all(PackRecord::is_reachability_closed) {
        return Ok(false);
    }
    let packs = Packs::over(env, project, Rc::new(list.clone()));
    for commit in commits {
        if packs.find(*commit)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The objects of a pack that were found in listed packs. Each listed pack is searched once.
struct KnownObjects<'a> {
    env: &'a Env,
    project: RepositoryId,
    searched: BTreeSet<String>,
    found: BTreeSet<ObjectId>,
}

impl KnownObjects<'_> {
    fn count(&mut self, list: &PackListRecord, ids: &[ObjectId]) -> Result<usize, StoreError> {
        for pack in &list.packs {
            if !self.searched.insert(pack.id.clone()) {
                continue;
            }
            let index = PackIndex::new(self.env, self.project, pack);
            let possible = ids.iter().copied().filter(|id| pack.may_have(*id));
            self.found.extend(index.find_all(possible)?.into_iter().map(|entry| entry.id));
        }
        Ok(self.found.len())
    }
}

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
    counter::write(env, &Key::ReplacedPacks(&env.with_current_time().id()), &ReplacedPacksRecord { packs })
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
    let known = of_all(env, project, parts)?;
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
    spill_tips(env, &mut record)?;
    Ok(record)
}

/// The most tips and bases of a pack that the list names.
const MAX_LISTED: usize = 16;

/// Writes tips and bases of a self-contained pack into a blob if they are many. Any other pack does not need them.
pub fn spill_tips(env: &Env, pack: &mut PackRecord) -> Result<(), StoreError> {
    if pack.has_tips_blob || pack.is_self_contained && pack.tips.len() + pack.bases.len() <= MAX_LISTED {
        return Ok(());
    }
    let record = PackTipsRecord { tips: std::mem::take(&mut pack.tips), bases: std::mem::take(&mut pack.bases) };
    if pack.is_self_contained {
        counter::write(env, &Key::PackTips(&pack.id), &record)?;
        (pack.is_self_contained, pack.has_tips_blob) = (false, true);
    }
    Ok(())
}

/// The tips of consecutive packs, and the commits that they build on, of which the packs before may have some. `None`
/// if one of the packs is not self-contained.
pub fn of_all(
    env: &Env,
    project: RepositoryId,
    packs: &[PackRecord],
) -> Result<Option<[BTreeSet<ObjectId>; 2]>, StoreError> {
    let (mut tips, mut bases) = (BTreeSet::new(), BTreeSet::new());
    if !packs.iter().all(PackRecord::is_reachability_closed) {
        return Ok(None);
    }
    for pack in packs {
        let mut add = |added: &[ObjectId], built_on: &[ObjectId]| {
            // The tips of a later pack reach the commits that it builds on.
            tips = &tips - &built_on.iter().copied().collect();
            tips.extend(added);
            bases.extend(built_on);
        };
        if pack.has_tips_blob {
            let key = Key::PackTips(&pack.id);
            let record = counter::read::<PackTipsRecord>(env, &key)?;
            let missing = || StoreError::corrupt(&key.to_string(), format!("it is missing (project {project})"));
            let record = record.ok_or_else(missing)?;
            add(&record.tips, &record.bases);
        } else {
            add(&pack.tips, &pack.bases);
        }
    }
    Ok(Some([tips, bases]))
}

/// The index of one of a repository's packs.
pub struct ListedIndex<'a> {
    pub env: &'a Env,
    pub project: RepositoryId,
    pub packs: &'a [PackRecord],
    /// The position of the pack among these.
    pub pack: usize,
    pub entries: &'a [IndexEntry],
}

impl ListedIndex<'_> {
    /// Compares kind, base and depth of all entries with the headers in the pack. If a header names its base by id, the
    /// index need not have the base. The pack does not tell the depth of a delta whose base is in another pack, or is a
    /// copy that the index does not name. Only such copies, and contradicted entries, are decompressed.
    pub fn check_deltas(&self) -> Result<(), StoreError> {
        let Some(record) = self.packs.get(self.pack) else { return Ok(()) };
        let bytes = PackBytes::new(self.env, self.project, &record.id);
        let packs = OnceCell::new();
        let stored: HashMap<u64, &IndexEntry> = self.entries.iter().map(|entry| (entry.offset, entry)).collect();
        for (position, entry) in self.entries.iter().enumerate() {
            let base = entry.base.and_then(|base| self.entries.get(usize::try_from(base).ok()?));
            let is_right = match header_at(bytes, entry.offset)?.kind {
                EntryKind::Object(kind) => kind == entry.kind && entry.base.is_none() && entry.depth == 0,
                EntryKind::RefDelta(id) => entry.depth > 0 && base.is_none_or(|base| base.id == id),
                EntryKind::OffsetDelta(distance) => {
                    let offset = entry.offset.checked_sub(distance).filter(|offset| *offset < entry.offset);
                    let offset = offset.ok_or_else(|| bytes.corrupt(entry.offset, "a base is before it"))?;
                    match (base, stored.get(&offset)) {
                        (Some(base), Some(stored)) => base == *stored && entry.depth == base.depth.saturating_add(1),
                        (Some(base), None) => {
                            entry.depth > 0 && self.is_object(&packs, &IndexEntry { offset, ..*entry }, base.id)?
                        }
                        (None, _) => false,
                    }
                }
            };
            if is_right {
                continue;
            }
            if !self.is_object(&packs, entry, entry.id)? {
                return Err(bytes.corrupt(entry.offset, format!("its contents have another id: object {}", entry.id)));
            }
            let index = PackIndex::new(self.env, self.project, record);
            return Err(index.contradiction(position, format!("object {} has a wrong kind, base or depth", entry.id)));
        }
        Ok(())
    }

    /// Whether the pack has an object where an entry says. True also if the object is too large to be read.
    fn is_object<'s>(
        &'s self,
        packs: &OnceCell<Packs<'s>>,
        entry: &IndexEntry,
        id: ObjectId,
    ) -> Result<bool, StoreError> {
        let list = || Rc::new(PackListRecord { packs: self.packs.to_vec() });
        let packs = packs.get_or_init(|| Packs::over(self.env, self.project, list()));
        match packs.read(&Location { pack: self.pack, entry: *entry }, MAX_DELTIFIED)? {
            ReadObject::Object(kind, contents) => {
                Ok(id_from_hasher(kind.hasher(contents.len() as u64).chain_update(&contents)) == id)
            }
            ReadObject::TooLarge(_) => Ok(true),
        }
    }
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
