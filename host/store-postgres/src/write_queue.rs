//! The waiting writes of a request.

use std::sync::{Arc, OnceLock};

use hexad_store::{Ledger, StoreError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::shared::SharedStore;
use super::writes::WriteTask;
use super::writes::{PostgresWrite, Queued};

/// Bytes of all waiting writes on this host.
const MAX_HOST_BYTES: u32 = 64 * 1024 * 1024;

/// Bytes of one request's waiting writes, without its values. Values have a permit of their instance's budget, and the
/// caller of an increment or a swap waits for its result. Nothing else bounds deletions. Each deletion is a transaction
/// of its own, so this also bounds how many are carried out after their request was abandoned.
pub const MAX_REQUEST_BYTES: u32 = 1024 * 1024;

/// The waiting writes of one request. The queue is a part of the request's ledger.
pub struct WriteQueue {
    /// The timeline in which the request began.
    timeline: Arc<str>,
    /// The channel has no bound of its own: each operation in it has a reservation, in bytes.
    sender: OnceLock<UnboundedSender<Queued>>,
    /// Made at first use, because most requests only read.
    budget: OnceLock<WriteQueueBudget>,
}

impl WriteQueue {
    fn new(timeline: Arc<str>) -> Self {
        Self { timeline, sender: OnceLock::new(), budget: OnceLock::new() }
    }

    /// Binds the request to the present timeline, unless it is bound.
    pub fn bind<'a>(shared: &SharedStore, ledger: &'a Ledger) -> Option<&'a Self> {
        ledger.engine_state(|| Self::new(shared.supervisor.timeline()))
    }

    /// Queues an operation after the others of its request. Waits only for the operation's reservation.
    pub async fn push(shared: &Arc<SharedStore>, ledger: &Ledger, operation: PostgresWrite) -> Result<(), StoreError> {
        ledger.check()?;
        let queue = Self::bind(shared, ledger).ok_or_else(StoreError::writer_stopped)?;
        let start = |operations: UnboundedReceiver<Queued>| {
            shared.spawn(WriteTask::new(shared.clone(), operations, queue.timeline.clone()).run());
        };
        queue.add(&shared.queue_budget, ledger, operation, start).await
    }

    /// If this is the first operation, `start` starts the worker.
    async fn add(
        &self,
        host: &WriteQueueBudget,
        ledger: &Ledger,
        operation: PostgresWrite,
        start: impl FnOnce(UnboundedReceiver<Queued>),
    ) -> Result<(), StoreError> {
        let reservation =
            WriteReservation::take(host, || self.budget.get_or_init(WriteQueueBudget::of_request), operation.need())
                .await?;
        // The request may have failed meanwhile.
        ledger.check()?;
        let sender = self.sender.get_or_init(|| {
            let (sender, operations) = unbounded_channel();
            start(operations);
            sender
        });
        let queued = Queued { operation, entry: ledger.enter(), reservation };
        sender.send(queued).map_err(|_| StoreError::writer_stopped())
    }
}

/// How much memory the waiting writes of requests may take. A guest that writes faster than the server waits for its
/// reservation, and the host's other requests keep theirs.
///
/// A reservation ends once its operation is carried out, refused or dropped. A waiting guest holds at most other
/// reservations and the permit of its instance. The workers that end reservations never wait for either.
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

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::write_queue::MAX_REQUEST_BYTES;
    use hexad_store_conformance::{key, permit};

    /// A request whose operations no worker carries out.
    struct Request {
        ledger: Ledger,
        queue: WriteQueue,
        operations: Option<UnboundedReceiver<Queued>>,
    }

    impl Request {
        fn new() -> Self {
            Self { ledger: Ledger::default(), queue: WriteQueue::new(Arc::from("timeline")), operations: None }
        }

        /// Whether an operation got its reservation.
        fn add(&mut self, host: &WriteQueueBudget, operation: PostgresWrite) -> bool {
            let start = |operations| self.operations = Some(operations);
            match self.queue.add(host, &self.ledger, operation, start).now_or_never() {
                Some(outcome) => {
                    outcome.unwrap();
                    true
                }
                None => false,
            }
        }

        /// Takes an operation out of the queue, as if it were carried out.
        fn carry_out(&mut self) {
            self.operations.as_mut().unwrap().try_recv().unwrap().entry.commit();
        }
    }

    fn delete() -> PostgresWrite {
        PostgresWrite::Delete(vec![key("a")])
    }

    fn set(bytes: usize) -> PostgresWrite {
        PostgresWrite::Set { pairs: vec![(key("a"), vec![1; bytes])], permit: permit() }
    }

    #[test]
    fn a_request_that_deletes_faster_than_the_store_waits_and_others_do_not() {
        let host = WriteQueueBudget::of_host();
        let (mut greedy, mut other) = (Request::new(), Request::new());
        let mut queued = 0;
        while greedy.add(&host, delete()) {
            queued += 1;
        }
        assert_eq!(queued, MAX_REQUEST_BYTES as usize / delete().bytes());
        assert!(!greedy.add(&host, PostgresWrite::Flush), "a flush is an operation as well");
        assert!(other.add(&host, delete()) && other.add(&host, set(1)) && other.add(&host, PostgresWrite::Flush));
        greedy.carry_out();
        assert!(greedy.add(&host, delete()) && !greedy.add(&host, delete()));
        drop((greedy, other));
        assert!(host.is_unused());
    }

    #[test]
    fn requests_wait_once_the_host_has_no_room_but_a_flush_does_not() {
        let host = WriteQueueBudget::new(u32::try_from(2 * set(1000).bytes()).unwrap());
        let (mut one, mut two) = (Request::new(), Request::new());
        assert!(one.add(&host, set(1000)) && two.add(&host, set(1000)));
        assert!(!one.add(&host, set(0)) && !two.add(&host, delete()));
        assert!(one.add(&host, PostgresWrite::Flush));
        one.carry_out();
        assert!(two.add(&host, delete()));
        // The worker drops its remaining operations when it ends.
        drop((one.operations, two.operations));
        assert!(host.is_unused());
        let mut large = Request::new();
        assert!(large.add(&host, set(1_000_000)), "what is larger than the reservation of all waits for all of it");
        assert!(!large.add(&host, set(0)));
    }

    #[test]
    fn a_write_that_waited_while_its_request_failed_is_refused() {
        let host = WriteQueueBudget::new(u32::try_from(delete().bytes()).unwrap());
        let mut request = Request::new();
        assert!(request.add(&host, delete()));
        let mut waiting = Box::pin(request.queue.add(&host, &request.ledger, delete(), drop));
        assert!(waiting.as_mut().now_or_never().is_none());
        // Also drops the operation, whose entry is not committed.
        drop(request.operations);
        assert!(waiting.now_or_never().unwrap().is_err());
        assert!(host.is_unused());
    }
}
