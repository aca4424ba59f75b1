//! Decompresses entries of stored packs, whose size the entry's header tells; `objects::inflate` is for loose objects.

use super::bytes::{PackBytes, header_at};
use crate::git::pack_entry::EntryHeader;
use crate::git::{ObjectId, ObjectKind, id_from_hasher};
use crate::store::zlib;
use ::bytes::Bytes;
use flate2::{FlushDecompress, Status};
use kit::Env;
use kit::store::StoreError;
use sha1::Digest;

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
