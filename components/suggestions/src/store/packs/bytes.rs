//! The bytes of a pack, in blobs of one size.

use crate::git::pack_entry::{EntryHeader, HeaderParse, MAX_HEADER};
use crate::git::{ObjectId, ObjectKind, id_from_hasher};
use crate::repository_id::RepositoryId;
use crate::store::key::Key;
use crate::store::zlib;
use ::bytes::{Bytes, BytesMut};
use flate2::{FlushDecompress, Status};
use kit::Env;
use kit::store::StoreError;
use sha1::Digest;
use std::collections::BTreeSet;
use std::fmt;

/// The size of a pack's blobs but the last, in bytes.
const BLOB: usize = 256 << 10;

/// How many keys of blobs are listed at once.
const KEYS_AT_ONCE: usize = 1000;

/// Writes the blobs of a pack.
pub struct PackWriter<'a> {
    env: &'a Env,
    id: String,
    /// Bytes that are in no blob yet.
    buffer: Vec<u8>,
    blobs: usize,
    size: u64,
}

impl<'a> PackWriter<'a> {
    pub fn new(env: &'a Env) -> Self {
        PackWriter { env, id: env.id(), buffer: Vec::new(), blobs: 0, size: 0 }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Bytes that were written so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), StoreError> {
        self.size += bytes.len() as u64;
        while self.buffer.len() + bytes.len() >= BLOB {
            let (part, rest) = bytes.split_at_checked(BLOB - self.buffer.len()).unwrap_or((bytes, &[]));
            self.buffer.extend_from_slice(part);
            bytes = rest;
            self.flush()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes the rest. The instance keeps a small pack, which the next request often needs, to write a delta of one of
    /// its objects or to join it with others.
    pub fn finish(&mut self) -> Result<(), StoreError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        if self.blobs == 0 {
            self.env.blobs.put(&Key::Pack(&self.id, 0).to_string(), Bytes::copy_from_slice(&self.buffer));
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.env.store.set(&Key::Pack(&self.id, self.blobs).to_string(), &self.buffer)?;
        self.buffer.clear();
        self.blobs += 1;
        Ok(())
    }
}

/// The number of the blob that has an offset, and the position there.
fn position(offset: u64) -> (usize, usize) {
    let [number, start] = [offset / BLOB as u64, offset % BLOB as u64].map(usize::try_from);
    (number.unwrap_or(usize::MAX), start.unwrap_or(BLOB))
}

/// The bytes of a blob from `start` on, at most `limit`.
fn part(blob: Bytes, start: usize, limit: u64) -> Bytes {
    let start = start.min(blob.len());
    let end = usize::try_from(limit).map_or(blob.len(), |limit| start.saturating_add(limit).min(blob.len()));
    blob.slice(start..end)
}

/// Reads parts of a pack.
#[derive(Clone, Copy)]
pub struct PackBytes<'a> {
    env: &'a Env,
    project: RepositoryId,
    pack: &'a str,
}

impl<'a> PackBytes<'a> {
    pub fn new(env: &'a Env, project: RepositoryId, pack: &'a str) -> Self {
        PackBytes { env, project, pack }
    }

    /// Damage of the pack at an offset. The key, which does not tell the project, is that of the blob with the offset.
    pub fn corrupt(&self, offset: u64, why: impl fmt::Display) -> StoreError {
        let (number, _) = position(offset);
        let key = Key::Pack(self.pack, number).to_string();
        StoreError::corrupt(&key, format!("at {offset}: {why} (project {})", self.project))
    }

    /// Fails if a blob of the pack, which has `size` bytes, is missing. 1 list of keys for each 1,000 blobs.
    pub fn expect_blobs(&self, size: u64) -> Result<(), StoreError> {
        let first = Key::Pack(self.pack, 0).to_string();
        let prefix = first.strip_suffix('0').unwrap_or(&first);
        let (mut stored, mut after) = (BTreeSet::new(), String::new());
        loop {
            let keys = self.env.store.list(prefix, &after, KEYS_AT_ONCE)?;
            let is_end = keys.len() < KEYS_AT_ONCE;
            after = keys.last().cloned().unwrap_or_default();
            stored.extend(keys);
            if is_end {
                break;
            }
        }
        let is_lost = |offset: &u64| !stored.contains(&Key::Pack(self.pack, position(*offset).0).to_string());
        match (0..size).step_by(BLOB).find(is_lost) {
            None => Ok(()),
            Some(offset) => Err(self.corrupt(offset, "it is missing")),
        }
    }

    /// The bytes from `offset` to the end of their blob, at most `limit`; empty at the end of the pack.
    pub fn at(&self, offset: u64, limit: u64) -> Result<Bytes, StoreError> {
        let (number, start) = position(offset);
        let blob = self.env.blob(&Key::Pack(self.pack, number).to_string())?;
        Ok(part(blob.unwrap_or_default(), start, limit))
    }

