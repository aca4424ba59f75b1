//! How much memory the writes of requests may take while they wait. A guest that writes faster than the server waits
//! for room, and the host's other requests keep theirs.
//!
//! WriteReservation is given back once the operation is carried out, refused or dropped. A guest that waits for room holds at most
//! other room and the permit of its instance, none of which the workers that make room ever wait for.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::store::StoreError;

/// Bytes that may wait on this host, of all requests together.
const MAX_HOST_BYTES: u32 = 64 * 1024 * 1024;

/// Bytes of one request that may wait beside its values. Values have a permit of their instance's budget, and the
/// caller of an increment or a swap waits for its result; nothing else bounds deletions. Each is a transaction of its
/// own, so that this also bounds how many are carried out after their request was abandoned.
pub const MAX_REQUEST_BYTES: u32 = 1024 * 1024;

/// A number of bytes that waiting operations share.
pub struct WriteQueueBudget {
    free: Arc<Semaphore>,
    bytes: u32,
}

/// The room that an operation needs: so many bytes, of these budgets.
pub struct WriteSize {
    pub bytes: usize,
    pub of_request: bool,
    pub of_host: bool,
}

/// The room that an operation has in the queue.
#[derive(Default)]
pub struct WriteReservation {
    _of_request: Option<OwnedSemaphorePermit>,
    _of_host: Option<OwnedSemaphorePermit>,
}

impl WriteQueueBudget {
    pub fn new(bytes: u32) -> Self {
        Self { free: Arc::new(Semaphore::new(bytes as usize)), bytes }
    }

    /// For all requests of a host.
    pub fn of_host() -> Self {
        Self::new(MAX_HOST_BYTES)
    }

    /// For one request.
    pub fn of_request() -> Self {
        Self::new(MAX_REQUEST_BYTES)
    }

    /// Takes a part of the budget, in the order of the calls. An operation larger than the budget takes all of it.
    async fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, StoreError> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.bytes);
        // This does not yield if there is room. As long as others wait it finds none.
        if let Ok(permit) = self.free.clone().try_acquire_many_owned(bytes) {
            return Ok(permit);
        }
        self.free.clone().acquire_many_owned(bytes).await.map_err(|_| StoreError::writer_stopped())
    }

    #[cfg(test)]
    pub fn is_unused(&self) -> bool {
        self.free.available_permits() == self.bytes as usize
    }
}

impl WriteReservation {
    /// Waits until there is room; `request` makes the budget of its request, or finds it.
    pub async fn take<'a>(
        host: &WriteQueueBudget,
        request: impl FnOnce() -> &'a WriteQueueBudget,
        need: WriteSize,
    ) -> Result<Self, StoreError> {
        // First its own: a request that waits for itself takes no room from others.
        let of_request = match need.of_request {
            true => Some(request().take(need.bytes).await?),
            false => None,
        };
        let of_host = match need.of_host {
            true => Some(host.take(need.bytes).await?),
            false => None,
        };
        Ok(Self { _of_request: of_request, _of_host: of_host })
    }
}
