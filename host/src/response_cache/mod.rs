//! Cached responses: a component's response to a request that only read, given again to the same
//! request as long as nothing that it read has changed.
//!
//! It is correct, because:
//!
//! - **The same request.** The key is a keyed hash of the component's code, the method, the whole
//!   address, and the headers that the manifest says the component looks at. The host removes all
//!   other headers before the guest sees the request, so a response cannot depend on them. The
//!   caller's credential is in these headers or in the address: another caller has another key.
//! - **The same state.** The guest only read keys of committed values, and none of them has changed
//!   since (`store/change_clock.rs`). If the guest wrote, listed, printed or drew randomness, even
//!   after its response, the response is not given again.
//! - **The same time, nearly.** A guest can read the clock, so an entry expires after the time that
//!   the manifest allows.
//!
//! A hit costs a hash of the request's head, a look-up, and a copy of the response's headers; the
//! body is shared. Memory is bounded, and the least recently used entry is evicted first. Large
//! bodies have a table of their own, so that one of them does not evict thousands of small ones.

mod lru;
mod pending_body;
mod read_set;
mod recorder;

pub use self::read_set::ReadSet;
pub use self::recorder::Recorder;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, SET_COOKIE, TRANSFER_ENCODING, VARY};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body::SizeHint;
use sha2::{Digest, Sha256};

use self::lru::Lru;
use self::pending_body::PendingBodies;
use crate::body::{ResponseBody, empty, full, shared};
use crate::ingress::CLIENT_ADDRESS;
use crate::runtime::Digest as CodeDigest;
use crate::store::{ChangeClock, Slot};

/// The largest body that is cached, in bytes.
const MAX_BODY: usize = 8 * 1024 * 1024;

/// The largest body that is stored in the table of small ones, and in one chunk; in bytes.
const SMALL_BODY: usize = 256 * 1024;

/// What an entry costs beside its body and the text of its headers, in bytes: tables, mostly.
const OVERHEAD: usize = 2048;

/// What a chunk of a body costs beside its bytes.
const CHUNK_OVERHEAD: usize = 128;

/// Bytes that all entries with small bodies together may take, and all with large ones.
const SMALL_MEMORY: usize = 32 * 1024 * 1024;
const LARGE_MEMORY: usize = 32 * 1024 * 1024;

/// Segments of the table of small entries. The large one has one: it is looked up only on a miss in
/// the small one.
const SEGMENTS: usize = 16;

/// Which of a component's responses are cached: `memoize` and `headers` in its `tool.hexad`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachePolicy {
    /// How long an entry may be used, although nothing has changed.
    pub max_age: Duration,
    /// The request headers that the component looks at.
    pub headers: Vec<HeaderName>,
}

impl CachePolicy {
    /// Whether the response to this request may be cached. A request with a body is never cached.
    pub fn applies_to(&self, parts: &Parts) -> bool {
        (parts.method == Method::GET || parts.method == Method::HEAD)
            && !parts.headers.contains_key(TRANSFER_ENCODING)
            && parts.headers.get(CONTENT_LENGTH).is_none_or(|length| length == "0")
    }

    /// Removes the headers that the component does not look at, and the port of the client's address.
    pub fn strip_headers(&self, headers: &mut HeaderMap) {
        let mut kept = HeaderMap::new();
        for name in &self.headers {
            for value in headers.get_all(name) {
                let value = match *name == CLIENT_ADDRESS {
                    true => HeaderValue::from_bytes(&[without_port(value), b":0"].concat())
                        .unwrap_or_else(|_| value.clone()),
                    false => value.clone(),
                };
                kept.append(name, value);
            }
        }
        *headers = kept;
    }
}

/// The client's address without the port, which differs for each connection.
fn without_port(address: &HeaderValue) -> &[u8] {
    let address = address.as_bytes();
    let port = address.iter().rposition(|byte| *byte == b':');
    port.and_then(|colon| address.get(..colon)).unwrap_or(address)
}

/// A hash of everything in a request that a response can depend on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct CacheKey([u8; 32]);

/// What the cache has for a request.
pub enum Lookup {
    Hit(Response<ResponseBody>),
    Miss(Miss),
}

/// A request whose response may be cached and is not.
pub struct Miss {
    key: CacheKey,
    /// The number of the last commit before the guest reads anything.
    commit: u64,
    expires_at: Instant,
    pub read_set: Arc<ReadSet>,
}

/// A cached response and what it read.
struct Entry {
    commit: u64,
    reads: Box<[Slot]>,
    read_set: Arc<ReadSet>,
    expires_at: Instant,
    status: StatusCode,
    headers: HeaderMap,
    body: CachedBody,
}

enum CachedBody {
    Whole(Bytes),
    /// Chunks, and the sum of their lengths.
    Chunks(Arc<[Bytes]>, u64),
    /// No body, whatever length the head declares.
    Empty(SizeHint),
}

/// The cached responses of one host.
pub struct ResponseCache {
    /// Seeds the keys, so that a client can neither guess nor choose them.
    secret: [u8; 32],
    small: Lru,
    large: Lru,
    pending: PendingBodies,
    counters: CacheCounters,
}

/// Counts since the host started.
#[derive(Debug, Default)]
pub struct CacheCounters {
    /// Requests that were answered from the cache.
    pub hits: AtomicU64,
    /// Requests whose response may be cached and was not.
    pub misses: AtomicU64,
    /// Responses that were stored.
    pub stored: AtomicU64,
}

impl CacheCounters {
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    pub fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }
}

