//! Limits the requests of an HTTP/2 connection that hold an instance, or may get one next, while their client takes
//! nothing.
//!
//! A guest needs its instance until its client has taken enough of the response, and a connection can have a hundred
//! concurrent requests. Without this limit, a few connections would take all instances that an address may have, and
//! fill its queue. Further requests wait here, where they take no instance and no place in a queue.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

/// The most pending requests of one connection, and of one address. A pending request has no response yet, or its
/// response waits for the client. A connection without a pending request may always begin one. Even if all of an
/// address are stalled, half of the stalled permits are left.
const PER_CONNECTION: usize = 8;
const PER_ADDRESS: usize = 128;

/// A request that has waited for this long may begin, unless a pending one waits for the client. Then the component is
/// slow, and not the client.
const PATIENCE: Duration = Duration::from_millis(250);

/// The requests of an address over HTTP/2.
#[derive(Debug, Default)]
pub struct AddressRequests {
    pending: AtomicUsize,
    /// How many of them wait for the client.
    behind: AtomicUsize,
}

/// The requests of one client on one HTTP/2 connection.
#[derive(Debug)]
pub struct StreamRequests {
    address: Arc<AddressRequests>,
    pending: AtomicUsize,
    /// Notified at the end of each, for requests that wait to begin.
    ended: Notify,
}

/// A request that has no response yet, or whose response waits for the client.
#[derive(Debug)]
pub struct PendingRequest {
    requests: Arc<StreamRequests>,
    behind: Upload,
}

/// A request that waits for its client.
#[derive(Debug)]
struct Behind(Arc<AddressRequests>);

/// The wait for a request's body, from the request's admission to the end of the body.
#[derive(Clone, Debug, Default)]
pub struct Upload(Arc<Mutex<Option<Behind>>>);

impl Upload {
    /// Ends the wait: the whole body has come.
    pub fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn begin(&self, address: &Arc<AddressRequests>) {
        address.behind.fetch_add(1, Ordering::Relaxed);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Behind(address.clone()));
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        self.0.behind.fetch_sub(1, Ordering::Relaxed);
    }
}

impl StreamRequests {
    pub fn new(address: Arc<AddressRequests>) -> Self {
        Self { address, pending: AtomicUsize::new(0), ended: Notify::new() }
    }

    /// Begins a request once it has room. With an `upload`, the client still sends the body.
    pub async fn begin(self: &Arc<Self>, upload: Option<Upload>) -> PendingRequest {
        let since = Instant::now();
        while !self.has_room(since.elapsed() >= PATIENCE) {
            // Requests of other connections do not notify this one, so it checks again after `PATIENCE`.
            let _ = timeout(PATIENCE, self.ended.notified()).await;
        }
        self.count(upload)
    }

    /// Begins the wait of a response for its client.
    pub fn begin_wait(self: &Arc<Self>) -> PendingRequest {
        self.count(Some(Upload::default()))
    }

    fn has_room(&self, has_waited: bool) -> bool {
        let (pending, of_address) = (self.pending.load(Ordering::Relaxed), &self.address);
        pending == 0
            || (pending < PER_CONNECTION && of_address.pending.load(Ordering::Relaxed) < PER_ADDRESS)
            || (has_waited && of_address.behind.load(Ordering::Relaxed) == 0)
    }

    fn count(self: &Arc<Self>, upload: Option<Upload>) -> PendingRequest {
        self.pending.fetch_add(1, Ordering::Relaxed);
        self.address.pending.fetch_add(1, Ordering::Relaxed);
        let is_upload = upload.is_some();
        let behind = upload.unwrap_or_default();
        if is_upload {
            behind.begin(&self.address);
        }
        PendingRequest { requests: self.clone(), behind }
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        let StreamRequests { address, pending, ended } = &*self.requests;
        self.behind.end();
        address.pending.fetch_sub(1, Ordering::Relaxed);
        pending.fetch_sub(1, Ordering::Relaxed);
        ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::{FutureExt, poll};

    use super::*;

    fn connection(address: &Arc<AddressRequests>) -> Arc<StreamRequests> {
        Arc::new(StreamRequests::new(address.clone()))
    }

    fn try_begin(requests: &Arc<StreamRequests>) -> Option<PendingRequest> {
        requests.begin(None).now_or_never()
    }

    #[tokio::test]
    async fn a_connection_has_few_requests_while_its_client_takes_nothing() {
        let address = Arc::default();
        let (first, second) = (connection(&address), connection(&address));
        let mut behind: Vec<_> = (0..PER_CONNECTION).map(|_| first.begin_wait()).collect();
        assert!(try_begin(&first).is_none() && try_begin(&second).is_some());
        assert!(!first.has_room(true), "however long it has waited");
        let mut waiting = pin!(first.begin(None));
        assert!(poll!(waiting.as_mut()).is_pending());
        behind.pop();
        assert!(poll!(waiting.as_mut()).is_ready());
    }

    #[tokio::test]
    async fn requests_that_are_answered_late_are_waited_for_briefly() {
        let requests = connection(&Arc::default());
        let _late: Vec<_> = (0..PER_CONNECTION).map(|_| try_begin(&requests).unwrap()).collect();
        assert!(try_begin(&requests).is_none());
        drop(requests.begin(None).await);
        let upload = Upload::default();
        let _pending = requests.count(Some(upload.clone()));
        assert!(!requests.has_room(true));
        upload.end();
        assert!(requests.has_room(true), "the body is there");
    }

    #[tokio::test]
    async fn an_address_with_many_connections_has_one_request_on_each() {
        let address = Arc::default();
        let others: Vec<_> = (0..PER_ADDRESS / PER_CONNECTION).map(|_| connection(&address)).collect();
        let _behind: Vec<_> = others.iter().flat_map(|other| (0..PER_CONNECTION).map(|_| other.begin_wait())).collect();
        let last = connection(&address);
        let own = try_begin(&last);
        assert!(own.is_some() && try_begin(&last).is_none());
        assert!(try_begin(&connection(&Arc::default())).is_some());
        drop(own);
        assert!(try_begin(&last).is_some());
    }
}
