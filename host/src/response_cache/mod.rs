//! Remembered answers: what a component said to a request that only read, said again to the same
//! request as long as nothing that it rests on has changed.
//!
//! Right, because:
//!
//! - **The same request.** The key is a keyed hash of the component's code, the method, the
//!   whole address, and the headers that the manifest says the component looks at. The host takes
//!   all other headers away before the guest sees the request, so an answer cannot depend on them.
//!   Who is asking is in these headers or in the address: another caller is another key.
//! - **The same state.** The guest did nothing but read keys of committed values, and none of them
//!   has been changed since (`store/changes.rs`). If it did more, wrote, listed, printed or drew
//!   randomness, even after its answer, that answer is not given again.
//! - **The same time, nearly.** A guest can read the clock, so an answer is said again only for the
//!   time that the manifest allows.
//!
//! A hit costs a hash of the request's head, a look-up, and a copy of the answer's headers; the
//! body is shared. Memory is bounded; what was not asked for lately is forgotten first. Large bodies
//! have memory of their own, so that one of them does not push out thousands of small ones.

mod lru;
mod pending_body;
mod read_set;
mod recorder;

pub use self::read_set::Testimony;
pub use self::recorder::Recording;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, SET_COOKIE, TRANSFER_ENCODING, VARY};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body::SizeHint;
use sha2::{Digest, Sha256};

use self::lru::Shelf;
use self::pending_body::Drafts;
use crate::body::{ResponseBody, full, nothing, shared};
use crate::ingress::CLIENT_ADDRESS;
use crate::runtime::Digest as CodeDigest;
use crate::store::{Changes, Place};

/// The largest body that is remembered, in bytes.
const MAX_BODY: usize = 8 * 1024 * 1024;

/// The largest body that is kept among the small ones, and in one piece.
const SMALL_BODY: usize = 256 * 1024;

/// What an answer costs beside its body and the text of its headers, in bytes: tables, mostly.
const OVERHEAD: usize = 2048;

/// What a piece of a body costs beside its bytes.
const CHUNK_OVERHEAD: usize = 128;

/// Bytes that all answers with small bodies together may take, and all with large ones.
const SMALL_MEMORY: usize = 32 * 1024 * 1024;
const LARGE_MEMORY: usize = 32 * 1024 * 1024;

/// Parts of the table of small answers. That of large ones is looked at for what is not there.
const PARTS: usize = 16;

/// Which of a component's answers are remembered: `memoize` and `headers` in its `tool.hexad`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memoize {
    /// For how long, although nothing has changed.
    pub time: Duration,
    /// The request headers that the component looks at.
    pub headers: Vec<HeaderName>,
}

impl Memoize {
    /// Whether the answer to this request may be remembered. One with a body may not.
    pub fn covers(&self, parts: &Parts) -> bool {
        (parts.method == Method::GET || parts.method == Method::HEAD)
            && !parts.headers.contains_key(TRANSFER_ENCODING)
            && parts.headers.get(CONTENT_LENGTH).is_none_or(|length| length == "0")
    }

    /// Takes away the headers that the component does not look at. Of the client's address the port
    /// is taken away.
    pub fn narrow(&self, headers: &mut HeaderMap) {
        let mut narrowed = HeaderMap::new();
        for name in &self.headers {
            for value in headers.get_all(name) {
                let value = match *name == CLIENT_ADDRESS {
                    true => HeaderValue::from_bytes(&[client(value), b":0"].concat()).unwrap_or_else(|_| value.clone()),
                    false => value.clone(),
                };
                narrowed.append(name, value);
            }
        }
        *headers = narrowed;
    }
}

/// The client's address without the port, which is another one for each connection.
fn client(address: &HeaderValue) -> &[u8] {
    let address = address.as_bytes();
    let port = address.iter().rposition(|byte| *byte == b':');
    port.and_then(|colon| address.get(..colon)).unwrap_or(address)
}

/// A request, as far as an answer can depend on it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key([u8; 32]);

/// A request whose answer may be remembered.
pub struct Question {
    key: Key,
    /// The number of the last commit before the guest reads anything.
    commit: u64,
    until: Instant,
    pub testimony: Arc<Testimony>,
}

/// An answer and what it rests on.
struct Answer {
    commit: u64,
    reads: Box<[Place]>,
    testimony: Arc<Testimony>,
    until: Instant,
    status: StatusCode,
    headers: HeaderMap,
    body: Content,
}

/// What follows the head.
enum Content {
    Whole(Bytes),
    /// Pieces, and their length together.
    Pieces(Arc<[Bytes]>, u64),
    /// Nothing, whatever length the head declares.
    Nothing(SizeHint),
}

/// The answers of one host.
pub struct Memo {
    /// Keeps what was hashed from being guessed, and the hashes from being chosen.
    secret: [u8; 32],
    small: Shelf,
    large: Shelf,
    drafts: Drafts,
    counters: Counters,
}

/// What the memo did since the host started.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests that a remembered answer was given to.
    pub hits: AtomicU64,
    /// Requests that may have one, and got a new one.
    pub misses: AtomicU64,
    /// New answers that were remembered.
    pub remembered: AtomicU64,
}

impl Counters {
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    pub fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }
}

