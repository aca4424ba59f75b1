//! Limits on the bytes that hyper reads of a connection: in one turn, and without a head or data.
//!
//! hyper decodes framing (neither a head nor data) byte by byte, at up to 40 ns each, as long as the socket has bytes.
//! Meanwhile, the other tasks of the shard wait. The limit of a turn counts bytes below TLS. A TLS record with one byte
//! of data has 23 bytes, and costs as much as many more.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

/// After this many bytes, a connection begins no further read in its turn.
const MAX_TURN: usize = 64 * 1024;

/// Bytes of framing that a frame of data explains. A size of 16 digits and two ends of lines are 20.
const FRAMING: u64 = 32;

thread_local! {
    /// Bytes that the current connection's task has read in its turn.
    static TURN: Cell<usize> = const { Cell::new(0) };
}

/// Begins a connection's turn, before its task is polled.
pub fn begin_turn() {
    TURN.set(0);
}

/// Reads from a connection's socket, within its turn.
pub fn poll_read_in_turn<S: AsyncRead + Unpin>(
    socket: &mut S,
    cx: &mut Context<'_>,
    buf: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    if TURN.get() >= MAX_TURN {
        // Otherwise, a task that never begins a turn would not read again.
        begin_turn();
        // Tokio's `yield_now` lets the shard poll its sockets and timers before it polls this task again.
        if pin!(tokio::task::yield_now()).poll(cx).is_pending() {
            return Poll::Pending;
        }
    }
    let before = buf.filled().len();
    let read = Pin::new(socket).poll_read(cx, buf);
    let bytes = buf.filled().len().saturating_sub(before);
    TURN.set(TURN.get().saturating_add(bytes));
    read
}

/// Reads from a connection, above TLS, within the limit of its overhead, if any.
pub fn poll_read_metered<S: AsyncRead + Unpin>(
    stream: &mut S,
    overhead: Option<&OverheadMeter>,
    cx: &mut Context<'_>,
    buf: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    let Some(overhead) = overhead else {
        return Pin::new(stream).poll_read(cx, buf);
    };
    overhead.check().map_err(io::Error::other)?;
    let before = buf.filled().len();
    let read = Pin::new(stream).poll_read(cx, buf);
    let bytes = buf.filled().len().saturating_sub(before);
    overhead.unexplained.fetch_add(bytes as u64, Ordering::Relaxed);
    read
}

/// Counts bytes of an HTTP/1 connection that yield neither a head nor data, such as endless chunk sizes or interim
/// responses.
#[derive(Debug)]
pub struct OverheadMeter {
    /// Bytes that were read, minus the bytes that heads and frames explain.
    unexplained: AtomicU64,
    max: u64,
}

/// A connection has more overhead than a peer needs.
#[derive(Debug, thiserror::Error)]
#[error("more than {0} bytes came without a head or data")]
pub struct TooMuchOverhead(u64);

impl OverheadMeter {
    /// `buffer` is the most bytes of a head that hyper keeps. Without a flood, hyper may have read six buffers: two of
    /// a frame that was not taken, two after the body's end, and one for the next head. Chunk extensions and trailers
    /// have less than one.
    pub fn new(buffer: usize) -> Self {
        Self { unexplained: AtomicU64::new(0), max: 6 * buffer as u64 }
    }

    /// Records that hyper has read a head, and maybe some of the bytes after it.
    pub fn record_head(&self) {
        self.unexplained.store(0, Ordering::Relaxed);
    }

    /// Records that a frame with `data` bytes was taken.
    pub fn record_frame(&self, data: u64) {
        let explained = FRAMING.saturating_add(data);
        let rest = |unexplained: u64| Some(unexplained.saturating_sub(explained));
        let _ = self.unexplained.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
    }

    /// Fails once the peer has sent more overhead than it needs.
    pub fn check(&self) -> Result<(), TooMuchOverhead> {
        match self.unexplained.load(Ordering::Relaxed) > self.max {
            true => Err(TooMuchOverhead(self.max)),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[tokio::test]
    async fn other_tasks_run_after_a_turn() {
        let has_run = Arc::new(AtomicBool::new(false));
        let other = has_run.clone();
        tokio::spawn(async move { other.store(true, Ordering::Relaxed) });
        let (mut stream, mut buffer) = (tokio::io::repeat(b' '), vec![0; 16 * 1024]);
        let mut read = 0;
        begin_turn();
        while !has_run.load(Ordering::Relaxed) && read < 10 * MAX_TURN {
            poll_fn(|cx| poll_read_in_turn(&mut stream, cx, &mut ReadBuf::new(&mut buffer))).await.unwrap();
            read += buffer.len();
        }
        assert_eq!(read, MAX_TURN + buffer.len(), "the last read is one of the next turn");
    }

    #[tokio::test]
    async fn bytes_without_a_head_or_data_are_bounded() {
        let (mut stream, mut buffer) = (tokio::io::repeat(b' '), vec![0; 1000]);
        let overhead = OverheadMeter::new(10_000);
        let mut read = async |bytes: usize| {
            let mut read = ReadBuf::new(&mut buffer[..bytes]);
            poll_fn(|cx| poll_read_metered(&mut stream, Some(&overhead), cx, &mut read)).await
        };
        for _ in 0..1000 {
            read(1000).await.unwrap();
            overhead.record_frame(1000 - 20);
        }
        for _ in 0..60 {
            read(1000).await.unwrap();
        }
        read(1).await.unwrap();
        overhead.record_frame(0);
        read(31).await.unwrap();
        read(1).await.unwrap();
        assert!(read(1).await.is_err(), "frames do not explain bytes that follow them");
        overhead.record_head();
        read(1).await.unwrap();
    }
}
