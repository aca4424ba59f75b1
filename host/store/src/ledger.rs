//! The ledger of one request: which of its writes are not durable yet, and whether one has failed.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

use super::error::{ErrorKind, StoreError};
use super::problem::StoreProblem;

/// The writes of one request that are not durable yet. Clones share one ledger.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<LedgerState>);

#[derive(Debug, Default)]
struct LedgerState {
    open: AtomicUsize,
    failure: OnceLock<StoreError>,
    /// The first error of an operation that did not take place and may succeed later.
    outage: OnceLock<StoreError>,
    /// The first error of an operation whose outcome is unknown.
    unknown: OnceLock<StoreError>,
    /// Whether a write took place, or may have.
    may_have_stored: AtomicBool,
    settled: Notify,
    /// The engine's own state for the request.
    engine_state: OnceLock<Box<dyn Any + Send + Sync>>,
    /// Changes of volatile keys.
    volatile: OnceLock<Ledger>,
}

impl Ledger {
    /// The ledger of the request's changes of volatile keys. Their loss does not fail the request.
    pub fn of_volatile(&self) -> &Ledger {
        self.0.volatile.get_or_init(Ledger::default)
    }

    /// Whether a change of a volatile key is not closed yet.
    pub fn has_open_volatile(&self) -> bool {
        self.0.volatile.get().is_some_and(|volatile| !volatile.is_settled())
    }

    /// Adds an operation. The ledger is not settled until the entry is committed, failed or dropped.
    pub fn enter(&self) -> LedgerEntry {
        self.0.open.fetch_add(1, Ordering::SeqCst);
        LedgerEntry { ledger: self.clone(), is_closed: false }
    }

    /// Whether every entry is closed.
    pub fn is_settled(&self) -> bool {
        self.0.open.load(Ordering::SeqCst) == 0
    }

    /// Whether a write of the request may be stored, durably or not.
    pub fn may_have_stored(&self) -> bool {
        self.0.may_have_stored.load(Ordering::SeqCst)
    }

    fn record_stored(&self) {
        self.0.may_have_stored.store(true, Ordering::SeqCst);
    }

    /// Fails once an entry has failed. A failed ledger never recovers.
    pub fn check(&self) -> Result<(), StoreError> {
        match self.0.failure.get() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Records why an operation of the request has failed, if it may succeed later.
    pub fn record_outage(&self, error: &StoreError) {
        match error.kind() {
            ErrorKind::Fault => {}
            ErrorKind::Unavailable(_) => drop(self.0.outage.set(error.clone())),
            ErrorKind::Unknown(_) => drop(self.0.unknown.set(error.clone())),
        }
    }

    /// The error of a failed operation that may succeed later. An unknown outcome comes before an operation that did
    /// not take place.
    pub fn outage(&self) -> Option<&StoreError> {
        self.0.unknown.get().or_else(|| self.0.outage.get())
    }

    /// The engine's own state for the request, made at its first use. `None` if another engine has made it.
    pub fn engine_state<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Option<&T> {
        self.0.engine_state.get_or_init(|| Box::new(make())).downcast_ref()
    }

    fn fail(&self, cause: StoreError) {
        self.record_error(&cause);
        // The first cause is kept, because later causes follow from it.
        let _ = self.0.failure.set(StoreError::NotDurable(Arc::new(cause)));
    }

    fn record_error(&self, error: &StoreError) {
        if matches!(error.kind(), ErrorKind::Unknown(_)) {
            self.record_stored();
        }
    }

    /// The outcome, if every entry is closed, also the ones of volatile keys.
    pub fn outcome(&self) -> Option<Result<(), StoreError>> {
        (self.is_settled() && !self.has_open_volatile()).then(|| self.check())
    }

    /// Waits until every entry is closed. This does not make the engine commit; see
    /// [`Backend::durable`](super::Backend::durable).
    pub async fn settled(&self) -> Result<(), StoreError> {
        // Requests that only read take this path.
        if self.is_settled() {
            return self.check();
        }
        loop {
            let mut notified = std::pin::pin!(self.0.settled.notified());
            notified.as_mut().enable();
            if self.is_settled() {
                return self.check();
            }
            notified.await;
        }
    }
}

/// An operation that is not durable yet. If it is dropped without [`commit`](LedgerEntry::commit) or
/// [`close`](LedgerEntry::close), it fails, so that an engine cannot lose an operation silently.
#[derive(Debug)]
pub struct LedgerEntry {
    ledger: Ledger,
    is_closed: bool,
}

impl LedgerEntry {
    /// The operation is durable, or had nothing to make durable.
    pub fn commit(mut self) {
        self.is_closed = true;
        self.ledger.record_stored();
    }

