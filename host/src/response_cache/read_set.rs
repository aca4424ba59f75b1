//! The keys that a guest reads for one request. Only a request whose response may be cached has one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

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
    /// Hardly contended: a request has one thread, and others only take it over.
    reads: Mutex<Reads>,
}

#[derive(Debug, Default)]
struct Reads {
    slots: Vec<Slot>,
    /// Only for a store from which they can be fetched at once.
    keys: Vec<Key>,
    /// The responses of the application itself that the guest has asked for.
    nested: Vec<MadeOf>,
    /// Requests to the application itself whose response is not there yet.
    awaited: usize,
    /// A response was made of this. Whatever the guest asks the application for afterwards is not in it.
    is_sealed: bool,
}

/// What a response was made of that may be cached, or is. The host puts it into the extensions of the
/// response to a guest's request.
#[derive(Clone, Debug)]
pub struct MadeOf {
    pub read_set: Arc<ReadSet>,
    /// When the response may be too old.
    pub expires_at: Instant,
}

/// All that a response was made of: its guest's reads, and those for the responses that its guest got from
/// the application itself.
pub struct Sources {
    pub slots: Vec<Slot>,
    pub keys: Vec<Key>,
    /// Of these responses.
    pub nested: Vec<Arc<ReadSet>>,
    pub expires_at: Instant,
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

    /// Records that the guest sends a request.
    pub fn begin_nested(&self) {
        let mut reads = self.reads();
        reads.awaited += 1;
        if reads.is_sealed {
            self.mark_uncacheable();
        }
    }

    /// Records what the response to that request was made of. Without `made_of` it may not be cached, so
    /// neither may what the guest makes of it.
    pub fn end_nested(&self, made_of: Option<MadeOf>) {
        let mut reads = self.reads();
        reads.awaited = reads.awaited.saturating_sub(1);
        match made_of {
            Some(made_of) if reads.nested.len() < MAX_READS => reads.nested.push(made_of),
            _ => self.mark_uncacheable(),
        }
    }

    fn collect_into(&self, sources: &mut Sources) {
        let mut reads = self.reads();
        reads.is_sealed = true;
        if reads.awaited > 0 {
            self.mark_uncacheable();
        }
        sources.slots.extend(&reads.slots);
        sources.keys.extend(reads.keys.iter().cloned());
        for MadeOf { read_set, expires_at } in &reads.nested {
            read_set.collect_into(sources);
            sources.nested.push(read_set.clone());
            sources.expires_at = sources.expires_at.min(*expires_at);
        }
    }

    fn reads(&self) -> MutexGuard<'_, Reads> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sources {
    /// What a response is made of that is complete. `None` if it may not be cached.
    pub fn of(MadeOf { read_set, expires_at }: &MadeOf) -> Option<Self> {
        let (slots, keys, nested) = (Vec::new(), Vec::new(), Vec::new());
        let mut sources = Sources { slots, keys, nested, expires_at: *expires_at };
        read_set.collect_into(&mut sources);
        let is_cacheable = read_set.is_cacheable() && sources.nested.iter().all(|read_set| read_set.is_cacheable());
        (is_cacheable && sources.slots.len() <= MAX_READS).then_some(sources)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn made_of(seconds: u64) -> MadeOf {
        MadeOf { read_set: Arc::default(), expires_at: *START + Duration::from_secs(seconds) }
    }

    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);

    #[test]
    fn a_response_expires_with_the_first_of_those_that_it_is_made_of() {
        let (outer, nested, inner) = (made_of(9), made_of(8), made_of(7));
        for (one, other) in [(&nested, &inner), (&outer, &nested)] {
            one.read_set.begin_nested();
            one.read_set.end_nested(Some(other.clone()));
        }
        let sources = Sources::of(&outer).unwrap();
        assert_eq!((sources.expires_at, sources.nested.len()), (inner.expires_at, 2));
        inner.read_set.mark_uncacheable();
        assert!(Sources::of(&outer).is_none());
    }

    #[test]
    fn a_response_that_does_not_wait_for_what_its_guest_asked_for_is_not_cached() {
        let awaiting = made_of(1);
        awaiting.read_set.begin_nested();
        assert!(Sources::of(&awaiting).is_none());
        let late = made_of(1);
        assert!(Sources::of(&late).is_some());
        late.read_set.begin_nested();
        assert!(!late.read_set.is_cacheable(), "a guest that asks after its response may have to ask again");
    }
}
