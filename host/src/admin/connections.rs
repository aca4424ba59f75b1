//! The connections of the admin listener. Those that have not shown the token have a small bound of
//! their own, at which the oldest makes place for the newest, so that they cannot keep an operator out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Connections that have shown the token. An operator and a scraper need a few.
const MAX_AUTHENTICATED: usize = 64;

/// Connections that have not, health checks among them.
pub const MAX_UNAUTHENTICATED: usize = 32;

/// The connections of a listener.
pub struct Connections {
    authenticated: Arc<Semaphore>,
    /// The oldest first.
    unauthenticated: Mutex<VecDeque<(u64, oneshot::Sender<()>)>>,
    next_id: AtomicU64,
}

/// One connection. It is counted until this is dropped.
pub struct Connection {
    id: u64,
    connections: Arc<Connections>,
    permit: OnceLock<OwnedSemaphorePermit>,
}

/// There are too many authenticated connections.
pub struct TooMany;

impl Connections {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            authenticated: Arc::new(Semaphore::new(MAX_AUTHENTICATED)),
            unauthenticated: Mutex::default(),
            next_id: AtomicU64::new(0),
        })
    }

    /// Admits a connection. It must be closed once the receiver gets a message; if the receiver fails,
    /// the connection may stay.
    pub fn admit(self: &Arc<Self>) -> (Connection, oneshot::Receiver<()>) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (evict, evicted) = oneshot::channel();
        let mut unauthenticated = self.unauthenticated();
        unauthenticated.push_back((id, evict));
        if unauthenticated.len() > MAX_UNAUTHENTICATED
            && let Some((_, evict)) = unauthenticated.pop_front()
        {
            let _ = evict.send(());
        }
        (Connection { id, connections: self.clone(), permit: OnceLock::new() }, evicted)
    }

    fn unauthenticated(&self) -> MutexGuard<'_, VecDeque<(u64, oneshot::Sender<()>)>> {
        self.unauthenticated.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// Records that a request on the connection has shown the token.
    pub fn authenticate(&self) -> Result<(), TooMany> {
        if self.permit.get().is_none() {
            let permit = self.connections.authenticated.clone().try_acquire_owned().map_err(|_| TooMany)?;
            let _ = self.permit.set(permit);
            self.forget();
        }
        Ok(())
    }

    fn forget(&self) {
        self.connections.unauthenticated().retain(|(id, _)| *id != self.id);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_connection_without_the_token_makes_place_for_the_newest() {
        let connections = Connections::new();
        let (operator, mut operator_evicted) = connections.admit();
        assert!(operator.authenticate().is_ok());
        let mut others: Vec<_> = (0..MAX_UNAUTHENTICATED).map(|_| connections.admit()).collect();
        assert!(others.iter_mut().all(|(_, evicted)| evicted.try_recv() == Err(oneshot::error::TryRecvError::Empty)));
        let _newest = connections.admit();
        assert_eq!(others[0].1.try_recv(), Ok(()));
        assert_eq!(others[1].1.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        assert_eq!(operator_evicted.try_recv(), Err(oneshot::error::TryRecvError::Closed), "it stays");
    }

    #[test]
    fn authenticated_connections_are_bounded_too() {
        let connections = Connections::new();
        let operators: Vec<_> = (0..MAX_AUTHENTICATED).map(|_| connections.admit().0).collect();
        assert!(operators.iter().all(|operator| operator.authenticate().is_ok()));
        assert!(operators[0].authenticate().is_ok(), "it has its place already");
        let late = connections.admit().0;
        assert!(late.authenticate().is_err());
        drop(operators);
        assert!(late.authenticate().is_ok());
    }
}
