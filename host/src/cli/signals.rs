//! The signals of the process.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that stop the host or have it read its files again. They are caught before the host starts.
pub struct Signals {
    runtime: tokio::runtime::Runtime,
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

/// A signal that stops the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopRequest {
    Terminate,
    Interrupt,
}

impl StopRequest {
    pub fn name(self) -> &'static str {
        match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
        }
    }

    /// The exit status of a process that the signal ends at once.
    pub fn exit_status(self) -> i32 {
        let number = match self {
            Self::Terminate => SignalKind::terminate(),
            Self::Interrupt => SignalKind::interrupt(),
        };
        128 + number.as_raw_value()
    }
}

impl Signals {
    pub fn catch() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let context = runtime.enter();
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        let hangup = signal(SignalKind::hangup())?;
        drop(context);
        Ok(Self { runtime, terminate, interrupt, hangup })
    }

    /// Waits for a signal that stops the host. SIGHUP calls `reload`, which may block.
    pub fn wait(&mut self, mut reload: impl FnMut()) -> StopRequest {
        let Self { runtime, terminate, interrupt, hangup } = self;
        loop {
            let request = runtime.block_on(async {
                tokio::select! {
                    request = stop_request(terminate, interrupt) => Some(request),
                    _ = hangup.recv() => None,
                }
            });
            match request {
                Some(request) => return request,
                None => reload(),
            }
        }
    }

    /// Waits for `work`, or for another signal that stops the host.
    pub fn wait_unless_repeated<T>(&mut self, work: impl Future<Output = T>) -> Result<T, StopRequest> {
        let Self { runtime, terminate, interrupt, .. } = self;
        runtime.block_on(async {
            tokio::select! {
                done = work => Ok(done),
                request = stop_request(terminate, interrupt) => Err(request),
            }
        })
    }
}

async fn stop_request(terminate: &mut Signal, interrupt: &mut Signal) -> StopRequest {
    tokio::select! {
        _ = terminate.recv() => StopRequest::Terminate,
        _ = interrupt.recv() => StopRequest::Interrupt,
    }
}