impl ResponseCache {
    pub fn new() -> Result<Self, getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        Ok(Self {
            secret,
            small: Lru::new(SEGMENTS, SMALL_MEMORY),
            large: Lru::new(1, LARGE_MEMORY),
            pending: PendingBodies::default(),
            counters: CacheCounters::default(),
        })
    }

    pub fn counters(&self) -> &CacheCounters {
        &self.counters
    }

    /// How many entries there are, and the bytes that they take.
    pub fn size(&self) -> (usize, usize) {
        let ((small, small_bytes), (large, large_bytes)) = (self.small.size(), self.large.size());
        (small + large, small_bytes + large_bytes)
    }

    /// Looks for a fresh response of `guest`, a component's id and its code.
    pub fn look_up(
        &self,
        guest: (&str, &CodeDigest),
        policy: &CachePolicy,
        parts: &Parts,
        clock: &ChangeClock,
        now: Instant,
    ) -> Lookup {
        let key = self.key(guest, policy, parts);
        // Before the look-up, and so before the guest reads anything for a new response.
        let commit = clock.now();
        let is_fresh = |entry: &Arc<Entry>| entry.is_fresh(clock, now);
        let found = self.small.get(&key).filter(is_fresh).or_else(|| self.large.get(&key).filter(is_fresh));
        let counter = if found.is_some() { &self.counters.hits } else { &self.counters.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        match found {
            Some(entry) => Lookup::Hit(entry.to_response()),
            None => Lookup::Miss(Miss { key, commit, expires_at: now + policy.max_age, read_set: Arc::default() }),
        }
    }

    fn key(&self, (id, code): (&str, &CodeDigest), policy: &CachePolicy, parts: &Parts) -> CacheKey {
        let mut hash = Sha256::new_with_prefix(self.secret);
        // Each part with its length, so that two different requests never hash the same bytes.
        let mut add = |part: &[u8]| {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        };
        add(id.as_bytes());
        add(code.as_bytes());
        add(parts.method.as_str().as_bytes());
        add(parts.uri.scheme_str().unwrap_or_default().as_bytes());
        add(parts.uri.authority().map_or("", |authority| authority.as_str()).as_bytes());
        add(parts.uri.path_and_query().map_or("", |path| path.as_str()).as_bytes());
        for (position, name) in policy.headers.iter().enumerate() {
            for value in parts.headers.get_all(name) {
                add(&position.to_le_bytes());
                add(if *name == CLIENT_ADDRESS { without_port(value) } else { value.as_bytes() });
            }
        }
        CacheKey(hash.finalize().into())
    }

    /// Begins to record the response to a request. `None` if it may not be stored. A response without
    /// a body, whose `declared` length is given, is stored at once and needs no recorder.
    pub fn record(
        self: &Arc<Self>,
        miss: Miss,
        status: StatusCode,
        headers: &HeaderMap,
        declared: Option<SizeHint>,
    ) -> Option<Recorder> {
        if !miss.read_set.is_cacheable() || !is_storable(status, headers) {
            return None;
        }
        let (cache, headers) = (self.clone(), headers.clone());
        let recorder = Recorder { cache, miss, status, headers, chunks: Vec::new(), pending: None, length: 0 };
        match declared {
            None => Some(recorder),
            Some(declared) => {
                recorder.store(CachedBody::Empty(declared));
                None
            }
        }
    }
}

impl Entry {
    fn bytes(&self) -> usize {
        let body = match &self.body {
            CachedBody::Whole(bytes) => bytes.len(),
            CachedBody::Chunks(chunks, _) => chunks.iter().map(|chunk| chunk.len() + CHUNK_OVERHEAD).sum(),
            CachedBody::Empty(_) => 0,
        };
        let headers: usize = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        OVERHEAD + body + 2 * headers + size_of_val(&*self.reads)
    }

    fn is_fresh(&self, clock: &ChangeClock, now: Instant) -> bool {
        now < self.expires_at && self.read_set.is_cacheable() && clock.are_unchanged_since(self.commit, &self.reads)
    }

    fn to_response(&self) -> Response<ResponseBody> {
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

/// Whether a response with this head may be given to another, equal request.
fn is_storable(status: StatusCode, headers: &HeaderMap) -> bool {
    let has_word = |name: &HeaderName, word: &str| {
        let text = |value: &HeaderValue| value.to_str().map_or(true, |text| text.to_ascii_lowercase().contains(word));
        headers.get_all(name).iter().any(text)
    };
    status.as_u16() < 500
        && status != StatusCode::TOO_MANY_REQUESTS
        && !status.is_informational()
        && !headers.contains_key(SET_COOKIE)
        && !has_word(&CACHE_CONTROL, "no-store")
        && !has_word(&VARY, "*")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(body: usize) -> Arc<Entry> {
        Arc::new(Entry {
            commit: 0,
            reads: Box::default(),
            read_set: Arc::default(),
            expires_at: Instant::now(),
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: CachedBody::Whole(Bytes::from(vec![0; body])),
        })
    }

    #[test]
    fn the_least_recently_used_entry_is_evicted_first() {
        let table = Lru::new(1, 10 * (OVERHEAD + 1000));
        let key = |number: u8| CacheKey([number; 32]);
        (0..10).for_each(|number| table.insert(key(number), entry(1000)));
        table.insert(key(0), entry(1000));
        assert!((0..10).all(|number| table.get(&key(number)).is_some()), "replacing takes no more room");
        table.get(&key(0));
        table.insert(key(10), entry(1000));
        assert!(table.get(&key(0)).is_some() && table.get(&key(10)).is_some());
        assert!(table.get(&key(1)).is_none());
    }
}
