//! The waiting writes of a request.

use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::shared::SharedStore;
use super::write_operation::{PostgresWrite, Queued};
use super::write_queue_budget::{WriteQueueBudget, WriteReservation};
use super::writes::WriteTask;
use crate::store::{Ledger, StoreError};

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

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::store::conformance::{key, permit};
    use crate::store::postgres::write_queue_budget::MAX_REQUEST_BYTES;

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
