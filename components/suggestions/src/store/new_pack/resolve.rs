//! Resolves a received pack: applies its deltas, checks every object, and checks that everything that they need exists.
//!
//! Stores a received pack again, with some of its entries whole.
//!
//! `git push` sends the root folder of a commit as a delta of the repository's root folder. If packs were stored only
//! as they arrive, each push would add to the chain of deltas that is applied to read that folder.

use crate::git::pack_entry::{EntryKind, write_header};
use crate::git::{ObjectId, SpecialFile};
use crate::store::new_pack::apply::AppliedDeltas;
use crate::store::new_pack::received::{
    BadPack, Objects, PackError, PackOrigin, ReceivedBase, ReceivedEntry, ReceivedPack, get, invalid,
};
use crate::store::new_pack::resolver::{MAX_TREE_DEPTH, Resolver, TreeNesting};
use crate::store::objects;
use crate::store::packs::{IndexEntry, PackBytes, PackWriter, header_at};
use crate::store::protected_objects::find_unprotected;
use crate::store::zlib::deflate;
use std::collections::BTreeSet;

/// The most tips and bases that a pack's record names.
const MAX_TIPS: usize = 1000;

/// A pack whose objects are all known.
pub struct Resolved {
    /// The pack that replaces the received one, if there is one.
    pub rewritten: Option<RewrittenPack>,
    /// Sorted by id.
    pub entries: Vec<IndexEntry>,
    /// The tips that are in the pack.
    pub tips: Vec<ObjectId>,
    /// Commits of other packs that commits of this pack build on.
    pub bases: Vec<ObjectId>,
    /// Whether the tips reach every object of the pack, and no object that it needs is loose.
    pub is_self_contained: bool,
}

impl Resolver<'_> {
    /// Applies the deltas and checks everything that the pack needs.
    pub fn finish(mut self, pack: ReceivedPack, tips: &BTreeSet<ObjectId>) -> Result<Resolved, PackError> {
        let AppliedDeltas { objects, deep } = self.apply_deltas(pack)?;
        if let Some(id) = self.nesting.take().and_then(TreeNesting::find_too_deep) {
            return Err(invalid(format!(
                "tree {id}: exceeded maximum allowed tree depth: it is below more than {MAX_TREE_DEPTH} others"
            )));
        }
        let rewritten = if deep.is_empty() { None } else { Some(store_whole(&self, pack, &objects, &deep)?) };
        let pack = rewritten.as_ref().map_or(pack, RewrittenPack::received);
        let index = self.build_index(pack.entries, &objects)?;
        let find = |id: ObjectId| index.binary_search_by_key(&id, |entry| entry.id).ok().and_then(|at| index.get(at));
        let mut bases = Vec::new();
        let mut loose = Vec::new();
        // Reported only if nothing else is missing: then a shallow history is the reason.
        let mut lacked = Vec::new();
        for (id, (kind, is_history)) in &self.links {
            let found = match find(*id) {
                Some(entry) => Some(entry.kind),
                None => {
                    if *is_history {
                        bases.push(*id);
                    }
                    if !objects::is_packed(self.env, self.project, *id)? {
                        loose.push(*id);
                    }
                    objects::kind(self.env, self.project, *id)?
                }
            };
            match (found, kind) {
                (None, _) if *is_history => lacked.push(*id),
                (None, _) => return Err(missing(*id)),
                (Some(found), Some(kind)) if found != *kind => {
                    return Err(invalid(format!("object {id} is a {}, not a {}", found.as_str(), kind.as_str())));
                }
                _ => {}
            }
        }
        if let Some(id) = lacked.into_iter().min() {
            return Err(PackError::Bad(BadPack::LacksParent(id)));
        }
        let is_packed = loose.is_empty();
        if let Some(id) = find_unprotected(self.env, self.project, loose)?.into_iter().next() {
            return Err(missing(id));
        }
        let tips: Vec<ObjectId> = match self.origin {
            PackOrigin::Push => tips.iter().copied().filter(|tip| find(*tip).is_some()).collect(),
            PackOrigin::Import => {
                let unlinked = index.iter().map(|entry| entry.id).filter(|id| !self.links.contains_key(id));
                unlinked.collect()
            }
        };
        let reached = |entry: &IndexEntry| self.links.contains_key(&entry.id) || tips.contains(&entry.id);
        let is_self_contained =
            is_packed && tips.len() <= MAX_TIPS && bases.len() <= MAX_TIPS && index.iter().all(reached);
        self.check_special_files(pack, &objects)?;
        let (tips, bases) = if is_self_contained { (tips, bases) } else { (Vec::new(), Vec::new()) };
        Ok(Resolved { rewritten, entries: index, tips, bases, is_self_contained })
    }

    /// The index, in which every object is once.
    fn build_index(&self, entries: &[ReceivedEntry], objects: &Objects) -> Result<Vec<IndexEntry>, PackError> {
        let mut ids: Vec<(ObjectId, u32)> = Vec::with_capacity(objects.len());
        for (number, object) in (0..).zip(objects) {
            let (id, ..) = object.ok_or_else(|| invalid("pack has unresolved deltas"))?;
            ids.push((id, number));
        }
        ids.sort_unstable();
        let duplicate = ids.windows(2).find_map(|pair| match pair {
            [(a, _), (b, _)] if a == b => Some(*a),
            _ => None,
        });
        if let Some(id) = duplicate {
            return Err(invalid(format!("pack has object {id} twice")));
        }
        // The position in the index of each entry.
        let mut positions = vec![0_u32; ids.len()];
        for (position, (_, number)) in (0..).zip(&ids) {
            if let Some(slot) = usize::try_from(*number).ok().and_then(|number| positions.get_mut(number)) {
                *slot = position;
            }
        }
        let position_of = |number: u32| usize::try_from(number).ok().and_then(|number| positions.get(number)).copied();
        let mut index = Vec::with_capacity(ids.len());
        for (id, number) in &ids {
            let entry = usize::try_from(*number).ok().and_then(|number| entries.get(number));
            let (Some(entry), Some((_, kind, depth))) = (entry, get(objects, *number)) else {
                return Err(invalid("pack has unresolved deltas"));
            };
            let base = match entry.base {
                ReceivedBase::None => None,
                ReceivedBase::Entry(number) => position_of(number),
                ReceivedBase::Id(id) => {
                    let at = ids.binary_search_by_key(&id, |(id, _)| *id).ok();
                    at.and_then(|at| u32::try_from(at).ok())
                }
            };
            let depth = u8::try_from(depth).unwrap_or(u8::MAX);
            index.push(IndexEntry { id: *id, offset: entry.offset, length: entry.length, base, depth, kind });
        }
        Ok(index)
    }

    /// Checks the special files of the pack's trees, each once. A file that is not in the pack is read from the
    /// repository, which may have it under another name.
    fn check_special_files(&self, pack: ReceivedPack, objects: &Objects) -> Result<(), PackError> {
        if self.special_files.is_empty() || self.origin == PackOrigin::Import {
            return Ok(());
        }
        let mut elsewhere = self.special_files.clone();
        for (number, object) in (0..).zip(objects) {
            if let Some((id, ..)) = object
                && let Some(files) = elsewhere.remove(id)
            {
                let contents = match self.whole_size(pack, number)? {
                    Some(size) if size > SpecialFile::MAX_SIZE => None,
                    _ => Some(self.rebuild(pack, number)?),
                };
                check_contents(*id, &files, contents.as_deref())?;
            }
        }
        for (id, files) in elsewhere {
            let contents = objects::read_at_most(self.env, self.project, id, SpecialFile::MAX_SIZE)?;
            check_contents(id, &files, contents.as_deref())?;
        }
        Ok(())
    }
}

