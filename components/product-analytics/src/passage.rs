//! How an answer passes: its beginning is held back until it is known what it means. What follows
//! is passed on as it comes, and read over only where something is to be added to it.

use crate::answer::ResponseError;
use crate::outline::Outline;
use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use kit::Body;
use kit::body::BodyError;

/// How much is held back, in bytes. The engine puts `error` at the beginning, and its errors are
/// shorter than this; an answer that is not longer is looked at as a whole.
const HELD: usize = 64 << 10;

/// How much is looked at before it is decided again whether to go on, in bytes.
const LOOKED: usize = 16 << 10;

/// An answer, as far as it has come.
pub enum Arrived {
    Whole(Vec<u8>),
    /// A long one, whose beginning has no `error`.
    Beginning(Passage),
}

/// A long answer on its way.
pub struct Passage {
    held: Bytes,
    outline: Outline,
    /// Where in `held` the answer's object ends, if it does.
    end: Option<usize>,
    /// What came with the last of it, and was not looked at.
    next: Bytes,
    rest: Body,
    limit: u64,
}

/// What is added to an answer at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Additions {
    /// `"results": null` where there are none.
    pub results: bool,
    pub token: Option<String>,
}

impl Additions {
    /// Whether nothing will be added to an answer of which this is known.
    fn are_none(&self, outline: &Outline) -> bool {
        self.token.is_none() && (!self.results || outline.has_results)
    }

    /// The members as they stand before the bracket that closes the answer.
    pub fn members(&self, outline: &Outline) -> String {
        let mut members = Vec::new();
        if self.results && !outline.has_results {
            members.push(r#""results":null"#.to_owned());
        }
        // A token has no character that JSON would escape.
        members.extend(self.token.as_ref().map(|token| format!(r#""token":"{token}""#)));
        let text = members.join(",");
        if outline.has_members && !text.is_empty() { format!(",{text}") } else { text }
    }

    /// A chunk, with the members at the end of the answer if that is in it.
    fn put_into(&self, outline: &Outline, chunk: Bytes, end: Option<usize>) -> Vec<Bytes> {
        match end {
            Some(end) if !self.are_none(outline) => {
                vec![chunk.slice(..end), self.members(outline).into(), chunk.slice(end..)]
            }
            _ => vec![chunk],
        }
    }
}

/// Takes an answer of at most `limit` bytes until it is known what it means; to its end if
/// `to_the_end`.
pub async fn arrive(mut body: Body, limit: u64, to_the_end: bool) -> Result<Arrived, ResponseError> {
    let (mut held, mut outline, mut end) = (Vec::new(), Outline::default(), None);
    while let Some(chunk) = body.next().await {
        let mut next = chunk.map_err(|_| ResponseError::BrokenOff)?;
        if (held.len() + next.len()) as u64 > limit {
            return Err(ResponseError::TooLarge(limit));
        }
        while !next.is_empty() {
            // Only so much is looked at; what comes at once can be more.
            let chunk = next.split_to(next.len().min(LOOKED));
            end = end.or(outline.push(&chunk)?.map(|at| held.len() + at));
            held.extend_from_slice(&chunk);
            if held.len() > HELD && !outline.has_error && !to_the_end {
                return Ok(Arrived::Beginning(Passage { held: held.into(), outline, end, next, rest: body, limit }));
            }
        }
    }
    Ok(Arrived::Whole(held))
}

impl Passage {
    /// Whether the answer will be as long as the engine's.
    pub fn is_unchanged(&self, additions: &Additions) -> bool {
        additions.are_none(&self.outline)
    }

    /// The answer, with `additions`. It ends as broken off where the engine's does, and where it
    /// turns out to be none, too late to say so otherwise.
    pub fn into_body(self, additions: Additions) -> Body {
        let Passage { held, outline, end, next, rest, limit } = self;
        let (length, last) = (held.len() as u64, last_of(&held));
        let first = additions.put_into(&outline, held, end);
        let onward = stream::try_unfold(Onward { outline, additions, next, rest, length, limit, last }, Onward::next)
            .map_ok(|parts| stream::iter(parts.into_iter().map(Ok)))
            .try_flatten();
        Body::Stream(stream::iter(first.into_iter().map(Ok)).chain(onward).boxed_local())
    }
}

/// What is still to come of an answer.
struct Onward {
    outline: Outline,
    additions: Additions,
    /// What comes before `rest`; empty after that.
    next: Bytes,
    rest: Body,
    /// Bytes that came.
    length: u64,
    limit: u64,
    /// The last byte that came and is not white space.
    last: Option<u8>,
}

impl Onward {
    async fn next(mut self) -> Result<Option<(Vec<Bytes>, Self)>, BodyError> {
        let broken = |why: String| Err(BodyError::Upstream(why));
        // Where nothing is added, nothing is looked for: the engine's words are passed on as they
        // are, and its transport says whether they are complete.
        let passes_unread = self.additions.are_none(&self.outline);
        let next = std::mem::take(&mut self.next);
        let next = if next.is_empty() { self.rest.next().await.transpose()? } else { Some(next) };
        let Some(chunk) = next else {
            let is_complete = if passes_unread { self.last == Some(b'}') } else { self.outline.is_closed() };
            return if is_complete { Ok(None) } else { broken(ResponseError::BrokenOff.to_string()) };
        };
        self.length += chunk.len() as u64;
        self.last = last_of(&chunk).or(self.last);
        if self.length > self.limit {
            return broken(ResponseError::TooLarge(self.limit).to_string());
        }
        if passes_unread {
            return Ok(Some((vec![chunk], self)));
        }
        match self.outline.push(&chunk) {
            Err(fault) => broken(fault.to_string()),
            Ok(_) if self.outline.has_error => broken("an error in the middle of a result".into()),
            Ok(end) => Ok(Some((self.additions.put_into(&self.outline, chunk, end), self))),
        }
    }
}

fn last_of(chunk: &[u8]) -> Option<u8> {
    chunk.trim_ascii_end().last().copied()
}
