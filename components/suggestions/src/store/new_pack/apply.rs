//! Applies the deltas of a received pack, from bases to the deltas that build on them.

use crate::git::{Object, ObjectId, ObjectKind, pack_entry};
use crate::store::new_pack::received::{
    Objects, PackError, ReceivedBase, ReceivedEntry, ReceivedPack, get, invalid, set,
};
use crate::store::new_pack::resolver::Resolver;
use crate::store::new_pack::small::{self, MAX_DEPTH, NewObject};
use crate::store::objects;
use crate::store::packs::{MAX_DELTIFIED, PackBytes, bytes, header_at};
use ::bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// The most bytes of bases that are kept for their deltas. Beyond it, a base is rebuilt.
const MAX_WAITING: usize = 64 << 20;

/// The longest chain of deltas in one pack, as in git.
const MAX_CHAIN: u16 = 4095;

/// The objects of a pack.
pub struct AppliedDeltas {
    pub objects: Objects,
    /// The entries that are to be stored whole, because the chains of their bases in other packs are too long. Their
    /// depth is 0 already.
    pub deep: BTreeSet<u32>,
}

/// An object whose deltas are to be applied next.
struct Waiting {
    entry: u32,
    /// `None` if there was no room for them.
    contents: Option<Bytes>,
}

impl Resolver<'_> {
    /// Applies every delta, and checks the object that it makes.
    pub(super) fn apply_deltas(&mut self, pack: ReceivedPack) -> Result<AppliedDeltas, PackError> {
        let known = pack.entries.iter().map(|entry| entry.object.map(|(id, kind)| (id, kind, 0)));
        let mut objects: Objects = known.collect();
        let mut deep = BTreeSet::new();
        let mut deltas = Deltas::of(pack.entries);
        for number in (0..).take(pack.entries.len()) {
            let Some((id, _, 0)) = get(&objects, number) else { continue };
            if deltas.has(number, id) {
                let first = Waiting { entry: number, contents: None };
                self.apply_from(pack, &mut objects, &mut deltas, first, MAX_CHAIN)?;
            }
        }
        self.pack_loose_bases(&deltas)?;
        // The remaining deltas have bases in the repository, or build on such deltas. A base in the pack comes before
        // its deltas, even if the repository has it, so the deltas are taken in order.
        let first_of = |(id, numbers): (&ObjectId, &Vec<u32>)| (numbers.first().copied(), *id);
        let mut bases: Vec<_> = deltas.by_id.iter().map(first_of).collect();
        bases.sort_unstable();
        for (_, base_id) in bases {
            if !deltas.by_id.contains_key(&base_id) {
                continue;
            }
            let Some((kind, base)) = objects::read_any(self.env, self.project, base_id, MAX_DELTIFIED)? else {
                continue;
            };
            let base_depth = objects::delta_depth(self.env, self.project, base_id)?;
            self.external_bases.insert(base_id);
            for number in deltas.by_id.remove(&base_id).unwrap_or_default() {
                let (contents, id) = self.apply(pack, number, kind, &base)?;
                let depth = if base_depth < MAX_DEPTH { u16::from(base_depth) + 1 } else { 0 };
                if depth == 0 {
                    deep.insert(number);
                }
                set(&mut objects, number, (id, kind, depth));
                let first = Waiting { entry: number, contents: Some(contents) };
                // The first delta counts, too.
                self.apply_from(pack, &mut objects, &mut deltas, first, depth + MAX_CHAIN - 1)?;
            }
        }
        if let Some(id) = deltas.by_id.keys().next() {
            return Err(invalid(format!("unresolved delta: its base {id} is not there")));
        }
        match objects.iter().filter(|object| object.is_none()).count() {
            0 => Ok(AppliedDeltas { objects, deep }),
            unresolved => Err(invalid(format!("pack has {unresolved} unresolved deltas"))),
        }
    }

    /// Copies loose objects that are bases of deltas into packs, because every base is in a pack.
    fn pack_loose_bases(&self, deltas: &Deltas) -> Result<(), PackError> {
        let mut loose = Vec::new();
        let mut size = 0;
        for id in deltas.by_id.keys() {
            if objects::is_packed(self.env, self.project, *id)? {
                continue;
            }
            let Some((kind, contents)) = objects::read_any(self.env, self.project, *id, MAX_DELTIFIED)? else {
                continue;
            };
            size += contents.len();
            loose.push(NewObject { object: Object { id: *id, kind, contents: contents.to_vec() }, previous: None });
            if size > MAX_WAITING {
                small::save_copies(self.env, self.project, &std::mem::take(&mut loose))?;
                size = 0;
            }
        }
        if loose.is_empty() { Ok(()) } else { Ok(small::save_copies(self.env, self.project, &loose)?) }
    }

    /// Applies the deltas of an entry, and their deltas, none of which may be deeper than `limit`.
    fn apply_from(
        &mut self,
        pack: ReceivedPack,
        objects: &mut Objects,
        deltas: &mut Deltas,
        first: Waiting,
        limit: u16,
    ) -> Result<(), PackError> {
        let mut held = first.contents.as_ref().map_or(0, Bytes::len);
        let mut stack = vec![first];
        while let Some(Waiting { entry, contents }) = stack.pop() {
            held -= contents.as_ref().map_or(0, Bytes::len);
            let Some((id, kind, depth)) = get(objects, entry) else { continue };
            let next = deltas.take(entry, id);
            if next.is_empty() {
                continue;
            }
            if depth >= limit {
                return Err(invalid(format!(
                    "object {id} is a delta upon {MAX_CHAIN} others, which is the most that is accepted; \
                     `git repack -a -d -F` makes shorter chains"
                )));
            }
            let base = match contents {
                Some(contents) => contents,
                None => self.rebuild(pack, entry)?,
            };
            // The base beyond the bound that is kept nevertheless.
            let mut excess: Option<usize> = None;
            for number in next {
                if matches!(pack.entry(number)?.base, ReceivedBase::Id(_)) {
                    self.internal_bases.insert(number, entry);
                }
                let (contents, id) = self.apply(pack, number, kind, &base)?;
                set(objects, number, (id, kind, depth + 1));
                if !deltas.has(number, id) {
                    continue;
                }
                // The last one is the next base, which would be rebuilt at once.
                if held + contents.len() > MAX_WAITING
                    && let Some(former) = excess.replace(stack.len()).and_then(|former| stack.get_mut(former))
                {
                    held -= former.contents.take().as_ref().map_or(0, Bytes::len);
                }
                held += contents.len();
                stack.push(Waiting { entry: number, contents: Some(contents) });
            }
        }
        Ok(())
    }

    /// Applies one delta, and checks the object that it makes.
    fn apply(
        &mut self,
        pack: ReceivedPack,
        number: u32,
        kind: ObjectKind,
        base: &Bytes,
    ) -> Result<(Bytes, ObjectId), PackError> {
        let contents = self.apply_only(pack, number, base)?;
        let object = Object::new(kind, contents);
        // A delta could be its own base. git refuses such packs, too.
        if self.external_bases.contains(&object.id) {
            return Err(invalid(format!("deltas upon object {} come before it, or lead back to it", object.id)));
        }
        let contents = Bytes::from(object.contents);
        self.check(object.id, kind, &contents)?;
        Ok((contents, object.id))
    }

    fn apply_only(&self, pack: ReceivedPack, number: u32, base: &Bytes) -> Result<Vec<u8>, PackError> {
        let delta = self.inflate(pack, number)?;
        pack_entry::apply(base, &delta).map_err(|_| invalid("failed to apply delta"))
    }

    /// The size of an object that the pack has whole, in bytes; `None` for a delta.
    pub(super) fn whole_size(&self, pack: ReceivedPack, number: u32) -> Result<Option<u64>, PackError> {
        let entry = pack.entry(number)?;
        if entry.base != ReceivedBase::None {
            return Ok(None);
        }
        let header = header_at(PackBytes::new(self.env, self.project, pack.id), entry.offset)?;
        Ok(Some(header.size))
    }

    fn inflate(&self, pack: ReceivedPack, number: u32) -> Result<Bytes, PackError> {
        let bytes = PackBytes::new(self.env, self.project, pack.id);
        let offset = pack.entry(number)?.offset;
        let header = header_at(bytes, offset)?;
        if header.size > MAX_DELTIFIED {
            return Err(invalid(format!(
                "a delta's base has {} bytes, and at most {MAX_DELTIFIED} are accepted",
                header.size
            )));
        }
        Ok(bytes::entry(self.env, bytes, offset, &header)?)
    }

    /// The contents of an entry whose object is known, from the base that each delta was applied to.
    pub(super) fn rebuild(&self, pack: ReceivedPack, number: u32) -> Result<Bytes, PackError> {
        let mut chain = Vec::new();
        let mut at = number;
        let mut contents = loop {
            let inside = match pack.entry(at)?.base {
                ReceivedBase::None => break self.inflate(pack, at)?,
                ReceivedBase::Entry(base) => Ok(base),
                ReceivedBase::Id(id) => self.internal_bases.get(&at).copied().ok_or(id),
            };
            chain.push(at);
            match inside {
                Ok(base) => at = base,
                Err(id) => {
                    let base = objects::read_any(self.env, self.project, id, MAX_DELTIFIED)?;
                    break base.ok_or_else(|| invalid("unresolved delta"))?.1;
                }
            }
        };
        for number in chain.into_iter().rev() {
            contents = self.apply_only(pack, number, &contents)?.into();
        }
        Ok(contents)
    }
}

