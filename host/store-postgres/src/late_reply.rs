//! The outcome of a write, and the use of its connection if the reply is late.
//!
//! A commit that waits for a standby can take as long as the standby is stopped. The client then learns that the
//! outcome is unknown. The connection stays with the statement until the server replies. Reads and barriers continue
//! over the other connections, and only as many server processes wait as there are connections for writes. The host
//! must not cancel the statement: the server would then show the write although no standby has it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hexad_store::{StoreError, StoreProblem};
use tokio::time::timeout;
use tokio_postgres::Error;

use super::classify;
use super::connection_set::ConnectionSet;
use super::writer::IdleWriter;

/// How often the host asks the server whether it still works on a statement.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// How long the delivery of a sent reply may take.
const DELIVERY: Duration = Duration::from_secs(1);

/// The result of statements that were sent over `writer` to change something. `outcome` is `None` if no reply came in
/// time. The result is `Unknown` if the statements may have taken place.
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

/// Returns the connection once the server has replied. If the server does not work on the statement, its reply is lost,
/// and the host closes all connections.
async fn wait_for_reply(link: Arc<ConnectionSet>, idle: IdleWriter) {
    let Some(writer) = idle.get() else { return };
    // The server answers this empty statement after all earlier ones. On a lost connection, it fails.
    let mut replied = pin!(writer.client.batch_execute(""));
    while timeout(LOOK_EVERY, &mut replied).await.is_err() {
        if !link.is_working(writer.process).await && timeout(DELIVERY, &mut replied).await.is_err() {
            link.close();
            return;
        }
    }
}
