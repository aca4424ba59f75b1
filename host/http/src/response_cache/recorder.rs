//! Records a response on its way to the client, and stores it once it is complete.

use std::sync::{Arc, Weak};
use std::time::Instant;

use bytes::Bytes;
use hexad_store::Key;
use http::{HeaderMap, StatusCode};

use super::dependencies::{Dependencies, Provenance, Sources};
use super::entry::{CHUNK_OVERHEAD, CacheEntry, CachedBody};
use super::key::CacheKey;
use super::pending_body::PendingBody;
use super::policy::is_storable;
use super::storage::{SMALL_BODY, Storage};

/// The largest body that is cached, in bytes.
const MAX_BODY: usize = 8 * 1024 * 1024;

/// A request whose response may be cached, and is not cached yet.
pub struct Miss {
    pub(super) key: CacheKey,
    /// The number of the last commit before the guest reads anything.
    pub(super) commit: u64,
    pub(super) provenance: Provenance,
    /// The keys on which the last response to this request depended.
    pub last_reads: Box<[Key]>,
}

impl Miss {
    /// Where the host records the guest's reads.
    pub fn dependencies(&self) -> &Arc<Dependencies> {
        &self.provenance.dependencies
    }

    /// The dependencies and the expiry of the response with this head. `None` if it may not be cached.
    pub fn provenance(&self, status: StatusCode, headers: &HeaderMap) -> Option<Provenance> {
        (self.dependencies().is_cacheable() && is_storable(status, headers)).then(|| self.provenance.clone())
    }
}

/// Records a response on its way to the client. If it is dropped before [`complete`](Self::complete), it stores
/// nothing.
pub struct Recorder {
    storage: Arc<Storage>,
    miss: Miss,
    status: StatusCode,
    headers: HeaderMap,
    /// The chunks so far, while the body is small.
    chunks: Vec<Bytes>,
    /// Holds the chunks once the body is large.
    pending: Option<Weak<PendingBody>>,
    /// The memory of the chunks, in bytes.
    length: usize,
}

impl Recorder {
    pub(super) fn new(storage: Arc<Storage>, miss: Miss, status: StatusCode, headers: HeaderMap) -> Self {
        Self { storage, miss, status, headers, chunks: Vec::new(), pending: None, length: 0 }
    }

    /// Records a chunk of the body. False if the body is too large, or if too many large bodies are under recording.
    pub fn record(&mut self, chunk: &Bytes) -> bool {
        self.length += chunk.len() + CHUNK_OVERHEAD;
        match &self.pending {
            Some(pending) => match pending.upgrade() {
                Some(pending) => pending.push(chunk.clone()),
                None => return false,
            },
            None => {
                self.chunks.push(chunk.clone());
                if self.length > SMALL_BODY {
                    let chunks = std::mem::take(&mut self.chunks);
                    self.pending = self.storage.pending.begin(self.miss.key, self.miss.provenance.expires_at, chunks);
                    return self.pending.is_some();
                }
            }
        }
        self.length <= MAX_BODY
    }

    /// Stores the response: the client has the whole body.
    pub fn complete(mut self) {
        let chunks = match &self.pending {
            None => std::mem::take(&mut self.chunks),
            Some(pending) => match self.storage.pending.finish(pending) {
                Some(chunks) => chunks,
                None => return,
            },
        };
        let mut chunks = join_small(chunks);
        let body = match chunks.as_mut_slice() {
            [] => CachedBody::Whole(Bytes::new()),
            [whole] => CachedBody::Whole(std::mem::take(whole)),
            chunks => {
                let length = chunks.iter().map(|chunk| chunk.len() as u64).sum();
                CachedBody::Chunks((&*chunks).into(), length)
            }
        };
        self.store(body);
    }

    pub(super) fn store(self, body: CachedBody) {
        let Miss { key, commit, ref provenance, .. } = self.miss;
        let Some(Sources { buckets, keys, nested, expires_at }) = Sources::of(provenance) else { return };
        let entry = Arc::new(CacheEntry {
            commit,
            reads: buckets.into(),
            keys: keys.into(),
            dependencies: provenance.dependencies.clone(),
            nested: nested.into(),
            expires_at,
            status: self.status,
            headers: self.headers.clone(),
            body,
        });
        self.storage.insert(key, entry, Instant::now());
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Some(pending) = &self.pending {
            self.storage.pending.finish(pending);
        }
    }
}

/// Joins small neighbours, so that a body has few chunks however its guest wrote it. Large chunks are not copied.
fn join_small(chunks: Vec<Bytes>) -> Vec<Bytes> {
    let mut joined = Vec::new();
    let mut rest = chunks.as_slice();
    while !rest.is_empty() {
        let mut length = 0;
        let run = rest.iter().take_while(|chunk| {
            length += chunk.len();
            length <= SMALL_BODY
        });
        let (run, others) = rest.split_at(run.count().max(1).min(rest.len()));
        joined.push(match run {
            [alone] => alone.clone(),
            run => run.concat().into(),
        });
        rest = others;
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_neighbours_are_joined_and_large_chunks_are_not_copied() {
        let large = Bytes::from(vec![1; SMALL_BODY + 1]);
        let small = |byte: u8, length: usize| Bytes::from(vec![byte; length]);
        let chunks = vec![small(2, 3), small(3, 4), large.clone(), small(4, SMALL_BODY), small(5, 1)];
        let joined = join_small(chunks.clone());
        assert_eq!(joined.iter().map(Bytes::len).collect::<Vec<_>>(), [7, SMALL_BODY + 1, SMALL_BODY, 1]);
        assert_eq!(joined[1].as_ptr(), large.as_ptr());
        assert_eq!(joined.concat(), chunks.concat());
        assert!(join_small(Vec::new()).is_empty());
    }
}
