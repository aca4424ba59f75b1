//! The permits of a limit. While no caller waits, taking or giving back a permit changes one number, and one for each
//! quota of the client.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::Client;
use super::queue::{Bounds, Full, PermitQueue};
use super::reports::{PermitStats, REPORT_INTERVAL};

/// The bit of the state that is set while callers wait.
const WAITING: usize = 1;

/// The state's value of one free permit.
const PERMIT: usize = 2;

/// The permits of a limit, and the callers that wait for one.
///
/// A free permit is one that no caller in the queue may take. While callers wait, a returned permit goes to one of
/// them, under the lock of the queue.
///
/// No caller is forgotten. Before it waits, it locks the queue, sets `WAITING`, and tries to take a permit once more.
/// It then finds a permit that was returned before; a permit returned later finds `WAITING`. The same holds for quotas,
/// which get their permits back before the limit does.
#[derive(Debug)]
pub struct Permits {
    state: AtomicUsize,
    queue: Mutex<PermitQueue<oneshot::Sender<Permit>>>,
    /// Reports of callers whose client's quotas have permits left.
    pub reports: Arc<PermitStats>,
}

/// A permit. Dropping it gives the permit back.
#[derive(Debug)]
pub struct Permit {
    pub client: Client,
    pub permits: Arc<Permits>,
}

/// A caller in the queue. Dropping it removes the caller, or returns a permit that it got.
struct QueuedCaller {
    permits: Arc<Permits>,
    client: Client,
    id: u64,
    /// Closed without a permit if another caller has displaced this one.
    answer: oneshot::Receiver<Permit>,
    is_answered: bool,
}

/// The immediate result of a request for a permit.
enum Beginning {
    Acquired(Permit),
    Queued(QueuedCaller),
}

impl Permits {
    pub fn new(permits: usize) -> Arc<Self> {
        let permits = permits.min(usize::MAX / PERMIT);
        Arc::new(Self { state: AtomicUsize::new(permits * PERMIT), queue: Mutex::default(), reports: Arc::default() })
    }

    pub fn available(&self) -> usize {
        self.state.load(Ordering::Relaxed) / PERMIT
    }

    pub fn waiting(&self) -> usize {
        self.queue().len()
    }

    /// Takes a permit if one is free. Otherwise, returns the client.
    pub fn try_acquire(self: &Arc<Self>, client: Client) -> Result<Permit, Client> {
        // A client at its quota must not take a permit from others, not even for a moment.
        if !client.may_take(self.available()) {
            return Err(client);
        }
        let Some(free) = self.try_take() else {
            return Err(client);
        };
        if client.try_take(free) {
            return Ok(self.permit(client));
        }
        self.give_back();
        Err(client)
    }

    /// Takes a permit, and waits for one if none is free. Without bounds, it does not fail.
    pub async fn acquire(self: &Arc<Self>, client: Client, bounds: Option<Bounds>) -> Result<Permit, Full> {
        let client = match self.try_acquire(client) {
            Ok(permit) => return Ok(permit),
            Err(client) => client,
        };
        match self.begin(client, bounds)? {
            Beginning::Acquired(permit) => Ok(permit),
            Beginning::Queued(caller) => caller.wait().await,
        }
    }

    /// Puts a caller into the queue, unless it gets a permit now.
    fn begin(self: &Arc<Self>, client: Client, bounds: Option<Bounds>) -> Result<Beginning, Full> {
        let mut queue = self.queue();
        self.state.fetch_or(WAITING, Ordering::AcqRel);
        if self.try_take_locked(&client) {
            self.unlock(queue);
            return Ok(Beginning::Acquired(self.permit(client)));
        }
        let displaced = match bounds.map_or(Ok(None), |bounds| queue.admit(&client, bounds)) {
            Ok(displaced) => displaced,
            Err(full) => {
                self.unlock(queue);
                return Err(full);
            }
        };
        let (sender, answer) = oneshot::channel();
        let id = queue.push(&client, bounds.is_some(), sender);
        self.unlock(queue);
        // Dropping the sender wakes the displaced caller.
        drop(displaced);
        Ok(Beginning::Queued(QueuedCaller { permits: self.clone(), client, id, answer, is_answered: false }))
    }

    /// Takes a permit of the limit only. Returns how many were free, including this one.
    fn try_take(&self) -> Option<usize> {
        let take = |state: usize| state.checked_sub(PERMIT);
        self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).ok().map(|before| before / PERMIT)
    }

    /// Takes a permit of the limit and of the client's quotas. The caller has locked the queue.
    fn try_take_locked(&self, client: &Client) -> bool {
        let Some(free) = self.try_take() else {
            return false;
        };
        let is_taken = client.try_take(free);
        if !is_taken {
            // As before, no caller in the queue may take this permit.
            self.state.fetch_add(PERMIT, Ordering::AcqRel);
        }
        is_taken
    }

    fn permit(self: &Arc<Self>, client: Client) -> Permit {
        Permit { client, permits: self.clone() }
    }

    fn give_back(self: &Arc<Self>) {
        let add = |state: usize| (state & WAITING == 0).then_some(state + PERMIT);
        if self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).is_err() {
            self.hand_over();
        }
    }

    /// Gives a permit to the next caller, and free ones to further callers whose client may now take one more.
    fn hand_over(self: &Arc<Self>) {
        let mut served = Vec::new();
        let mut queue = self.queue();
        let mut free = Some(self.available() + 1);
        while let Some(with_this_one) = free {
            let Some((client, answer)) = queue.take_next(with_this_one) else {
                self.state.fetch_add(PERMIT, Ordering::AcqRel);
                break;
            };
            served.push((answer, self.permit(client)));
            free = self.try_take();
        }
        self.unlock(queue);
        for (answer, permit) in served {
            // If the caller has given up, the permit comes back and goes to another one.
            let _ = answer.send(permit);
        }
    }

    fn queue(&self) -> MutexGuard<'_, PermitQueue<oneshot::Sender<Permit>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unlock(&self, queue: MutexGuard<'_, PermitQueue<oneshot::Sender<Permit>>>) {
        if queue.is_empty() {
            self.state.fetch_and(!WAITING, Ordering::AcqRel);
        }
        drop(queue);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.client.give_back();
        self.permits.give_back();
    }
}

impl QueuedCaller {
    async fn wait(mut self) -> Result<Permit, Full> {
        loop {
            let reports = self.client.full_share().map_or(&self.permits.reports, |share| &share.reports);
            let _blocked = reports.begin();
            reports.report();
            if let Ok(answer) = tokio::time::timeout(REPORT_INTERVAL, &mut self.answer).await {
                self.is_answered = true;
                return answer.map_err(|_| Full);
            }
        }
    }
}

impl Drop for QueuedCaller {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        let mut queue = self.permits.queue();
        let removed = queue.remove(&self.client, self.id);
        self.permits.unlock(queue);
        drop(removed);
    }
}
