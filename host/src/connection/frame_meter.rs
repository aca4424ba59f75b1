//! Counts the HTTP/2 frames that make work and carry nothing (RFC 9113, section 10.5).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Idle frames that a client may send in a period. Clients ping a few times a second at most.
const MAX_IDLE_FRAMES: u32 = 1000;
/// Streams that a client may reset in a period. Each may end an instance that waited for the client. The HTTP
/// implementation bounds the streams that are reset before they are served.
const MAX_RESETS: u32 = 300;
const PERIOD: Duration = Duration::from_secs(10);

/// Idle frames that a client may send in addition, such as updates of windows: for each head that it sends, and
/// one for so many bytes that it is sent; those bytes pay for a reset as well.
const FRAMES_PER_HEAD: u32 = 4;
const BYTES_PER_FRAME: usize = 1024;

/// Bytes of a frame before its payload (section 4.1).
const FRAME_HEAD: usize = 9;

/// Types of frames (section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;

/// The flag of the last frame of a stream.
const END_STREAM: u8 = 1;

/// `GOAWAY` with `ENHANCE_YOUR_CALM`, of a server that has processed no further stream (section 6.8).
const ENHANCE_YOUR_CALM: [u8; FRAME_HEAD + 8] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 11];

/// Finds out whether a client floods its connection with idle frames: pings, settings, priorities, updates of
/// windows, unknown frames, data without bytes, and heads that begin no stream; or with resets.
struct FrameMeter {
    head: [u8; FRAME_HEAD],
    /// How much of the head was read.
    head_length: usize,
    /// Bytes of the frame's payload that are still to come.
    payload: usize,
    period_began: Instant,
    idle_frames: u32,
    resets: u32,
    /// The stream that began last.
    last_stream: u32,
    /// Bytes that were sent and have not paid for a frame.
    sent: usize,
}

impl FrameMeter {
    fn new(now: Instant) -> Self {
        Self {
            head: [0; FRAME_HEAD],
            head_length: 0,
            payload: 0,
            period_began: now,
            idle_frames: 0,
            resets: 0,
            last_stream: 0,
            sent: 0,
        }
    }

    /// Looks at bytes that were read. False if the client sends too many idle frames.
    fn record(&mut self, mut bytes: &[u8], now: Instant) -> bool {
        while !bytes.is_empty() {
            let skipped = self.payload.min(bytes.len());
            self.payload -= skipped;
            bytes = bytes.get(skipped..).unwrap_or_default();
            let Some((byte, rest)) = bytes.split_first() else { break };
            if let Some(free) = self.head.get_mut(self.head_length) {
                *free = *byte;
            }
            self.head_length += 1;
            bytes = rest;
            if self.head_length == FRAME_HEAD {
                self.head_length = 0;
                let [a, b, c, kind, flags, stream @ ..] = self.head;
                self.payload = u32::from_be_bytes([0, a, b, c]) as usize;
                let stream = u32::from_be_bytes(stream);
                let begins = kind == HEADERS && stream > self.last_stream;
                if begins {
                    self.last_stream = stream;
                    self.idle_frames = self.idle_frames.saturating_sub(FRAMES_PER_HEAD);
                } else if is_idle(kind, flags, self.payload) && !self.count(kind, now) {
                    return false;
                }
            }
        }
        true
    }

    /// Records bytes that were sent to the client.
    fn record_sent(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(bytes);
        let frames = u32::try_from(self.sent / BYTES_PER_FRAME).unwrap_or(u32::MAX);
        self.sent %= BYTES_PER_FRAME;
        self.idle_frames = self.idle_frames.saturating_sub(frames);
        self.resets = self.resets.saturating_sub(frames);
    }

    fn count(&mut self, kind: u8, now: Instant) -> bool {
        if now.saturating_duration_since(self.period_began) >= PERIOD {
            (self.period_began, self.idle_frames, self.resets) = (now, 0, 0);
        }
        let (count, most) = match kind {
            RST_STREAM => (&mut self.resets, MAX_RESETS),
            _ => (&mut self.idle_frames, MAX_IDLE_FRAMES),
        };
        *count += 1;
        *count <= most
    }
}

/// Whether the HTTP implementation does not bound such frames itself, by heads or windows for data. The number of
/// streams bounds the frames that begin one.
fn is_idle(kind: u8, flags: u8, payload: usize) -> bool {
    match kind {
        DATA => payload == 0 && flags & END_STREAM == 0,
        CONTINUATION => false,
        _ => true,
    }
}

