//! Stores the index. Only this module knows keys and stored bytes. The documentation of the crate has the table of
//! keys.

mod reachability;

use crate::cache::Cache;
use crate::checksum::checksum;
use crate::manifest::{Manifest, Retired, SegmentInfo, TombstonesRef};
use crate::segment::{PageStore, Segment, SegmentHeader, TableName};
use crate::set;
use crate::text::Analyzer;
use bytes::Bytes;
use kit::Env;
use kit::gc;
use kit::root::{self, Decision};
use kit::store::StoreError;
use roaring::RoaringBitmap;
use std::rc::Rc;

const MANIFEST: &str = "issue-statistics/v1/index";

/// Exists if the store has segments that builds of format 1 would misread ([`crate::text::Analyzer::Runs`]). A host
/// then refuses components that do not read format 2.
const FORMAT_2: &str = "issue-statistics/v2/segments";

/// The prefix of the counters that limit the rate of searches.
pub const SEARCH_RATE_KEYS: &str = "issue-statistics/v1/rate/";

fn header_key(segment: &str) -> String {
    format!("issue-statistics/v1/segment/{segment}/head")
}

/// `table` is a [`TableName::as_str`].
fn page_key(segment: &str, table: &str, number: usize) -> String {
    format!("issue-statistics/v1/segment/{segment}/{table}/{number}")
}

fn tombstones_key(id: &str) -> String {
    format!("issue-statistics/v1/dead/{id}")
}

/// The stored index, read through the cache of the instance.
pub struct IndexStore {
    pub env: Env,
    pub cache: Rc<Cache>,
    caches_pages: bool,
}

impl IndexStore {
    pub fn new(env: &Env) -> Self {
        IndexStore { env: env.clone(), cache: Cache::of_instance(env), caches_pages: true }
    }

    /// The same store without a page cache: a merge reads each page once.
    pub fn without_page_cache(&self) -> Self {
        IndexStore { env: self.env.clone(), cache: self.cache.clone(), caches_pages: false }
    }

    /// The current manifest. 1 read.
    pub fn manifest(&self) -> Result<Rc<Manifest>, StoreError> {
        let Some(bytes) = self.env.store.get(MANIFEST)? else { return Ok(Rc::default()) };
        self.cache.manifest(bytes, |bytes| {
            serde_json::from_slice(bytes).map_err(|error| StoreError::corrupt(MANIFEST, error))
        })
    }

    /// Swaps the manifest for a changed one with a new revision. `change` returns whether it changed anything. If
    /// another writer swaps first, `change` is called again. [`StoreError::TooLate`] if the garbage collector may
    /// already have removed the new blobs.
    pub fn update_manifest<T>(
        &self,
        mut change: impl FnMut(&mut Manifest) -> Result<(bool, T), StoreError>,
    ) -> Result<T, StoreError> {
        root::update(&self.env, MANIFEST, |current: Option<Manifest>| {
            let mut manifest = current.unwrap_or_default();
            let (changed, answer) = change(&mut manifest)?;
            if !changed {
                return Ok(Decision::Keep(answer));
            }
            if gc::is_too_late(&self.env) {
                return Err(StoreError::TooLate);
            }
            manifest.revision = self.env.id();
            Ok(Decision::Replace(manifest, answer))
        })
    }

    pub fn segment<'a>(&'a self, info: &'a SegmentInfo) -> Result<Segment<'a>, StoreError> {
        let header = self.cache.header(&info.id, || Ok(self.header(info)?.0))?;
        Ok(Segment { id: &info.id, header, page_store: self })
    }

    /// The header of a segment and its size in bytes, bypassing the cache.
    fn header(&self, info: &SegmentInfo) -> Result<(SegmentHeader, usize), StoreError> {
        let key = header_key(&info.id);
        let bytes = self.blob(&key, info.checksum)?;
        let header = serde_json::from_slice(&bytes).map_err(|error| StoreError::corrupt(&key, error))?;
        Ok((header, bytes.len()))
    }

