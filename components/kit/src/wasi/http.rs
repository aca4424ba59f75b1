//! Requests and responses between WASI HTTP 0.3 and plain values.

use crate::body::{Body, BodyError, Chunk};
use crate::request::{LazyOrigin, Origin, Request};
use crate::response::Response;
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use http::header::{CONTENT_LENGTH, HOST, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use http::{HeaderMap, Method, StatusCode};
use spin_sdk::wasip3::http::types::{self, ErrorCode, Fields, Request as Incoming, Scheme, Trailers};
use spin_sdk::wasip3::wit_bindgen::rt::async_support::{RawStreamWriter, StreamOps, StreamVtable, raw_stream_new};
use spin_sdk::wasip3::wit_bindgen::{FutureReader, FutureWriter, StreamReader, StreamResult};
use spin_sdk::wasip3::{spawn, wit_future, wit_stream};
use std::alloc::Layout;
use std::cell::{LazyCell, RefCell};
use std::rc::Rc;

/// The result of a handler, as the host expects it.
pub type HandlerResult = Result<types::Response, ErrorCode>;

/// The most bytes of a request body that one read takes.
const READ: usize = 64 << 10;

/// The most bytes of a response body that the host is given at once. The copy of a piece is still in the processor's
/// cache when it is sent. A usual file fits in one piece, because each piece costs as much as the rest of a small
/// response.
pub const PIECE: usize = 128 << 10;

/// Converts a request. Its body is read lazily.
pub fn incoming(request: Incoming) -> Result<Request, ErrorCode> {
    let target = request.get_path_with_query().unwrap_or_else(|| "/".into());
    let headers = header_map(request.get_headers().copy_all());
    let method: Method = request.get_method().try_into().map_err(|_| ErrorCode::HttpRequestMethodInvalid)?;
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let request = Rc::new(RefCell::new(Some(request)));
    let origin = origin(request.clone(), headers.get(HOST).cloned());
    let unstarted = RequestBody::Unstarted { request, origin: origin.clone() };
    let body = Body::Stream(chunks(unstarted, length).boxed_local());
    Ok(Request { origin, headers, body, ..Request::new(method, &target) })
}

/// Converts fields. The host has validated them; a field that `http` rejects is left out.
fn header_map(fields: Vec<(String, Vec<u8>)>) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(fields.len());
    for (name, value) in fields {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.append(name, value);
        }
    }
    headers
}

/// The origin of `request`, which can be read until the body is read.
fn origin(request: Rc<RefCell<Option<Incoming>>>, host: Option<HeaderValue>) -> LazyOrigin {
    Rc::new(LazyCell::new(Box::new(move || {
        let request = request.borrow();
        let scheme = match request.as_ref().and_then(Incoming::get_scheme) {
            Some(Scheme::Https) => "https",
            _ => "http",
        };
        // Some hosts leave the authority out and pass the `Host` header on.
        let authority = request.as_ref().and_then(Incoming::get_authority);
        let authority = authority.or_else(|| Some(host?.to_str().ok()?.to_owned()));
        Origin { scheme: scheme.to_owned(), authority: authority.unwrap_or_else(|| "localhost".into()) }
    })))
}

enum RequestBody {
    Unstarted {
        request: Rc<RefCell<Option<Incoming>>>,
        origin: LazyOrigin,
    },
    Started {
        body: StreamReader<u8>,
        trailers: FutureReader<Result<Option<types::Trailers>, ErrorCode>>,
        /// Dropping this tells the host that the component has stopped reading.
        _taken: FutureWriter<Result<(), ErrorCode>>,
    },
    Ended,
}

