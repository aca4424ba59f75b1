//! The clock of guests whose store several hosts share.

use std::sync::Arc;
use std::time::Duration;

use wasmtime_wasi::HostWallClock;

use crate::store::ServerClock;

pub struct SharedClock(pub Arc<ServerClock>);

impl HostWallClock for SharedClock {
    fn resolution(&self) -> Duration {
        Duration::from_micros(1)
    }

    fn now(&self) -> Duration {
        self.0.now()
    }
}
