//! How long requests wait.

use std::time::Duration;

/// How long a request waits for a server, for a barrier, and for a connection that another write gives back. After this
/// time, the host tells the client to try again.
pub const STORE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a reply may take before the host asks whether the server responds at all, and how long this check may take.
pub const HALF_TIMEOUT: Duration = Duration::from_millis(500);
