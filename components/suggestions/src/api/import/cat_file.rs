//! A body as lines and counted bytes.

use bytes::{Buf, Bytes, BytesMut};
use kit::{Body, Error};

/// The longest line, in bytes: an object's id, type and size are less than half of it.
const MAX_LINE: usize = 200;

pub struct Stream {
    body: Body,
    /// What has arrived and was not taken.
    chunk: Bytes,
}

impl Stream {
    pub fn new(body: Body) -> Self {
        Stream { body, chunk: Bytes::new() }
    }

    /// Waits for more; false at the end.
    async fn more(&mut self) -> Result<bool, Error> {
        match self.body.next().await {
            Some(chunk) => self.chunk = chunk?,
            None => return Ok(false),
        }
        Ok(true)
    }

    /// The next line without its end; none at the end of the body.
    pub async fn line(&mut self) -> Result<Option<Bytes>, Error> {
        let mut line = BytesMut::new();
        loop {
            if self.chunk.is_empty() && !self.more().await? {
                return if line.is_empty() { Ok(None) } else { Err(cut()) };
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

    /// At least 1 byte and at most `limit`.
    pub async fn part(&mut self, limit: u64) -> Result<Bytes, Error> {
        if self.chunk.is_empty() && !self.more().await? {
            return Err(cut());
        }
        let length = usize::try_from(limit).map_or(self.chunk.len(), |limit| limit.min(self.chunk.len()));
        Ok(self.chunk.split_to(length))
    }

    /// The end of a line, and nothing before it.
    pub async fn newline(&mut self) -> Result<(), Error> {
        match self.part(1).await?.as_ref() {
            b"\n" => Ok(()),
            _ => Err(Error::bad_request("an object is longer than it was said to be")),
        }
    }
}

fn cut() -> Error {
    Error::bad_request("the body ends within an object")
}
