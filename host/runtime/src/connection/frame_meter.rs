//! Counts the HTTP/2 frames that cost work and carry nothing (RFC 9113, section 10.5; decision 0023).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Idle frames that a client may send in a period. Clients ping a few times a second at most.
const MAX_IDLE_FRAMES: i64 = 1000;
/// Streams that a client may end in a period, by a reset or by an error for which the host resets them. Each may end an
/// instance that waited for the client. The HTTP implementation bounds the streams that are reset before they are
/// served.
pub const MAX_RESETS: u32 = 300;
/// The bound for a proxy, over all of its clients. The host refuses each client after `MAX_RESETS` of its own.
pub const MAX_RESETS_OF_PROXY: u32 = 30_000;
pub const PERIOD: Duration = Duration::from_secs(10);

/// Credit for further idle frames, such as window updates. A client earns it by each head that it sends, and by each
/// DATA frame and each `BYTES_PER_FRAME` that the host sends. The bytes also pay for a reset.
const FRAMES_PER_HEAD: i64 = 4;
const FRAMES_PER_DATA: i64 = 2;
const BYTES_PER_FRAME: usize = 1024;

/// The most credit that a client can save: more frames than the kernels' buffers between host and client can delay.
const MAX_CREDIT: i64 = 16 * 1024;

/// The flag of the last frame of a stream.
const END_STREAM: u8 = 1;
/// The flag of a padded frame, and the most bytes of padding with its length (section 6.1).
const PADDED: u8 = 8;
const MAX_PADDING: usize = 256;

/// Error codes of resets that the client has caused (section 7): `PROTOCOL_ERROR`, `FLOW_CONTROL_ERROR`,
/// `STREAM_CLOSED` and `FRAME_SIZE_ERROR`.
const ERRORS_OF_CLIENT: [u32; 4] = [1, 3, 5, 6];

/// `GOAWAY` with `ENHANCE_YOUR_CALM` (section 6.8) and the highest number of a stream.
const ENHANCE_YOUR_CALM: [u8; HEAD_BYTES + 8] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 11];

/// Types of frames (section 6).
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const CONTINUATION: u8 = 9;

/// Bytes of a frame before its payload.
pub const HEAD_BYTES: usize = 9;
/// Bytes of an error code, which is the payload of an `RST_STREAM` (section 6.4).
const ERROR_BYTES: usize = 4;

/// Detects a flood of idle frames or of resets. Idle frames are pings, settings, priorities, window updates, unknown
/// frames, data without bytes, and heads that begin no stream.
struct FrameMeter {
    received: FrameHeads,
    sent: FrameHeads,
    max_resets: u32,
    period_began: Instant,
    /// Idle frames of the period that no credit has paid for. Below zero: the client's credit.
    idle_frames: i64,
    resets: u32,
    /// The stream that began last.
    last_stream: u32,
    /// Sent bytes that have not earned credit yet.
    unpaid: usize,
}

impl FrameMeter {
    fn new(max_resets: u32, now: Instant) -> Self {
        Self {
            received: FrameHeads::default(),
            sent: FrameHeads::default(),
            max_resets,
            period_began: now,
            idle_frames: 0,
            resets: 0,
            last_stream: 0,
            unpaid: 0,
        }
    }

    /// Counts the frames in bytes that the client sent. False if there are too many idle frames or resets.
    fn record(&mut self, mut bytes: &[u8], now: Instant) -> bool {
        while let Some(head) = self.received.next(&mut bytes) {
            if head.kind == HEADERS && head.stream > self.last_stream {
                self.last_stream = head.stream;
                self.pay(FRAMES_PER_HEAD);
            } else if head.kind == RST_STREAM {
                if !self.count_resets(1, now) {
                    return false;
                }
            } else if is_idle(head.kind, head.flags, head.payload) {
                self.renew_period(now);
                self.idle_frames += 1;
                if self.idle_frames > MAX_IDLE_FRAMES {
                    return false;
                }
            }
        }
        true
    }

    /// Counts the frames in bytes that the host sent. Returns how many streams the host has reset because of the
    /// client's errors.
    fn record_sent(&mut self, mut bytes: &[u8]) -> u32 {
        let sent = self.unpaid.saturating_add(bytes.len());
        self.unpaid = sent % BYTES_PER_FRAME;
        let frames = sent / BYTES_PER_FRAME;
        self.pay(i64::try_from(frames).unwrap_or(MAX_CREDIT));
        self.resets = self.resets.saturating_sub(u32::try_from(frames).unwrap_or(u32::MAX));
        let mut errors = 0;
        while let Some(head) = self.sent.next(&mut bytes) {
            if head.kind == DATA && head.payload > 0 {
                self.pay(FRAMES_PER_DATA);
            }
            errors += u32::from(head.kind == RST_STREAM && ERRORS_OF_CLIENT.contains(&head.error));
        }
        errors
    }

