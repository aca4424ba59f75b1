//! The signal that the host stops.

use std::time::Instant;

use tokio::sync::watch;

/// When unfinished work is broken off. `None` while the host runs.
pub type StopDeadline = Option<Instant>;

/// Every thread of the host that serves clients has one. It is closed when the host is dropped.
pub type StopSignal = watch::Receiver<StopDeadline>;
