//! Sorted tables in immutable pages: byte keys, byte values. What a segment is made of.
//!
//! | bytes of a page | |
//! |---|---|
//! | entries | length of the key, length of the value (variable-length numbers), key, value |
//! | directory | where each entry begins: 4 bytes, little-endian |
//! | count | of entries: 4 bytes, little-endian |
//!
//! A look-up is a search among the pages' first keys, which the index has, one page, and a search
//! in that page's directory.

use crate::varint::{self, Reader};
use bytes::Bytes;
use kit::store::StoreError;
use serde::{Deserialize, Serialize};

/// A page is ended once it has this many bytes, so that a look-up reads little more than it needs.
/// A longer value has a page of its own.
const PAGE: usize = 64 << 10;

/// Where the pages of one table are.
pub trait Pages {
    /// A page by its number.
    fn page(&self, number: usize) -> Result<Bytes, StoreError>;

    /// What is wrong, in words that tell which table it is.
    fn damaged(&self) -> StoreError;
}

/// The first key of each page, and how many entries are before it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    pub pages: Vec<PageRef>,
    /// Of all entries.
    #[serde(default)]
    pub count: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageRef {
    #[serde(with = "crate::serde_base64")]
    pub first: Vec<u8>,
    #[serde(default)]
    pub before: u32,
}

/// Makes a table of entries that come in ascending order of their keys.
pub struct Writer<S> {
    sink: S,
    index: Index,
    page: Vec<u8>,
    starts: Vec<u32>,
}

impl<S: FnMut(usize, &[u8]) -> Result<(), StoreError>> Writer<S> {
    /// `sink` takes each page with its number.
    pub fn new(sink: S) -> Self {
        Writer { sink, index: Index::default(), page: Vec::new(), starts: Vec::new() }
    }

    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        if !self.starts.is_empty() && self.page.len() + key.len() + value.len() > PAGE {
            self.end_page()?;
        }
        if self.starts.is_empty() {
            self.index.pages.push(PageRef { first: key.to_vec(), before: self.index.count });
        }
        self.starts.push(self.page.len() as u32);
        varint::put(&mut self.page, key.len() as u64);
        varint::put(&mut self.page, value.len() as u64);
        self.page.extend_from_slice(key);
        self.page.extend_from_slice(value);
        self.index.count += 1;
        Ok(())
    }

    fn end_page(&mut self) -> Result<(), StoreError> {
        let count = self.starts.len() as u32;
        for start in self.starts.drain(..) {
            self.page.extend_from_slice(&start.to_le_bytes());
        }
        self.page.extend_from_slice(&count.to_le_bytes());
        (self.sink)(self.index.pages.len() - 1, &self.page)?;
        self.page.clear();
        Ok(())
    }

    /// How many entries there are so far.
    pub fn count(&self) -> u32 {
        self.index.count
    }

    pub fn finish(mut self) -> Result<Index, StoreError> {
        if !self.starts.is_empty() {
            self.end_page()?;
        }
        Ok(self.index)
    }
}

/// A table that is read.
pub struct Table<'a, P> {
    pub index: &'a Index,
    pub pages: P,
}

/// An entry. Its bytes are those of its page, which they keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: Bytes,
    pub value: Bytes,
}

