//! The present connection set of a host, or why it has none.

use std::sync::Arc;
use std::time::Instant;

use hexad_store::StoreError;
use tokio::sync::watch;
use tokio::time::timeout_at;

use super::classify::away;
use super::connection_set::ConnectionSet;

/// Whether the host has connections to its store.
pub enum ConnectionState {
    /// The connection set may be lost meanwhile.
    Connected(Arc<ConnectionSet>),
    /// A usable server may appear at any time.
    Away,
    /// An operator has to repair the store first, so requests do not wait.
    Refused(StoreError),
}

/// The state, for all tasks that wait for a connection set.
pub struct PresentConnections(watch::Sender<ConnectionState>);

impl Default for PresentConnections {
    fn default() -> Self {
        Self(watch::Sender::new(ConnectionState::Away))
    }
}

impl PresentConnections {
    pub fn set(&self, state: ConnectionState) {
        self.0.send_replace(state);
    }

    /// The present connection set. While a server may appear, the caller waits until `end`.
    pub async fn wait(&self, end: Instant) -> Result<Arc<ConnectionSet>, StoreError> {
        let mut states = self.0.subscribe();
        let decided = states.wait_for(|state| match state {
            ConnectionState::Connected(link) => !link.is_lost(),
            ConnectionState::Away => false,
            ConnectionState::Refused(_) => true,
        });
        match timeout_at(end.into(), decided).await.ok().and_then(Result::ok).as_deref() {
            Some(ConnectionState::Connected(link)) => Ok(link.clone()),
            Some(ConnectionState::Refused(error)) => Err(error.clone()),
            Some(ConnectionState::Away) | None => Err(away()),
        }
    }

    /// The connection set, if the host has one now.
    pub fn get(&self) -> Option<Arc<ConnectionSet>> {
        self.last().filter(|link| !link.is_lost())
    }

    /// The last connection set, even if it is lost.
    pub fn last(&self) -> Option<Arc<ConnectionSet>> {
        match &*self.0.borrow() {
            ConnectionState::Connected(link) => Some(link.clone()),
            ConnectionState::Away | ConnectionState::Refused(_) => None,
        }
    }
}