    fn pay(&mut self, frames: i64) {
        self.idle_frames = self.idle_frames.saturating_sub(frames).max(-MAX_CREDIT);
    }

    /// Counts resets. False if there are too many.
    fn count_resets(&mut self, resets: u32, now: Instant) -> bool {
        self.renew_period(now);
        self.resets = self.resets.saturating_add(resets);
        self.resets <= self.max_resets
    }

    fn renew_period(&mut self, now: Instant) {
        if now.saturating_duration_since(self.period_began) >= PERIOD {
            (self.period_began, self.idle_frames, self.resets) = (now, self.idle_frames.min(0), 0);
        }
    }
}

/// Whether nothing else bounds such frames. hyper bounds heads and data by their size and windows, and the meter counts
/// resets. The number of streams bounds the frames that begin a stream.
fn is_idle(kind: u8, flags: u8, payload: usize) -> bool {
    match kind {
        // A frame that may be padding alone, which windows do not bound.
        DATA => flags & END_STREAM == 0 && (payload == 0 || flags & PADDED != 0 && payload <= MAX_PADDING),
        CONTINUATION | RST_STREAM => false,
        _ => true,
    }
}

/// A stream of frames that ends with a `GOAWAY` when the client floods it.
pub struct Metered<S> {
    stream: S,
    /// `None` once the client has flooded it.
    meter: Option<FrameMeter>,
    is_flooded: Arc<AtomicBool>,
    /// How many bytes of the `GOAWAY` frame were written.
    told: usize,
}

impl<S> Metered<S> {
    /// `stream` begins with a frame. `max_resets` bounds the client's resets in a period. `is_flooded` is set when the
    /// stream ends because of a flood.
    pub fn new(stream: S, max_resets: u32, is_flooded: Arc<AtomicBool>) -> Self {
        Self { stream, meter: Some(FrameMeter::new(max_resets, Instant::now())), is_flooded, told: 0 }
    }