impl Memo {
    pub fn new() -> Result<Self, getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        Ok(Self {
            secret,
            small: Shelf::new(PARTS, SMALL_MEMORY),
            large: Shelf::new(1, LARGE_MEMORY),
            drafts: Drafts::default(),
            counters: Counters::default(),
        })
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many answers are remembered, and the bytes that they take.
    pub fn size(&self) -> (usize, usize) {
        let ((small, small_bytes), (large, large_bytes)) = (self.small.size(), self.large.size());
        (small + large, small_bytes + large_bytes)
    }

    /// The answer that still holds, or what to ask the guest: a component's id and its code.
    pub fn ask(
        &self,
        guest: (&str, &CodeDigest),
        memoize: &Memoize,
        parts: &Parts,
        changes: &Changes,
        now: Instant,
    ) -> Result<Response<ResponseBody>, Question> {
        let key = self.key(guest, memoize, parts);
        // Before the answer is looked for, and so before anything is read for a new one.
        let commit = changes.now();
        let holds = |answer: &Arc<Answer>| answer.holds(changes, now);
        let found = self.small.get(&key).filter(holds).or_else(|| self.large.get(&key).filter(holds));
        let counter = if found.is_some() { &self.counters.hits } else { &self.counters.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        match found {
            Some(answer) => Ok(answer.say()),
            None => Err(Question { key, commit, until: now + memoize.time, testimony: Arc::default() }),
        }
    }

    fn key(&self, (id, code): (&str, &CodeDigest), memoize: &Memoize, parts: &Parts) -> Key {
        let mut hash = Sha256::new_with_prefix(self.secret);
        // Each part with its length, so that two different requests never spell the same text.
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
        for (position, name) in memoize.headers.iter().enumerate() {
            for value in parts.headers.get_all(name) {
                add(&position.to_le_bytes());
                add(if *name == CLIENT_ADDRESS { client(value) } else { value.as_bytes() });
            }
        }
        Key(hash.finalize().into())
    }

    /// Begins to record the answer to a question; `None` if it is not for anybody else, or if it
    /// was recorded already, because it has no body.
    pub fn record(
        self: &Arc<Self>,
        question: Question,
        status: StatusCode,
        headers: &HeaderMap,
        declared: Option<SizeHint>,
    ) -> Option<Recording> {
        if question.testimony.is_spoilt() || !is_for_all(status, headers) {
            return None;
        }
        let (memo, headers) = (self.clone(), headers.clone());
        let recording = Recording { memo, question, status, headers, chunks: Vec::new(), draft: None, length: 0 };
        match declared {
            None => Some(recording),
            Some(declared) => {
                recording.remember(Content::Nothing(declared));
                None
            }
        }
    }
}

impl Answer {
    fn bytes(&self) -> usize {
        let body = match &self.body {
            Content::Whole(bytes) => bytes.len(),
            Content::Pieces(pieces, _) => pieces.iter().map(|piece| piece.len() + CHUNK_OVERHEAD).sum(),
            Content::Nothing(_) => 0,
        };
        let headers: usize = self.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        OVERHEAD + body + 2 * headers + size_of_val(&*self.reads)
    }

    fn holds(&self, changes: &Changes, now: Instant) -> bool {
        now < self.until && !self.testimony.is_spoilt() && changes.unchanged_since(self.commit, &self.reads)
    }

    fn say(&self) -> Response<ResponseBody> {
        let mut response = Response::new(match &self.body {
            Content::Whole(bytes) => full(bytes.clone()),
            Content::Pieces(pieces, length) => shared(pieces.clone(), *length),
            Content::Nothing(declared) => nothing(*declared),
        });
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        response
    }
}

/// Whether an answer of this head may be given to another request for the same.
fn is_for_all(status: StatusCode, headers: &HeaderMap) -> bool {
    let says = |name: &HeaderName, word: &str| {
        let text = |value: &HeaderValue| value.to_str().map_or(true, |text| text.to_ascii_lowercase().contains(word));
        headers.get_all(name).iter().any(text)
    };
    status.as_u16() < 500
        && status != StatusCode::TOO_MANY_REQUESTS
        && !status.is_informational()
        && !headers.contains_key(SET_COOKIE)
        && !says(&CACHE_CONTROL, "no-store")
        && !says(&VARY, "*")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: usize) -> Arc<Answer> {
        Arc::new(Answer {
            commit: 0,
            reads: Box::default(),
            testimony: Arc::default(),
            until: Instant::now(),
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: Content::Whole(Bytes::from(vec![0; body])),
        })
    }

    #[test]
    fn a_shelf_forgets_what_was_not_asked_for_lately() {
        let shelf = Shelf::new(1, 10 * (OVERHEAD + 1000));
        let key = |number: u8| Key([number; 32]);
        (0..10).for_each(|number| shelf.put(key(number), answer(1000)));
        shelf.put(key(0), answer(1000));
        assert!((0..10).all(|number| shelf.get(&key(number)).is_some()), "replacing takes no more room");
        shelf.get(&key(0));
        shelf.put(key(10), answer(1000));
        assert!(shelf.get(&key(0)).is_some() && shelf.get(&key(10)).is_some());
        assert!(shelf.get(&key(1)).is_none());
    }
}
