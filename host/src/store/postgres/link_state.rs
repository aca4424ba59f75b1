//! The present connection set of a host, or why it has none.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;
use tokio::time::timeout_at;

use super::classify::away;
use super::connection_set::ConnectionSet;
use crate::store::StoreError;

/// Whether the host has connections to its store.
pub enum LinkState {
    /// The connection set may be lost meanwhile.
    Connected(Arc<ConnectionSet>),
    /// A usable server may appear at any time.
    Away,
    /// An operator has to repair the store first, so requests do not wait.
    Refused(StoreError),
}

/// The state, for all tasks that wait for a connection set.
pub struct PresentLink(watch::Sender<LinkState>);

impl Default for PresentLink {
    fn default() -> Self {
        Self(watch::Sender::new(LinkState::Away))
    }
}

impl PresentLink {
    pub fn set(&self, state: LinkState) {
        self.0.send_replace(state);
    }

    /// The present connection set. While a server may appear, the caller waits until `end`.
    pub async fn wait(&self, end: Instant) -> Result<Arc<ConnectionSet>, StoreError> {
        let mut states = self.0.subscribe();
        let decided = states.wait_for(|state| match state {
            LinkState::Connected(link) => !link.is_lost(),
            LinkState::Away => false,
            LinkState::Refused(_) => true,
        });
        match timeout_at(end.into(), decided).await.ok().and_then(Result::ok).as_deref() {
            Some(LinkState::Connected(link)) => Ok(link.clone()),
            Some(LinkState::Refused(error)) => Err(error.clone()),
            Some(LinkState::Away) | None => Err(away()),
        }
    }

    /// The connection set, if the host has one now.
    pub fn get(&self) -> Option<Arc<ConnectionSet>> {
        self.last().filter(|link| !link.is_lost())
    }

    /// The last connection set, even if it is lost.
    pub fn last(&self) -> Option<Arc<ConnectionSet>> {
        match &*self.0.borrow() {
            LinkState::Connected(link) => Some(link.clone()),
            LinkState::Away | LinkState::Refused(_) => None,
        }
    }
}
