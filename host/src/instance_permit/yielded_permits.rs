//! The permits of stalled instances. While all are taken, an instance of the client that has the most ends for another
//! client.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use crate::concurrency_limit::{ClientKey, ClientKeys};

/// The stalled permits of a host.
pub struct StalledPermits {
    size: usize,
    table: Mutex<PermitTable>,
    /// Notified when a permit is given back.
    freed: Notify,
}

#[derive(Default)]
struct PermitTable {
    next: u64,
    taken: HashMap<u64, Taken>,
}

struct Taken {
    client: Option<ClientKey>,
    wait: Wait,
}

/// Whether an instance waits for its client.
enum Wait {
    No,
    /// The number of the wait, and the channel that asks the instance to end.
    Since(u64, oneshot::Sender<()>),
    /// The host has asked the instance to end.
    Ended,
}

/// One instance's stalled permit. Dropping it gives the permit back.
pub struct YieldedPermit {
    permits: Arc<StalledPermits>,
    pub number: u64,
}

/// The wait of a stalled instance for its client. Only during this wait may another client end the instance.
pub struct StalledWait<'a> {
    permits: &'a StalledPermits,
    number: u64,
    ended: oneshot::Receiver<()>,
}

impl StalledPermits {
    pub fn new(size: usize) -> Arc<Self> {
        Arc::new(Self { size, table: Mutex::default(), freed: Notify::new() })
    }

    pub fn taken(&self) -> usize {
        self.table().taken.len()
    }

    pub fn try_take(self: &Arc<Self>, client: ClientKeys) -> Option<YieldedPermit> {
        let mut table = self.table();
        if table.taken.len() >= self.size {
            return None;
        }
        let number = table.next();
        table.taken.insert(number, Taken { client: key(client), wait: Wait::No });
        Some(YieldedPermit { permits: self.clone(), number })
    }

    /// Takes a permit once one is free.
    pub async fn take(self: &Arc<Self>, client: ClientKeys) -> YieldedPermit {
        loop {
            let mut freed = pin!(self.freed.notified());
            // Enabled before the check, so that each waiting caller gets the notification of a permit of its own.
            freed.as_mut().enable();
            if let Some(permit) = self.try_take(client) {
                return permit;
            }
            freed.await;
        }
    }

    /// Begins a wait of the instance with this permit for its client. The wait ends at once if the host has asked the
    /// instance to end before.
    pub fn begin_wait(&self, number: u64) -> StalledWait<'_> {
        let (sender, ended) = oneshot::channel();
        let mut table = self.table();
        let since = table.next();
        if let Some(taken) = table.taken.get_mut(&number)
            && !matches!(taken.wait, Wait::Ended)
        {
            taken.wait = Wait::Since(since, sender);
        }
        StalledWait { permits: self, number, ended }
    }

    /// How many permits a client has.
    pub fn taken_by(&self, client: ClientKeys) -> usize {
        let client = key(client);
        self.table().taken.values().filter(|taken| taken.client == client).count()
    }

    /// Ends one waiting instance, the longest waiting one of the client that has the most permits, if these are more
    /// than `client` has. Returns whether an instance was ended.
    pub fn end_one_for(&self, client: ClientKeys) -> bool {
        let mut table = self.table();
        let mut counts: HashMap<Option<ClientKey>, usize> = HashMap::new();
        for taken in table.taken.values().filter(|taken| !matches!(taken.wait, Wait::Ended)) {
            *counts.entry(taken.client).or_default() += 1;
        }
        let own = counts.get(&key(client)).copied().unwrap_or(0);
        let waits = table.taken.iter().filter_map(|(number, taken)| match &taken.wait {
            Wait::Since(since, _) => {
                let count = counts.get(&taken.client).copied().unwrap_or(0);
                Some((count, std::cmp::Reverse(*since), *number))
            }
            Wait::No | Wait::Ended => None,
        });
        let Some((_, _, number)) = waits.max().filter(|(count, ..)| *count > own) else { return false };
        if let Some(taken) = table.taken.get_mut(&number)
            && let Wait::Since(_, sender) = std::mem::replace(&mut taken.wait, Wait::Ended)
        {
            let _ = sender.send(());
        }
        true
    }

    fn table(&self) -> MutexGuard<'_, PermitTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PermitTable {
    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// The client of a permit: a site if there is one, because a site's addresses cost nothing, or else an address.
fn key([network, site, _]: ClientKeys) -> Option<ClientKey> {
    site.or(network)
}

impl StalledWait<'_> {
    /// Returns once the instance has to end.
    pub async fn ended(&mut self) {
        // An instance that was asked to end before has no sender.
        let _ = (&mut self.ended).await;
    }
}

impl Drop for StalledWait<'_> {
    fn drop(&mut self) {
        if let Some(taken) = self.permits.table().taken.get_mut(&self.number)
            && !matches!(taken.wait, Wait::Ended)
        {
            taken.wait = Wait::No;
        }
    }
}

impl Drop for YieldedPermit {
    fn drop(&mut self) {
        self.permits.table().taken.remove(&self.number);
        self.permits.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn client(last: u8) -> ClientKeys {
        [Some(ClientKey::Network([192, 0, 2, last].into())), None, None]
    }

    #[test]
    fn the_client_that_has_the_most_permits_gives_one_up() {
        let permits = StalledPermits::new(4);
        let [first, second, other, working] = [1, 1, 2, 1].map(|last| permits.try_take(client(last)).unwrap());
        assert!(permits.try_take(client(3)).is_none());
        assert!(!permits.end_one_for(client(3)), "none of them waits for its client");
        let mut waits = [&second, &first, &other].map(|permit| permits.begin_wait(permit.number));
        assert!(!permits.end_one_for(client(1)), "no other client has more");
        let mut ended = || waits.each_mut().map(|wait| wait.ended().now_or_never().is_some());
        assert!(permits.end_one_for(client(2)));
        assert_eq!(ended(), [true, false, false], "the one that has waited for longest");
        assert!(permits.end_one_for(client(3)));
        assert_eq!(permits.taken(), 4, "until it has ended");
        drop(second);
        assert!(permits.take(client(3)).now_or_never().is_some());
        drop((waits, working));
        assert!(!permits.end_one_for(client(4)), "they do not wait any more");
    }
}
