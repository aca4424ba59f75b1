//! Objects of packs that were decompressed lately: the next object is often a delta of one of them.

use crate::git::ObjectKind;
use ::bytes::Bytes;
use kit::Env;
use kit::lru::ByteLru;
use std::rc::Rc;

/// The size of the cache, in bytes.
const CAPACITY: usize = 16 << 20;

/// By the pack's id and the offset of the entry.
pub struct BaseCache(ByteLru<(String, u64), (ObjectKind, Bytes)>);

impl BaseCache {
    /// The instance's cache.
    pub fn of(env: &Env) -> Rc<Self> {
        env.instance_cache.get().unwrap_or_else(|| {
            let cache = Rc::new(BaseCache(ByteLru::new(CAPACITY)));
            env.instance_cache.put(cache.clone());
            cache
        })
    }

    pub fn get(&self, pack: &str, offset: u64) -> Option<(ObjectKind, Bytes)> {
        self.0.get(&(pack.to_owned(), offset))
    }

    pub fn put(&self, pack: &str, offset: u64, kind: ObjectKind, contents: &Bytes) {
        // The key and the bookkeeping of an entry count too.
        self.0.put((pack.to_owned(), offset), contents.len() + 160, (kind, contents.clone()));
    }
}
