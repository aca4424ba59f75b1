//! Sorted tables (SSTables): byte keys and byte values in immutable pages. A segment is a set of tables.
//!
//! | bytes of a page | |
//! |---|---|
//! | entries | length of the key, length of the value (variable-length numbers), key, value |
//! | directory | the offset of each entry: 4 bytes, little-endian |
//! | count | of entries: 4 bytes, little-endian |
//!
//! A page is one blob. A page of more than [`MAX_BLOB`] bytes, because of one long value, is several blobs.
//!
//! A look-up is a binary search among the first keys of the pages, which the [`PageIndex`] has. Then it reads one page
//! and does a binary search in the directory of this page.
//!
//! Checksums of blobs. They detect damage, not malice.
//!
//! The record that names a blob has its checksum, so that a check needs no further read. The header of a segment has
//! the checksums of its pages. The manifest has the checksums of headers and tombstones.

use crate::varint::{self, Reader};
use bytes::Bytes;
use kit::store::StoreError;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// A page ends at this many bytes, so that a look-up reads little more than it needs. A longer value has a page of its
/// own.
const PAGE_BYTES: usize = 64 << 10;

/// The most bytes of a blob.
const MAX_BLOB: usize = 1 << 20;

/// The blobs of one table.
pub trait PageSource {
    /// `checksum` is the checksum of the blob, if it is known.
    fn page(&self, number: usize, checksum: Option<u64>) -> Result<Bytes, StoreError>;

    /// The error for damaged bytes; it names the table.
    fn corrupt(&self) -> StoreError;
}

/// The sparse index of a table: the first key of each page, and the checksum of each blob. Both together take about 60
/// bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageIndex {
    pub pages: Vec<PageInfo>,
    #[serde(default, rename = "count")]
    pub entry_count: u32,
    /// The checksum of each blob, by its number. Earlier builds wrote none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    checksums: Vec<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageInfo {
    #[serde(rename = "first", with = "crate::serde_base64")]
    pub first_key: Vec<u8>,
    /// The number of entries in earlier pages.
    #[serde(default, rename = "before")]
    pub entries_before: u32,
    /// The number of additional blobs of earlier pages, beyond one for each page.
    #[serde(default, rename = "shift", skip_serializing_if = "is_zero")]
    blobs_before: u32,
    /// The number of additional blobs of this page, beyond the first.
    #[serde(default, rename = "more", skip_serializing_if = "is_zero")]
    more_blobs: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl PageIndex {
    pub const EMPTY: &Self = &PageIndex { pages: Vec::new(), entry_count: 0, checksums: Vec::new() };

    /// The number of blobs of all pages. Blobs are numbered from 0.
    pub fn blob_count(&self) -> usize {
        let more = self.pages.last().map_or(0, |last| last.blobs_before + last.more_blobs);
        self.pages.len() + more as usize
    }

    /// The checksum of the blob with this number.
    pub fn checksum(&self, number: usize) -> Option<u64> {
        self.checksums.get(number).copied()
    }

    /// Whether all blobs have a checksum.
    pub fn has_checksums(&self) -> bool {
        self.checksums.len() == self.blob_count()
    }

    /// An upper bound of the bytes of all pages, if all values are short.
    pub fn bytes_at_most(&self) -> u64 {
        (self.pages.len() * PAGE_BYTES) as u64
    }
}

/// Writes a table. Keys must ascend.
pub struct TableWriter<S> {
    sink: S,
    index: PageIndex,
    page: Vec<u8>,
    offsets: Vec<u32>,
}

