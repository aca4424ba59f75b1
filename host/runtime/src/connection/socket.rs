//! A client's socket, and bytes that were read ahead.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use hexad_limits::read_bounds::{self, OverheadMeter};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Bytes that the kernel takes ahead of what it can send. Without this bound, the kernel would take megabytes for a
/// client that does not read, and no budget counts them.
#[cfg(target_os = "linux")]
const MAX_UNSENT: u32 = 128 * 1024;

/// A connected socket, below TLS, with a bound on the bytes that one turn reads.
pub struct ClientSocket {
    stream: TcpStream,
    state: Arc<SocketState>,
}

/// The state of a socket that the HTTP implementation owns.
pub struct SocketState {
    /// `None` once the socket is closed: another connection may have the number then.
    descriptor: Mutex<Option<RawFd>>,
    has_read: AtomicBool,
    is_blocked: AtomicBool,
    /// Bytes that the kernel has taken.
    written: AtomicU64,
    reset_on_close: AtomicBool,
}

impl ClientSocket {
    pub fn new(stream: TcpStream) -> (Self, Arc<SocketState>) {
        let state = Arc::new(SocketState {
            descriptor: Mutex::new(Some(stream.as_raw_fd())),
            has_read: AtomicBool::new(false),
            is_blocked: AtomicBool::new(false),
            written: AtomicU64::new(0),
            reset_on_close: AtomicBool::new(false),
        });
        (Self { stream, state: state.clone() }, state)
    }

    fn written(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.state.is_blocked.store(written.is_pending(), Ordering::Relaxed);
        if let Poll::Ready(Ok(bytes)) = &written {
            self.state.written.fetch_add(*bytes as u64, Ordering::Relaxed);
        }
        written
    }
}

impl SocketState {
    /// Calls `operation` with the socket, unless it is closed.
    #[cfg(target_os = "linux")]
    fn with_socket<T>(&self, operation: impl FnOnce(BorrowedFd<'_>) -> T) -> Option<T> {
        let descriptor = self.descriptor();
        // SAFETY: the socket is open. `ClientSocket` closes it only after it has removed the number, under this lock.
        let socket = (*descriptor).map(|descriptor| unsafe { BorrowedFd::borrow_raw(descriptor) });
        socket.map(operation)
    }

    fn descriptor(&self) -> MutexGuard<'_, Option<RawFd>> {
        self.descriptor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether bytes were read since the last call.
    pub fn take_has_read(&self) -> bool {
        self.has_read.load(Ordering::Relaxed) && self.has_read.swap(false, Ordering::Relaxed)
    }

    /// Whether the kernel had no room for the last write.
    pub fn is_blocked(&self) -> bool {
        self.is_blocked.load(Ordering::Relaxed)
    }

    /// Bytes that the kernel has taken so far.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// How many of the written bytes the client has acknowledged. The kernel takes bytes in large steps and sends them
    /// in small ones.
    pub fn acknowledged(&self) -> u64 {
        self.written().saturating_sub(self.unacknowledged())
    }

    /// Whether the client has not acknowledged all sent bytes, or the end of the stream.
    pub fn has_unacknowledged(&self) -> bool {
        self.unacknowledged() > 0
    }

    /// Whether the client has closed the connection or its sending half, also behind bytes that the host has not read.
    #[cfg(target_os = "linux")]
    pub fn has_hung_up(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        // The kernel always reports errors and the end of both halves.
        let poll_now = |socket: BorrowedFd<'_>| {
            poll(&mut [PollFd::from_borrowed_fd(socket, PollFlags::RDHUP)], Some(&Timespec::default()))
        };
        self.with_socket(poll_now).is_none_or(|polled| polled.is_ok_and(|events| events > 0))
    }

    #[cfg(not(target_os = "linux"))]
    pub fn has_hung_up(&self) -> bool {
        false
    }

    /// When the socket is closed, the kernel drops the unsent bytes.
    pub fn reset_on_close(&self) {
        self.reset_on_close.store(true, Ordering::Relaxed);
    }