impl<'a, P: Pages> Table<'a, P> {
    /// The value under exactly this key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let Some(number) = self.page_of(key) else { return Ok(None) };
        let page = self.page(number)?;
        let at = page.lower_bound(key).ok_or_else(|| self.pages.damaged())?;
        let entry = page.get(at).filter(|(found, _)| *found == key);
        Ok(entry.map(|(_, value)| page.bytes.slice_ref(value)))
    }

    /// The last entry whose key is not above `key`.
    pub fn floor(&self, key: &[u8]) -> Result<Option<Entry>, StoreError> {
        let Some(number) = self.page_of(key) else { return Ok(None) };
        let page = self.page(number)?;
        let mut at = page.lower_bound(key).ok_or_else(|| self.pages.damaged())?;
        if page.get(at).is_none_or(|(found, _)| found != key) {
            let Some(before) = at.checked_sub(1) else { return Ok(None) };
            at = before;
        }
        Ok(page.get(at).map(|(key, value)| page.entry(key, value)))
    }

    /// The place, from 0, of the last entry whose key is not above `key`.
    pub fn rank(&self, key: &[u8]) -> Result<Option<u32>, StoreError> {
        let Some(number) = self.page_of(key) else { return Ok(None) };
        let before = self.index.pages.get(number).map_or(0, |page| page.before);
        let page = self.page(number)?;
        let at = page.lower_bound(key).ok_or_else(|| self.pages.damaged())?;
        let above = usize::from(page.get(at).is_none_or(|(found, _)| found != key));
        Ok(at.checked_sub(above).map(|at| before + at as u32))
    }

    /// The entry at this place, from 0.
    pub fn nth(&self, n: u32) -> Result<Entry, StoreError> {
        let number = self.index.pages.partition_point(|page| page.before <= n).checked_sub(1);
        let number = number.ok_or_else(|| self.pages.damaged())?;
        let before = self.index.pages.get(number).map_or(0, |page| page.before);
        let page = self.page(number)?;
        let entry = page.get((n - before) as usize).map(|(key, value)| page.entry(key, value));
        entry.ok_or_else(|| self.pages.damaged())
    }

    /// The entries from the first key that is not below `key` on.
    pub fn from(self, key: &[u8]) -> Result<Cursor<'a, P>, StoreError> {
        let number = self.page_of(key).unwrap_or(0);
        let mut cursor = Cursor { table: self, number, page: None, at: 0 };
        if cursor.load()?
            && let Some(page) = &cursor.page
        {
            cursor.at = page.lower_bound(key).ok_or_else(|| cursor.table.pages.damaged())?;
        }
        Ok(cursor)
    }

    /// The number of the page that has `key`, if any has.
    fn page_of(&self, key: &[u8]) -> Option<usize> {
        self.index.pages.partition_point(|page| page.first.as_slice() <= key).checked_sub(1)
    }

    fn page(&self, number: usize) -> Result<Page, StoreError> {
        Page::of(self.pages.page(number)?).ok_or_else(|| self.pages.damaged())
    }
}

/// A place in a table, from which it is read on.
pub struct Cursor<'a, P> {
    table: Table<'a, P>,
    number: usize,
    page: Option<Page>,
    at: usize,
}

impl<P: Pages> Cursor<'_, P> {
    /// The entry here, after which the cursor is at the next one.
    pub fn next(&mut self) -> Result<Option<Entry>, StoreError> {
        loop {
            let Some(page) = &self.page else { return Ok(None) };
            if self.at < page.count {
                let (key, value) = page.get(self.at).ok_or_else(|| self.table.pages.damaged())?;
                let entry = page.entry(key, value);
                self.at += 1;
                return Ok(Some(entry));
            }
            self.number += 1;
            self.at = 0;
            self.load()?;
        }
    }

    /// The value under exactly this key, which is not below those that were asked for before.
    pub fn seek(&mut self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let pages = self.table.index.pages.get(self.number + 1..).unwrap_or_default();
        if pages.first().is_some_and(|next| next.first.as_slice() <= key) {
            self.number += pages.partition_point(|page| page.first.as_slice() <= key);
            self.at = 0;
            self.load()?;
        }
        let Some(page) = &self.page else { return Ok(None) };
        let damaged = || self.table.pages.damaged();
        let is_below = |at: usize| Some(at < page.count && page.get(at)?.0 < key);
        let mut step = 1;
        while is_below(self.at + step).ok_or_else(damaged)? {
            self.at += step;
            step *= 2;
        }
        self.at = page.lower_bound_in(key, self.at, (self.at + step).min(page.count)).ok_or_else(damaged)?;
        let entry = page.get(self.at).filter(|(found, _)| *found == key);
        Ok(entry.map(|(_, value)| page.bytes.slice_ref(value)))
    }

    fn load(&mut self) -> Result<bool, StoreError> {
        let there = self.number < self.table.index.pages.len();
        self.page = if there { Some(self.table.page(self.number)?) } else { None };
        Ok(there)
    }
}

struct Page {
    bytes: Bytes,
    /// Of entries.
    count: usize,
    /// Where the directory begins.
    directory: usize,
}

impl Page {
    fn of(bytes: Bytes) -> Option<Self> {
        let (rest, count) = bytes.split_last_chunk::<4>()?;
        let count = u32::from_le_bytes(*count) as usize;
        let directory = rest.len().checked_sub(count.checked_mul(4)?)?;
        Some(Page { bytes, count, directory })
    }

    fn get(&self, at: usize) -> Option<(&[u8], &[u8])> {
        if at >= self.count {
            return None;
        }
        let start = self.bytes.get(self.directory + at * 4..)?.first_chunk::<4>()?;
        let mut entry = Reader(self.bytes.get(u32::from_le_bytes(*start) as usize..self.directory)?);
        let (key, value) = (entry.small()? as usize, entry.small()? as usize);
        let (key, rest) = entry.0.split_at_checked(key)?;
        Some((key, rest.get(..value)?))
    }

    fn entry(&self, key: &[u8], value: &[u8]) -> Entry {
        Entry { key: self.bytes.slice_ref(key), value: self.bytes.slice_ref(value) }
    }