impl<S: FnMut(usize, &[u8]) -> Result<(), StoreError>> TableWriter<S> {
    /// `sink` takes each blob with its number.
    pub fn new(sink: S) -> Self {
        TableWriter { sink, index: PageIndex::default(), page: Vec::new(), offsets: Vec::new() }
    }

    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        if !self.offsets.is_empty() && self.page.len() + key.len() + value.len() > PAGE_BYTES {
            self.end_page()?;
        }
        if self.offsets.is_empty() {
            let blobs_before = self.index.pages.last().map_or(0, |last| last.blobs_before + last.more_blobs);
            let (first_key, entries_before) = (key.to_vec(), self.index.entry_count);
            self.index.pages.push(PageInfo { first_key, entries_before, blobs_before, more_blobs: 0 });
        }
        self.offsets.push(self.page.len() as u32);
        varint::write(&mut self.page, key.len() as u64);
        varint::write(&mut self.page, value.len() as u64);
        self.page.extend_from_slice(key);
        self.page.extend_from_slice(value);
        self.index.entry_count += 1;
        Ok(())
    }

    fn end_page(&mut self) -> Result<(), StoreError> {
        let count = self.offsets.len() as u32;
        for offset in self.offsets.drain(..) {
            self.page.extend_from_slice(&offset.to_le_bytes());
        }
        self.page.extend_from_slice(&count.to_le_bytes());
        let first = self.index.blob_count() - 1;
        let blobs = self.page.chunks(MAX_BLOB);
        if let Some(info) = self.index.pages.last_mut() {
            info.more_blobs = blobs.len() as u32 - 1;
        }
        for (number, blob) in (first..).zip(blobs) {
            self.index.checksums.push(checksum(blob));
            (self.sink)(number, blob)?;
        }
        self.page.clear();
        Ok(())
    }

    /// The number of entries so far.
    pub fn entry_count(&self) -> u32 {
        self.index.entry_count
    }

    pub fn finish(mut self) -> Result<PageIndex, StoreError> {
        if !self.offsets.is_empty() {
            self.end_page()?;
        }
        Ok(self.index)
    }
}

/// Reads a table.
pub struct Table<'a, P> {
    pub index: &'a PageIndex,
    pub pages: P,
}

/// A key and a value. Both are slices of their page and keep the page in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: Bytes,
    pub value: Bytes,
}

impl<'a, P: PageSource> Table<'a, P> {
    /// The value under exactly this key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let Some(number) = self.page_with(key) else { return Ok(None) };
        let page = self.page(number)?;
        let slot = page.lower_bound(key).ok_or_else(|| self.pages.corrupt())?;
        let entry = page.get(slot).filter(|(found, _)| *found == key);
        Ok(entry.map(|(_, value)| page.bytes.slice_ref(value)))
    }

    /// The last entry whose key is not above `key`.
    pub fn floor(&self, key: &[u8]) -> Result<Option<Entry>, StoreError> {
        let Some(number) = self.page_with(key) else { return Ok(None) };
        let page = self.page(number)?;
        let mut slot = page.lower_bound(key).ok_or_else(|| self.pages.corrupt())?;
        if page.get(slot).is_none_or(|(found, _)| found != key) {
            let Some(before) = slot.checked_sub(1) else { return Ok(None) };
            slot = before;
        }
        Ok(page.get(slot).map(|(key, value)| page.entry(key, value)))
    }

    /// The rank of [`Self::floor`]: the number of its entry in the table, from 0.
    pub fn rank(&self, key: &[u8]) -> Result<Option<u32>, StoreError> {
        let Some(number) = self.page_with(key) else { return Ok(None) };
        let before = self.index.pages.get(number).map_or(0, |page| page.entries_before);
        let page = self.page(number)?;
        let slot = page.lower_bound(key).ok_or_else(|| self.pages.corrupt())?;
        let above = usize::from(page.get(slot).is_none_or(|(found, _)| found != key));
        Ok(slot.checked_sub(above).map(|slot| before + slot as u32))
    }

    /// The entry with this rank.
    pub fn nth(&self, rank: u32) -> Result<Entry, StoreError> {
        let number = self.index.pages.partition_point(|page| page.entries_before <= rank).checked_sub(1);
        let number = number.ok_or_else(|| self.pages.corrupt())?;
        let before = self.index.pages.get(number).map_or(0, |page| page.entries_before);
        let page = self.page(number)?;
        let entry = page.get((rank - before) as usize).map(|(key, value)| page.entry(key, value));
        entry.ok_or_else(|| self.pages.corrupt())
    }

    /// A cursor at the first key that is not below `key`.
    pub fn cursor_from(self, key: &[u8]) -> Result<Cursor<'a, P>, StoreError> {
        let number = self.page_with(key).unwrap_or(0);
        let mut cursor = Cursor { table: self, number, page: None, slot: 0 };
        if cursor.load_page()?
            && let Some(page) = &cursor.page
        {
            cursor.slot = page.lower_bound(key).ok_or_else(|| cursor.table.pages.corrupt())?;
        }
        Ok(cursor)
    }

    /// The number of the page that may contain `key`; `None` if the key is before all pages.
    fn page_with(&self, key: &[u8]) -> Option<usize> {
        self.index.pages.partition_point(|page| page.first_key.as_slice() <= key).checked_sub(1)
    }

    fn page(&self, number: usize) -> Result<Page, StoreError> {
        let info = self.index.pages.get(number).ok_or_else(|| self.pages.corrupt())?;
        let first = number + info.blobs_before as usize;
        let mut bytes = self.blob(first)?;
        if info.more_blobs > 0 {
            let mut all = bytes.to_vec();
            for number in first + 1..=first + info.more_blobs as usize {
                all.extend_from_slice(&self.blob(number)?);
            }
            bytes = all.into();
        }
        Page::parse(bytes).ok_or_else(|| self.pages.corrupt())
    }

    fn blob(&self, number: usize) -> Result<Bytes, StoreError> {
        self.pages.page(number, self.index.checksum(number))
    }
}

