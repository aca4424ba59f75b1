//! The connections of the admin listener. Unauthenticated connections have small limits of their own, so that they
//! cannot keep an operator out. At a limit, the host closes an old connection for a new one. A silent connection has
//! sent no byte yet. It costs little, and a flood has many, so silent connections are closed only for one another.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

/// How long a silent connection stays at the limit if its address has few ([`FEW_SHARE`]). New connections wait in the
/// socket's queue meanwhile.
const TIME_TO_SEND: Duration = Duration::from_millis(250);

/// An address with at most this part of the silent connections, 8 of 256, has `TIME_TO_SEND`. If it has more, as in a
/// flood, the host closes its oldest one at once. Otherwise an operator's connection would wait for seconds behind
/// thousands. A client sends its request as soon as it is connected.
const FEW_SHARE: usize = 32;

/// The limit of connections of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionBounds {
    /// Connections that have shown the token. An operator and a scraper need a few.
    pub authenticated: usize,
    /// Connections that have sent a byte and not shown the token, such as health checks.
    pub unauthenticated: usize,
    /// Connections that have sent no byte yet.
    pub silent: usize,
}

impl ConnectionBounds {
    /// The limits if the process may open enough files and sockets.
    pub const MOST: Self = Self { authenticated: 64, unauthenticated: 32, silent: 256 };

    pub const fn total(self) -> usize {
        self.authenticated + self.unauthenticated + self.silent
    }

    /// The most in proportion to `total` connections. At least four of each kind, because with fewer, health checks and
    /// operators would keep each other out.
    pub fn within(total: usize) -> Self {
        let total = total.min(Self::MOST.total());
        let bound = |most: usize| (most * total / Self::MOST.total()).max(4);
        let (authenticated, unauthenticated) = (bound(Self::MOST.authenticated), bound(Self::MOST.unauthenticated));
        Self { authenticated, unauthenticated, silent: total.saturating_sub(authenticated + unauthenticated).max(4) }
    }
}

/// The connections of a listener.
pub struct Connections {
    bounds: ConnectionBounds,
    /// A permit for each open connection, also while the host closes it for another.
    open: Arc<Semaphore>,
    authenticated: Arc<Semaphore>,
    others: Mutex<Others>,
    next_id: AtomicU64,
    /// Notified when a connection is no longer silent.
    left: Notify,
}

/// Connections that have not shown the token.
#[derive(Default)]
struct Others {
    silent: Evictable,
    unauthenticated: Evictable,
}

/// Connections that the host may close for new ones, the oldest first.
#[derive(Default)]
struct Evictable(VecDeque<EvictableConnection>);

struct EvictableConnection {
    id: u64,
    address: IpAddr,
    since: Instant,
    evict: oneshot::Sender<()>,
}

/// One connection. It is counted until this is dropped.
pub struct AdminConnection {
    id: u64,
    connections: Arc<Connections>,
    permit: OnceLock<OwnedSemaphorePermit>,
}

/// There are too many authenticated connections.
pub struct TooMany;

impl Connections {
    pub fn new(bounds: ConnectionBounds) -> Arc<Self> {
        Arc::new(Self {
            bounds,
            open: Arc::new(Semaphore::new(bounds.total())),
            authenticated: Arc::new(Semaphore::new(bounds.authenticated)),
            others: Mutex::default(),
            next_id: AtomicU64::new(0),
            left: Notify::new(),
        })
    }

    /// Waits until a new connection is within the limit. The caller holds the permit until the socket is closed. `None`
    /// if the semaphore is closed, which never happens.
    pub async fn make_place(&self) -> Option<OwnedSemaphorePermit> {
        while let Err(until) = self.try_make_place(Instant::now()) {
            tokio::select! {
                () = tokio::time::sleep_until(until.into()) => {}
                () = self.left.notified() => {}
            }
        }
        self.open.clone().acquire_owned().await.ok()
    }

    /// Evicts a silent connection if they are at their limit. If it is too young, returns when it can be evicted.
    fn try_make_place(&self, now: Instant) -> Result<(), Instant> {
        let silent = &mut self.others().silent;
        if silent.0.len() < self.bounds.silent {
            return Ok(());
        }
        let Some((next, count)) = silent.next() else { return Ok(()) };
        match silent.0.get(next).map(|entry| entry.since + TIME_TO_SEND) {
            Some(until) if until > now && count <= (self.bounds.silent / FEW_SHARE).max(1) => Err(until),
            _ => {
                silent.evict(next);
                Ok(())
            }
        }
    }

