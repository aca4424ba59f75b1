//! Whether the host's threads do their work. Without a thread that serves clients, a host accepts connections and does
//! not respond. A thread that works in turns goes on after a panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::watch;

/// The names of the threads that have ended while the host serves, and of the threads whose last turn has panicked.
#[derive(Clone, Debug, Default)]
pub struct ServingThreads(Arc<Mutex<Vec<String>>>);

/// One of the threads, until it is dropped.
pub struct ServingThread {
    name: String,
    threads: ServingThreads,
    stop: StopSignal,
}

impl ServingThreads {
    /// Registers a thread until it ends.
    pub fn thread(&self, name: &str, stop: StopSignal) -> ServingThread {
        ServingThread { name: name.to_owned(), threads: self.clone(), stop }
    }

    pub fn ended(&self) -> Vec<String> {
        self.names().clone()
    }

    /// Runs one turn of a thread and survives a panic. After a panic, the result is `None` and the thread counts as
    /// ended until a turn succeeds.
    pub fn turn<T>(&self, thread: &str, turn: impl FnOnce() -> T) -> Option<T> {
        let outcome = survive(thread, turn);
        self.record_turn(thread, outcome.is_some());
        outcome
    }

    pub fn record_turn(&self, thread: &str, is_well: bool) {
        let mut names = self.names();
        match names.iter().position(|name| name == thread) {
            Some(position) if is_well => drop(names.swap_remove(position)),
            None if !is_well => names.push(thread.to_owned()),
            _ => {}
        }
    }

    fn names(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs one turn of a thread and survives a panic. `None` after a panic.
pub fn survive<T>(thread: &str, turn: impl FnOnce() -> T) -> Option<T> {
    let outcome = catch_unwind(AssertUnwindSafe(turn));
    if outcome.is_err() {
        log_panic(thread);
    }
    outcome.ok()
}

pub fn log_panic(thread: &str) {
    tracing::error!(thread, "a thread of the host has panicked; standard error says where");
}

impl Drop for ServingThread {
    fn drop(&mut self) {
        if self.stop.borrow().is_none() {
            tracing::error!(thread = self.name, "a thread that serves clients has ended; restart the host");
            self.threads.names().push(std::mem::take(&mut self.name));
        }
    }
}

/// The time when the host breaks off unfinished work. `None` while the host runs.
pub type StopDeadline = Option<Instant>;

/// Each thread that serves clients has one. It is closed when the host is dropped.
pub type StopSignal = watch::Receiver<StopDeadline>;

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

    #[test]
    fn a_thread_whose_turn_panics_counts_as_ended_until_a_turn_ends_well() {
        let threads = ServingThreads::default();
        assert_eq!(threads.turn("first", || 1), Some(1));
        for _ in 0..2 {
            assert_eq!(threads.turn("first", || panic!("a defect")), None::<()>);
            assert_eq!(threads.ended(), ["first"]);
        }
        assert_eq!(threads.turn("second", || 2), Some(2));
        assert_eq!(threads.ended(), ["first"]);
        assert_eq!(threads.turn("first", || 3), Some(3));
        assert!(threads.ended().is_empty());
    }
}
