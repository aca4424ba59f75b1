//! Loose objects of any size, decompressed part by part.

use super::corruption::corrupt;
use super::loose::{LooseObject, read_chunk};
use super::read_loose;
use crate::git::{ObjectId, ObjectKind, parse_header};
use crate::repository_id::RepositoryId;
use crate::store::zlib;
use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};
use kit::Env;
use kit::store::StoreError;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// The size of a part, in bytes.
const PART: usize = 64 << 10;

/// The contents of a loose object.
pub struct LooseStream {
    env: Env,
    project: RepositoryId,
    id: ObjectId,
    zlib: Rc<RefCell<Decompress>>,
    /// Compressed bytes that were read, and the keys of the chunks that follow.
    input: Bytes,
    chunks: VecDeque<String>,
    pub kind: ObjectKind,
    pub size: u64,
    /// The part that was decompressed together with the header.
    first: Bytes,
    /// How many bytes of the contents follow, with the first part.
    left: u64,
}

impl LooseStream {
    /// `None` if the repository has no such loose object.
    pub fn open(env: &Env, project: RepositoryId, id: ObjectId) -> Result<Option<Self>, StoreError> {
        let (input, chunks) = match read_loose(env, project, id)? {
            None => return Ok(None),
            Some(LooseObject::Whole(bytes)) => (bytes, VecDeque::new()),
            Some(LooseObject::Chunks(keys)) => (Bytes::new(), keys.into()),
        };
        let zlib = zlib::decompressor(env);
        zlib.borrow_mut().reset(true);
        let (env, kind, first) = (env.clone(), ObjectKind::Blob, Bytes::new());
        let mut stream = LooseStream { env, project, id, zlib, input, chunks, kind, size: 0, first, left: 0 };
        let first = stream.decompress()?;
        let (kind, size, header) = parse_header(&first).ok_or_else(|| stream.corrupt("it is not an object"))?;
        (stream.kind, stream.size, stream.left) = (kind, size, size);
        stream.first = Bytes::from(first).slice(header..);
        Ok(Some(stream))
    }

    /// The next part of the contents; `None` at their end.
    pub fn next_part(&mut self) -> Result<Option<Bytes>, StoreError> {
        if self.left == 0 {
            return Ok(None);
        }
        let mut part = std::mem::take(&mut self.first);
        if part.is_empty() {
            part = self.decompress()?.into();
        }
        let left = self.left.checked_sub(part.len() as u64).filter(|_| !part.is_empty());
        self.left = left.ok_or_else(|| self.corrupt("it has another size"))?;
        Ok(Some(part))
    }

    /// Up to [`PART`] bytes, with those of the header; none at the end.
    fn decompress(&mut self) -> Result<Vec<u8>, StoreError> {
        let mut part = Vec::with_capacity(PART);
        while part.len() < part.capacity() {
            if self.input.is_empty()
                && let Some(key) = self.chunks.pop_front()
            {
                self.input = read_chunk(&self.env, self.project, self.id, &key)?.into();
            }
            let mut zlib = self.zlib.borrow_mut();
            let (before_in, before_out) = (zlib.total_in(), part.len());
            let status = zlib.decompress_vec(&self.input, &mut part, FlushDecompress::None);
            let consumed = usize::try_from(zlib.total_in() - before_in).unwrap_or(usize::MAX).min(self.input.len());
            drop(zlib);
            let status = status.map_err(|_| self.corrupt("it is not zlib"))?;
            let _ = self.input.split_to(consumed);
            if status == Status::StreamEnd || consumed == 0 && part.len() == before_out {
                break;
            }
        }
        Ok(part)
    }

    fn corrupt(&self, why: &str) -> StoreError {
        corrupt(self.project, self.id, why)
    }
}