/// The deltas that were not applied yet.
pub struct Deltas {
    /// Base and delta, sorted.
    by_entry: Vec<(u32, u32)>,
    /// Deltas whose base is named by its id.
    pub by_id: BTreeMap<ObjectId, Vec<u32>>,
}

impl Deltas {
    pub fn of(entries: &[ReceivedEntry]) -> Self {
        let mut deltas = Deltas { by_entry: Vec::new(), by_id: BTreeMap::new() };
        for (number, entry) in (0..).zip(entries) {
            match entry.base {
                ReceivedBase::None => {}
                ReceivedBase::Entry(base) => deltas.by_entry.push((base, number)),
                ReceivedBase::Id(id) => deltas.by_id.entry(id).or_default().push(number),
            }
        }
        deltas.by_entry.sort_unstable();
        deltas
    }

    /// Whether an entry, which is this object, has deltas.
    pub fn has(&self, entry: u32, id: ObjectId) -> bool {
        self.by_id.contains_key(&id) || self.by_entry.binary_search_by_key(&entry, |(base, _)| *base).is_ok()
    }

    /// Removes and returns the deltas of an object.
    pub fn take(&mut self, entry: u32, id: ObjectId) -> Vec<u32> {
        let start = self.by_entry.partition_point(|(base, _)| *base < entry);
        let by_entry = self.by_entry.iter().skip(start).take_while(|(base, _)| *base == entry);
        let mut deltas: Vec<u32> = by_entry.map(|(_, delta)| *delta).collect();
        deltas.extend(self.by_id.remove(&id).unwrap_or_default());
        deltas
    }
}
