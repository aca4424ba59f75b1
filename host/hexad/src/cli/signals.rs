//! The signals of the process.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::error::Elapsed;

/// The signals that stop the host or make it read its files again. They are caught before the host starts.
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

    /// Waits for a signal that stops the host. SIGHUP calls `reload`, which must not block.
    pub fn wait(&mut self, mut reload: impl FnMut()) -> StopRequest {
        loop {
            match self.stop_or_reload() {
                Some(request) => return request,
                None => reload(),
            }
        }
    }

    /// Waits for a signal that stops the host, or for SIGHUP: `None`.
    fn stop_or_reload(&mut self) -> Option<StopRequest> {
        let Self { runtime, terminate, interrupt, hangup } = self;
        runtime.block_on(async {
            tokio::select! {
                request = stop_request(terminate, interrupt) => Some(request),
                _ = hangup.recv() => None,
            }
        })
    }

    /// Does `work`, which may block. Another thread passes each signal that stops the host to `on_stop`.
    pub fn watch_during<T>(&mut self, mut on_stop: impl FnMut(StopRequest) + Send, work: impl FnOnce() -> T) -> T {
        let Self { runtime, terminate, interrupt, .. } = self;
        let (done, mut ended) = tokio::sync::oneshot::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                runtime.block_on(async {
                    loop {
                        tokio::select! {
                            _ = &mut ended => return,
                            request = stop_request(terminate, interrupt) => on_stop(request),
                        }
                    }
                });
            });
            let result = work();
            drop(done);
            result
        })
    }

    /// Waits for `work` for at most `timeout`, or for another signal that stops the host.
    pub fn wait_unless_repeated<T>(
        &mut self,
        work: impl Future<Output = T>,
        timeout: Duration,
    ) -> Result<Result<T, Elapsed>, StopRequest> {
        let Self { runtime, terminate, interrupt, .. } = self;
        runtime.block_on(async {
            tokio::select! {
                done = tokio::time::timeout(timeout, work) => Ok(done),
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