    /// Bytes that the kernel holds until the client has acknowledged them.
    #[cfg(target_os = "linux")]
    fn unacknowledged(&self) -> u64 {
        /// `SIOCOUTQ` of tcp(7).
        const OPCODE: rustix::ioctl::Opcode = 0x5411;
        // SAFETY: the operation writes an int.
        let queued = |socket: BorrowedFd<'_>| unsafe {
            rustix::ioctl::ioctl(socket, rustix::ioctl::Getter::<OPCODE, i32>::new())
        };
        let queued = self.with_socket(queued).and_then(Result::ok);
        queued.map_or(0, |bytes| u64::try_from(bytes).unwrap_or(0))
    }

    #[cfg(not(target_os = "linux"))]
    fn unacknowledged(&self) -> u64 {
        0
    }

    /// Limits the kernel to little more than it can send at once. So streams of one connection progress side by side,
    /// and the host sees their progress.
    #[cfg(target_os = "linux")]
    pub fn limit_unsent(&self) {
        let limit = |socket: BorrowedFd<'_>| socket2::SockRef::from(&socket).set_tcp_notsent_lowat(MAX_UNSENT);
        if let Some(Err(error)) = self.with_socket(limit) {
            tracing::debug!(%error, "the kernel's buffer of a connection has no limit");
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub fn limit_unsent(&self) {}
}

impl Drop for ClientSocket {
    fn drop(&mut self) {
        *self.state.descriptor() = None;
        if self.state.reset_on_close.load(Ordering::Relaxed) {
            let _ = socket2::SockRef::from(&self.stream).set_linger(Some(std::time::Duration::ZERO));
        }
    }
}

impl AsyncRead for ClientSocket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = read_bounds::poll_read_in_turn(&mut self.stream, cx, buf);
        if buf.filled().len() > before {
            self.state.has_read.store(true, Ordering::Relaxed);
        }
        read
    }
}

impl AsyncWrite for ClientSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A stream with bytes that were read ahead, and with a bound on its overhead.
pub struct ReadAhead<S> {
    pub read: Bytes,
    pub stream: S,
    /// `None` on HTTP/2.
    pub overhead: Option<Arc<OverheadMeter>>,
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadAhead<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.read.is_empty() {
            let this = &mut *self;
            return read_bounds::poll_read_metered(&mut this.stream, this.overhead.as_deref(), cx, buf);
        }
        let length = self.read.len().min(buf.remaining());
        buf.put_slice(self.read.get(..length).unwrap_or_default());
        self.read.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ReadAhead<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Write as _;

    use super::*;
    use hexad_limits::read_bounds::begin_turn;
    use hexad_testing::wait::{SOON, join};
    use hexad_testing::wait_async::wait_until_async;

    /// A reader like TLS, which reads as long as the socket has bytes.
    #[tokio::test]
    async fn a_turn_bounds_the_bytes_read_from_a_socket() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        socket2::SockRef::from(&listener).set_recv_buffer_size(1 << 20).unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let writing = std::thread::spawn(move || client.write_all(&[0; 100 * 1024]).map(|()| client));
        let mut buffer = vec![0; 128 * 1024];
        let all_arrived = async || stream.peek(&mut buffer).await.unwrap() == 100 * 1024;
        wait_until_async(SOON, "all bytes of the client", all_arrived).await;
        let (mut socket, _) = ClientSocket::new(stream);
        begin_turn();
        let mut read = 0;
        poll_fn(|cx| {
            loop {
                let mut part = ReadBuf::new(&mut buffer[..4096]);
                match Pin::new(&mut socket).poll_read(cx, &mut part) {
                    Poll::Ready(result) => result.unwrap(),
                    Poll::Pending => return Poll::Ready(()),
                }
                read += part.filled().len();
            }
        })
        .await;
        assert_eq!(read, 64 * 1024);
        drop(join(writing, "the end of the write").unwrap());
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_number_of_a_closed_socket_is_not_used() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connect = async || {
            let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            (client, ClientSocket::new(stream))
        };
        let (client, (socket, state)) = connect().await;
        assert!(!state.has_hung_up());
        let number = state.descriptor().unwrap();
        drop((client, socket));
        // The kernel gives the lowest free number, and other tests open files as well.
        let others: Vec<_> = futures::future::join_all((0..8).map(|_| connect())).await;
        assert!(state.has_hung_up() && !state.has_unacknowledged(), "{number}");
        assert_eq!(*state.descriptor(), None);
        drop(others);
    }
}
