//! The output of guests: lines of the host's log with the component's name, limited in length and rate. Control
//! characters are escaped, so that they do not control a terminal.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use hexad_support::log_throttle::LogThrottle;
use hexad_telemetry::metrics::Counter;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use super::side_effects::SideEffects;

/// The longest line, in bytes. The rest of a longer line is dropped.
const MAX_LINE_BYTES: usize = 4096;

/// A component may print the lines of this many seconds at once.
const BURST_SECONDS: u32 = 5;

/// The log of all instances of one component.
#[derive(Debug)]
pub struct GuestLog {
    component: String,
    throttle: LogThrottle,
    dropped: Arc<Counter>,
}

/// The standard output and standard error of one instance, which share a line buffer.
#[derive(Clone, Debug)]
pub struct GuestOutput(Arc<LineBuffer>);

#[derive(Debug)]
struct LineBuffer {
    log: Arc<GuestLog>,
    side_effects: SideEffects,
    text: Mutex<Vec<u8>>,
}

impl GuestLog {
    /// `rate` is in lines per second, over all instances. `dropped` counts the lines above it.
    pub fn new(component: &str, rate: u32, dropped: Arc<Counter>) -> Self {
        let throttle = LogThrottle::new(rate, rate.saturating_mul(BURST_SECONDS));
        Self { component: component.to_owned(), throttle, dropped }
    }

    /// The output of a new instance.
    pub fn output(self: &Arc<Self>) -> GuestOutput {
        GuestOutput(Arc::new(LineBuffer {
            log: self.clone(),
            side_effects: SideEffects::default(),
            text: Mutex::default(),
        }))
    }

    fn print(&self, line: &[u8]) {
        let Some(suppressed) = self.throttle.pass() else {
            self.dropped.add(1);
            return;
        };
        let component = &self.component;
        if suppressed > 0 {
            tracing::warn!(component, suppressed, "the guest printed too much; lines were dropped");
        }
        // Escaped, so that a guest cannot forge a line of the log or move the cursor.
        let line = String::from_utf8_lossy(line);
        tracing::info!(target: "guest", component, "{}", line.escape_debug());
    }
}

impl GuestOutput {
    /// An output to the same log, which records each write in `side_effects`.
    pub fn tracked_by(&self, side_effects: SideEffects) -> Self {
        GuestOutput(Arc::new(LineBuffer { log: self.0.log.clone(), side_effects, text: Mutex::default() }))
    }

    fn write(&self, bytes: &[u8]) {
        self.0.side_effects.record();
        let mut line = self.0.text.lock().unwrap_or_else(PoisonError::into_inner);
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_complete) = match part.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (part, false),
            };
            let remaining = MAX_LINE_BYTES.saturating_sub(line.len());
            line.extend(text.iter().take(remaining));
            if is_complete {
                self.0.log.print(&std::mem::take(&mut *line));
            }
        }
    }
}

impl Drop for LineBuffer {
    fn drop(&mut self) {
        let rest = self.text.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !rest.is_empty() {
            self.log.print(rest);
        }
    }
}

impl IsTerminal for GuestOutput {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for GuestOutput {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl OutputStream for GuestOutput {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        GuestOutput::write(self, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(64 * 1024)
    }
}

#[async_trait::async_trait]
impl Pollable for GuestOutput {
    async fn ready(&mut self) {}
}

impl AsyncWrite for GuestOutput {
    fn poll_write(self: Pin<&mut Self>, _cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        GuestOutput::write(&self, bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
