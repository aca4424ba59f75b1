//! How long requests wait.

use std::time::Duration;

/// How long a request waits for a server, for a barrier, and for a connection that another write gives back. After it,
/// the client is told to try again.
pub const PATIENCE: Duration = Duration::from_secs(1);
