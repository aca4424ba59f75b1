//! What an instance keeps across requests: pages, and what was made of them. Everything is kept
//! under a key that tells all that it was made of, so that nothing is ever stale.

use crate::manifest::Index;
use crate::segment::Head;
use directory::catalog::access_snapshot::AccessSnapshot;
use kit::blob::BlobCache;
use kit::store::StoreError;
use kit::{Env, Timestamp};
use lru::LruCache;
use roaring::RoaringBitmap;
use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::rc::Rc;

/// Bytes of pages.
const PAGES: usize = 64 << 20;

/// Bytes of sets, by their serialised size, which is about what they take in memory.
const SETS: usize = 40 << 20;

const HEADS: NonZeroUsize = NonZeroUsize::new(64).unwrap();
const SIGHTS: NonZeroUsize = NonZeroUsize::new(64).unwrap();

pub struct Warm {
    pub pages: BlobCache,
    sets: RefCell<Sets>,
    heads: RefCell<LruCache<String, Rc<Head>>>,
    index: RefCell<(Vec<u8>, Rc<Index>)>,
    snapshots: RefCell<LruCache<u64, (String, Rc<AccessSnapshot>)>>,
}

struct Sets {
    held: usize,
    sets: LruCache<Vec<u8>, (usize, Rc<RoaringBitmap>)>,
}

impl Warm {
    pub fn of(env: &Env) -> Rc<Self> {
        env.instance_cache.get().unwrap_or_else(|| {
            let warm = Rc::new(Warm {
                pages: BlobCache::new(PAGES),
                sets: RefCell::new(Sets { held: 0, sets: LruCache::unbounded() }),
                heads: RefCell::new(LruCache::new(HEADS)),
                index: RefCell::default(),
                snapshots: RefCell::new(LruCache::new(SIGHTS)),
            });
            env.instance_cache.put(warm.clone());
            warm
        })
    }

    /// The index that these bytes are.
    pub fn index(
        &self,
        bytes: Vec<u8>,
        read: impl Fn(&[u8]) -> Result<Index, StoreError>,
    ) -> Result<Rc<Index>, StoreError> {
        let mut known = self.index.borrow_mut();
        if known.0 != bytes {
            let index = Rc::new(read(&bytes)?);
            *known = (bytes, index);
        }
        Ok(known.1.clone())
    }

    pub fn head(&self, segment: &str, load: impl FnOnce() -> Result<Head, StoreError>) -> Result<Rc<Head>, StoreError> {
        if let Some(head) = self.heads.borrow_mut().get(segment) {
            return Ok(head.clone());
        }
        let head = Rc::new(load()?);
        self.heads.borrow_mut().put(segment.to_owned(), head.clone());
        Ok(head)
    }

    /// The set under `key`, or else what `make` makes.
    pub fn set(
        &self,
        key: &[u8],
        make: impl FnOnce() -> Result<RoaringBitmap, StoreError>,
    ) -> Result<Rc<RoaringBitmap>, StoreError> {
        if let Some((_, set)) = self.sets.borrow_mut().sets.get(key) {
            return Ok(set.clone());
        }
        let set = Rc::new(make()?);
        // The map's own share, roughly.
        let size = set.serialized_size() + key.len() + 100;
        let mut kept = self.sets.borrow_mut();
        kept.held += size;
        if let Some((_, (replaced, _))) = kept.sets.push(key.to_owned(), (size, set.clone())) {
            kept.held -= replaced;
        }
        while kept.held > SETS {
            let Some((_, (size, _))) = kept.sets.pop_lru() else { break };
            kept.held -= size;
        }
        Ok(set)
    }

    /// What a user may see in a revision of the catalog, at the moment `now`.
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
