//! How an answer passes: its beginning is held back until it is known what it means, and what
//! follows is passed on chunk by chunk as it comes.

use crate::answer::Fault;
use crate::outline::Outline;
use bytes::Bytes;
use futures::stream;
use futures::stream::StreamExt;
use kit::Body;
use kit::body::Broken;
use std::collections::VecDeque;

/// How much is held back, in bytes. The engine puts `error` at the beginning, and its errors are
/// shorter than this; an answer that is not longer is looked at as a whole.
const HELD: usize = 64 << 10;

/// An answer, as far as it has come.
pub enum Arrived {
    Whole(Vec<u8>),
    /// A long one, whose beginning has no `error`.
    Beginning(Passage),
}

/// A long answer on its way.
pub struct Passage {
    held: VecDeque<Bytes>,
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
}

/// Takes an answer of at most `limit` bytes until it is known what it means; to its end if
/// `to_the_end`.
pub async fn arrive(mut body: Body, limit: u64, to_the_end: bool) -> Result<Arrived, Fault> {
    let (mut held, mut length, mut outline) = (VecDeque::<Bytes>::new(), 0, Outline::default());
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|_| Fault::BrokenOff)?;
        length += chunk.len();
        if length as u64 > limit {
            return Err(Fault::TooLarge(limit));
        }
        outline.push(&chunk)?;
        held.push_back(chunk);
        if length > HELD && !outline.has_error && !to_the_end {
            return Ok(Arrived::Beginning(Passage { held, rest: body, limit }));
        }
    }
    Ok(Arrived::Whole(held.iter().fold(Vec::with_capacity(length), |mut whole, chunk| {
        whole.extend_from_slice(chunk);
        whole
    })))
}

impl Passage {
    /// The answer, with `additions`. It ends as broken off where the engine's does, and where it
    /// turns out to be none, too late to say so otherwise.
    pub fn into_body(self, additions: Additions) -> Body {
        let state = Some((self, Outline::default(), 0, additions));
        let parts = stream::unfold(state, async |state| {
            let (mut passage, mut outline, mut length, additions) = state?;
            let chunk = match passage.held.pop_front() {
                Some(chunk) => Some(Ok(chunk)),
                None => passage.rest.next().await,
            };
            let broken = |why: String| Some((vec![Err(Broken::Upstream(why))], None));
            let chunk = match chunk {
                Some(Ok(chunk)) => chunk,
                Some(Err(why)) => return Some((vec![Err(why)], None)),
                None if outline.is_closed() => return None,
                None => return broken(Fault::BrokenOff.to_string()),
            };
            length += chunk.len() as u64;
            if length > passage.limit {
                return broken(Fault::TooLarge(passage.limit).to_string());
            }
            let parts = match outline.push(&chunk) {
                Err(fault) => return broken(fault.to_string()),
                Ok(_) if outline.has_error => return broken("an error in the middle of a result".into()),
                Ok(None) => vec![Ok(chunk)],
                Ok(Some(end)) => {
                    let members = Bytes::from(additions.members(&outline));
                    vec![Ok(chunk.slice(..end)), Ok(members), Ok(chunk.slice(end..))]
                }
            };
            Some((parts, Some((passage, outline, length, additions))))
        });
        Body::Stream(parts.flat_map(stream::iter).boxed_local())
    }
}
