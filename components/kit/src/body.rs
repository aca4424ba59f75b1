//! Request and response bodies: bytes in memory, or a stream of chunks.

use bytes::Bytes;
use futures::stream::{self, LocalBoxStream, StreamExt};
use std::any::Any;
use thiserror::Error;

/// A chunk of a streamed body, or the error that ended the stream.
pub type Chunk = Result<Bytes, BodyError>;

/// The reason why a body ended before it was complete.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BodyError {
    /// The peer closed the connection, or its framing was wrong.
    #[error("body broken off: {0}")]
    Peer(String),
    /// Storage failed while the body was produced. The head is already sent, so the connection is cut.
    #[error("body cannot be produced: {0}")]
    Storage(String),
    /// The upstream server whose response is passed on closed the connection early, or timed out.
    #[error("body from another server broken off: {0}")]
    Upstream(String),
    /// The body exceeds the reader's limit, in bytes.
    #[error("body larger than {0} bytes")]
    TooLarge(u64),
}

/// The body of a request or of a response.
#[derive(Default)]
pub enum Body {
    #[default]
    Empty,
    Full(Bytes),
    Stream(LocalBoxStream<'static, Chunk>),
    /// Bytes that were read, and the rest of the body, which the host holds.
    Held(Bytes, Box<dyn HeldBody>),
}

/// A body that the host holds. A component can return it unread; then the host sends it without the component.
pub trait HeldBody: Any {
    /// Begins to read the body.
    fn chunks(self: Box<Self>) -> LocalBoxStream<'static, Chunk>;
}

impl Body {
    /// A body whose chunks are produced one at a time, when the peer takes them.
    pub fn pull(chunks: impl Iterator<Item = Chunk> + 'static) -> Self {
        Body::Stream(stream::iter(chunks).boxed_local())
    }

    /// Whether the whole body is in memory.
    pub fn is_there(&self) -> bool {
        matches!(self, Body::Empty | Body::Full(_))
    }

    /// The next chunk, which is never empty; `None` at the end.
    pub async fn next(&mut self) -> Option<Chunk> {
        loop {
            let chunk = match self {
                Body::Empty => return None,
                Body::Full(bytes) => {
                    let bytes = std::mem::take(bytes);
                    *self = Body::Empty;
                    Ok(bytes)
                }
                Body::Stream(chunks) => chunks.next().await?,
                Body::Held(bytes, _) if !bytes.is_empty() => Ok(std::mem::take(bytes)),
                Body::Held(..) => {
                    if let Body::Held(_, held) = std::mem::take(self) {
                        *self = Body::Stream(held.chunks());
                    }
                    continue;
                }
            };
            match chunk {
                Ok(bytes) if bytes.is_empty() => continue,
                other => return Some(other),
            }
        }
    }

    /// This body with `bytes`, which were already read, put back before it.
    pub fn after(self, bytes: Bytes) -> Self {
        if let Body::Held(unread, held) = self {
            let bytes = if unread.is_empty() { bytes } else { [bytes, unread].concat().into() };
            return Body::Held(bytes, held);
        }
        let rest = stream::unfold(self, |mut body| async move { Some((body.next().await?, body)) });
        Body::Stream(stream::iter([Ok(bytes)]).chain(rest).boxed_local())
    }

    /// The whole body. [`BodyError::TooLarge`] if it has more than `limit` bytes.
    pub async fn collect(mut self, limit: u64) -> Result<Vec<u8>, BodyError> {
        let mut whole = Vec::new();
        while let Some(chunk) = self.next().await {
            let chunk = chunk?;
            if whole.len() as u64 + chunk.len() as u64 > limit {
                return Err(BodyError::TooLarge(limit));
            }
            match whole.is_empty() {
                // No copy is made if this is the only reference.
                true => whole = chunk.into(),
                false => whole.extend_from_slice(&chunk),
            }
        }
        Ok(whole)
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Body::Full(bytes.into())
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Body::Full(text.into())
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Body::Full(Bytes::from_static(text.as_bytes()))
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Body::Full(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::executor::block_on;

    fn stream(chunks: &[&'static str]) -> Body {
        let chunks: Vec<Chunk> = chunks.iter().map(|c| Ok(Bytes::from_static(c.as_bytes()))).collect();
        Body::pull(chunks.into_iter())
    }

    #[test]
    fn collects_chunks_and_skips_empty_ones() {
        assert_eq!(block_on(stream(&["ab", "", "c"]).collect(3)), Ok(b"abc".to_vec()));
    }

    #[test]
    fn a_chunk_that_was_read_can_be_put_back() {
        let mut body = stream(&["ab", "c", "d"]);
        let read = block_on(body.next()).unwrap().unwrap();
        assert_eq!(block_on(body.after(read).collect(4)), Ok(b"abcd".to_vec()));
    }

    #[test]
    fn refuses_the_first_byte_above_the_limit() {
        assert_eq!(block_on(stream(&["ab", "c"]).collect(2)), Err(BodyError::TooLarge(2)));
    }

    #[test]
    fn a_full_body_is_given_once() {
        let mut body = Body::from("x");
        assert_eq!(block_on(body.next()), Some(Ok(Bytes::from_static(b"x"))));
        assert_eq!(block_on(body.next()), None);
    }
}
