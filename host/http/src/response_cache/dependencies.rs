//! The data that a response depends on: the keys that its guest has read. Only a request whose response may be cached
//! has them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hexad_store::{Backend, Key, VersionBucket};

/// A response that depends on more keys is not cached: checking them would cost what the cache saves.
const MAX_READS: usize = 256;

/// A response with more nested responses, direct and indirect, is not cached. The sum is bounded because a cached
/// response passes on all of its dependencies. If each page of a component read the page before, the sum would grow
/// without end.
const MAX_NESTED: usize = 256;

/// The keys that a guest reads for one request, and whether it does anything else.
///
/// The interfaces that the guest calls record into it. The cache checks it at every hit, because a guest can act after
/// its response.
#[derive(Debug, Default)]
pub struct Dependencies {
    uncacheable: AtomicBool,
    /// Rarely contended: one thread handles a request, and others only inherit its dependencies.
    reads: Mutex<Reads>,
}

#[derive(Debug, Default)]
struct Reads {
    buckets: Vec<VersionBucket>,
    /// Only for a store that can prefetch them.
    keys: Vec<Key>,
    /// The nested responses that the guest has requested from its application.
    nested: Vec<Provenance>,
    /// Requests to the application whose response has not come.
    awaited: usize,
    /// A response was made from these reads. Later requests of the guest to its application are not in it.
    is_sealed: bool,
}

/// The dependencies and the expiry of a response that is cached or may be. The host puts them into the extensions of a
/// nested response.
#[derive(Clone, Debug)]
pub struct Provenance {
    pub dependencies: Arc<Dependencies>,
    /// The time from which the response may be too old.
    pub expires_at: Instant,
}

/// Everything that a response depends on: its guest's reads, and the reads of its nested responses.
pub struct Sources {
    pub buckets: Vec<VersionBucket>,
    pub keys: Vec<Key>,
    /// The dependencies of the nested responses.
    pub nested: Vec<Arc<Dependencies>>,
    pub expires_at: Instant,
}

impl Dependencies {
    /// Records that the guest reads the committed value of a key.
    pub fn record(&self, backend: &dyn Backend, key: &Key) {
        let mut reads = self.reads();
        match backend.change_clock() {
            Some(clock) if reads.buckets.len() < MAX_READS => {
                reads.buckets.push(clock.bucket(key));
                if backend.prefetches() {
                    reads.keys.push(key.clone());
                }
            }
            _ => self.mark_uncacheable(),
        }
    }

    /// Records an action of the guest that an equal request would have to repeat, or whose outcome may not last.
    pub fn mark_uncacheable(&self) {
        self.uncacheable.store(true, Ordering::SeqCst);
    }

    pub fn is_cacheable(&self) -> bool {
        !self.uncacheable.load(Ordering::SeqCst)
    }

    /// Records that the guest sends a request to its application.
    pub fn begin_nested(&self) {
        let mut reads = self.reads();
        reads.awaited += 1;
        if reads.is_sealed {
            self.mark_uncacheable();
        }
    }

    /// Records the dependencies of a nested response. Without `provenance` the nested response may not be cached, so
    /// neither may the guest's own.
    pub fn end_nested(&self, provenance: Option<Provenance>) {
        let mut reads = self.reads();
        reads.awaited = reads.awaited.saturating_sub(1);
        match provenance {
            // The sealed response does not include this source. Its request was under way then, or began later, so
            // these dependencies are marked already.
            Some(_) if reads.is_sealed => self.mark_uncacheable(),
            Some(provenance) if reads.nested.len() < MAX_NESTED => reads.nested.push(provenance),
            _ => self.mark_uncacheable(),
        }
    }

    /// Adds the keys that this guest has read, and the dependencies of its nested responses, each once but without
    /// their reads. Returns the number of nested responses.
    fn collect_into(&self, sources: &mut Sources) -> usize {
        let mut reads = self.reads();
        reads.is_sealed = true;
        if reads.awaited > 0 {
            self.mark_uncacheable();
        }
        sources.buckets.extend(&reads.buckets);
        sources.keys.extend(reads.keys.iter().cloned());
        for Provenance { dependencies, expires_at } in &reads.nested {
            // Equal dependencies may come with different expiry times.
            sources.expires_at = sources.expires_at.min(*expires_at);
            // The list is bounded, and mostly empty.
            if !sources.nested.iter().any(|known| Arc::ptr_eq(known, dependencies)) {
                sources.nested.push(dependencies.clone());
            }
        }
        reads.nested.len()
    }

    fn reads(&self) -> MutexGuard<'_, Reads> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_nested(&mut self) -> Vec<Provenance> {
        std::mem::take(&mut self.reads.get_mut().unwrap_or_else(PoisonError::into_inner).nested)
    }
}

impl Drop for Dependencies {
    /// Without recursion, so that long chains of responses do not overflow the stack.
    fn drop(&mut self) {
        let mut nested = self.take_nested();
        while let Some(Provenance { dependencies, .. }) = nested.pop() {
            if let Some(mut unused) = Arc::into_inner(dependencies) {
                nested.append(&mut unused.take_nested());
            }
        }
    }
}