    /// Admits a connection, for which `make_place` has made place. The caller closes it when the receiver gets a
    /// message. If the receiver fails, the connection may stay.
    pub fn admit(self: &Arc<Self>, address: IpAddr, since: Instant) -> (AdminConnection, oneshot::Receiver<()>) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (evict, evicted) = oneshot::channel();
        self.others().silent.0.push_back(EvictableConnection { id, address, since, evict });
        (AdminConnection { id, connections: self.clone(), permit: OnceLock::new() }, evicted)
    }

    fn others(&self) -> MutexGuard<'_, Others> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AdminConnection {
    /// Records that the client has sent its first byte.
    pub fn begin(&self) {
        let mut others = self.connections.others();
        let Some(entry) = others.silent.remove(self.id) else { return };
        self.connections.left.notify_one();
        let unauthenticated = &mut others.unauthenticated;
        if unauthenticated.0.len() >= self.connections.bounds.unauthenticated
            && let Some((next, _)) = unauthenticated.next()
        {
            unauthenticated.evict(next);
        }
        unauthenticated.0.push_back(entry);
    }

    /// Records that a request on the connection has shown the token.
    pub fn authenticate(&self) -> Result<(), TooMany> {
        if self.permit.get().is_none() {
            let permit = self.connections.authenticated.clone().try_acquire_owned().map_err(|_| TooMany)?;
            let _ = self.permit.set(permit);
            self.forget();
        }
        Ok(())
    }

    fn forget(&self) {
        let mut others = self.connections.others();
        if others.silent.remove(self.id).is_some() {
            self.connections.left.notify_one();
        }
        others.unauthenticated.remove(self.id);
    }
}

impl Drop for AdminConnection {
    fn drop(&mut self) {
        self.forget();
    }
}

