//! The index of a pack: an entry of [`LENGTH`] bytes for each object, in the order of the ids, in pages. The
//! page directory has the first id of each page.

use super::bytes::PackBytes;
use crate::git::{ObjectId, ObjectKind};
use crate::repository_id::RepositoryId;
use crate::store::key::Key;
use crate::store::packs::bytes;
use crate::store::record::PackRecord;
use ::bytes::Bytes;
use kit::Env;
use kit::store::StoreError;
use std::fmt;

/// The size of an entry, in bytes: id, offset (5), stored bytes (5), base (4), depth (1), kind (1).
pub const LENGTH: usize = ObjectId::LENGTH + 16;

/// The entries of a page: 64 KiB at most.
const PAGE: usize = (64 << 10) / LENGTH;

/// Stands for no base in the same pack.
const NO_BASE: u32 = u32::MAX;

/// Where an object is in a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexEntry {
    pub id: ObjectId,
    /// The offset of the entry in the stored pack, which has no header.
    pub offset: u64,
    /// Bytes of the entry, header and compressed contents.
    pub length: u64,
    /// The position in this index of the object that the entry is a delta of; `None` if the entry is no delta, or
    /// its base is in another pack.
    pub base: Option<u32>,
    /// How many deltas are to be applied, 255 at most.
    pub depth: u8,
    pub kind: ObjectKind,
}

const KINDS: [ObjectKind; 4] = [ObjectKind::Commit, ObjectKind::Tree, ObjectKind::Blob, ObjectKind::Tag];

impl IndexEntry {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.id.bytes());
        out.extend(self.offset.to_be_bytes().iter().skip(3));
        out.extend(self.length.to_be_bytes().iter().skip(3));
        out.extend_from_slice(&self.base.unwrap_or(NO_BASE).to_be_bytes());
        let kind = KINDS.iter().position(|kind| *kind == self.kind).unwrap_or_default();
        out.extend([self.depth, u8::try_from(kind).unwrap_or_default()]);
    }

    fn parse(bytes: &[u8; LENGTH]) -> Option<Self> {
        let (id, rest) = bytes.split_first_chunk()?;
        let number = |bytes: &[u8; 5]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let (offset, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (base, rest) = rest.split_first_chunk()?;
        let base = u32::from_be_bytes(*base);
        let [depth, kind] = rest else { return None };
        Some(IndexEntry {
            id: ObjectId::new(*id),
            offset: number(offset),
            length: number(length),
            base: (base != NO_BASE).then_some(base),
            depth: *depth,
            kind: *KINDS.get(usize::from(*kind))?,
        })
    }
}

/// Writes the index of a pack: `entries`, sorted by id.
pub fn write(env: &Env, pack: &str, entries: &[IndexEntry]) -> Result<(), StoreError> {
    let mut directory = Vec::new();
    for (number, page) in entries.chunks(PAGE).enumerate() {
        let mut bytes = Vec::with_capacity(page.len() * LENGTH);
        page.iter().for_each(|entry| entry.write(&mut bytes));
        directory.extend(page.first().iter().flat_map(|entry| *entry.id.bytes()));
        let key = Key::PackIndex(pack, number).to_string();
        env.store.set(&key, &bytes)?;
        if entries.len() <= PAGE {
            env.blobs.put(&key, bytes.into());
        }
    }
    let key = Key::PackDirectory(pack).to_string();
    env.store.set(&key, &directory)?;
    env.blobs.put(&key, directory.into());
    Ok(())
}

/// An id as numbers of the same order. A comparison of bytes takes a call each time, and an apply searches each pack
/// for its objects.
fn sort_key(id: &[u8; ObjectId::LENGTH]) -> (u128, u32) {
    let (high, rest) = id.split_first_chunk().unwrap_or((&[0; 16], &[]));
    let low = rest.first_chunk().copied().unwrap_or_default();
    (u128::from_be_bytes(*high), u32::from_be_bytes(low))
}

