//! A guest's side effects. If a guest uses randomness or prints a line, its response is not cached.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use hexad_http::response_cache::Dependencies;
use rand_core::{Rng, TryRng};
use wasmtime_wasi::random::thread_rng;

/// Records side effects in the [`Dependencies`] of an instance's current request. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct SideEffects(Arc<Mutex<Option<Arc<Dependencies>>>>);

impl SideEffects {
    /// Begins a request: from now on, side effects belong to it.
    pub fn enter(&self, dependencies: Option<Arc<Dependencies>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = dependencies;
    }

    pub fn record(&self) {
        if let Some(dependencies) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            dependencies.mark_uncacheable();
        }
    }

    pub fn rng(&self) -> TrackedRng {
        TrackedRng { source: thread_rng(), side_effects: self.clone() }
    }
}

/// A source of randomness that records each use as a side effect.
pub struct TrackedRng {
    source: Box<dyn Rng + Send>,
    side_effects: SideEffects,
}

impl TryRng for TrackedRng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.side_effects.record();
        self.source.try_next_u32()
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.side_effects.record();
        self.source.try_next_u64()
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.side_effects.record();
        self.source.try_fill_bytes(bytes)
    }
}
