//! The epoch clock, which interrupts busy guests.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;

use hexad_limits::cpu_scheduler::SLICE;
use hexad_support::serving_threads::survive;
use wasmtime::Engine;

const NAME: &str = "epoch";

/// Owns the thread. Dropping it ends and joins the thread.
pub struct Ticker {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    pub fn start(engine: &Engine) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let engine = engine.clone();
        let thread = std::thread::Builder::new().name(NAME.to_owned()).spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(SLICE) {
                survive(NAME, || engine.increment_epoch());
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the epoch clock panicked");
        }
    }
}
