//! A response's body on its way to the client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};

use super::cancellations::OpenStream;
use super::in_flight::InFlight;
use crate::access_log::AccessRecord;
use crate::body::{BodyError, PermitGuard, ResponseBody};
use crate::send_buffer::{BudgetedBytes, SendBuffer};

/// The body that the HTTP implementation reads. The request is under way until it is dropped.
pub struct ClientBody {
    source: Source,
    /// The last byte of the frame before, on HTTP/2.
    last: Option<BudgetedBytes>,
    _in_flight: InFlight,
    access: Option<AccessRecord>,
    /// On the HTTP/2 connection of a proxy.
    uncompleted: Option<OpenStream>,
}

enum Source {
    /// A small body that is complete.
    Direct(ResponseBody),
    /// The same on an HTTP/2 stream, whose window may hold it back.
    Charged(ResponseBody, Arc<SendBuffer>),
    /// A body that is read ahead of the client, and how many bytes are left of a declared length.
    Buffered(Arc<SendBuffer>, Option<u64>),
}

impl Source {
    /// The HTTP/2 implementation takes a frame whole as soon as the client's windows have room for one byte of it, and
    /// is done with a response when it has the last one; the host then cannot see whether the client takes the rest. So
    /// the last byte of each frame is a frame of its own: there is room for it once there was for the others.
    fn holds_back_last_bytes(&self) -> bool {
        match self {
            Self::Direct(_) => false,
            Self::Charged(..) => true,
            Self::Buffered(buffer, _) => buffer.is_of_stream(),
        }
    }
}

impl ClientBody {
    pub fn direct(body: ResponseBody, in_flight: InFlight, access: Option<AccessRecord>) -> Self {
        Self { source: Source::Direct(body), last: None, _in_flight: in_flight, access, uncompleted: None }
    }

    pub fn charged(
        body: ResponseBody,
        buffer: Arc<SendBuffer>,
        in_flight: InFlight,
        access: Option<AccessRecord>,
    ) -> Self {
        Self { source: Source::Charged(body, buffer), last: None, _in_flight: in_flight, access, uncompleted: None }
    }

    pub fn buffered(
        body: ResponseBody,
        buffer: Arc<SendBuffer>,
        in_progress: Option<PermitGuard>,
        in_flight: InFlight,
        access: Option<AccessRecord>,
    ) -> Self {
        let length = body.size_hint().exact();
        buffer.fill(body, in_progress);
        Self { source: Source::Buffered(buffer, length), last: None, _in_flight: in_flight, access, uncompleted: None }
    }

    /// Completes the request with the body.
    pub fn completing(mut self, uncompleted: Option<OpenStream>) -> Self {
        self.uncompleted = uncompleted;
        self
    }

    fn complete(&mut self) {
        if let Some(uncompleted) = self.uncompleted.take() {
            uncompleted.complete();
        }
    }
}

impl Body for ClientBody {
    type Data = BudgetedBytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<BudgetedBytes>, BodyError>>> {
        if let Some(last) = self.last.take() {
            return Poll::Ready(Some(Ok(Frame::data(last))));
        }
        let mut polled = match &mut self.source {
            Source::Direct(body) => Pin::new(body).poll_frame(cx).map_ok(|frame| frame.map_data(BudgetedBytes::free)),
            Source::Charged(body, buffer) => {
                let frame = Pin::new(body).poll_frame(cx);
                frame.map_ok(|frame| frame.map_data(|data| buffer.charge(data)))
            }
            Source::Buffered(buffer, left) => {
                let frame = buffer.poll_frame(cx);
                if let (Poll::Ready(Some(Ok(frame))), Some(left)) = (&frame, left) {
                    *left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.remaining() as u64));
                }
                frame
            }
        };
        if let (Poll::Ready(Some(Ok(frame))), Some(access)) = (&polled, &mut self.access) {
            access.record_bytes(frame.data_ref().map_or(0, |data| data.remaining() as u64));
        }
        if let Poll::Ready(Some(Ok(frame))) = &mut polled
            && self.source.holds_back_last_bytes()
        {
            self.last = frame.data_mut().and_then(BudgetedBytes::split_last);
        }
        match &polled {
            Poll::Ready(Some(Ok(frame))) if !frame.is_trailers() => {}
            Poll::Pending => {}
            Poll::Ready(_) => self.complete(),
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Direct(body) | Source::Charged(body, _) => self.last.is_none() && body.is_end_stream(),
            Source::Buffered(..) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        let hint = match &self.source {
            Source::Direct(body) | Source::Charged(body, _) => body.size_hint(),
            Source::Buffered(_, Some(left)) => SizeHint::with_exact(*left),
            Source::Buffered(_, None) => SizeHint::default(),
        };
        match (hint.exact(), &self.last) {
            (Some(left), Some(last)) => SizeHint::with_exact(left + last.remaining() as u64),
            _ => hint,
        }
    }
}

impl Drop for ClientBody {
    fn drop(&mut self) {
        // The HTTP implementation does not ask for the end of a body that tells it beforehand.
        if self.is_end_stream() {
            self.complete();
        }
        if let Source::Buffered(buffer, _) = &self.source {
            buffer.abandon();
        }
    }
}
