//! A cached response and its dependencies.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use hexad_store::{ChangeClock, Key, VersionBucket};
use http::{HeaderMap, Response, StatusCode};
use http_body::SizeHint;

use super::dependencies::Dependencies;
use crate::body::{ResponseBody, empty, full, shared};

/// The memory of an entry besides its body and the text of its headers, in bytes: mostly tables.
pub const OVERHEAD: usize = 2048;

/// The memory of a body's chunk besides its content, in bytes.
pub const CHUNK_OVERHEAD: usize = 128;

/// The memory of a nested response's dependencies besides their reads, and of the references to it, in bytes. If that
/// response was evicted, only this entry keeps it alive.
const NESTED_OVERHEAD: usize = 256;

pub struct CacheEntry {
    /// The number of the last commit before the guest read anything.
    pub commit: u64,
    /// The version buckets of the keys that its guest, and the guests of its nested responses, read until the response
    /// was complete.
    pub reads: Box<[VersionBucket]>,
    /// The same keys by name, if the store can prefetch them when the entry is no longer fresh.
    pub keys: Box<[Key]>,
    pub dependencies: Arc<Dependencies>,
    /// The dependencies of the nested responses.
    pub nested: Box<[Arc<Dependencies>]>,
    pub expires_at: Instant,
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: CachedBody,
}

pub enum CachedBody {
    Whole(Bytes),
    /// Chunks, and the sum of their lengths.
    Chunks(Arc<[Bytes]>, u64),
    /// No body, whatever length the head declares.
    Empty(SizeHint),
}

impl CacheEntry {
    /// The memory that the entry takes, in bytes.
    pub fn bytes(&self) -> usize {
        let body = match &self.body {
            CachedBody::Whole(bytes) => bytes.len(),
            CachedBody::Chunks(chunks, _) => chunks.iter().map(|chunk| chunk.len() + CHUNK_OVERHEAD).sum(),
            CachedBody::Empty(_) => 0,
        };
        let headers: usize = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        let keys: usize = self.keys.iter().map(|key| size_of_val(key) + key.key.len()).sum();
        // Each dependency has its own list of version buckets.
        let reads = 2 * size_of_val(&*self.reads) + self.nested.len() * NESTED_OVERHEAD;
        OVERHEAD + body + 2 * headers + reads + keys
    }

    pub fn is_fresh(&self, clock: &ChangeClock, now: Instant) -> bool {
        now < self.expires_at
            && self.dependencies.is_cacheable()
            && self.nested.iter().all(|dependencies| dependencies.is_cacheable())
            && clock.are_unchanged_since(self.commit, &self.reads)
    }

    pub fn to_response(&self) -> Response<ResponseBody> {
        let mut response = Response::new(match &self.body {
            CachedBody::Whole(bytes) => full(bytes.clone()),
            CachedBody::Chunks(chunks, length) => shared(chunks.clone(), *length),
            CachedBody::Empty(declared) => empty(*declared),
        });
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        response
    }
}
