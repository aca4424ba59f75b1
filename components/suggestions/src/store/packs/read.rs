//! Objects of a repository's packs, by id.

use crate::git::pack_entry::{self, EntryHeader, EntryKind};
use crate::git::{ObjectId, ObjectKind};
use crate::repository_id::RepositoryId;
use crate::store::key::Key;
use crate::store::packs::bytes::{self, PackBytes, header_at};
use crate::store::packs::index::{IndexEntry, PackIndex};
use crate::store::record::{PackListRecord, PackRecord};
use ::bytes::Bytes;
use kit::lru::ByteLru;
use kit::store::StoreError;
use kit::{Env, root};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The longest chain of deltas down to a whole object: only a circle is longer. Received packs make chains of at most
/// 4,144 deltas, but earlier builds added a delta to a chain with each push.
const MAX_CHAIN: usize = 1 << 18;

/// The largest object that is stored as a delta, or parsed to be checked, in bytes. Two of them are in memory at once.
pub const MAX_DELTIFIED: u64 = 96 << 20;

/// The packs of a repository, as they were listed at one moment.
pub struct Packs<'a> {
    env: &'a Env,
    project: RepositoryId,
    list: Rc<PackListRecord>,
}

/// Where an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// The position of the pack in the list.
    pub pack: usize,
    pub entry: IndexEntry,
}

/// The result of reading an object.
pub enum ReadObject {
    /// The size, which is larger than the reader's limit.
    TooLarge(u64),
    Object(ObjectKind, Bytes),
}

/// The list that an instance has read last, by project.
struct CachedList {
    project: RepositoryId,
    list: Rc<PackListRecord>,
}

impl<'a> Packs<'a> {
    /// The packs of a repository. 1 read.
    pub fn load(env: &'a Env, project: RepositoryId) -> Result<Self, StoreError> {
        let key = Key::Packs(project).to_string();
        let list = Rc::new(root::read::<PackListRecord>(&*env.store, &key)?.unwrap_or_default());
        env.instance_cache.put(Rc::new(CachedList { project, list: list.clone() }));
        Ok(Packs { env, project, list })
    }

    pub fn over(env: &'a Env, project: RepositoryId, list: Rc<PackListRecord>) -> Self {
        Packs { env, project, list }
    }

    pub fn list(&self) -> &Rc<PackListRecord> {
        &self.list
    }

    /// Reads an object by `read`, from the list that the instance has, or else the present one.
    pub fn with<T>(
        env: &Env,
        project: RepositoryId,
        mut read: impl FnMut(&Packs) -> Result<Option<T>, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match Packs::with_cached(env, project, &mut read)? {
            Some(found) => Ok(Some(found)),
            None => read(&Packs::load(env, project)?),
        }
    }

    /// Reads an object by `read` from the list that the instance has read last. `None` if the instance has no list, or
    /// the object is in none of its packs; a newer pack may have it.
    pub fn with_cached<T>(
        env: &Env,
        project: RepositoryId,
        read: impl FnOnce(&Packs) -> Result<Option<T>, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let cached = env.instance_cache.get::<CachedList>().filter(|cached| cached.project == project);
        let Some(list) = cached.map(|cached| cached.list.clone()) else { return Ok(None) };
        match read(&Packs { env, project, list }) {
            // A pack that was joined with another one may be gone.
            Err(StoreError::Corrupt { .. }) => Ok(None),
            read => read,
        }
    }

    /// Where an object is; `None` if it is in no pack. 2 reads for each pack, most of which the instance has cached.
    pub fn find(&self, id: ObjectId) -> Result<Option<Location>, StoreError> {
        self.find_below(id, self.list.packs.len())
    }

    /// The locations of the objects of `ids` that are in packs. Each page of an index is read about once.
    pub fn find_all(&self, ids: &BTreeSet<ObjectId>) -> Result<BTreeMap<ObjectId, Location>, StoreError> {
        let mut found = BTreeMap::new();
        for (pack, record) in self.list.packs.iter().enumerate() {
            let index = PackIndex::new(self.env, self.project, record);
            let wanted = ids.iter().copied().filter(|id| record.may_have(*id) && !found.contains_key(id));
            let entries = index.find_all(wanted)?;
            found.extend(entries.into_iter().map(|entry| (entry.id, Location { pack, entry })));
        }
        Ok(found)
    }

    /// Where an object is among the first `count` packs.
    fn find_below(&self, id: ObjectId, count: usize) -> Result<Option<Location>, StoreError> {
        for (pack, record) in self.list.packs.iter().enumerate().take(count) {
            if record.may_have(id)
                && let Some(entry) = PackIndex::new(self.env, self.project, record).find(id)?
            {
                return Ok(Some(Location { pack, entry }));
            }
        }
        Ok(None)
    }

    fn pack(&self, pack: usize) -> Result<&PackRecord, StoreError> {
        let missing = || StoreError::corrupt(&Key::Packs(self.project).to_string(), "a pack is not listed");
        self.list.packs.get(pack).ok_or_else(missing)
    }