/// The index of one pack, whose record tells how long each part of the index is.
pub struct PackIndex<'a> {
    env: &'a Env,
    project: RepositoryId,
    pack: &'a PackRecord,
}

impl<'a> PackIndex<'a> {
    pub fn new(env: &'a Env, project: RepositoryId, pack: &'a PackRecord) -> Self {
        PackIndex { env, project, pack }
    }

    /// The number of entries.
    fn objects(&self) -> usize {
        usize::try_from(self.pack.objects).unwrap_or(usize::MAX)
    }

    fn directory(&self) -> Result<Bytes, StoreError> {
        self.blob(&Key::PackDirectory(&self.pack.id), self.objects().div_ceil(PAGE) * ObjectId::LENGTH)
    }

    fn page(&self, number: usize) -> Result<Bytes, StoreError> {
        let entries = self.objects().saturating_sub(number.saturating_mul(PAGE)).min(PAGE);
        self.blob(&Key::PackIndex(&self.pack.id, number), entries * LENGTH)
    }

    /// A part of the index of this length: a shorter one would have lost objects.
    fn blob(&self, key: &Key, length: usize) -> Result<Bytes, StoreError> {
        match self.env.blob(&key.to_string())? {
            Some(bytes) if bytes.len() == length => Ok(bytes),
            Some(bytes) => Err(self.corrupt(key, format!("it has {} bytes in place of {length}", bytes.len()))),
            None => Err(self.corrupt(key, "it is missing")),
        }
    }

    /// Damage of a part of the index, whose key does not tell the project.
    fn corrupt(&self, key: &Key, why: impl fmt::Display) -> StoreError {
        StoreError::corrupt(&key.to_string(), format!("{why} (project {})", self.project))
    }

    /// Damage of the entry at a position of the index.
    pub fn contradiction(&self, position: usize, why: impl fmt::Display) -> StoreError {
        self.corrupt(&Key::PackIndex(&self.pack.id, position / PAGE), why)
    }

    fn malformed(&self, page: usize) -> StoreError {
        self.corrupt(&Key::PackIndex(&self.pack.id, page), "an entry is malformed")
    }

    /// The entry of an object. 2 reads, of the directory and of a page.
    pub fn find(&self, id: ObjectId) -> Result<Option<IndexEntry>, StoreError> {
        Ok(self.find_all(std::iter::once(id))?.pop())
    }

    /// The entries of the objects that the pack has. If the ids are sorted, each page that may have one is read once.
    pub fn find_all(&self, ids: impl Iterator<Item = ObjectId>) -> Result<Vec<IndexEntry>, StoreError> {
        let mut found = Vec::new();
        let mut directory = None;
        let mut last: Option<(usize, Bytes)> = None;
        for id in ids {
            let directory = match &directory {
                Some(directory) => directory,
                None => directory.insert(self.directory()?),
            };
            let firsts = directory.as_chunks().0;
            let key = sort_key(id.bytes());
            let Some(number) = firsts.partition_point(|first| sort_key(first) <= key).checked_sub(1) else { continue };
            let page = match last.take().filter(|(last, _)| *last == number) {
                Some((_, page)) => page,
                None => self.page(number)?,
            };
            let entries = page.as_chunks::<LENGTH>().0;
            let at = entries.binary_search_by_key(&Some(key), |entry| entry.first_chunk().map(sort_key));
            if let Some(entry) = at.ok().and_then(|at| entries.get(at)) {
                found.push(IndexEntry::parse(entry).ok_or_else(|| self.malformed(number))?);
            }
            last = Some((number, page));
        }
        Ok(found)
    }

    /// The entry at a position of the index. 1 read.
    pub fn at(&self, position: u32) -> Result<IndexEntry, StoreError> {
        let position = usize::try_from(position).unwrap_or(usize::MAX);
        let number = position / PAGE;
        let page = self.page(number)?;
        let entry = page.as_chunks::<LENGTH>().0.get(position % PAGE);
        entry.and_then(IndexEntry::parse).ok_or_else(|| self.malformed(number))
    }

