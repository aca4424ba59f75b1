//! Callers that wait for a permit, in the order in which they get one.

use std::collections::VecDeque;

use super::client::Client;

/// How many callers may wait.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub callers: usize,
    pub callers_per_client: usize,
}

/// The queue is full, and no client has more callers in it than the one that comes.
#[derive(Debug)]
pub struct Full;

/// Callers, each with a `T` to answer it. The next is of the client that has the fewest permits; clients that have
/// equally many take turns, and the callers of one are served in the order in which they came.
#[derive(Debug)]
pub struct Queue<T> {
    /// One line for each client that waits, never empty. A client that comes or was served goes to the end.
    lines: VecDeque<Line<T>>,
    callers: usize,
    next_id: u64,
}

#[derive(Debug)]
struct Line<T> {
    client: Client,
    callers: VecDeque<Caller<T>>,
}

#[derive(Debug)]
struct Caller<T> {
    id: u64,
    /// Whether it was admitted by bounds, and so may have to leave for a caller of another client.
    may_be_displaced: bool,
    answer: T,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { lines: VecDeque::new(), callers: 0, next_id: 0 }
    }
}

impl<T> Queue<T> {
    pub fn len(&self) -> usize {
        self.callers
    }

    pub fn is_empty(&self) -> bool {
        self.callers == 0
    }

    /// Whether one more caller of `client` may wait. If the queue is full, the newest caller of the client that has
    /// the most has to leave for it: otherwise a few clients could keep all others out.
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
        match self.lines.iter_mut().find(|line| line.client.is(client)) {
            Some(line) => line.callers.push_back(caller),
            None => self.lines.push_back(Line { client: client.clone(), callers: [caller].into() }),
        }
        id
    }

    /// Removes a caller. `None` if it has been taken out.
    pub fn remove(&mut self, client: &Client, id: u64) -> Option<T> {
        let line = self.lines.iter().position(|line| line.client.is(client))?;
        let caller = self.lines.get(line)?.callers.iter().position(|caller| caller.id == id)?;
        self.take(line, caller)
    }

    /// Takes out the next caller whose client may have one more of the `free` permits, and takes that of its shares.
    pub fn take_next(&mut self, free: usize) -> Option<(Client, T)> {
        loop {
            let line = self.next_line(free)?;
            let client = self.lines.get(line)?.client.clone();
            // Another request of the client may have taken the last one just now.
            if !client.try_take(free) {
                continue;
            }
            let answer = self.take(line, 0)?;
            if self.lines.get(line).is_some_and(|line| line.client.is(&client))
                && let Some(line) = self.lines.remove(line)
            {
                self.lines.push_back(line);
            }
            return Some((client, answer));
        }
    }

    fn next_line(&self, free: usize) -> Option<usize> {
        let mut next = None;
        for (index, Line { client, .. }) in self.lines.iter().enumerate() {
            if !client.may_take(free) {
                continue;
            }
            let taken = client.taken();
            if next.is_none_or(|(fewest, _)| taken < fewest) {
                next = Some((taken, index));
            }
            // Of clients without a permit, of which there can be many, the first is the next.
            if taken == 0 {
                break;
            }
        }
        next.map(|(_, index)| index)
    }

    /// Takes out the newest caller of the client that has the most, if `client` will have fewer.
    fn displace_for(&mut self, client: &Client) -> Option<T> {
        let newest = |line: &Line<T>| line.callers.iter().rposition(|caller| caller.may_be_displaced);
        let lines = self.lines.iter().enumerate();
        let longest = lines.filter_map(|(index, line)| Some((line.client.queued(), index, newest(line)?))).max();
        let (queued, line, caller) = longest?;
        if queued <= client.queued() + 1 {
            return None;
        }
        self.take(line, caller)
    }

    fn take(&mut self, line: usize, caller: usize) -> Option<T> {
        let Line { client, callers } = self.lines.get_mut(line)?;
        let caller = callers.remove(caller)?;
        client.leave_queue();
        self.callers -= 1;
        if callers.is_empty() {
            self.lines.remove(line);
        }
        Some(caller.answer)
    }
}