    /// Counts the frames in the written bytes of `parts`.
    fn record_written<'a>(
        &mut self,
        written: Poll<io::Result<usize>>,
        parts: impl Iterator<Item = &'a [u8]>,
    ) -> Poll<io::Result<usize>> {
        if let (Poll::Ready(Ok(bytes)), Some(meter)) = (&written, &mut self.meter) {
            let (mut left, mut errors) = (*bytes, 0);
            for part in parts {
                let part = part.get(..left.min(part.len())).unwrap_or_default();
                left -= part.len();
                errors += meter.record_sent(part);
            }
            if errors > 0 && !meter.count_resets(errors, Instant::now()) {
                self.end();
            }
        }
        written
    }

    /// Ends reading: hyper then closes the connection in good order.
    fn end(&mut self) {
        self.meter = None;
        self.is_flooded.store(true, Ordering::Relaxed);
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
            buf.set_filled(before);
            this.end();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.record_written(written, std::iter::once(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.record_written(written, bytes.iter().map(|part| &**part))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// hyper has written whole frames before it shuts the stream down, so the `GOAWAY` fits here.
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

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Bytes of the payload.
    pub payload: usize,
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    /// The error code of an `RST_STREAM`; 0 of other frames.
    pub error: u32,
}

/// Finds the heads wherever reads or writes begin and end. The bytes begin with a frame.
#[derive(Default)]
pub struct FrameHeads {
    /// The bytes of the current head so far, and of an error code after it.
    read: [u8; HEAD_BYTES + ERROR_BYTES],
    length: usize,
    /// Payload bytes of the current frame that have not come yet.
    payload: usize,
}

impl FrameHeads {
    /// The next frame head that ends in `bytes`, which advance past it. `None` if no head ends there.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Option<FrameHead> {
        let skipped = self.payload.min(bytes.len());
        self.payload -= skipped;
        *bytes = bytes.get(skipped..).unwrap_or_default();
        while let Some((byte, rest)) = bytes.split_first() {
            *bytes = rest;
            if let Some(free) = self.read.get_mut(self.length) {
                *free = *byte;
            }
            self.length += 1;
            if self.length < HEAD_BYTES {
                continue;
            }
            let [a, b, c, kind, flags, s, t, r, e, error @ ..] = self.read;
            let payload = u32::from_be_bytes([0, a, b, c]) as usize;
            let with_error = kind == RST_STREAM && payload >= ERROR_BYTES;
            let ahead = if with_error { ERROR_BYTES } else { 0 };
            if self.length == HEAD_BYTES + ahead {
                self.length = 0;
                self.payload = payload - ahead;
                let error = if with_error { u32::from_be_bytes(error) } else { 0 };
                return Some(FrameHead { payload, kind, flags, stream: u32::from_be_bytes([s, t, r, e]), error });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPDATE: u8 = 8;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    /// A frame of data.
    fn data(bytes: usize) -> Vec<u8> {
        // A payload has three bytes of length.
        let bytes = bytes.min((1 << 24) - 1);
        frame(DATA, 0, &vec![6; bytes])
    }

    #[test]
    fn idle_frames_are_counted_wherever_reads_begin_and_end() {
        let ping = frame(6, 0, &[0; 8]);
        for size in [1, 5, 9, 10, 17, 64, 100_000] {
            let now = Instant::now();
            let mut meter = FrameMeter::new(MAX_RESETS, now);
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
        let mut meter = FrameMeter::new(MAX_RESETS, now);
        let update = frame(UPDATE, 0, &[0, 0, 0, 1]);
        for _ in 0..10 * MAX_IDLE_FRAMES {
            meter.record_sent(&data(2 * BYTES_PER_FRAME));
            assert!(meter.record(&update.repeat(2), now));
        }
        for stream in 0..10_000u32 {
            let mut head = frame(HEADERS, 5, &[0x82]);
            head[5..9].copy_from_slice(&(2 * stream + 1).to_be_bytes());
            assert!(meter.record(&[head, update.repeat(4)].concat(), now));
        }
        let credit = (MAX_CREDIT + MAX_IDLE_FRAMES) as usize;
        assert!(!meter.record(&update.repeat(credit + 1), now));
    }

    #[test]
    fn clients_may_take_long_to_acknowledge_what_they_are_sent() {
        let now = Instant::now();
        for (frames, size) in [(1000, 16 * 1024), (4000, 1), (8, BYTES_PER_FRAME * MAX_CREDIT as usize)] {
            let mut meter = FrameMeter::new(MAX_RESETS, now);
            let update = frame(UPDATE, 0, &[0, 0, 0, 1]);
            (0..frames).for_each(|_| assert_eq!(meter.record_sent(&data(size)), 0));
            assert!(meter.record(&update.repeat(2 * frames), now + 2 * PERIOD), "{frames} {size}");
            assert!(!meter.record(&update.repeat((MAX_CREDIT + MAX_IDLE_FRAMES) as usize + 1), now + 2 * PERIOD));
        }
    }

    #[test]
    fn resets_for_errors_of_the_client_count_as_its_own() {
        let now = Instant::now();
        let mut meter = FrameMeter::new(MAX_RESETS, now);
        for code in 0..14u32 {
            let is_clients = matches!(code, 1 | 3 | 5 | 6);
            assert_eq!(meter.record_sent(&frame(RST_STREAM, 0, &code.to_be_bytes())), u32::from(is_clients), "{code}");
        }
        assert!(meter.count_resets(MAX_RESETS, now));
        assert!(!meter.record(&frame(RST_STREAM, 0, &[0; 4]), now));
    }

    #[test]
    fn heads_do_not_pay_for_resets() {
        let now = Instant::now();
        let mut meter = FrameMeter::new(MAX_RESETS, now);
        let cancelled = |stream: u32| {
            let mut frames = [frame(HEADERS, 5, &[0x82]), frame(RST_STREAM, 0, &[0; 4])];
            frames.iter_mut().for_each(|frame| frame[5..9].copy_from_slice(&stream.to_be_bytes()));
            frames.concat()
        };
        assert!((0..MAX_RESETS).all(|n| meter.record(&cancelled(2 * n + 1), now)));
        meter.record_sent(&data(BYTES_PER_FRAME));
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
            (RST_STREAM, 0, 4, false),
            (4, 0, 0, true),
            (6, 1, 8, true),
            (UPDATE, 0, 4, true),
            (CONTINUATION, 0, 0, false),
            (0xb7, 0, 9, true),
        ] {
            assert_eq!(is_idle(kind, flags, payload), expected, "{kind} {flags} {payload}");
        }
    }

    #[test]
    fn heads_are_found_wherever_the_bytes_are_cut() {
        let mut frames = Vec::new();
        frames.extend([0, 0, 3, DATA, 1, 0, 0, 0, 5, 7, 7, 7]);
        frames.extend([0, 0, 4, RST_STREAM, 0, 0, 0, 0, 7, 0, 0, 0, 8]);
        frames.extend([0, 0, 0, RST_STREAM, 0, 0, 0, 0, 7]);
        frames.extend([0, 0, 1, 6, 0, 0, 0, 0, 0, 1]);
        let head = |payload, kind, flags, stream, error| FrameHead { payload, kind, flags, stream, error };
        let expected =
            [head(3, DATA, 1, 5, 0), head(4, RST_STREAM, 0, 7, 8), head(0, RST_STREAM, 0, 7, 0), head(1, 6, 0, 0, 0)];
        for size in 1..=frames.len() {
            let (mut heads, mut found) = (FrameHeads::default(), Vec::new());
            for mut part in frames.chunks(size) {
                while let Some(head) = heads.next(&mut part) {
                    found.push(head);
                }
                assert!(part.is_empty());
            }
            assert_eq!(found, expected, "{size}");
        }
    }
}