/// A stream of frames that ends, and tells the client why, when the client floods it.
pub struct Metered<S> {
    stream: S,
    /// `None` once the client has flooded it.
    meter: Option<FrameMeter>,
    is_flooded: Arc<AtomicBool>,
    /// How much of the last frame was written.
    told: usize,
}

impl<S> Metered<S> {
    /// `stream` begins with a frame. `is_flooded` is set when it ends because of its client.
    pub fn new(stream: S, is_flooded: Arc<AtomicBool>) -> Self {
        Self { stream, meter: Some(FrameMeter::new(Instant::now())), is_flooded, told: 0 }
    }

    fn record_written(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let (Poll::Ready(Ok(bytes)), Some(meter)) = (&written, &mut self.meter) {
            meter.record_sent(*bytes);
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let Some(meter) = &mut this.meter else { return Poll::Ready(Ok(())) };
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        let read = buf.filled().get(before..).unwrap_or_default();
        if !meter.record(read, Instant::now()) {
            // The end of the stream closes the connection in good order.
            buf.set_filled(before);
            this.meter = None;
            this.is_flooded.store(true, Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.record_written(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.record_written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// The HTTP implementation has written whole frames before it shuts the stream down.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.meter.is_none()
            && let Some(rest) = ENHANCE_YOUR_CALM.get(this.told..).filter(|rest| !rest.is_empty())
        {
            match ready!(Pin::new(&mut this.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => this.told += written,
            }
        }
        ready!(Pin::new(&mut this.stream).poll_flush(cx))?;
        Pin::new(&mut this.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    #[test]
    fn idle_frames_are_counted_wherever_reads_begin_and_end() {
        let ping = frame(6, 0, &[0; 8]);
        for size in [1, 5, 9, 10, 17, 64, 100_000] {
            let now = Instant::now();
            let mut meter = FrameMeter::new(now);
            let allowed = ping.repeat(MAX_IDLE_FRAMES as usize);
            assert!(allowed.chunks(size).all(|part| meter.record(part, now)), "{size}");
            assert!(meter.record(&frame(0, 0, &[6; 500]), now), "data is no flood");
            assert!(!ping.chunks(size).all(|part| meter.record(part, now)), "{size}");
            assert!(meter.record(&frame(0, 0, &[]), now + PERIOD), "another period");
        }
    }

    #[test]
    fn clients_that_are_served_may_send_more() {
        let now = Instant::now();
        let mut meter = FrameMeter::new(now);
        let update = frame(8, 0, &[0, 0, 0, 1]);
        for _ in 0..10 * MAX_IDLE_FRAMES {
            meter.record_sent(2 * BYTES_PER_FRAME);
            assert!(meter.record(&update.repeat(2), now));
        }
        for stream in 0..10 * MAX_IDLE_FRAMES {
            let mut head = frame(HEADERS, 5, &[0x82]);
            head[5..9].copy_from_slice(&(2 * stream + 1).to_be_bytes());
            assert!(meter.record(&[head, update.repeat(4)].concat(), now));
        }
        assert!(!meter.record(&update.repeat(MAX_IDLE_FRAMES as usize + 1), now));
    }

    #[test]
    fn heads_do_not_pay_for_resets() {
        let now = Instant::now();
        let mut meter = FrameMeter::new(now);
        let cancelled = |stream: u32| {
            let mut frames = [frame(HEADERS, 5, &[0x82]), frame(RST_STREAM, 0, &[0; 4])];
            frames.iter_mut().for_each(|frame| frame[5..9].copy_from_slice(&stream.to_be_bytes()));
            frames.concat()
        };
        assert!((0..MAX_RESETS).all(|n| meter.record(&cancelled(2 * n + 1), now)));
        meter.record_sent(BYTES_PER_FRAME);
        assert!(meter.record(&cancelled(2001), now), "it was served");
        assert!(!meter.record(&cancelled(2003), now));
        assert!(meter.record(&cancelled(2005), now + PERIOD), "another period");
    }

    #[test]
    fn frames_that_are_bounded_otherwise_do_not_count() {
        for (kind, flags, payload, expected) in [
            (0, 0, 0, true),
            (0, END_STREAM, 0, false),
            (0, 0, 1, false),
            (HEADERS, 0, 0, true),
            (2, 0, 5, true),
            (3, 0, 4, true),
            (4, 0, 0, true),
            (6, 1, 8, true),
            (8, 0, 4, true),
            (CONTINUATION, 0, 0, false),
            (0xb7, 0, 9, true),
        ] {
            assert_eq!(is_idle(kind, flags, payload), expected, "{kind} {flags} {payload}");
        }
    }
}
