//! The end of a connection whose client may still send.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use super::service::Connection;

/// How long a client may take to close a connection that the host has ended.
const LINGER_TIMEOUT: Duration = Duration::from_secs(30);

/// The host closes the connection when the client has sent nothing for this long and its kernel has acknowledged all
/// bytes (RFC 9112, section 9.6).
const LINGER_PAUSE: Duration = Duration::from_secs(1);

/// Bytes that the client may still send: a window of uploads, and window updates.
const MAX_LINGER_BYTES: usize = 4 << 20;

/// Bytes that are read at once.
const READ_BYTES: usize = 4 * 1024;

/// Shuts the sending half down, unless that was done, and drops what the client still sends. Ends when the client
/// closes the connection or another client needs the place.
///
/// The kernel resets a socket that is closed while bytes of the client are unread or still come. A reset drops the end
/// of the responses that the client has not got.
pub async fn linger(connection: &Connection, stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    let deadline = Instant::now() + LINGER_TIMEOUT;
    let mut idle = connection.await_client();
    // After some errors, hyper leaves the sending half open.
    let is_shut = tokio::select! {
        shut = tokio::time::timeout_at(deadline, stream.shutdown()) => matches!(shut, Ok(Ok(()))),
        () = idle.evicted() => false,
    };
    if !is_shut {
        return;
    }
    let mut left = MAX_LINGER_BYTES;
    let mut buffer = [0; READ_BYTES];
    loop {
        let pause = deadline.min(Instant::now() + LINGER_PAUSE);
        let read = tokio::select! {
            read = tokio::time::timeout_at(pause, stream.read(&mut buffer)) => read,
            () = idle.evicted() => return,
        };
        match read {
            Ok(Ok(bytes)) if bytes > 0 && bytes < left => left -= bytes,
            Err(_) if Instant::now() < deadline && connection.socket.has_unacknowledged() => {}
            _ => return,
        }
    }
}
