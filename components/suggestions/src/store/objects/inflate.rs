//! Decompresses a loose object as a whole, header included, up to a bounded size; `packs::inflate` is for entries of
//! packs.

use crate::git::{ObjectKind, parse_header};
use crate::store::zlib;
use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};
use kit::Env;
use std::cell::RefCell;
use std::rc::Rc;

/// Decompresses an object, fed in parts.
pub struct ObjectInflater {
    zlib: Rc<RefCell<Decompress>>,
    /// The largest size of an object, in bytes.
    max_size: u64,
    /// Decompressed header and contents.
    bytes: Vec<u8>,
    ended: bool,
}

impl ObjectInflater {
    pub fn new(env: &Env, max_size: u64) -> Self {
        let zlib = zlib::decompressor(env);
        zlib.borrow_mut().reset(true);
        ObjectInflater { zlib, max_size, bytes: Vec::new(), ended: false }
    }

    pub fn feed(&mut self, input: &[u8]) -> Result<(), &'static str> {
        let mut zlib = self.zlib.borrow_mut();
        let mut rest = input;
        while !self.ended && self.excess_size().is_none() {
            // Until the header tells the size, four times the input is a first guess.
            let expected =
                parse_header(&self.bytes).map_or(4 * input.len() as u64, |(_, size, header)| size + header as u64);
            let missing =
                usize::try_from(expected.min(self.max_size + 32)).unwrap_or_default().saturating_sub(self.bytes.len());
            self.bytes.reserve(missing.max(64));
            let (before_in, before_out) = (zlib.total_in(), self.bytes.len());
            let status = zlib.decompress_vec(rest, &mut self.bytes, FlushDecompress::None);
            let status = status.map_err(|_| "it is not zlib")?;
            let consumed = usize::try_from(zlib.total_in() - before_in).unwrap_or(usize::MAX);
            rest = rest.get(consumed..).unwrap_or_default();
            self.ended = status == Status::StreamEnd;
            if rest.is_empty() && self.bytes.len() < self.bytes.capacity()
                || consumed == 0 && self.bytes.len() == before_out
            {
                break;
            }
        }
        Ok(())
    }

    /// The object's size in bytes, if it is larger than the bound.
    pub fn excess_size(&self) -> Option<u64> {
        parse_header(&self.bytes).map(|(_, size, _)| size).filter(|size| *size > self.max_size)
    }

    /// The object's kind and contents; `None` if the input was not exactly one object.
    pub fn finish(self) -> Option<(ObjectKind, Bytes)> {
        let (kind, size, header) = parse_header(&self.bytes)?;
        let bytes = Bytes::from(self.bytes);
        let is_whole = self.ended && bytes.len() as u64 == size + header as u64;
        is_whole.then(|| (kind, bytes.slice(header..)))
    }
}
