//! The outcome of a write, and the use of its connection if the reply does not come in time.
//!
//! A commit that waits for a standby can take for as long as the standby stands still. Its client is told
//! that the outcome is not known. The connection stays with the statement until the server replies: reads
//! and barriers go on over the other ones, and no more processes of the server wait than there are
//! connections for writes. It must not be cancelled, because the server would show the write then without
//! its standby having it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::Error;

use super::classify;
use super::connection_set::ConnectionSet;
use super::writer::IdleWriter;
use crate::store::{StoreError, StoreProblem};

/// How often the server is asked whether it still works on a statement.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// How long a reply may take that the server has sent.
const DELIVERY: Duration = Duration::from_secs(1);

/// The result of statements that were sent over `writer` to change something, and for which the caller has
/// waited for a limited time (`None` without a reply). `Unknown` if they may have taken place.
pub fn outcome_of<T>(
    link: &Arc<ConnectionSet>,
    writer: IdleWriter,
    outcome: Option<Result<T, Error>>,
) -> Result<T, StoreError> {
    match outcome {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => {
            if classify::ends_connection(&error) {
                link.close();
            }
            Err(classify::of_write(&error))
        }
        None => {
            tokio::spawn(wait_for_reply(link.clone(), writer));
            let reason = Arc::from("PostgreSQL did not respond in time");
            Err(StoreError::Unknown { problem: StoreProblem::Unavailable, reason })
        }
    }
}

/// Gives the connection back once the server has replied. If the server does not work on the statement, the
/// reply is lost, and with it the connections.
async fn wait_for_reply(link: Arc<ConnectionSet>, idle: IdleWriter) {
    let Some(writer) = idle.get() else { return };
    // The server answers it after all that was sent before. Without the connection, it fails.
    let mut replied = pin!(writer.client.batch_execute(""));
    while timeout(LOOK_EVERY, &mut replied).await.is_err() {
        if !link.is_working(writer.process).await && timeout(DELIVERY, &mut replied).await.is_err() {
            link.close();
            return;
        }
    }
}
