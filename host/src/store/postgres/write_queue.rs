//! The writes of a request that wait to be carried out.

use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::shared::Shared;
use super::write_operation::{Queued, WriteOperation};
use super::writes::Worker;
use crate::store::{Ledger, StoreError};

/// The writes of one request that wait. It is a part of the request's ledger.
pub struct WriteQueue {
    /// The era in which the request began.
    era: Arc<str>,
    sender: OnceLock<UnboundedSender<Queued>>,
}

impl WriteQueue {
    /// Binds the request to the present era, unless it is bound.
    pub fn bind<'a>(shared: &Shared, ledger: &'a Ledger) -> Option<&'a Self> {
        ledger.engine_state(|| Self { era: shared.keeper.era(), sender: OnceLock::new() })
    }

    /// Queues an operation behind the others of its request.
    pub fn push(shared: &Arc<Shared>, ledger: &Ledger, operation: WriteOperation) -> Result<(), StoreError> {
        ledger.check()?;
        let queue = Self::bind(shared, ledger).ok_or_else(StoreError::writer_stopped)?;
        let sender = queue.sender.get_or_init(|| {
            let (sender, operations) = unbounded_channel();
            shared.spawn(Worker::new(shared.clone(), operations, queue.era.clone()).run());
            sender
        });
        sender.send((operation, ledger.enter())).map_err(|_| StoreError::writer_stopped())
    }
}
