//! Callers that wait for a permit, in the order in which they get one.

use std::collections::VecDeque;

use super::Client;

/// How many callers may wait.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub callers: usize,
    pub callers_per_client: usize,
}

/// The queue is full, and no other client has more callers in it than the new caller's.
#[derive(Debug)]
pub struct Full;

/// Callers, each with a `T` to answer it. The next caller belongs to the client with the fewest permits. Clients with
/// equally many take turns, and a client's callers are served as they came.
#[derive(Debug)]
pub struct PermitQueue<T> {
    /// One queue for each waiting client, never empty. A client that comes or was served goes to the end.
    queues: VecDeque<ClientQueue<T>>,
    callers: usize,
    next_id: u64,
}

#[derive(Debug)]
struct ClientQueue<T> {
    client: Client,
    callers: VecDeque<Caller<T>>,
}

#[derive(Debug)]
struct Caller<T> {
    id: u64,
    /// Whether bounds admitted the caller, so that a caller of another client may displace it.
    may_be_displaced: bool,
    answer: T,
}

impl<T> Default for PermitQueue<T> {
    fn default() -> Self {
        Self { queues: VecDeque::new(), callers: 0, next_id: 0 }
    }
}

impl<T> PermitQueue<T> {
    pub fn len(&self) -> usize {
        self.callers
    }

    pub fn is_empty(&self) -> bool {
        self.callers == 0
    }

    /// Admits one more caller of `client`. When the queue is full, it displaces the newest caller of the client that
    /// has the most. Otherwise a few clients could keep all others out.
    pub fn admit(&mut self, client: &Client, bounds: Bounds) -> Result<Option<T>, Full> {
        if client.queued() >= bounds.callers_per_client {
            return Err(Full);
        }
        if self.callers < bounds.callers {
            return Ok(None);
        }
        self.displace_for(client).map(Some).ok_or(Full)
    }

    /// Adds a caller, and returns its number.
    pub fn push(&mut self, client: &Client, may_be_displaced: bool, answer: T) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.callers += 1;
        client.enter_queue();
        let caller = Caller { id, may_be_displaced, answer };
        match self.queues.iter_mut().find(|queue| queue.client.is(client)) {
            Some(queue) => queue.callers.push_back(caller),
            None => self.queues.push_back(ClientQueue { client: client.clone(), callers: [caller].into() }),
        }
        id
    }

    /// Removes a caller. `None` if the queue no longer has it.
    pub fn remove(&mut self, client: &Client, id: u64) -> Option<T> {
        let queue = self.queues.iter().position(|queue| queue.client.is(client))?;
        let caller = self.queues.get(queue)?.callers.iter().position(|caller| caller.id == id)?;
        self.take(queue, caller)
    }

    /// Removes the next caller whose client may take one of the `free` permits, and takes the permits of its quotas.
    pub fn take_next(&mut self, free: usize) -> Option<(Client, T)> {
        loop {
            let queue = self.next_queue(free)?;
            let client = self.queues.get(queue)?.client.clone();
            // Another request of the client may have taken its last permit just now.
            if !client.try_take(free) {
                continue;
            }
            let answer = self.take(queue, 0)?;
            if self.queues.get(queue).is_some_and(|queue| queue.client.is(&client))
                && let Some(queue) = self.queues.remove(queue)
            {
                self.queues.push_back(queue);
            }
            return Some((client, answer));
        }
    }

    fn next_queue(&self, free: usize) -> Option<usize> {
        let mut next = None;
        for (index, ClientQueue { client, .. }) in self.queues.iter().enumerate() {
            if !client.may_take(free) {
                continue;
            }
            let taken = client.taken();
            if next.is_none_or(|(fewest, _)| taken < fewest) {
                next = Some((taken, index));
            }
            // Many clients may have no permit; the first of them is the next.
            if taken == 0 {
                break;
            }
        }
        next.map(|(_, index)| index)
    }

    /// Removes the newest caller of the client that has the most, if `client` will still have fewer.
    fn displace_for(&mut self, client: &Client) -> Option<T> {
        let newest = |queue: &ClientQueue<T>| queue.callers.iter().rposition(|caller| caller.may_be_displaced);
        let queues = self.queues.iter().enumerate();
        let longest = queues.filter_map(|(index, queue)| Some((queue.client.queued(), index, newest(queue)?))).max();
        let (queued, queue, caller) = longest?;
        if queued <= client.queued() + 1 {
            return None;
        }
        self.take(queue, caller)
    }

    fn take(&mut self, queue: usize, caller: usize) -> Option<T> {
        let ClientQueue { client, callers } = self.queues.get_mut(queue)?;
        let caller = callers.remove(caller)?;
        client.leave_queue();
        self.callers -= 1;
        if callers.is_empty() {
            self.queues.remove(queue);
        }
        Some(caller.answer)
    }
}
