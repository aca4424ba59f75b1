//! Whether the threads that serve clients are there: a host without one of them accepts connections and does not
//! answer them.

use std::sync::{Arc, Mutex, PoisonError};

use crate::stop::StopSignal;

/// The names of the threads that have ended, though the host serves.
#[derive(Clone, Debug, Default)]
pub struct ServingThreads(Arc<Mutex<Vec<String>>>);

/// One of the threads, until it is dropped.
pub struct ServingThread {
    name: String,
    threads: ServingThreads,
    stop: StopSignal,
}

impl ServingThreads {
    /// A thread that has this value until it ends.
    pub fn thread(&self, name: &str, stop: StopSignal) -> ServingThread {
        ServingThread { name: name.to_owned(), threads: self.clone(), stop }
    }

    pub fn ended(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for ServingThread {
    fn drop(&mut self) {
        if self.stop.borrow().is_none() {
            tracing::error!(thread = self.name, "a thread that serves clients has ended; restart the host");
            self.threads.0.lock().unwrap_or_else(PoisonError::into_inner).push(std::mem::take(&mut self.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;

    #[test]
    fn a_thread_that_panics_is_missed_and_one_that_stops_is_not() {
        let (stop, stopped) = watch::channel(None);
        let threads = ServingThreads::default();
        let (first, second) = (threads.thread("first", stopped.clone()), threads.thread("second", stopped));
        let panicked = std::thread::spawn(move || {
            let _thread = first;
            panic!("a defect");
        });
        panicked.join().unwrap_err();
        assert_eq!(threads.ended(), ["first"]);
        stop.send_replace(Some(std::time::Instant::now()));
        drop(second);
        assert_eq!(threads.ended(), ["first"]);
    }
}
