//! Bodies in the format of `git cat-file --batch`: lines, and contents of a known size.

use bytes::{Buf, Bytes, BytesMut};
use kit::{Body, Error};

/// The longest line, in bytes: more than twice the length of an id, a type and a size.
const MAX_LINE: usize = 200;

/// Reads a body as it streams in.
pub struct CatFileReader {
    body: Body,
    /// The part of the last chunk that was not returned yet.
    chunk: Bytes,
    /// Whether a chunk was read since [`Self::take_arrival`].
    has_arrived: bool,
}

impl CatFileReader {
    pub fn new(body: Body) -> Self {
        CatFileReader { body, chunk: Bytes::new(), has_arrived: false }
    }

    /// Reads the next chunk; false at the end of the body.
    async fn read_chunk(&mut self) -> Result<bool, Error> {
        match self.body.next().await {
            Some(chunk) => (self.chunk, self.has_arrived) = (chunk?, true),
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Whether more of the body has arrived since the last call.
    pub fn take_arrival(&mut self) -> bool {
        std::mem::take(&mut self.has_arrived)
    }

    /// The next line without its line feed; `None` at the end of the body.
    pub async fn line(&mut self) -> Result<Option<Bytes>, Error> {
        let mut line = BytesMut::new();
        loop {
            if self.chunk.is_empty() && !self.read_chunk().await? {
                return if line.is_empty() { Ok(None) } else { Err(truncated()) };
            }
            let end = self.chunk.iter().take(MAX_LINE).position(|byte| *byte == b'\n');
            let length = end.unwrap_or(self.chunk.len());
            if line.len() + length > MAX_LINE {
                return Err(Error::bad_request(
                    "a line is too long: objects are sent as `git cat-file --batch` prints them",
                ));
            }
            line.extend_from_slice(&self.chunk.split_to(length));
            if end.is_some() {
                self.chunk.advance(1);
                return Ok(Some(line.freeze()));
            }
        }
    }

    /// The next bytes: at least 1 and at most `limit`.
    pub async fn part(&mut self, limit: u64) -> Result<Bytes, Error> {
        if self.chunk.is_empty() && !self.read_chunk().await? {
            return Err(truncated());
        }
        let length = usize::try_from(limit).map_or(self.chunk.len(), |limit| limit.min(self.chunk.len()));
        Ok(self.chunk.split_to(length))
    }

    /// Consumes the line feed after an object's contents.
    pub async fn line_feed(&mut self) -> Result<(), Error> {
        match self.part(1).await?.as_ref() {
            b"\n" => Ok(()),
            _ => Err(Error::bad_request("an object is longer than it was said to be")),
        }
    }
}

fn truncated() -> Error {
    Error::bad_request("the body ends within an object")
}