    /// A blob, bypassing the cache. It is compared with its checksum, if the checksum is known. 1 read.
    fn blob(&self, key: &str, expected: Option<u64>) -> Result<Bytes, StoreError> {
        let bytes = self.env.store.get(key)?.ok_or_else(|| StoreError::corrupt(key, "the blob is missing"))?;
        if expected.is_some_and(|expected| expected != checksum(&bytes)) {
            return Err(StoreError::corrupt(key, "its checksum differs"));
        }
        Ok(bytes.into())
    }

    /// Returns the manifest entry of the segment.
    pub fn save_header(&self, segment: &str, header: &SegmentHeader) -> Result<SegmentInfo, StoreError> {
        if header.analyzer != Analyzer::Words && !self.cache.has_format_2_key.get() {
            if !self.env.store.exists(FORMAT_2)? {
                self.env.store.set(FORMAT_2, b"{}")?;
            }
            self.cache.has_format_2_key.set(true);
        }
        let key = header_key(segment);
        let bytes = serde_json::to_vec(header).map_err(|error| StoreError::corrupt(&key, error))?;
        self.env.store.set(&key, &bytes)?;
        Ok(SegmentInfo::new(segment, header, checksum(&bytes)))
    }

    /// The superseded documents of a segment.
    pub fn tombstones(&self, tombstones: &TombstonesRef) -> Result<Rc<RoaringBitmap>, StoreError> {
        let key = tombstones_key(&tombstones.id);
        self.cache.get_or_insert_with(key.as_bytes(), || {
            let bytes = self.blob(&key, tombstones.checksum)?;
            set::decode(&bytes).ok_or_else(|| StoreError::corrupt(&key, "no set"))
        })
    }

    pub fn save_tombstones(&self, tombstones: &RoaringBitmap) -> Result<TombstonesRef, StoreError> {
        let id = self.env.id();
        let mut bytes = Vec::new();
        set::encode_bitmap(&mut bytes, tombstones);
        self.env.store.set(&tombstones_key(&id), &bytes)?;
        Ok(TombstonesRef { id, count: tombstones.len() as u32, checksum: Some(checksum(&bytes)) })
    }

    /// Deletes a replaced blob. The header of a segment is deleted last, because it lists the pages. So an interrupted
    /// deletion can be repeated.
    pub fn delete(&self, retired: &Retired) -> Result<(), StoreError> {
        let id = match retired {
            Retired::Tombstones(id) => return self.env.store.delete(&tombstones_key(id)),
            Retired::Segment(id) => id,
        };
        let Some(bytes) = self.env.store.get(&header_key(id))? else { return Ok(()) };
        let header: SegmentHeader =
            serde_json::from_slice(&bytes).map_err(|error| StoreError::corrupt(&header_key(id), error))?;
        for (table, pages) in &header.tables {
            for number in 0..pages.blob_count() {
                self.env.store.delete(&page_key(id, table, number))?;
            }
        }
        self.env.store.delete(&header_key(id))
    }
}

impl PageStore for IndexStore {
    /// A page was compared with its checksum before it was cached.
    fn page(&self, segment: &str, table: TableName, number: usize, checksum: Option<u64>) -> Result<Bytes, StoreError> {
        let key = page_key(segment, table.as_str(), number);
        if !self.caches_pages {
            return self.blob(&key, checksum);
        }
        if let Some(page) = self.cache.pages.peek(&key) {
            return Ok(page);
        }
        let page = self.blob(&key, checksum)?;
        self.cache.pages.put(&key, page.clone());
        Ok(page)
    }

    fn put(&self, segment: &str, table: TableName, number: usize, page: &[u8]) -> Result<(), StoreError> {
        self.env.store.set(&page_key(segment, table.as_str(), number), page)
    }

    fn corrupt(&self, segment: &str, table: TableName) -> StoreError {
        StoreError::corrupt(&format!("issue-statistics/v1/segment/{segment}/{}", table.as_str()), "a page is damaged")
    }
}