/// `contents` are `None` if the blob is larger than any special file.
fn check_contents(id: ObjectId, files: &[SpecialFile], contents: Option<&[u8]>) -> Result<(), PackError> {
    files.iter().try_for_each(|file| file.check(contents)).map_err(|why| invalid(format!("blob {id}: {why}")))
}

fn missing(id: ObjectId) -> PackError {
    invalid(format!("missing necessary objects: {id} is not there"))
}

/// A pack that replaces the received one, whose blobs become garbage.
pub struct RewrittenPack {
    pub id: String,
    pub size: u64,
    entries: Vec<ReceivedEntry>,
}

impl RewrittenPack {
    pub fn received(&self) -> ReceivedPack<'_> {
        ReceivedPack { id: &self.id, entries: &self.entries }
    }
}

/// Copies a pack, with these entries stored whole. The order of the entries stays.
pub fn store_whole(
    resolver: &Resolver,
    pack: ReceivedPack,
    objects: &Objects,
    whole: &BTreeSet<u32>,
) -> Result<RewrittenPack, PackError> {
    let stored = PackBytes::new(resolver.env, resolver.project, pack.id);
    let mut writer = PackWriter::new(resolver.env);
    let mut entries: Vec<ReceivedEntry> = Vec::with_capacity(pack.entries.len());
    for (number, entry) in (0..).zip(pack.entries) {
        let offset = writer.size();
        let (mut base, mut object) = (entry.base, entry.object);
        if whole.contains(&number) {
            let (id, kind, _) = get(objects, number).ok_or_else(|| invalid("unresolved delta"))?;
            (base, object) = (ReceivedBase::None, Some((id, kind)));
            let contents = resolver.rebuild(pack, number)?;
            let mut bytes = Vec::new();
            write_header(&mut bytes, EntryKind::Object(kind), contents.len() as u64);
            deflate(resolver.env, kind, &contents, &mut bytes)?;
            writer.write(&bytes)?;
        } else {
            let mut copied = entry.offset;
            // A base is before its delta, which names it by the distance.
            if let ReceivedBase::Entry(base) = entry.base {
                let base = usize::try_from(base).ok().and_then(|base| entries.get(base));
                let base = base.ok_or_else(|| invalid("delta base offset is out of bound"))?;
                let header = header_at(stored, entry.offset)?;
                let mut bytes = Vec::new();
                write_header(&mut bytes, EntryKind::OffsetDelta(offset - base.offset), header.size);
                writer.write(&bytes)?;
                copied += header.length as u64;
            }
            for part in stored.range(copied, entry.offset + entry.length - copied) {
                writer.write(&part?)?;
            }
        }
        entries.push(ReceivedEntry { offset, length: writer.size() - offset, base, object });
    }
    writer.finish()?;
    Ok(RewrittenPack { id: writer.id().to_owned(), size: writer.size(), entries })
}
