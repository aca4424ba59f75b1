//! The writes of one request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hexad_store::{Backend, Ledger, StoreError};

/// The writes of one request. The guest's instance makes them. The host holds the response head back until they are
/// durable.
#[derive(Clone, Debug, Default)]
pub struct RequestWrites {
    ledger: Ledger,
    is_write_through: Arc<AtomicBool>,
}

impl RequestWrites {
    /// From now on, the guest waits until each write is durable. The host calls this before its only wait for the
    /// ledger.
    pub fn write_through(&self) {
        self.is_write_through.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_write_through(&self) -> bool {
        self.is_write_through.load(Ordering::SeqCst)
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Whether every write so far is durable.
    pub fn is_settled(&self) -> bool {
        self.ledger.is_settled()
    }

    /// Whether a write of the request took place, or may have.
    pub fn may_have_stored(&self) -> bool {
        self.ledger.may_have_stored()
    }

    /// Whether a write was lost after the guest got its success.
    pub fn has_failed(&self) -> bool {
        self.ledger.check().is_err()
    }

    /// Binds the request's reads to its writes, see [`Backend::bind_reads`].
    pub fn bind_reads(&self, backend: &dyn Backend) {
        backend.bind_reads(&self.ledger);
    }

    /// Why an operation of the request failed, if it may succeed later.
    pub fn outage(&self) -> Option<&StoreError> {
        self.ledger.outage()
    }

    /// The outcome of the writes so far, if it is known.
    pub fn outcome(&self) -> Option<Result<(), StoreError>> {
        self.ledger.outcome()
    }

    /// Waits until every write so far is durable.
    pub async fn durable(&self, backend: &dyn Backend) -> Result<(), StoreError> {
        backend.durable(&self.ledger).await
    }
}
