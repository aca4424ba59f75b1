//! The cache of an instance, across requests: pages, and values made of them. The key of a value has the
//! ids of all immutable blobs and revisions that it was made of, so that no entry is ever stale.

use crate::manifest::{Manifest, Retired};
use crate::segment::SegmentHeader;
use crate::work::{SearchError, WorkBudget};
use directory::catalog::access_snapshot::AccessSnapshot;
use directory::user::UserKey;
use kit::blob::BlobCache;
use kit::lru::ByteLru;
use kit::store::StoreError;
use kit::{Env, Timestamp};
use lru::LruCache;
use roaring::RoaringBitmap;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::rc::Rc;

/// The capacity for pages.
const PAGE_BYTES: usize = 64 << 20;

/// The capacity for sets, by serialised size, which is about their size in memory.
const SET_BYTES: usize = 40 << 20;

const HEADERS: NonZeroUsize = NonZeroUsize::new(64).unwrap();
const SNAPSHOTS: NonZeroUsize = NonZeroUsize::new(64).unwrap();

pub struct Cache {
    pub pages: BlobCache,
    /// Each with the work of making it.
    sets: ByteLru<Vec<u8>, (Rc<RoaringBitmap>, u64)>,
    headers: RefCell<LruCache<String, Rc<SegmentHeader>>>,
    /// The latest manifest with its bytes.
    manifest: RefCell<Option<(Vec<u8>, Rc<Manifest>)>>,
    /// By user, with the revision of the catalog.
    snapshots: RefCell<LruCache<u64, (String, Rc<AccessSnapshot>)>>,
    /// The banned users, and the number of that version.
    banned: RefCell<(Rc<[UserKey]>, u64)>,
    /// The blobs that this instance replaced, and when, the earliest first: they are deleted when no request reads them
    /// any more. The garbage collector removes the blobs that an instance leaves behind.
    retired: RefCell<VecDeque<(Timestamp, Retired)>>,
    /// Whether the store says that it has segments of format 2.
    pub is_marked: Cell<bool>,
}

/// How long replaced blobs are kept for requests that read them, in milliseconds.
pub const RETIREMENT: i64 = 60_000;

/// The most blobs that wait to be deleted; with more, the earliest are deleted before their time.
const MAX_RETIRED: usize = 1 << 16;

impl Cache {
    pub fn of_instance(env: &Env) -> Rc<Self> {
        env.instance_cache.get().unwrap_or_else(|| {
            let cache = Rc::new(Cache {
                pages: BlobCache::new(PAGE_BYTES),
                sets: ByteLru::new(SET_BYTES),
                headers: RefCell::new(LruCache::new(HEADERS)),
                manifest: RefCell::default(),
                snapshots: RefCell::new(LruCache::new(SNAPSHOTS)),
                banned: RefCell::default(),
                retired: RefCell::default(),
                is_marked: Cell::default(),
            });
            env.instance_cache.put(cache.clone());
            cache
        })
    }

    /// A number for the banned users: another one when they have changed.
    pub fn version_of_banned(&self, users: &Rc<[UserKey]>) -> u64 {
        let mut known = self.banned.borrow_mut();
        if known.0 != *users {
            *known = (users.clone(), known.1 + 1);
        }
        known.1
    }

    /// Has a replaced blob deleted later.
    pub fn retire(&self, blob: Retired, now: Timestamp) {
        self.retired.borrow_mut().push_back((now, blob));
    }

    /// Takes a replaced blob that may be deleted now.
    pub fn take_retired(&self, now: Timestamp) -> Option<Retired> {
        let mut retired = self.retired.borrow_mut();
        let is_full = retired.len() > MAX_RETIRED;
        let (_, blob) = retired.pop_front_if(|(at, _)| is_full || now.millis() - at.millis() >= RETIREMENT)?;
        Some(blob)
    }

    /// The manifest of these bytes; `read` parses it if it is not the cached one.
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

    /// The set under `key`; `make` makes it if it is not cached.
    pub fn set(
        &self,
        key: &[u8],
        make: impl FnOnce() -> Result<RoaringBitmap, StoreError>,
    ) -> Result<Rc<RoaringBitmap>, StoreError> {
        match self.sets.get(key) {
            Some((set, _)) => Ok(set),
            None => Ok(self.put_set(key, make()?, 0)),
        }
    }

    /// The same for the result of a search; a cached one takes the work that it took then.
    pub fn found(
        &self,
        key: &[u8],
        work: &WorkBudget,
        search: impl FnOnce() -> Result<RoaringBitmap, SearchError>,
    ) -> Result<Rc<RoaringBitmap>, SearchError> {
        if let Some((set, steps)) = self.sets.get(key) {
            work.spend(steps)?;
            return Ok(set);
        }
        let before = work.spent();
        let found = search()?;
        Ok(self.put_set(key, found, work.spent() - before))
    }

    fn put_set(&self, key: &[u8], set: RoaringBitmap, steps: u64) -> Rc<RoaringBitmap> {
        let set = Rc::new(set);
        // Roughly 100 bytes for the map's entry.
        let size = set.serialized_size() + key.len() + 100;
        self.sets.put(key.to_owned(), size, (set.clone(), steps));
        set
    }

    /// The access of a user in a revision of the catalog at the time `now`; `make` makes it if it is not
    /// cached or has expired.
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
