//! Checks that a pack's index agrees with its entries about each delta.

use super::bytes::{PackBytes, header_at};
use super::index::{IndexEntry, PackIndex};
use super::read::{Location, MAX_DELTIFIED, Packs, ReadObject};
use crate::git::pack_entry::EntryKind;
use crate::git::{ObjectId, id_from_hasher};
use crate::repository_id::RepositoryId;
use crate::store::record::{PackListRecord, PackRecord};
use kit::Env;
use kit::store::StoreError;
use sha1::Digest;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::rc::Rc;

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