/// The chunks of a request body. `length` is the declared length, which the host enforces.
fn chunks(reading: RequestBody, length: Option<u64>) -> impl stream::Stream<Item = Chunk> {
    stream::unfold((reading, length), async |(reading, left)| {
        let (mut body, trailers, taken) = match reading {
            RequestBody::Unstarted { request, origin } => {
                // The origin cannot be read after the body was taken.
                LazyCell::force(&origin);
                let Some(request) = request.take() else {
                    let gone = BodyError::Peer("the body was taken before".into());
                    return Some((Err(gone), (RequestBody::Ended, None)));
                };
                let (taken, reader) = wit_future::new(|| Ok(()));
                let (body, trailers) = Incoming::consume_body(request, reader);
                (body, trailers, taken)
            }
            RequestBody::Started { body, trailers, _taken } => (body, trailers, _taken),
            RequestBody::Ended => return None,
        };
        let room = left.and_then(|left| usize::try_from(left).ok()).map_or(READ, |left| left.clamp(1, READ));
        match body.read(Vec::with_capacity(room)).await {
            (StreamResult::Complete(_), chunk) => {
                let left = left.map(|left| left.saturating_sub(chunk.len() as u64));
                // Waiting for the end of the stream would cost two more calls of the host.
                let reading = match left {
                    Some(0) => RequestBody::Ended,
                    _ => RequestBody::Started { body, trailers, _taken: taken },
                };
                Some((Ok(Bytes::from(chunk)), (reading, left)))
            }
            (StreamResult::Dropped | StreamResult::Cancelled, _) => match trailers.await {
                Ok(_) => None,
                // The stream also ends when the client disconnects. Only the trailers distinguish the two.
                Err(code) => Some((Err(BodyError::Peer(code.to_string())), (RequestBody::Ended, None))),
            },
        }
    })
}

/// Converts a response.
pub fn outgoing(mut response: Response, head_only: bool) -> HandlerResult {
    complete_fields(&mut response, head_only);
    let headers = response.headers.iter();
    let fields: Vec<_> = headers.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect();
    let headers = Fields::from_list(&fields).map_err(|why| ErrorCode::InternalError(Some(why.to_string())))?;
    let converted = match response.body {
        Body::Empty => without_body(headers),
        _ if head_only => without_body(headers),
        body => with_body(headers, body),
    };
    // The status of a new response is 200.
    if response.status != StatusCode::OK {
        let refused = |()| ErrorCode::InternalError(Some("status code refused".into()));
        converted.set_status_code(response.status.as_u16()).map_err(refused)?;
    }
    Ok(converted)
}

fn without_body(headers: Fields) -> types::Response {
    let (_, trailers) = wit_future::new(|| Ok(None));
    types::Response::new(headers, None, trailers).0
}

/// A response whose body a separate task writes.
pub fn with_body(headers: Fields, body: Body) -> types::Response {
    let (writer, contents, trailers) = BodyWriter::new();
    spawn(send(body, writer));
    types::Response::new(headers, Some(contents), trailers).0
}

/// Adds the fields that every response has.
pub fn complete_fields(response: &mut Response, head_only: bool) {
    let headers = &mut response.headers;
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("SAMEORIGIN"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let length = match &response.body {
        Body::Full(bytes) => Some(bytes.len()),
        Body::Empty if may_have_body(response.status) && !head_only => Some(0),
        _ => None,
    };
    if let Some(length) = length {
        headers.insert(CONTENT_LENGTH, length.into());
    }
}

fn may_have_body(status: StatusCode) -> bool {
    !status.is_informational() && status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED
}

/// Writes the body until it ends or the client disconnects. If producing the body fails, the host is given an error and
/// cuts the connection. So the client does not take the body for complete.
async fn send(mut body: Body, mut writer: BodyWriter) {
    let mut end = Ok(None);
    while let Some(chunk) = body.next().await {
        match chunk {
            Ok(mut bytes) => {
                while !bytes.is_empty() {
                    if !writer.write(bytes.split_to(bytes.len().min(PIECE))).await {
                        return;
                    }
                }
            }
            Err(error) => {
                eprintln!("{error}");
                end = Err(ErrorCode::InternalError(Some("the body broke off".into())));
                break;
            }
        }
    }
    writer.finish(end).await;
}

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
