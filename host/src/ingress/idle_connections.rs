//! Connections that wait for another request. They make room for new ones.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

/// The connections that wait for another request and have given the buffers of the last one back.
#[derive(Debug, Default)]
pub struct IdleConnections {
    waiting: Mutex<Waiting>,
    /// Told when a connection begins to wait.
    entered: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    /// In the order in which they began to wait. One that is dropped tells its connection to close.
    connections: BTreeMap<u64, oneshot::Sender<()>>,
}

/// One connection, which counts until this is dropped.
#[derive(Debug)]
pub struct IdleConnection<'a> {
    all: &'a IdleConnections,
    number: u64,
    evicted: oneshot::Receiver<()>,
}

impl IdleConnections {
    /// Counts a connection that begins to wait.
    pub fn enter(&self) -> IdleConnection<'_> {
        let (sender, evicted) = oneshot::channel();
        let mut waiting = self.waiting();
        let number = waiting.next;
        waiting.next += 1;
        waiting.connections.insert(number, sender);
        drop(waiting);
        self.entered.notify_one();
        IdleConnection { all: self, number, evicted }
    }

    pub fn count(&self) -> usize {
        self.waiting().connections.len()
    }

    /// Tells the connection to close that has waited for longest, once there is one.
    pub async fn evict_oldest(&self) {
        while !self.try_evict_oldest() {
            self.entered.notified().await;
        }
    }

    /// The same, if there is one now; returns whether there was.
    pub fn try_evict_oldest(&self) -> bool {
        self.waiting().connections.pop_first().is_some()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IdleConnection<'_> {
    /// Returns once the connection has to close.
    pub async fn evicted(&mut self) {
        // The other end is dropped without a message.
        let _ = (&mut self.evicted).await;
    }
}

impl Drop for IdleConnection<'_> {
    fn drop(&mut self) {
        self.all.waiting().connections.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn the_connection_that_has_waited_for_longest_closes_first() {
        let idle = IdleConnections::default();
        assert!(idle.evict_oldest().now_or_never().is_none(), "there is none");
        let [gone, mut first, mut second] = [(); 3].map(|()| idle.enter());
        drop(gone);
        idle.evict_oldest().now_or_never().unwrap();
        assert!(first.evicted().now_or_never().is_some());
        assert!(second.evicted().now_or_never().is_none());
        assert_eq!(idle.count(), 1);
    }
}