    /// As [`Self::at`], without the instance's cache: for a pack that is read once, from its beginning to its end.
    pub fn read_once(&self, offset: u64, limit: u64) -> Result<Bytes, StoreError> {
        let (number, start) = position(offset);
        let key = Key::Pack(self.pack, number).to_string();
        let blob = match self.env.blobs.peek(&key) {
            Some(blob) => blob,
            None => self.env.store.get(&key)?.unwrap_or_default().into(),
        };
        Ok(part(blob, start, limit))
    }

    /// `length` bytes, which must be few; fewer at the end of the pack.
    pub fn small(&self, offset: u64, length: usize) -> Result<Bytes, StoreError> {
        let first = self.at(offset, length as u64)?;
        if first.len() == length || first.is_empty() {
            return Ok(first);
        }
        let mut joined = BytesMut::from(first.as_ref());
        joined.extend_from_slice(&self.at(offset + first.len() as u64, (length - first.len()) as u64)?);
        Ok(joined.freeze())
    }

    /// The parts of a range, each within one blob. Ends with an error if the pack is shorter.
    pub fn range(self, offset: u64, length: u64) -> impl Iterator<Item = Result<Bytes, StoreError>> + 'a {
        let (mut next, end) = (offset, offset + length);
        std::iter::from_fn(move || {
            if next >= end {
                return None;
            }
            let part = match self.at(next, end - next) {
                Ok(part) if part.is_empty() => Err(self.corrupt(next, "it is too short")),
                part => part,
            };
            next = part.as_ref().map_or(end, |part| next + part.len() as u64);
            Some(part)
        })
    }
}

/// The header of the entry at an offset of a pack.
pub fn header_at(bytes: PackBytes, offset: u64) -> Result<EntryHeader, StoreError> {
    match EntryHeader::parse(&bytes.small(offset, MAX_HEADER)?) {
        HeaderParse::Header(header) => Ok(header),
        HeaderParse::Incomplete | HeaderParse::Invalid => Err(bytes.corrupt(offset, "it is not an entry")),
    }
}

/// The part of an object that is in memory at once, in bytes.
const PART: usize = 64 << 10;

/// Decompresses the entry at an offset as a whole. The caller has checked that its size is acceptable.
pub fn entry(env: &Env, bytes: PackBytes, offset: u64, header: &EntryHeader) -> Result<Bytes, StoreError> {
    let size = usize::try_from(header.size).map_err(|_| bytes.corrupt(offset, "it is too large"))?;
    // One byte more shows that the stream is longer than its header says.
    let mut contents = Vec::with_capacity(size + 1);
    decompress(env, bytes, offset, header, &mut contents, |_| ())?;
    Ok(contents.into())
}

/// The end of the entry at an offset, which only decompression tells.
pub fn end(env: &Env, bytes: PackBytes, offset: u64) -> Result<u64, StoreError> {
    let header = header_at(bytes, offset)?;
    decompress(env, bytes, offset, &header, &mut Vec::with_capacity(PART), Vec::clear)
}

/// The id of an object that is stored whole, of any size.
pub fn id(
    env: &Env,
    bytes: PackBytes,
    offset: u64,
    header: &EntryHeader,
    kind: ObjectKind,
) -> Result<ObjectId, StoreError> {
    let mut hasher = kind.hasher(header.size);
    let mut part = Vec::with_capacity(PART);
    decompress(env, bytes, offset, header, &mut part, |part| {
        hasher.update(&*part);
        part.clear();
    })?;
    Ok(id_from_hasher(hasher))
}

/// Decompresses an entry into `out`, which `take` may empty after each addition. Returns where the entry ends.
fn decompress(
    env: &Env,
    bytes: PackBytes,
    offset: u64,
    header: &EntryHeader,
    out: &mut Vec<u8>,
    mut take: impl FnMut(&mut Vec<u8>),
) -> Result<u64, StoreError> {
    let zlib = zlib::decompressor(env);
    let mut zlib = zlib.borrow_mut();
    zlib.reset(true);
    let mut next = offset + header.length as u64;
    loop {
        let input = bytes.at(next, u64::MAX)?;
        if input.is_empty() {
            return Err(bytes.corrupt(offset, "it ends early"));
        }
        let (before_in, before_out) = (zlib.total_in(), zlib.total_out());
        let status = zlib.decompress_vec(&input, out, FlushDecompress::None);
        let status = status.map_err(|_| bytes.corrupt(offset, "it is not zlib"))?;
        take(out);
        let consumed = zlib.total_in() - before_in;
        next += consumed;
        let is_idle = consumed == 0 && zlib.total_out() == before_out;
        match status {
            Status::StreamEnd if zlib.total_out() == header.size => return Ok(next),
            Status::StreamEnd => return Err(bytes.corrupt(offset, "it has another size")),
            _ if zlib.total_out() > header.size || is_idle => return Err(bytes.corrupt(offset, "it has another size")),
            _ => {}
        }
    }
}