/// Reads a table forwards.
pub struct Cursor<'a, P> {
    table: Table<'a, P>,
    number: usize,
    page: Option<Page>,
    slot: usize,
}

impl<P: PageSource> Cursor<'_, P> {
    /// Returns the current entry and advances.
    pub fn next(&mut self) -> Result<Option<Entry>, StoreError> {
        loop {
            let Some(page) = &self.page else { return Ok(None) };
            if self.slot < page.count {
                let (key, value) = page.get(self.slot).ok_or_else(|| self.table.pages.corrupt())?;
                let entry = page.entry(key, value);
                self.slot += 1;
                return Ok(Some(entry));
            }
            self.number += 1;
            self.slot = 0;
            self.load_page()?;
        }
    }

    /// The value under exactly this key. Keys must ascend from call to call.
    pub fn seek(&mut self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let pages = self.table.index.pages.get(self.number + 1..).unwrap_or_default();
        if pages.first().is_some_and(|next| next.first_key.as_slice() <= key) {
            self.number += pages.partition_point(|page| page.first_key.as_slice() <= key);
            self.slot = 0;
            self.load_page()?;
        }
        let Some(page) = &self.page else { return Ok(None) };
        let corrupt = || self.table.pages.corrupt();
        let is_below = |slot: usize| Some(slot < page.count && page.get(slot)?.0 < key);
        // An exponential search: consecutive keys are near each other.
        let mut step = 1;
        while is_below(self.slot + step).ok_or_else(corrupt)? {
            self.slot += step;
            step *= 2;
        }
        let end = (self.slot + step).min(page.count);
        self.slot = page.lower_bound_in(key, self.slot, end).ok_or_else(corrupt)?;
        let entry = page.get(self.slot).filter(|(found, _)| *found == key);
        Ok(entry.map(|(_, value)| page.bytes.slice_ref(value)))
    }

    fn load_page(&mut self) -> Result<bool, StoreError> {
        let exists = self.number < self.table.index.pages.len();
        self.page = if exists { Some(self.table.page(self.number)?) } else { None };
        Ok(exists)
    }
}

struct Page {
    bytes: Bytes,
    /// The number of entries.
    count: usize,
    /// The offset of the directory.
    directory: usize,
}

impl Page {
    fn parse(bytes: Bytes) -> Option<Self> {
        let (rest, count) = bytes.split_last_chunk::<4>()?;
        let count = u32::from_le_bytes(*count) as usize;
        let directory = rest.len().checked_sub(count.checked_mul(4)?)?;
        Some(Page { bytes, count, directory })
    }

    fn get(&self, slot: usize) -> Option<(&[u8], &[u8])> {
        if slot >= self.count {
            return None;
        }
        let offset = self.bytes.get(self.directory + slot * 4..)?.first_chunk::<4>()?;
        let mut entry = Reader(self.bytes.get(u32::from_le_bytes(*offset) as usize..self.directory)?);
        let (key, value) = (entry.u32()? as usize, entry.u32()? as usize);
        let (key, rest) = entry.0.split_at_checked(key)?;
        Some((key, rest.get(..value)?))
    }

    fn entry(&self, key: &[u8], value: &[u8]) -> Entry {
        Entry { key: self.bytes.slice_ref(key), value: self.bytes.slice_ref(value) }
    }

    /// The slot of the first key that is not below `key`; [`Self::count`] if all are below.
    fn lower_bound(&self, key: &[u8]) -> Option<usize> {
        self.lower_bound_in(key, 0, self.count)
    }

    /// The same within `low..high`; `high` if all keys in this range are below.
    fn lower_bound_in(&self, key: &[u8], mut low: usize, mut high: usize) -> Option<usize> {
        while low < high {
            let middle = low.midpoint(high);
            if self.get(middle)?.0 < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Some(low)
    }
}

/// Takes about 10 µs of native code for a page of 64 KiB. It runs for each page that is written to the store or read
/// from it.
pub fn checksum(blob: &[u8]) -> u64 {
    xxh3_64(blob)
}

#[cfg(test)]
mod tests;
