//! One client's quota of a limit's permits and queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::client_bytes::ClientBytes;
use super::reports::PermitStats;

/// The part of a limit that one key of a client may have.
#[derive(Debug)]
pub struct ClientQuota {
    permits: usize,
    taken: AtomicUsize,
    /// Callers in the queue, which is locked while this changes.
    queued: AtomicUsize,
    /// Reports of callers that wait because the quota has no free permit, even if the limit has.
    pub reports: Arc<PermitStats>,
    /// The memory of the key's requests.
    bytes: Arc<AtomicU64>,
}

/// The quotas of a client, one for each of its keys.
#[derive(Clone, Debug)]
pub struct Client(pub [Option<Arc<ClientQuota>>; 3]);

impl ClientQuota {
    pub fn new(permits: usize, bytes: Arc<AtomicU64>) -> Self {
        Self { permits, taken: AtomicUsize::new(0), queued: AtomicUsize::new(0), reports: Arc::default(), bytes }
    }

    fn try_take(&self, free: usize) -> bool {
        let take = |taken: usize| (taken < self.permits && taken <= free).then_some(taken + 1);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok()
    }

    fn give_back(&self) {
        self.taken.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Client {
    /// Takes a permit of each quota. False if a quota has none left, or has more taken than the limit has `free`.
    pub fn try_take(&self, free: usize) -> bool {
        for (taken, share) in self.shares().enumerate() {
            if !share.try_take(free) {
                self.shares().take(taken).for_each(|share| share.give_back());
                return false;
            }
        }
        true
    }

    /// Gives a permit of each quota back. The caller gives the limit's permit back afterwards, which serves the queue.
    pub fn give_back(&self) {
        self.shares().for_each(|share| share.give_back());
    }

    /// A quota without a free permit.
    pub fn full_share(&self) -> Option<&ClientQuota> {
        self.shares().map(|share| &**share).find(|share| share.taken.load(Ordering::Acquire) >= share.permits)
    }

    /// Whether the client may take one more of the limit's `free` permits.
    pub fn may_take(&self, free: usize) -> bool {
        self.full_share().is_none() && self.taken() <= free
    }

    /// How many permits the client has. Of its keys, the one with the most counts: an address counts those of all its
    /// credentials, and a credential those of all its addresses. The host itself has no quota, and so none.
    pub fn taken(&self) -> usize {
        self.shares().map(|share| share.taken.load(Ordering::Acquire)).max().unwrap_or(0)
    }

    /// How many of the client's callers are in the queue.
    pub fn queued(&self) -> usize {
        self.shares().map(|share| share.queued.load(Ordering::Relaxed)).max().unwrap_or(0)
    }

    pub fn enter_queue(&self) {
        for share in self.shares() {
            share.queued.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn leave_queue(&self) {
        for share in self.shares() {
            share.queued.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub fn bytes(&self) -> ClientBytes {
        ClientBytes(self.0.each_ref().map(|share| share.as_ref().map(|share| share.bytes.clone())))
    }

    /// Whether both have the same quotas.
    pub fn is(&self, other: &Self) -> bool {
        let pointers = |client: &Self| client.0.each_ref().map(|share| share.as_ref().map(Arc::as_ptr));
        pointers(self) == pointers(other)
    }

    fn shares(&self) -> impl Iterator<Item = &Arc<ClientQuota>> {
        self.0.iter().flatten()
    }
}
