//! Passes a response of the engine on to the client. The beginning is buffered until it is clear that the response is
//! no error. The rest is streamed, and scanned only if members must be added at the end.

use crate::response::{ResponseError, Scanner};
use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use kit::Body;
use kit::body::BodyError;

/// How many bytes are buffered. The engine puts `error` at the beginning, and its errors are shorter than this. A
/// response that fits is parsed as a whole.
const HEAD: usize = 64 << 10;

/// How many bytes are scanned between two checks for a full buffer.
const SCAN_STEP: usize = 16 << 10;

/// A response, as far as it has been received.
pub enum Received {
    Whole {
        body: Vec<u8>,
        scan: Scanner,
        /// The offset of the bracket that closes the response, if it is there.
        end: Option<usize>,
    },
    /// The beginning of a long response, which has no `error`.
    Head(PassThrough),
}

/// A long response whose beginning is buffered.
pub struct PassThrough {
    head: Bytes,
    scan: Scanner,
    /// The offset in `head` of the bracket that closes the response, if it is there.
    end: Option<usize>,
    /// The unscanned part of the last chunk.
    next: Bytes,
    rest: Body,
    limit: u64,
}

/// The members that are added at the end of a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Additions {
    /// Add `"results": null` if the response has no `results`.
    pub results: bool,
    pub token: Option<String>,
}

impl Additions {
    /// Whether nothing is added to a response, judged by its scanned beginning.
    fn are_none(&self, scan: &Scanner) -> bool {
        self.token.is_none() && (!self.results || scan.has_results)
    }

    /// The text of the members, to be inserted before the closing bracket.
    pub fn members(&self, scan: &Scanner) -> String {
        let mut members = Vec::new();
        if self.results && !scan.has_results {
            members.push(r#""results":null"#.to_owned());
        }
        // A token has no character that JSON escapes.
        members.extend(self.token.as_ref().map(|token| format!(r#""token":"{token}""#)));
        let text = members.join(",");
        if scan.has_members && !text.is_empty() { format!(",{text}") } else { text }
    }

    /// Inserts the members into the chunk that has the closing bracket, at `end`.
    fn insert_into(&self, scan: &Scanner, chunk: Bytes, end: Option<usize>) -> Vec<Bytes> {
        match end {
            Some(end) if !self.are_none(scan) => {
                vec![chunk.slice(..end), self.members(scan).into(), chunk.slice(end..)]
            }
            _ => vec![chunk],
        }
    }
}

/// Reads a response of at most `limit` bytes until it is clear that it is no error; or, if `whole` is set, to its end.
pub async fn read_head(mut body: Body, limit: u64, whole: bool) -> Result<Received, ResponseError> {
    let (mut head, mut scan, mut end) = (Vec::new(), Scanner::default(), None);
    while let Some(chunk) = body.next().await {
        let mut next = chunk.map_err(|_| ResponseError::BrokenOff)?;
        if (head.len() + next.len()) as u64 > limit {
            return Err(ResponseError::TooLarge(limit));
        }
        while !next.is_empty() {
            // A chunk can be larger than the buffer.
            let chunk = next.split_to(next.len().min(SCAN_STEP));
            end = end.or(scan.push(&chunk)?.map(|at| head.len() + at));
            head.extend_from_slice(&chunk);
            if head.len() > HEAD && !scan.has_error && !whole {
                return Ok(Received::Head(PassThrough { head: head.into(), scan, end, next, rest: body, limit }));
            }
        }
    }
    Ok(Received::Whole { body: head, scan, end })
}

impl PassThrough {
    /// Whether the response is passed on with its length unchanged.
    pub fn is_unchanged(&self, additions: &Additions) -> bool {
        additions.are_none(&self.scan)
    }

    /// The body of a response of known length, without additions. The transport detects whether it is complete.
    pub fn into_unscanned_body(self) -> Body {
        let PassThrough { head, next, rest, .. } = self;
        rest.after([head, next].concat().into())
    }

    /// The body with `additions`. It breaks off where the engine's body breaks off or becomes invalid, because the head
    /// has been sent by then.
    pub fn into_body(self, additions: Additions) -> Body {
        let PassThrough { head, scan, end, next, rest, limit } = self;
        let (length, last) = (head.len() as u64, last_byte(&head));
        let first = additions.insert_into(&scan, head, end);
        let tail = stream::try_unfold(Tail { scan, additions, next, rest, length, limit, last }, Tail::next)
            .map_ok(|parts| stream::iter(parts.into_iter().map(Ok)))
            .try_flatten();
        Body::Stream(stream::iter(first.into_iter().map(Ok)).chain(tail).boxed_local())
    }
}

/// The rest of a response, after the buffered head.
struct Tail {
    scan: Scanner,
    additions: Additions,
    /// The chunk before `rest`; empty after it was passed on.
    next: Bytes,
    rest: Body,
    /// Bytes received so far.
    length: u64,
    limit: u64,
    /// The last byte received that is not white space.
    last: Option<u8>,
}

impl Tail {
    async fn next(mut self) -> Result<Option<(Vec<Bytes>, Self)>, BodyError> {
        let broken_off = |why: String| Err(BodyError::Upstream(why));
        // Without additions the body is not scanned: the transport detects whether it is complete.
        let is_unscanned = self.additions.are_none(&self.scan);
        let next = std::mem::take(&mut self.next);
        let next = if next.is_empty() { self.rest.next().await.transpose()? } else { Some(next) };
        let Some(chunk) = next else {
            let is_complete = if is_unscanned { self.last == Some(b'}') } else { self.scan.is_closed() };
            return if is_complete { Ok(None) } else { broken_off(ResponseError::BrokenOff.to_string()) };
        };
        self.length += chunk.len() as u64;
        self.last = last_byte(&chunk).or(self.last);
        if self.length > self.limit {
            return broken_off(ResponseError::TooLarge(self.limit).to_string());
        }
        if is_unscanned {
            return Ok(Some((vec![chunk], self)));
        }
        match self.scan.push(&chunk) {
            Err(error) => broken_off(error.to_string()),
            Ok(_) if self.scan.has_error => broken_off("an error in the middle of a result".into()),
            Ok(end) => Ok(Some((self.additions.insert_into(&self.scan, chunk, end), self))),
        }
    }
}

fn last_byte(chunk: &[u8]) -> Option<u8> {
    chunk.trim_ascii_end().last().copied()
}