    /// The place of the first key that is not below `key`.
    fn lower_bound(&self, key: &[u8]) -> Option<usize> {
        self.lower_bound_in(key, 0, self.count)
    }

    /// The same between `low` and `high`, `high` if all there are below.
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Memory(Vec<Vec<u8>>);

    impl Pages for &Memory {
        fn page(&self, number: usize) -> Result<Bytes, StoreError> {
            self.0.get(number).map(|page| Bytes::copy_from_slice(page)).ok_or_else(|| self.damaged())
        }

        fn damaged(&self) -> StoreError {
            StoreError::corrupt("table", "damaged")
        }
    }

    fn key(number: u32) -> Vec<u8> {
        format!("key{:06}", number * 2).into_bytes()
    }

    fn table(count: u32) -> (Memory, Index) {
        let mut pages = Vec::new();
        let mut writer = Writer::new(|number, page: &[u8]| {
            assert_eq!(number, pages.len());
            pages.push(page.to_vec());
            Ok(())
        });
        for number in 0..count {
            writer.push(&key(number), &vec![number as u8; (number % 100) as usize]).unwrap();
        }
        let index = writer.finish().unwrap();
        (Memory(pages), index)
    }

    #[test]
    fn what_is_put_is_found() {
        let (memory, index) = table(10_000);
        assert!(index.pages.len() > 5);
        let table = Table { index: &index, pages: &memory };
        for number in [0, 1, 77, 5000, 9999] {
            assert_eq!(table.get(&key(number)).unwrap().unwrap().len(), (number % 100) as usize);
            assert_eq!(table.nth(number).unwrap().key, key(number));
            let above = format!("key{:06}", number * 2 + 1);
            assert_eq!(table.get(above.as_bytes()).unwrap(), None);
            assert_eq!(table.floor(above.as_bytes()).unwrap().unwrap().key, key(number));
            assert_eq!(table.floor(&key(number)).unwrap().unwrap().key, key(number));
            assert_eq!(table.rank(above.as_bytes()).unwrap(), Some(number));
            assert_eq!(table.rank(&key(number)).unwrap(), Some(number));
        }
        assert_eq!(table.floor(b"a").unwrap(), None);
        assert_eq!(table.rank(b"a").unwrap(), None);
        assert_eq!(table.get(b"a").unwrap(), None);
        assert!(table.nth(10_000).is_err());
    }

    #[test]
    fn cursors_go_on_over_pages() {
        let (memory, index) = table(10_000);
        for start in [0, 1, 1234, 9999] {
            let mut cursor = Table { index: &index, pages: &memory }.from(&key(start)).unwrap();
            for number in start..10_000 {
                assert_eq!(cursor.next().unwrap().unwrap().key, key(number));
            }
            assert_eq!(cursor.next().unwrap(), None);
        }
        let mut cursor = Table { index: &index, pages: &memory }.from(b"z").unwrap();
        assert_eq!(cursor.next().unwrap(), None);
    }

    #[test]
    fn seeking_goes_forward() {
        let (memory, index) = table(10_000);
        let table = || Table { index: &index, pages: &memory };
        for step in [1, 2, 3, 17, 999, 5000] {
            let mut cursor = table().from(&[]).unwrap();
            for number in (0..10_000).step_by(step) {
                let found = cursor.seek(&key(number)).unwrap();
                assert_eq!(found.map(|value| value.len()), Some((number % 100) as usize), "{number} by {step}");
                assert!(cursor.seek(&key(number)).unwrap().is_some());
                assert_eq!(cursor.seek(format!("key{:06}", number * 2 + 1).as_bytes()).unwrap(), None);
            }
            assert_eq!(cursor.seek(b"z").unwrap(), None);
        }
        assert_eq!(table().from(&[]).unwrap().seek(b"a").unwrap(), None);
    }

    #[test]
    fn an_empty_table_has_nothing() {
        let (memory, index) = table(0);
        let table = Table { index: &index, pages: &memory };
        assert_eq!((table.get(b"a").unwrap(), table.floor(b"a").unwrap()), (None, None));
        assert_eq!(table.from(b"").unwrap().next().unwrap(), None);
        let table = Table { index: &index, pages: &memory };
        assert_eq!(table.from(b"").unwrap().seek(b"a").unwrap(), None);
    }

    #[test]
    fn damaged_pages_are_named() {
        let (mut memory, index) = table(10);
        for damage in [vec![], vec![0xff; 8], vec![1, 2, 3, 4, 5, 200, 0, 0, 0, 1, 0, 0, 0]] {
            memory.0[0] = damage;
            let table = Table { index: &index, pages: &memory };
            let found = table.get(&key(3));
            assert!(!matches!(found, Ok(Some(_))), "{found:?}");
        }
    }
}
