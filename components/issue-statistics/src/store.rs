//! Stores the index. Only this module knows keys and stored bytes. The documentation of the crate has the table of
//! keys.
//!
//! The cache of an instance, shared by its requests: pages, and values computed from them. The key of a value contains
//! the ids of all blobs and revisions that it was computed from. So entries never need invalidation.

mod reachability;

use crate::manifest::{Manifest, Retired, SegmentInfo, TombstonesRef};
use crate::query_cost::{QueryCost, SearchError};
use crate::segment::{PageStore, Segment, SegmentHeader, TableName};
use crate::set;
use crate::table::checksum;
use crate::text::Analyzer;
use bytes::Bytes;
use directory::catalog::AccessSnapshot;
use directory::user::UserKey;
use kit::blob::BlobCache;
use kit::lru::ByteLru;
use kit::root::{self, Decision};
use kit::store::StoreError;
use kit::{Env, Timestamp, gc};
use lru::LruCache;
use roaring::RoaringBitmap;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::num::NonZeroUsize;
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

/// The capacity for pages, in bytes.
const PAGE_BYTES: usize = 64 << 20;

/// The capacity for sets in bytes. A set counts by its serialised size, which is about its size in memory.
const SET_BYTES: usize = 40 << 20;

const HEADERS: NonZeroUsize = NonZeroUsize::new(64).unwrap();
const SNAPSHOTS: NonZeroUsize = NonZeroUsize::new(64).unwrap();

pub struct Cache {
    pub pages: BlobCache,
    /// Each set with the cost of computing it.
    sets: ByteLru<Vec<u8>, (Rc<RoaringBitmap>, u64)>,
    headers: RefCell<LruCache<String, Rc<SegmentHeader>>>,
    /// The latest manifest, with the bytes that it was parsed from.
    manifest: RefCell<Option<(Vec<u8>, Rc<Manifest>)>>,
    /// By user id, with the revision of the catalog.
    snapshots: RefCell<LruCache<u64, (String, Rc<AccessSnapshot>)>>,
    /// The banned users, and the version number of this list.
    banned: RefCell<(Rc<[UserKey]>, u64)>,
    /// The blobs that this instance replaced, and when, the earliest first. The instance deletes them once no request
    /// reads them. The garbage collector removes the blobs that an instance leaves behind.
    retired: RefCell<VecDeque<(Timestamp, Retired)>>,
    /// Whether the key of format 2 exists in the store.
    pub has_format_2_key: Cell<bool>,
}

/// How long replaced blobs are kept for requests that still read them, in milliseconds.
pub const RETENTION_MILLIS: i64 = 60_000;

/// The most blobs that wait for their deletion. Beyond this number, the earliest are deleted before their retention
/// ends.
const MAX_RETIRED: usize = 1 << 16;

impl Cache {
    pub fn of_instance(env: &Env) -> Rc<Self> {
        env.instance_cache.get_or_insert_with(|| Cache {
            pages: BlobCache::new(PAGE_BYTES),
            sets: ByteLru::new(SET_BYTES),
            headers: RefCell::new(LruCache::new(HEADERS)),
            manifest: RefCell::default(),
            snapshots: RefCell::new(LruCache::new(SNAPSHOTS)),
            banned: RefCell::default(),
            retired: RefCell::default(),
            has_format_2_key: Cell::default(),
        })
    }

    /// A number for the list of banned users; it changes with the list.
    pub fn banned_version(&self, users: &Rc<[UserKey]>) -> u64 {
        let mut known = self.banned.borrow_mut();
        if known.0 != *users {
            *known = (users.clone(), known.1 + 1);
        }
        known.1
    }

    /// Schedules the deletion of a replaced blob.
    pub fn retire(&self, blob: Retired, now: Timestamp) {
        self.retired.borrow_mut().push_back((now, blob));
    }

    /// Takes a replaced blob whose retention has ended.
    pub fn take_retired(&self, now: Timestamp) -> Option<Retired> {
        let mut retired = self.retired.borrow_mut();
        let is_full = retired.len() > MAX_RETIRED;
        let (_, blob) = retired.pop_front_if(|(at, _)| is_full || now.millis() - at.millis() >= RETENTION_MILLIS)?;
        Some(blob)
    }

    /// The manifest with these bytes. `read` parses it if it is not the cached one.
    pub fn manifest(
        &self,
        bytes: Vec<u8>,
        read: impl Fn(&[u8]) -> Result<Manifest, StoreError>,
    ) -> Result<Rc<Manifest>, StoreError> {
        let mut cached = self.manifest.borrow_mut();
        if let Some((_, manifest)) = cached.as_ref().filter(|(known, _)| *known == bytes) {
            return Ok(manifest.clone());
        }
        let manifest = Rc::new(read(&bytes)?);
        *cached = Some((bytes, manifest.clone()));
        Ok(manifest)
    }

    pub fn header(
        &self,
        segment: &str,
        load: impl FnOnce() -> Result<SegmentHeader, StoreError>,
    ) -> Result<Rc<SegmentHeader>, StoreError> {
        if let Some(header) = self.headers.borrow_mut().get(segment) {
            return Ok(header.clone());
        }
        let header = Rc::new(load()?);
        self.headers.borrow_mut().put(segment.to_owned(), header.clone());
        Ok(header)
    }

    /// The set under `key`. If it is not cached, `make` makes it.
    pub fn get_or_insert_with(
        &self,
        key: &[u8],
        make: impl FnOnce() -> Result<RoaringBitmap, StoreError>,
    ) -> Result<Rc<RoaringBitmap>, StoreError> {
        match self.sets.get(key) {
            Some((set, _)) => Ok(set),
            None => Ok(self.put_set(key, make()?, 0)),
        }
    }

    /// The set under `key`, a result of a search. A cached set adds the cost of its computation again, so that repeated
    /// requests cost the same.
    pub fn get_or_compute(
        &self,
        key: &[u8],
        cost: &QueryCost,
        compute: impl FnOnce() -> Result<RoaringBitmap, SearchError>,
    ) -> Result<Rc<RoaringBitmap>, SearchError> {
        if let Some((set, its_cost)) = self.sets.get(key) {
            cost.add(its_cost)?;
            return Ok(set);
        }
        let before = cost.total();
        let set = compute()?;
        Ok(self.put_set(key, set, cost.total() - before))
    }

    fn put_set(&self, key: &[u8], set: RoaringBitmap, cost: u64) -> Rc<RoaringBitmap> {
        let set = Rc::new(set);
        // The entry of the map takes roughly 100 bytes.
        let size = set.serialized_size() + key.len() + 100;
        self.sets.put(key.to_owned(), size, (set.clone(), cost));
        set
    }

    /// The access of a user at the time `now`, in a revision of the catalog. If it is not cached or has expired, `make`
    /// makes it.
    pub fn access_snapshot(
        &self,
        user_id: u64,
        revision: &str,
        now: Timestamp,
        make: impl FnOnce() -> Result<AccessSnapshot, StoreError>,
    ) -> Result<Rc<AccessSnapshot>, StoreError> {
        if let Some((of, snapshot)) = self.snapshots.borrow_mut().get(&user_id)
            && of == revision
            && snapshot.valid_until().is_none_or(|end| now < end)
        {
            return Ok(snapshot.clone());
        }
        let snapshot = Rc::new(make()?);
        self.snapshots.borrow_mut().put(user_id, (revision.to_owned(), snapshot.clone()));
        Ok(snapshot)
    }
}