    /// Every entry, in the order of the ids. Fails if they contradict one another, so that a join copies no damage.
    /// Takes 64 bytes of memory for each entry, and reads the pack only as [`Self::check_extents`] says.
    pub fn read_all(&self) -> Result<Vec<IndexEntry>, StoreError> {
        self.read_checked(None)
    }

    /// As [`Self::read_all`], and compares the directory, too: an object that is out of order is not found. Also
    /// returns the bytes of the index.
    pub fn check(&self) -> Result<(Vec<IndexEntry>, usize), StoreError> {
        let directory = self.directory()?;
        let entries = self.read_checked(Some(&directory))?;
        let size = directory.len() + entries.len() * LENGTH;
        Ok((entries, size))
    }

    fn read_checked(&self, directory: Option<&Bytes>) -> Result<Vec<IndexEntry>, StoreError> {
        let firsts = directory.map(|directory| directory.as_chunks::<{ ObjectId::LENGTH }>().0);
        let mut entries: Vec<IndexEntry> = Vec::with_capacity(self.objects());
        for number in 0..self.objects().div_ceil(PAGE) {
            let corrupt = |why: &str| self.corrupt(&Key::PackIndex(&self.pack.id, number), why);
            let page = self.page(number)?;
            let page = page.as_chunks::<LENGTH>().0;
            let first = page.first().and_then(|entry| entry.first_chunk());
            if firsts.is_some_and(|firsts| firsts.get(number) != first) {
                return Err(corrupt("the directory has another first object"));
            }
            for entry in page {
                let entry = IndexEntry::parse(entry).ok_or_else(|| self.malformed(number))?;
                if entries.last().is_some_and(|last| last.id >= entry.id) {
                    return Err(corrupt("the objects are out of order"));
                }
                let is_inside = entry.offset + entry.length <= self.pack.size;
                if !is_inside || entry.base.is_some_and(|base| base >= self.pack.objects) {
                    return Err(corrupt("an entry leads out of the pack"));
                }
                entries.push(entry);
            }
        }
        self.check_extents(&entries)?;
        Ok(entries)
    }

