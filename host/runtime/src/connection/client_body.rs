//! A response's body on its way to the client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Buf;
use hexad_http::body::{BodyError, PermitGuard, ResponseBody};
use hexad_http::send_buffer::{BudgetedBytes, SendBuffer};
use hexad_telemetry::access_log::AccessRecord;
use http_body::{Body, Frame, SizeHint};

use super::cancellations::OpenStream;
use super::in_flight::InFlight;

/// The body that the HTTP implementation reads. Its request is in flight until hyper drops the body.
pub struct ClientBody {
    source: Source,
    /// On HTTP/2: the last byte of the previous frame.
    last: Option<BudgetedBytes>,
    _in_flight: InFlight,
    access: Option<AccessRecord>,
    /// Set on a proxy's HTTP/2 connection.
    open_stream: Option<OpenStream>,
}

enum Source {
    /// A small, complete body.
    Direct(ResponseBody),
    /// A small, complete body on an HTTP/2 stream, whose window may hold it back.
    Charged(ResponseBody, Arc<SendBuffer>),
    /// A body that the host reads ahead of the client. With a declared length: the bytes that are left of it.
    Buffered(Arc<SendBuffer>, Option<u64>),
}

impl Source {
    /// h2 accepts a whole DATA frame when the flow-control window has room for one byte. After the last frame, the host
    /// would not see whether the client takes the rest. So the last byte of each frame is sent as a frame of its own.
    /// h2 accepts it only when the window has room for all bytes before it.
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
        Self { source: Source::Direct(body), last: None, _in_flight: in_flight, access, open_stream: None }
    }

    pub fn charged(
        body: ResponseBody,
        buffer: Arc<SendBuffer>,
        in_flight: InFlight,
        access: Option<AccessRecord>,
    ) -> Self {
        Self { source: Source::Charged(body, buffer), last: None, _in_flight: in_flight, access, open_stream: None }
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
        Self { source: Source::Buffered(buffer, length), last: None, _in_flight: in_flight, access, open_stream: None }
    }

    /// Records no cancellation once the body is complete.
    pub fn completing(mut self, open_stream: Option<OpenStream>) -> Self {
        self.open_stream = open_stream;
        self
    }

    fn complete(&mut self) {
        if let Some(open_stream) = self.open_stream.take() {
            open_stream.complete();
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
        // hyper does not poll a body to its end when the body has announced that end, so the drop records completion.
        if self.is_end_stream() {
            self.complete();
        }
        if let Source::Buffered(buffer, _) = &self.source {
            buffer.abandon();
        }
    }
}
