//! The stream and the trailers of a response body.

use bytes::Bytes;
use spin_sdk::wasip3::http::types::{ErrorCode, Trailers};
use spin_sdk::wasip3::wit_bindgen::rt::async_support::{RawStreamWriter, StreamOps, StreamVtable, raw_stream_new};
use spin_sdk::wasip3::wit_bindgen::{FutureReader, FutureWriter, StreamReader};
use spin_sdk::wasip3::{wit_future, wit_stream};
use std::alloc::Layout;
use std::cell::RefCell;
use std::rc::Rc;

/// The end of a body: trailers, or the reason why it is incomplete.
pub type BodyEnd = Result<Option<Trailers>, ErrorCode>;

/// The host's intrinsics for a stream of bytes.
const BYTES: &StreamVtable<u8> = <u8 as wit_stream::StreamPayload>::VTABLE;

/// The writing half of a body.
pub struct BodyWriter {
    stream: RawStreamWriter<SharedBytes>,
    source: SharedBytes,
    end: FutureWriter<BodyEnd>,
}

impl BodyWriter {
    /// The parts of a body: its writer, its stream, and its end.
    pub fn new() -> (Self, StreamReader<u8>, FutureReader<BodyEnd>) {
        let source = SharedBytes::default();
        // SAFETY: the intrinsics belong to a stream of bytes.
        let (stream, reader) = unsafe { raw_stream_new(source.clone()) };
        let (end, end_reader) =
            wit_future::new(|| Err(ErrorCode::InternalError(Some("the body was abandoned".into()))));
        (Self { stream, source, end }, StreamReader::new(reader.take_handle(), BYTES), end_reader)
    }

    /// Writes all of `bytes`, which the host copies out of this component's memory. Returns false if the host did not
    /// take them all, because the client has disconnected.
    pub async fn write(&mut self, bytes: Bytes) -> bool {
        let placeholders = vec![(); bytes.len()];
        self.source.0.replace(bytes);
        let left = self.stream.write_all(placeholders).await;
        self.source.0.take();
        left.is_empty()
    }

    pub async fn finish(self, end: BodyEnd) {
        drop(self.stream);
        let _ = self.end.write(end).await;
    }
}

/// The operations of a stream that is written from shared bytes, such as a cache's.
///
/// `StreamWriter<u8>` owns the bytes that it writes as a `Vec<u8>`, so shared bytes would have to be copied. Here the
/// vector's elements are zero-sized placeholders, and a write takes the bytes at the same position of this buffer. A
/// write under way borrows the writer, and with it these bytes.
#[derive(Clone, Default)]
struct SharedBytes(Rc<RefCell<Bytes>>);

// SAFETY: a placeholder has the layout that it declares, and needs no conversion. `start_write` gives the host a part
// of the buffer of the stated length, which stays until the write has ended, as described above.
unsafe impl StreamOps for SharedBytes {
    type Payload = ();

    fn new(&mut self) -> u64 {
        let mut intrinsics = BYTES;
        StreamOps::new(&mut intrinsics)
    }

    fn elem_layout(&self) -> Layout {
        Layout::new::<()>()
    }

    fn native_abi_matches_canonical_abi(&self) -> bool {
        true
    }

    fn contains_lists(&self) -> bool {
        false
    }

    unsafe fn lower(&mut self, (): (), _: *mut u8) {}

    unsafe fn dealloc_lists(&mut self, _: *mut u8) {}

    unsafe fn lift(&mut self, _: *mut u8) {}

    /// Writes the last `left` bytes of the buffer. Bytes that the host did not take at first are written again.
    unsafe fn start_write(&mut self, stream: u32, _: *const u8, left: usize) -> u32 {
        let bytes = self.0.borrow();
        let rest = bytes.get(bytes.len().saturating_sub(left)..).unwrap_or_default();
        let mut intrinsics = BYTES;
        // SAFETY: the caller promises that `stream` is the writing half of a stream of bytes.
        unsafe { intrinsics.start_write(stream, rest.as_ptr(), rest.len()) }
    }

    /// Reads nothing: the host has the reading half.
    unsafe fn start_read(&mut self, stream: u32, _: *mut u8, _: usize) -> u32 {
        let mut intrinsics = BYTES;
        // SAFETY: no byte is written to an empty buffer.
        unsafe { intrinsics.start_read(stream, std::ptr::NonNull::dangling().as_ptr(), 0) }
    }

    unsafe fn cancel_read(&mut self, stream: u32) -> u32 {
        let mut intrinsics = BYTES;
        // SAFETY: the caller's promise.
        unsafe { intrinsics.cancel_read(stream) }
    }

    unsafe fn cancel_write(&mut self, stream: u32) -> u32 {
        let mut intrinsics = BYTES;
        // SAFETY: the caller's promise.
        unsafe { intrinsics.cancel_write(stream) }
    }

    unsafe fn drop_readable(&mut self, stream: u32) {
        let mut intrinsics = BYTES;
        // SAFETY: the caller's promise.
        unsafe { intrinsics.drop_readable(stream) }
    }

    unsafe fn drop_writable(&mut self, stream: u32) {
        let mut intrinsics = BYTES;
        // SAFETY: the caller's promise.
        unsafe { intrinsics.drop_writable(stream) }
    }
}
