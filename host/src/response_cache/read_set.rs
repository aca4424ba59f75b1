//! The keys that a guest reads for one request. Only a request whose response may be cached has one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::store::{Backend, Key, Slot};

/// A response that read more keys is not cached: checking them all would cost what the cache saves.
const MAX_READS: usize = 256;

/// What a guest reads for one request, and whether it does anything else.
///
/// The interfaces that the guest calls write it. The cache entry checks it at every hit, because a
/// guest can act after its response.
#[derive(Debug, Default)]
pub struct ReadSet {
    uncacheable: AtomicBool,
    /// Never contended: a request has one thread.
    reads: Mutex<Reads>,
}

#[derive(Debug, Default)]
struct Reads {
    slots: Vec<Slot>,
    /// Only for a store from which they can be fetched at once.
    keys: Vec<Key>,
}

impl ReadSet {
    /// Records that the guest reads the committed value of a key.
    pub fn record(&self, backend: &dyn Backend, key: &Key) {
        let mut reads = self.reads();
        match backend.change_clock() {
            Some(clock) if reads.slots.len() < MAX_READS => {
                reads.slots.push(clock.slot(key));
                if backend.prefetches() {
                    reads.keys.push(key.clone());
                }
            }
            _ => self.mark_uncacheable(),
        }
    }

    /// Records that the guest does something that an equal request would have to do again, or
    /// something whose outcome may not last.
    pub fn mark_uncacheable(&self) {
        self.uncacheable.store(true, Ordering::SeqCst);
    }

    pub fn is_cacheable(&self) -> bool {
        !self.uncacheable.load(Ordering::SeqCst)
    }

    /// The slots of the keys that were read so far.
    pub fn slots(&self) -> Box<[Slot]> {
        self.reads().slots.as_slice().into()
    }

    /// The keys that were read so far, for [`Backend::prefetch`].
    pub fn keys(&self) -> Box<[Key]> {
        self.reads().keys.as_slice().into()
    }

    fn reads(&self) -> MutexGuard<'_, Reads> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
