//! The cache of an instance, shared by its requests: pages, and values computed from them. The key of a value contains
//! the ids of all blobs and revisions that it was computed from. So entries never need invalidation.

use crate::manifest::{Manifest, Retired};
use crate::query_cost::{QueryCost, SearchError};
use crate::segment::SegmentHeader;
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
        env.instance_cache.get().unwrap_or_else(|| {
            let cache = Rc::new(Cache {
                pages: BlobCache::new(PAGE_BYTES),
                sets: ByteLru::new(SET_BYTES),
                headers: RefCell::new(LruCache::new(HEADERS)),
                manifest: RefCell::default(),
                snapshots: RefCell::new(LruCache::new(SNAPSHOTS)),
                banned: RefCell::default(),
                retired: RefCell::default(),
                has_format_2_key: Cell::default(),
            });
            env.instance_cache.put(cache.clone());
            cache
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
