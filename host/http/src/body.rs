//! The type of all response bodies, and the bodies that the host makes itself.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hexad_limits::instance_permit::InstancePermit;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use wasmtime_wasi_http::Error as WasiError;

/// The body of every response.
pub type ResponseBody = UnsyncBoxBody<Bytes, BodyError>;

/// A response's extension while its guest still writes the body: the permit of the guest's instance.
#[derive(Clone)]
pub struct PermitGuard(pub Arc<InstancePermit>);

/// Why a response's body is incomplete. The host closes the connection, so that the client does not take the part for
/// the whole.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    #[error("the component was ended before its response was complete")]
    Broken,
    #[error("the component sent {missing} bytes less than it had declared")]
    Short { missing: u64 },
    #[error("the response is larger than the limit of its component, {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("the component ran out of time before its response was complete")]
    Timeout,
    #[error("the client sent the request's body too slowly while others waited for the component")]
    SlowClient,
    #[error("the component failed while sending its response: {0}")]
    Guest(WasiError),
}

/// A body in one chunk.
pub fn full(bytes: impl Into<Bytes>) -> ResponseBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// The declared length of a message's body, in bytes.
pub fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A body in chunks that other responses share. `length` is the sum of their lengths.
pub fn shared(chunks: Arc<[Bytes]>, length: u64) -> ResponseBody {
    SharedBody { chunks, next: 0, remaining: length }.boxed_unsync()
}

struct SharedBody {
    chunks: Arc<[Bytes]>,
    next: usize,
    /// Bytes that are still to come.
    remaining: u64,
}

impl Body for SharedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let chunk = self.chunks.get(self.next).cloned();
        self.next += 1;
        self.remaining = self.remaining.saturating_sub(chunk.as_ref().map_or(0, |chunk| chunk.len() as u64));
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.next >= self.chunks.len()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining)
    }
}

/// No body, although the head may declare a length.
pub fn empty(declared: SizeHint) -> ResponseBody {
    Empty(declared).boxed_unsync()
}

struct Empty(SizeHint);

impl Body for Empty {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Poll::Ready(None)
    }

    fn size_hint(&self) -> SizeHint {
        self.0
    }
}
