//! The response cache (decision 0019). When a component's request only read, the host sends its response again to equal
//! requests, as long as nothing that it read has changed.
//!
//! It is correct because of four conditions:
//!
//! - **The same request.** The key is a keyed hash of the component's revision, the method, the whole URI, and the
//!   headers that the manifest declares for the component. The host removes all other headers before the guest sees the
//!   request, so a response cannot depend on them. The caller's credential is in these headers or in the URI: another
//!   caller has another key.
//! - **The same state.** The guest only read keys of committed values, and none of them has changed since
//!   (`store/change_clock.rs`). If the guest wrote, listed, printed or drew randomness, even after its response, the
//!   host does not send the response again.
//! - **The same nested responses.** A guest can send requests to other components. Its response then depends on their
//!   reads too, and expires with the first of them. If one of them may not be cached, or has not come when the response
//!   is complete, the response is not cached. The key changes when another component, or the routes, are replaced.
//! - **The same time, nearly.** A guest can read the clock, so an entry expires after the time that the manifest
//!   allows.
//!
//! A hit costs a hash of the request's head, a look-up, and a copy of the response's headers; hits share the body.
//! Memory is bounded, and the least recently used entry is evicted first. Large bodies have a table of their own, so
//! that one of them does not evict thousands of small ones.

mod dependencies;
mod entry;
mod key;
mod pending_body;
mod policy;
mod recorder;
mod storage;

use std::sync::Arc;
use std::time::Instant;

use hexad_store::Backend;
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use http_body::SizeHint;

pub use self::dependencies::{Dependencies, Provenance};
use self::entry::CachedBody;
use self::key::CacheKey;
pub use self::key::CachedGuest;
pub use self::policy::CachePolicy;
pub use self::recorder::{Miss, Recorder};
use self::storage::Storage;
pub use self::storage::{CacheCounters, MAX_BYTES};
use crate::body::ResponseBody;

/// The result of a look-up.
pub enum Lookup {
    /// The response, with its dependencies and its expiry.
    Hit(Response<ResponseBody>, Provenance),
    Miss(Miss),
}

/// The cached responses of one host.
pub struct ResponseCache {
    /// Seeds the keys, so that a client can neither guess nor choose them.
    secret: [u8; 32],
    /// Shared with the recorders.
    storage: Arc<Storage>,
}

impl ResponseCache {
    pub fn new() -> Result<Self, getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        Ok(Self { secret, storage: Arc::new(Storage::new()) })
    }

    pub fn counters(&self) -> &CacheCounters {
        &self.storage.counters
    }

    /// How many entries there are, and the bytes that they take.
    pub fn size(&self) -> (usize, usize) {
        self.storage.size()
    }

    /// Looks for a fresh response of `guest`. `None` if the store does not report every change.
    pub fn look_up(
        &self,
        guest: CachedGuest<'_>,
        policy: &CachePolicy,
        parts: &Parts,
        backend: &dyn Backend,
        now: Instant,
    ) -> Option<Lookup> {
        let clock = backend.change_clock()?;
        let key = CacheKey::new(&self.secret, guest, policy, parts);
        // Read before the look-up, and so before the guest reads anything for a new response.
        let commit = clock.now();
        let Some(entry) = self.storage.find(&key, |entry| entry.is_fresh(clock, now)) else {
            let last_reads = if backend.prefetches() { self.storage.reads(&key) } else { Box::default() };
            let expires_at = now + policy.max_age;
            let provenance = Provenance { dependencies: Arc::default(), expires_at };
            return Some(Lookup::Miss(Miss { key, commit, provenance, last_reads }));
        };
        let provenance = Provenance { dependencies: entry.dependencies.clone(), expires_at: entry.expires_at };
        Some(Lookup::Hit(entry.to_response(), provenance))
    }

    /// Begins to record the response to a request. `None` if it may not be stored. A response without a body, with its
    /// `declared` length, is stored at once and needs no recorder.
    pub fn record(
        &self,
        miss: Miss,
        status: StatusCode,
        headers: &HeaderMap,
        declared: Option<SizeHint>,
    ) -> Option<Recorder> {
        miss.provenance(status, headers)?;
        let recorder = Recorder::new(self.storage.clone(), miss, status, headers.clone());
        match declared {
            None => Some(recorder),
            Some(declared) => {
                recorder.store(CachedBody::Empty(declared));
                None
            }
        }
    }
}
