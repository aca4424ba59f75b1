//! The zlib compressors and the decompressor of an instance, which both `inflate` modules use. Each has several blocks
//! of memory, of up to 128 KiB. If every object had new ones, data that is cached between two objects would lie in the
//! gaps that they leave, and the next ones would not fit there. A component's memory never shrinks, so it would grow
//! with each object until it is full.

use crate::git::ObjectKind;
use flate2::{Compress, Compression, Decompress, FlushCompress, Status};
use kit::Env;
use kit::store::StoreError;
use std::cell::RefCell;
use std::rc::Rc;

/// The fastest level, which saves most of the bytes that the slower ones do.
const LEVEL: Compression = Compression::new(1);

/// Trees are mostly ids, which do not compress.
const TREE_LEVEL: Compression = Compression::none();

/// Compressors for zlib streams.
pub struct Compressors {
    trees: Compress,
    others: Compress,
}

impl Compressors {
    pub fn of(&mut self, kind: ObjectKind) -> &mut Compress {
        if kind == ObjectKind::Tree { &mut self.trees } else { &mut self.others }
    }
}

/// The instance's compressors, in any state; new ones while another writer has them.
pub fn compressors(env: &Env) -> Rc<RefCell<Compressors>> {
    take_unused(env, || Compressors { trees: Compress::new(TREE_LEVEL, true), others: Compress::new(LEVEL, true) })
}

/// The instance's decompressor of zlib streams, in any state; a new one while another reader has it.
pub fn decompressor(env: &Env) -> Rc<RefCell<Decompress>> {
    take_unused(env, || Decompress::new(true))
}

/// Up to so many bytes are stored without compression: most deltas of an applied suggestion have fewer bytes, mostly
/// ids. A compressor clears 128 KiB of tables before each stream, which would take longer than everything else.
const MAX_STORED: usize = 64;

/// Appends the zlib stream of some bytes.
pub fn deflate(env: &Env, kind: ObjectKind, input: &[u8], out: &mut Vec<u8>) -> Result<(), StoreError> {
    if let Some(length) = u16::try_from(input.len()).ok().filter(|length| usize::from(*length) <= MAX_STORED) {
        // A zlib header (RFC 1950), one last block without compression (RFC 1951), and the checksum.
        out.extend([0x78, 0x01, 0x01]);
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend_from_slice(input);
        out.extend(adler2::adler32_slice(input).to_be_bytes());
        return Ok(());
    }
    let compressors = compressors(env);
    let mut compressors = compressors.borrow_mut();
    let zlib = compressors.of(kind);
    zlib.reset();
    deflate_part(zlib, input, FlushCompress::Finish, out)
}

/// Appends the next part of a zlib stream; with [`FlushCompress::Finish`] its end.
pub fn deflate_part(
    zlib: &mut Compress,
    mut input: &[u8],
    flush: FlushCompress,
    out: &mut Vec<u8>,
) -> Result<(), StoreError> {
    loop {
        out.reserve((input.len() / 2).max(64));
        let before = zlib.total_in();
        let status = zlib.compress_vec(input, out, flush);
        let status = status.map_err(|why| StoreError::Other(format!("zlib: {why}")))?;
        input = input.get(usize::try_from(zlib.total_in() - before).unwrap_or(usize::MAX)..).unwrap_or_default();
        let is_taken = flush == FlushCompress::None && input.is_empty() && out.len() < out.capacity();
        if status == Status::StreamEnd || is_taken {
            return Ok(());
        }
    }
}

fn take_unused<T: 'static>(env: &Env, new: impl FnOnce() -> T) -> Rc<RefCell<T>> {
    // One reference is the cache's.
    let is_unused = env.instance_cache.get::<RefCell<T>>().is_some_and(|cached| Rc::strong_count(&cached) == 2);
    env.instance_cache.get_current_or_insert_with(|_| is_unused, || RefCell::new(new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::testing::{self, MemoryStore};

    #[test]
    fn compressed_streams_of_any_length_decompress_to_their_input() {
        let env = testing::env(MemoryStore::default(), &[]);
        for length in [0, 1, 20, MAX_STORED, MAX_STORED + 1, 3 * MAX_STORED, 70_000] {
            let input: Vec<u8> = (0..length).map(|at| u8::try_from(at * at % 251).unwrap()).collect();
            let (mut stream, mut output) = (Vec::new(), Vec::with_capacity(length + 1));
            deflate(&env, ObjectKind::Blob, &input, &mut stream).unwrap();
            let status = Decompress::new(true).decompress_vec(&stream, &mut output, flate2::FlushDecompress::Finish);
            assert_eq!((status.unwrap(), output), (Status::StreamEnd, input), "{length}");
        }
    }

    #[test]
    fn a_compressor_is_used_again_but_never_by_two_at_once() {
        let env = testing::env(MemoryStore::default(), &[]);
        let first = compressors(&env);
        let second = compressors(&env);
        assert!(!Rc::ptr_eq(&first, &second), "the first is in use");
        let known = [Rc::downgrade(&first), Rc::downgrade(&second)];
        drop((first, second));
        let third = compressors(&env);
        assert!(known.iter().filter_map(|known| known.upgrade()).any(|known| Rc::ptr_eq(&known, &third)));
        assert!(known.iter().any(|known| known.upgrade().is_none()), "at most one stays");
    }
}