    /// The bytes of a pack.
    pub fn bytes(&self, pack: usize) -> Result<PackBytes<'_>, StoreError> {
        Ok(PackBytes::new(self.env, self.project, &self.pack(pack)?.id))
    }

    /// The header of the entry at an offset.
    pub fn header(&self, pack: usize, offset: u64) -> Result<EntryHeader, StoreError> {
        header_at(self.bytes(pack)?, offset)
    }

    /// The base of the delta at a location, by id, and the delta's header. `None` if the entry is no delta, or if only
    /// its offset tells the base: in a joined pack, this may be a copy that the index does not name.
    pub fn base(&self, location: &Location) -> Result<Option<(ObjectId, EntryHeader)>, StoreError> {
        let Location { pack, entry } = location;
        let header = self.header(*pack, entry.offset)?;
        let distance = match header.kind {
            EntryKind::Object(_) => return Ok(None),
            EntryKind::RefDelta(id) => return Ok(Some((id, header))),
            EntryKind::OffsetDelta(distance) => distance,
        };
        let Some(position) = entry.base else { return Ok(None) };
        let base = PackIndex::new(self.env, self.project, self.pack(*pack)?).at(position)?;
        Ok((base.offset + distance == entry.offset).then_some((base.id, header)))
    }

    /// The object at a location, if it has at most `limit` bytes; a delta at most [`MAX_DELTIFIED`].
    pub fn read(&self, location: &Location, limit: u64) -> Result<ReadObject, StoreError> {
        let cache = BaseCache::of(self.env);
        let (mut pack, mut offset) = (location.pack, location.entry.offset);
        // The deltas to be applied, the last one first.
        let mut chain: Vec<(usize, u64, EntryHeader)> = Vec::new();
        let (kind, mut contents) = loop {
            let id = &self.pack(pack)?.id;
            let bytes = PackBytes::new(self.env, self.project, id);
            if let Some(base) = cache.get(id, offset) {
                break base;
            }
            let header = header_at(bytes, offset)?;
            let limit = if chain.is_empty() { limit } else { limit.max(MAX_DELTIFIED) };
            if header.size > limit {
                return Ok(ReadObject::TooLarge(header.size));
            }
            match header.kind {
                EntryKind::Object(kind) => {
                    let contents = bytes::entry(self.env, bytes, offset, &header)?;
                    cache.put(id, offset, kind, &contents);
                    break (kind, contents);
                }
                EntryKind::OffsetDelta(distance) => {
                    chain.push((pack, offset, header));
                    offset =
                        offset.checked_sub(distance).ok_or_else(|| bytes.corrupt(offset, "a base is before it"))?;
                }
                EntryKind::RefDelta(id) => {
                    chain.push((pack, offset, header));
                    let base = self.find_below(id, pack + 1)?;
                    let base = base.ok_or_else(|| bytes.corrupt(offset, format!("the base {id} is missing")))?;
                    (pack, offset) = (base.pack, base.entry.offset);
                }
            }
            if chain.len() > MAX_CHAIN {
                return Err(bytes.corrupt(offset, "a chain of deltas is too long"));
            }
        };
        for (pack, offset, header) in chain.into_iter().rev() {
            let id = &self.pack(pack)?.id;
            let bytes = PackBytes::new(self.env, self.project, id);
            let invalid = |_| bytes.corrupt(offset, "the delta cannot be applied");
            let delta = bytes::entry(self.env, bytes, offset, &header)?;
            let (_, size, _) = pack_entry::parse_sizes(&delta).map_err(invalid)?;
            if size > limit.max(MAX_DELTIFIED) {
                return Ok(ReadObject::TooLarge(size));
            }
            contents = pack_entry::apply(&contents, &delta).map_err(invalid)?.into();
            cache.put(id, offset, kind, &contents);
        }
        match contents.len() as u64 {
            size if size > limit => Ok(ReadObject::TooLarge(size)),
            _ => Ok(ReadObject::Object(kind, contents)),
        }
    }
}

/// The size of the cache, in bytes.
const CAPACITY: usize = 16 << 20;

/// By the pack's id and the offset of the entry.
pub struct BaseCache(ByteLru<(String, u64), (ObjectKind, Bytes)>);

impl BaseCache {
    /// The instance's cache.
    pub fn of(env: &Env) -> Rc<Self> {
        env.instance_cache.get_or_insert_with(|| BaseCache(ByteLru::new(CAPACITY)))
    }

    pub fn get(&self, pack: &str, offset: u64) -> Option<(ObjectKind, Bytes)> {
        self.0.get(&(pack.to_owned(), offset))
    }

    pub fn put(&self, pack: &str, offset: u64, kind: ObjectKind, contents: &Bytes) {
        // The key and the bookkeeping of an entry count too.
        self.0.put((pack.to_owned(), offset), contents.len() + 160, (kind, contents.clone()));
    }
}
