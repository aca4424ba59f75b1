//! Sees what a guest does beside reading the store: an answer that rests on randomness, or that
//! came with a line in the log, is no answer to the next request.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use rand_core::{Rng, TryRng};
use wasmtime_wasi::random::thread_rng;

use crate::response_cache::Testimony;

/// The eyes in one instance, on its current request. Clones are the same witness.
#[derive(Clone, Debug, Default)]
pub struct Witness(Arc<Mutex<Option<Arc<Testimony>>>>);

impl Witness {
    /// What is seen from now on is about another request.
    pub fn enter(&self, testimony: Option<Arc<Testimony>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = testimony;
    }

    pub fn sees(&self) {
        if let Some(testimony) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            testimony.spoil();
        }
    }

    /// Randomness for the guest.
    pub fn randomness(&self) -> Watched {
        Watched { source: thread_rng(), witness: self.clone() }
    }
}

/// A source of randomness that is seen to be used.
pub struct Watched {
    source: Box<dyn Rng + Send>,
    witness: Witness,
}

impl TryRng for Watched {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.witness.sees();
        self.source.try_next_u32()
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.witness.sees();
        self.source.try_next_u64()
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.witness.sees();
        self.source.try_fill_bytes(bytes)
    }
}
