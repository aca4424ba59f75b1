//! How many requests of a connection are under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A request whose response has not been handed to the HTTP implementation as a whole.
pub struct InFlight(Arc<AtomicUsize>);

impl InFlight {
    /// Counts a request until it is dropped.
    pub fn begin(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
