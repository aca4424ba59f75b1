//! How long requests wait.

use std::time::Duration;

/// How long a request waits for a server, for a barrier, and for a connection that another write gives back. After it,
/// the client is told to try again.
pub const STORE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a reply may take until the server is asked whether it responds at all, and how long that may take.
pub const HALF_TIMEOUT: Duration = Duration::from_millis(500);
