//! What one answer rests on: asked for only if it may be remembered (`memo`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::store::{Changes, Key, Place};

/// An answer that rests on more keys is not remembered: looking whether it still holds would cost
/// what it saves.
const MOST: usize = 256;

/// What a guest has done for one request, as far as its answer rests on it. The guest's side of
/// the host writes it; whoever has remembered the answer goes on looking at it, because a guest
/// can act after its answer.
#[derive(Debug, Default)]
pub struct Testimony {
    spoilt: AtomicBool,
    /// Never contended: a request has one thread.
    reads: Mutex<Vec<Place>>,
}

impl Testimony {
    /// The guest reads the committed value of a key.
    pub fn read(&self, changes: Option<&Changes>, key: &Key) {
        let mut reads = self.reads();
        match changes {
            Some(changes) if reads.len() < MOST => reads.push(changes.place(key)),
            _ => self.spoil(),
        }
    }

    /// The guest does something that another request for the same would have to do again, or
    /// something whose outcome is not known to last.
    pub fn spoil(&self) {
        self.spoilt.store(true, Ordering::SeqCst);
    }

    pub fn is_spoilt(&self) -> bool {
        self.spoilt.load(Ordering::SeqCst)
    }

    /// Where the keys are that were read so far.
    pub fn places(&self) -> Box<[Place]> {
        self.reads().as_slice().into()
    }

    fn reads(&self) -> MutexGuard<'_, Vec<Place>> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