    /// Checks that the entries, in the order of their offsets, fill the pack: a clone sends as many bytes of an object
    /// as the index says. A joined pack has several copies of objects that several of its parts had, and its index
    /// names one of them. Entries are decompressed only beside such copies, or beside damage.
    fn check_extents(&self, entries: &[IndexEntry]) -> Result<(), StoreError> {
        let bytes = PackBytes::new(self.env, self.project, &self.pack.id);
        let skip_copies = |mut end: u64, start: u64| {
            while end < start {
                end = bytes::end(self.env, bytes, end)?;
            }
            Ok::<_, StoreError>(end)
        };
        let mut sorted: Vec<(usize, &IndexEntry)> = entries.iter().enumerate().collect();
        sorted.sort_unstable_by_key(|(_, entry)| entry.offset);
        let starts = sorted.iter().map(|(_, entry)| entry.offset).chain([self.pack.size]);
        let mut end = 0;
        for ((position, entry), next_start) in sorted.iter().zip(starts.skip(1)) {
            let corrupt = |why: &str| self.contradiction(*position, format!("object {} {why}", entry.id));
            if skip_copies(end, entry.offset)? != entry.offset {
                return Err(corrupt("has a wrong offset"));
            }
            end = entry.offset + entry.length;
            if end != next_start && bytes::end(self.env, bytes, entry.offset)? != end {
                return Err(corrupt("has a wrong length"));
            }
        }
        match skip_copies(end, self.pack.size)? == self.pack.size {
            true => Ok(()),
            false => Err(bytes.corrupt(end, "it does not end with an entry")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::store::Store as _;
    use kit::testing::{self, MemoryStore};

    fn entries(count: usize) -> Vec<IndexEntry> {
        let id = |number: u32| {
            let mut bytes = [0; ObjectId::LENGTH];
            bytes[..4].copy_from_slice(&(3 * number + 1).to_be_bytes());
            ObjectId::new(bytes)
        };
        // The first entry makes the offsets of the others large.
        let entry = |number: u32| IndexEntry {
            id: id(number),
            offset: number.checked_sub(1).map_or(0, |before| (1 << 39) + 12 * u64::from(before)),
            length: if number == 0 { 1 << 39 } else { 12 },
            base: number.checked_sub(1),
            depth: 3,
            kind: KINDS[number as usize % 4],
        };
        (0..u32::try_from(count).unwrap()).map(entry).collect()
    }

    /// Writes an index. Returns the pack's record.
    fn written(env: &Env, entries: &[IndexEntry]) -> PackRecord {
        let objects = u32::try_from(entries.len()).unwrap();
        let size = entries.iter().map(|entry| entry.offset + entry.length).max().unwrap_or_default();
        let record = PackRecord { id: env.id(), objects, size, ..PackRecord::default() };
        write(env, &record.id, entries).unwrap();
        record
    }

    #[test]
    fn every_entry_is_found_in_any_page() {
        let env = testing::env(MemoryStore::default(), &[]);
        for count in [0, 1, PAGE, PAGE + 1, 3 * PAGE] {
            let entries = entries(count);
            let record = written(&env, &entries);
            let index = PackIndex::new(&env, RepositoryId::first(7), &record);
            assert_eq!(index.read_all().unwrap(), entries);
            let size = count * LENGTH + count.div_ceil(PAGE) * ObjectId::LENGTH;
            assert_eq!(index.check().unwrap(), (entries.clone(), size));
            for (position, entry) in entries.iter().enumerate() {
                assert_eq!(index.find(entry.id).unwrap(), Some(*entry));
                assert_eq!(index.at(u32::try_from(position).unwrap()).unwrap(), *entry);
                let mut other = *entry.id.bytes();
                other[19] = 1;
                assert_eq!(index.find(ObjectId::new(other)).unwrap(), None);
            }
            assert_eq!(index.find(ObjectId::new([0; 20])).unwrap(), None);
            assert_eq!(index.find(ObjectId::new([255; 20])).unwrap(), None);
        }
    }

    #[test]
    fn a_part_that_is_cut_or_exchanged_is_named_with_its_project() {
        let store = MemoryStore::default();
        let entries = entries(2 * PAGE + 1);
        let record = written(&testing::env(store.clone(), &[]), &entries);
        let pages = [0, 1, 2].map(|number| Key::PackIndex(&record.id, number).to_string());
        let check = |damaged: MemoryStore| {
            let env = testing::env(damaged, &[]);
            let index = PackIndex::new(&env, RepositoryId::first(7), &record);
            (index.check().unwrap_err().to_string(), index.find(entries[PAGE].id))
        };
        for key in pages.iter().chain([&Key::PackDirectory(&record.id).to_string()]) {
            let damaged = store.snapshot();
            let good = store.get(key).unwrap().unwrap();
            damaged.set(key, &good[..good.len() - ObjectId::LENGTH]).unwrap();
            let (why, found) = check(damaged);
            assert!(why.contains(key) && why.contains("in place of") && why.contains("(project 7)"), "{why}");
            let is_needed = *key == pages[1] || key.ends_with("directory");
            assert_eq!(found.is_err(), is_needed, "{key}: {found:?}");
        }
        let damaged = store.snapshot();
        for (one, other) in [(0, 1), (1, 0)] {
            damaged.set(&pages[one], &store.get(&pages[other]).unwrap().unwrap()).unwrap();
        }
        let (why, _) = check(damaged);
        assert!(why.contains(&pages[0]) && why.contains("another first object"), "{why}");
    }
}