impl Sources {
    /// The sources of a complete response. `None` if it may not be cached.
    pub fn of(Provenance { dependencies, expires_at }: &Provenance) -> Option<Self> {
        let (buckets, keys, nested) = (Vec::new(), Vec::new(), Vec::new());
        let mut sources = Sources { buckets, keys, nested, expires_at: *expires_at };
        let mut answered = dependencies.collect_into(&mut sources);
        let mut is_cacheable = dependencies.is_cacheable();
        // During the walk, the list grows by the nested responses of each response.
        let mut collected = 0;
        while is_cacheable && answered <= MAX_NESTED && sources.buckets.len() <= MAX_READS {
            let Some(nested) = sources.nested.get(collected).cloned() else { return Some(sources) };
            collected += 1;
            answered += nested.collect_into(&mut sources);
            is_cacheable = nested.is_cacheable();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use hexad_store::ChangeClock;

    fn provenance(seconds: u64) -> Provenance {
        Provenance { dependencies: Arc::default(), expires_at: *START + Duration::from_secs(seconds) }
    }

    /// A response whose guest has requested others.
    fn asking(others: impl IntoIterator<Item = Provenance>) -> Provenance {
        let asking = provenance(9);
        for other in others {
            asking.dependencies.begin_nested();
            asking.dependencies.end_nested(Some(other));
        }
        asking
    }

    /// A response whose guest has requested the inner response twice, on each level.
    fn doubling(inner: Provenance, levels: usize) -> Provenance {
        (0..levels).fold(inner, |nested, _| asking([nested.clone(), nested]))
    }

    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);

    #[test]
    fn a_response_expires_with_its_first_source() {
        let (outer, nested, inner) = (provenance(9), provenance(8), provenance(7));
        for (one, other) in [(&nested, &inner), (&outer, &nested)] {
            one.dependencies.begin_nested();
            one.dependencies.end_nested(Some(other.clone()));
        }
        let sources = Sources::of(&outer).unwrap();
        assert_eq!((sources.expires_at, sources.nested.len()), (inner.expires_at, 2));
        let earlier = Provenance { expires_at: provenance(6).expires_at, ..inner.clone() };
        let sources = Sources::of(&asking([inner.clone(), earlier.clone()])).unwrap();
        assert_eq!((sources.expires_at, sources.nested.len()), (earlier.expires_at, 1));
        inner.dependencies.mark_uncacheable();
        assert!(Sources::of(&outer).is_none());
    }

    #[test]
    fn a_response_with_unfinished_nested_requests_is_not_cached() {
        let awaiting = provenance(1);
        awaiting.dependencies.begin_nested();
        assert!(Sources::of(&awaiting).is_none());
        let late = provenance(1);
        assert!(Sources::of(&late).is_some());
        late.dependencies.begin_nested();
        assert!(!late.dependencies.is_cacheable(), "a guest that asks after its response may have to ask again");
        let other = provenance(1);
        late.dependencies.end_nested(Some(other.clone()));
        assert_eq!(Arc::strong_count(&other.dependencies), 1, "no source is added after the response");
    }

    #[test]
    fn a_response_counts_once_however_often_it_is_in_another() {
        let inner = provenance(9);
        let key = Key { store: Arc::from("default"), key: Arc::from("a") };
        inner.dependencies.reads().buckets.push(ChangeClock::default().bucket(&key));
        // The outermost response contains the innermost one a million times.
        let sources = Sources::of(&doubling(inner, 20)).unwrap();
        assert_eq!((sources.nested.len(), sources.buckets.len()), (20, 1));
    }

    #[test]
    fn a_response_that_is_made_of_too_many_others_is_not_cached() {
        assert!(Sources::of(&doubling(provenance(9), MAX_NESTED / 2)).is_some());
        assert!(Sources::of(&doubling(provenance(9), MAX_NESTED / 2 + 1)).is_none());
        let square = |side: usize| asking((0..side).map(|_| asking((0..side).map(|_| provenance(9)))));
        assert!(Sources::of(&square(15)).is_some());
        assert!(Sources::of(&square(16)).is_none(), "16 responses, each made of 16 others");
        assert!(Sources::of(&asking((0..MAX_NESTED).map(|_| provenance(9)))).is_some());
        assert!(Sources::of(&asking((0..=MAX_NESTED).map(|_| provenance(9)))).is_none());
    }

    #[test]
    fn a_chain_of_responses_ends_being_cached_and_takes_no_stack() {
        let (mut chain, mut levels) = (provenance(9), 0);
        // Each response is stored with the previous one, which came from the cache.
        while Sources::of(&chain).is_some() {
            chain = asking([chain]);
            levels += 1;
        }
        assert_eq!(levels, MAX_NESTED + 1);
        let chain = (0..100_000).fold(chain, |nested, _| asking([nested]));
        assert!(Sources::of(&chain).is_none());
        drop(chain);
    }
}
