//! How much memory the waiting writes of requests may take. A guest that writes faster than the server waits for its
//! reservation, and the host's other requests keep theirs.
//!
//! A reservation ends once its operation is carried out, refused or dropped. A waiting guest holds at most other
//! reservations and the permit of its instance. The workers that end reservations never wait for either.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::store::StoreError;

/// Bytes of all waiting writes on this host.
const MAX_HOST_BYTES: u32 = 64 * 1024 * 1024;

/// Bytes of one request's waiting writes, without its values. Values have a permit of their instance's budget, and the
/// caller of an increment or a swap waits for its result. Nothing else bounds deletions. Each deletion is a transaction
/// of its own, so this also bounds how many are carried out after their request was abandoned.
pub const MAX_REQUEST_BYTES: u32 = 1024 * 1024;

/// The bytes that waiting operations share.
pub struct WriteQueueBudget {
    free: Arc<Semaphore>,
    bytes: u32,
}

/// The bytes that an operation needs, and the budgets that they come from.
pub struct WriteSize {
    pub bytes: usize,
    pub of_request: bool,
    pub of_host: bool,
}

/// An operation's part of the budgets.
#[derive(Default)]
pub struct WriteReservation {
    _of_request: Option<OwnedSemaphorePermit>,
    _of_host: Option<OwnedSemaphorePermit>,
}

impl WriteQueueBudget {
    pub fn new(bytes: u32) -> Self {
        Self { free: Arc::new(Semaphore::new(bytes as usize)), bytes }
    }

    /// The budget of all requests of a host.
    pub fn of_host() -> Self {
        Self::new(MAX_HOST_BYTES)
    }

    /// The budget of one request.
    pub fn of_request() -> Self {
        Self::new(MAX_REQUEST_BYTES)
    }

    /// Takes a part of the budget, in the order of the calls. An operation larger than the budget takes all of it.
    async fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, StoreError> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(self.bytes);
        // With enough free bytes, this does not yield. While others wait, it finds none.
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
    /// Waits until the budgets have enough free bytes. `request` makes or finds the budget of its request.
    pub async fn take<'a>(
        host: &WriteQueueBudget,
        request: impl FnOnce() -> &'a WriteQueueBudget,
        need: WriteSize,
    ) -> Result<Self, StoreError> {
        // The request's own budget comes first: a request at its own limit takes no bytes from others.
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
