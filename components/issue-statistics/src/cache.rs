//! The cache of an instance, across requests: pages, and values made of them. The key of a value has the
//! ids of all immutable blobs and revisions that it was made of, so that no entry is ever stale.

use crate::manifest::Manifest;
use crate::segment::SegmentHeader;
use directory::catalog::access_snapshot::AccessSnapshot;
use kit::blob::BlobCache;
use kit::store::StoreError;
use kit::{Env, Timestamp};
use lru::LruCache;
use roaring::RoaringBitmap;
use std::cell::RefCell;
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
    sets: RefCell<SetCache>,
    headers: RefCell<LruCache<String, Rc<SegmentHeader>>>,
    /// The latest manifest with its bytes.
    manifest: RefCell<(Vec<u8>, Rc<Manifest>)>,
    /// By user, with the revision of the catalog.
    snapshots: RefCell<LruCache<u64, (String, Rc<AccessSnapshot>)>>,
}

/// An LRU that is bounded by the bytes of its entries.
struct SetCache {
    bytes: usize,
    entries: LruCache<Vec<u8>, (usize, Rc<RoaringBitmap>)>,
}

impl Cache {
    pub fn of_instance(env: &Env) -> Rc<Self> {
        env.instance_cache.get().unwrap_or_else(|| {
            let cache = Rc::new(Cache {
                pages: BlobCache::new(PAGE_BYTES),
                sets: RefCell::new(SetCache { bytes: 0, entries: LruCache::unbounded() }),
                headers: RefCell::new(LruCache::new(HEADERS)),
                manifest: RefCell::default(),
                snapshots: RefCell::new(LruCache::new(SNAPSHOTS)),
            });
            env.instance_cache.put(cache.clone());
            cache
        })
    }

    /// The manifest of these bytes; `read` parses it if it is not the cached one.
    pub fn manifest(
        &self,
        bytes: Vec<u8>,
        read: impl Fn(&[u8]) -> Result<Manifest, StoreError>,
    ) -> Result<Rc<Manifest>, StoreError> {
        let mut cached = self.manifest.borrow_mut();
        if cached.0 != bytes {
            let manifest = Rc::new(read(&bytes)?);
            *cached = (bytes, manifest);
        }
        Ok(cached.1.clone())
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
        if let Some((_, set)) = self.sets.borrow_mut().entries.get(key) {
            return Ok(set.clone());
        }
        let set = Rc::new(make()?);
        // Roughly 100 bytes for the map's entry.
        let size = set.serialized_size() + key.len() + 100;
        let mut cache = self.sets.borrow_mut();
        cache.bytes += size;
        if let Some((_, (replaced, _))) = cache.entries.push(key.to_owned(), (size, set.clone())) {
            cache.bytes -= replaced;
        }
        while cache.bytes > SET_BYTES {
            let Some((_, (size, _))) = cache.entries.pop_lru() else { break };
            cache.bytes -= size;
        }
        Ok(set)
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