    /// The operation took place, and is not durable yet.
    pub fn record_stored(&self) {
        self.ledger.record_stored();
    }

    /// The operation has failed for this reason, and its caller knows it: the request may continue.
    pub fn close(mut self, reason: &StoreError) {
        self.is_closed = true;
        self.ledger.record_error(reason);
    }

    pub fn ledger(&self) -> Ledger {
        self.ledger.clone()
    }

    /// The operation was not carried out, or was undone.
    pub fn fail(mut self, cause: StoreError) {
        self.is_closed = true;
        self.ledger.fail(cause);
    }

    /// Fails if an earlier operation of the same request has failed.
    pub fn check(&self) -> Result<(), StoreError> {
        self.ledger.check()
    }
}

impl Drop for LedgerEntry {
    fn drop(&mut self) {
        let state = &self.ledger.0;
        if !self.is_closed {
            let (problem, reason) = (StoreProblem::WriterStopped, Arc::from("the writer stopped"));
            self.ledger.fail(StoreError::Unknown { problem, reason });
        }
        if state.open.fetch_sub(1, Ordering::SeqCst) == 1 {
            state.settled.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn settles_when_the_last_entry_closes() {
        let ledger = Ledger::default();
        let (first, second) = (ledger.enter(), ledger.enter());
        first.commit();
        assert!(!ledger.is_settled());
        let waiting = ledger.clone();
        let (settled, ()) = tokio::join!(waiting.settled(), async { second.commit() });
        settled.unwrap();
    }

    #[tokio::test]
    async fn one_failed_entry_fails_the_ledger_for_good() {
        let ledger = Ledger::default();
        ledger.enter().fail(StoreError::Engine(Arc::from("disk full")));
        ledger.enter().commit();
        let error = ledger.settled().await.unwrap_err();
        assert!(error.to_string().contains("disk full") && ledger.may_have_stored(), "{error}");
    }

    #[tokio::test]
    async fn stored_or_unknown_writes_are_remembered_despite_other_failures() {
        let problem = StoreProblem::Unavailable;
        let unavailable = || StoreError::Unavailable { problem, reason: Arc::from("away") };
        let unknown = || StoreError::Unknown { problem, reason: Arc::from("lost") };
        let ledger = Ledger::default();
        ledger.enter().close(&unavailable());
        assert!(!ledger.may_have_stored());
        ledger.record_outage(&unavailable());
        assert_eq!(ledger.outage().unwrap().kind(), ErrorKind::Unavailable(problem));
        ledger.record_outage(&unknown());
        ledger.record_outage(&unavailable());
        assert_eq!(ledger.outage().unwrap().kind(), ErrorKind::Unknown(problem));
        // A guest may hide an error that it got.
        ledger.enter().close(&unknown());
        assert!(ledger.may_have_stored());

        let ledger = Ledger::default();
        ledger.enter().fail(unavailable());
        assert!(ledger.check().is_err() && !ledger.may_have_stored());

        let ledger = Ledger::default();
        let entry = ledger.enter();
        entry.record_stored();
        entry.fail(unavailable());
        ledger.settled().await.unwrap_err();
        assert!(ledger.may_have_stored());
    }

    #[tokio::test]
    async fn a_lost_entry_is_a_failure() {
        let ledger = Ledger::default();
        drop(ledger.enter());
        let error = ledger.settled().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unknown(StoreProblem::WriterStopped));
    }
}
