//! One client's share of a limit's permits and queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::client_bytes::ClientBytes;
use super::reports::PermitStats;

/// The part of a limit that one key of a client may have.
#[derive(Debug)]
pub struct ClientQuota {
    permits: usize,
    taken: AtomicUsize,
    /// Callers in the queue. It is locked while this changes.
    queued: AtomicUsize,
    /// PermitStats of callers that wait although the limit may have a permit: the share has none.
    pub reports: Arc<PermitStats>,
    /// The memory of the key's requests.
    bytes: Arc<AtomicU64>,
}

/// The shares of a client, one for each of its keys.
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
    /// Takes a permit of each share. False if one has none left, or more than the limit has `free`.
    pub fn try_take(&self, free: usize) -> bool {
        for (taken, share) in self.shares().enumerate() {
            if !share.try_take(free) {
                self.shares().take(taken).for_each(|share| share.give_back());
                return false;
            }
        }
        true
    }

    /// Gives a permit of each share back. The permit of the limit is given back afterwards, which looks at the queue.
    pub fn give_back(&self) {
        self.shares().for_each(|share| share.give_back());
    }

    /// A share that has no permit left.
    pub fn full_share(&self) -> Option<&ClientQuota> {
        self.shares().map(|share| &**share).find(|share| share.taken.load(Ordering::Acquire) >= share.permits)
    }

    /// Whether it may have one more of this many permits that are free.
    pub fn may_take(&self, free: usize) -> bool {
        self.full_share().is_none() && self.taken() <= free
    }

    /// How many permits the client has: of an address with many credentials those of all of them, and of a credential
    /// with many addresses too. The host itself is counted nowhere, and has none.
    pub fn taken(&self) -> usize {
        self.shares().map(|share| share.taken.load(Ordering::Acquire)).max().unwrap_or(0)
    }

    /// How many of its callers are in the queue.
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

    /// Whether both have the same shares.
    pub fn is(&self, other: &Self) -> bool {
        let pointers = |client: &Self| client.0.each_ref().map(|share| share.as_ref().map(Arc::as_ptr));
        pointers(self) == pointers(other)
    }

    fn shares(&self) -> impl Iterator<Item = &Arc<ClientQuota>> {
        self.0.iter().flatten()
    }
}