impl Evictable {
    /// The index of the oldest connection of the address with the most, and the number of that address's connections.
    fn next(&self) -> Option<(usize, usize)> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for entry in &self.0 {
            *counts.entry(entry.address).or_default() += 1;
        }
        let most = counts.values().copied().max()?;
        let next = self.0.iter().position(|entry| counts.get(&entry.address) == Some(&most))?;
        Some((next, most))
    }

    fn evict(&mut self, index: usize) {
        if let Some(entry) = self.0.remove(index) {
            let _ = entry.evict.send(());
        }
    }

    fn remove(&mut self, id: u64) -> Option<EvictableConnection> {
        let index = self.0.iter().position(|entry| entry.id == id)?;
        self.0.remove(index)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::oneshot::Receiver;
    use super::oneshot::error::TryRecvError;
    use super::*;

    const MAX_AUTHENTICATED: usize = ConnectionBounds::MOST.authenticated;
    const MAX_UNAUTHENTICATED: usize = ConnectionBounds::MOST.unauthenticated;
    const MAX_SILENT: usize = ConnectionBounds::MOST.silent;
    const FEW_SILENT: usize = MAX_SILENT / FEW_SHARE;

    fn connections() -> Arc<Connections> {
        Connections::new(ConnectionBounds::MOST)
    }

    /// A silent connection of the address 192.0.2.`n`.
    fn admit(connections: &Arc<Connections>, n: u8, since: Instant) -> (AdminConnection, Receiver<()>) {
        connections.admit([192, 0, 2, n].into(), since)
    }

    fn begin(connections: &Arc<Connections>, n: u8) -> (AdminConnection, Receiver<()>) {
        let begun = admit(connections, n, Instant::now());
        begun.0.begin();
        begun
    }

    fn is_evicted((_, evicted): &mut (AdminConnection, Receiver<()>)) -> bool {
        evicted.try_recv().is_ok()
    }

    #[test]
    fn the_oldest_connection_without_the_token_makes_place_for_the_newest() {
        let connections = connections();
        let mut operator = begin(&connections, 1);
        assert!(operator.0.authenticate().is_ok());
        let mut others: Vec<_> = (0..MAX_UNAUTHENTICATED).map(|_| begin(&connections, 1)).collect();
        let silent = (0..MAX_SILENT).map(|_| admit(&connections, 1, Instant::now())).collect::<Vec<_>>();
        assert!(!others.iter_mut().any(is_evicted), "silent ones take nothing from them");
        drop(silent);
        let _newest = begin(&connections, 1);
        assert!(is_evicted(&mut others[0]) && !is_evicted(&mut others[1]));
        assert_eq!(operator.1.try_recv(), Err(TryRecvError::Closed), "it stays");
    }

    #[test]
    fn an_address_with_few_connections_keeps_them() {
        let connections = connections();
        let mut first = begin(&connections, 1);
        let mut others: Vec<_> = (1..MAX_UNAUTHENTICATED).map(|_| begin(&connections, 2)).collect();
        let _newest = begin(&connections, 3);
        assert!(!is_evicted(&mut first) && is_evicted(&mut others[0]));
    }

    #[test]
    fn a_silent_connection_of_an_address_with_few_has_its_time() {
        let (connections, now) = (connections(), Instant::now());
        let addresses = (0..MAX_SILENT).map(|n| u8::try_from(n / FEW_SILENT).unwrap());
        let mut silent: Vec<_> = addresses.map(|n| admit(&connections, n, now)).collect();
        assert_eq!(connections.try_make_place(now), Err(now + TIME_TO_SEND));
        assert!(!silent.iter_mut().any(is_evicted));
        // A connection that sends its first byte, or ends, is no longer silent.
        silent[1].0.begin();
        assert_eq!(connections.try_make_place(now), Ok(()));
        silent.push(admit(&connections, 0, now));
        assert_eq!(connections.try_make_place(now + TIME_TO_SEND), Ok(()));
        let evicted = silent.iter_mut().map(is_evicted).filter(|is_evicted| *is_evicted).count();
        assert_eq!(evicted, 1);
    }

    #[test]
    fn a_flood_of_silent_connections_makes_place_at_once() {
        for addresses in [1, 10] {
            let (connections, now) = (connections(), Instant::now());
            let mut operator = admit(&connections, 200, now);
            let mut flood = Vec::new();
            for n in 0..10_000 {
                assert_eq!(connections.try_make_place(now), Ok(()), "{n} of {addresses}");
                flood.push(admit(&connections, u8::try_from(n % addresses).unwrap(), now));
            }
            assert!(!is_evicted(&mut operator), "it has sent nothing yet, and its address has few");
            let left = flood.iter_mut().map(is_evicted).filter(|is_evicted| !is_evicted).count();
            assert_eq!(left + 1, MAX_SILENT);
        }
    }

    #[tokio::test]
    async fn a_connection_that_is_evicted_has_its_place_until_it_is_closed() {
        let bounds = ConnectionBounds::within(0);
        let connections = Connections::new(bounds);
        let mut open = Vec::new();
        // Each sends its first byte, so the host evicts an older one, which is slow to close.
        for _ in 0..bounds.total() {
            open.push((connections.make_place().await, begin(&connections, 1)));
        }
        assert!(connections.make_place().now_or_never().is_none());
        open.remove(0);
        assert!(connections.make_place().now_or_never().is_some());
    }

    #[test]
    fn fewer_descriptors_lower_each_bound() {
        let most = ConnectionBounds::MOST;
        assert_eq!(ConnectionBounds::within(usize::MAX), most);
        for total in 0..=most.total() {
            let least = ConnectionBounds { authenticated: 4, unauthenticated: 4, silent: 4 };
            assert!(ConnectionBounds::within(total).total() <= total.max(least.total()), "{total}");
        }
        let expected = ConnectionBounds { authenticated: 8, unauthenticated: 4, silent: 34 };
        assert_eq!(ConnectionBounds::within(46), expected);
    }

    #[test]
    fn authenticated_connections_are_bounded_too() {
        let connections = connections();
        let operators: Vec<_> = (0..MAX_AUTHENTICATED).map(|_| begin(&connections, 1).0).collect();
        assert!(operators.iter().all(|operator| operator.authenticate().is_ok()));
        assert!(operators[0].authenticate().is_ok(), "it has its place already");
        let late = begin(&connections, 1).0;
        assert!(late.authenticate().is_err());
        drop(operators);
        assert!(late.authenticate().is_ok());
    }
}
