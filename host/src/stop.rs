//! The signal that the host stops.

use std::time::Instant;

use tokio::sync::watch;

/// The time when the host breaks off unfinished work. `None` while the host runs.
pub type StopDeadline = Option<Instant>;

/// Each thread that serves clients has one. It is closed when the host is dropped.
pub type StopSignal = watch::Receiver<StopDeadline>;
