//! Election of the writer that creates an absent root.
//!
//! On some hosts a swap of an absent key is a plain write. Two creators would both win there, and the first one's write
//! would be lost after it was acknowledged. A swap of a present key, and an increment, are atomic everywhere. So a
//! counter beside the root elects one creator, and the other writers wait for the root.
//!
//! The counter has two parts: the term, and the number of writers. Each writer that finds the root absent adds 1, and
//! the first one is the creator. A writer that has waited for [`ELECTION_TIMEOUT`] presumes the creator dead. It begins
//! a new term by adding [`TERM_STEP`]. It is the creator if this term directly follows the term in which it waited. So
//! a term has at most one creator.
//!
//! A creator that was only slow must not write after its successor, because no host can refuse that write. So a claim
//! is valid for a lease of half the election timeout, counted from before the increment. The creator checks the clock
//! right before the swap, and claims a new term if its lease has expired. A write can still be lost, if the creator's
//! swap reaches the store more than half of the timeout after it was sent. The operations of another writer must take
//! at most an eighth of the timeout meanwhile.

use super::backoff::Backoff;
use crate::env::Env;
use crate::store::StoreError;
use std::time::Duration;

/// The least time that a writer waits for another one to create the root. It is the sum of the writer's pauses, so that
/// it does not end early when the whole machine stops for a while.
const ELECTION_TIMEOUT: Duration = Duration::from_secs(2);

/// The election timeout on a slow store, as a multiple of this writer's longest increment.
const TIMEOUT_PER_WRITE: u32 = 8;

/// The least lease of a claim, and the lease on a slow store as a multiple of this writer's shortest increment.
const LEASE: Duration = Duration::from_secs(1);
const LEASE_PER_WRITE: u32 = 4;

/// The most terms that a writer waits through before it gives up.
const MAX_TERMS: u32 = 5;

/// The key of the counter beside a root. The root's first writer creates it before the root.
pub fn counter(key: &str) -> String {
    format!("{key}/init")
}

/// The time that the store takes for a write, measured by adding 0 to the counter beside a root.
pub fn time_write(env: &Env, key: &str) -> Result<Duration, StoreError> {
    let sent = env.clock.now().millis();
    env.store.increment(&counter(key), 0)?;
    Ok(Duration::from_millis((env.clock.now().millis() - sent).unsigned_abs()))
}

/// A new term adds this to the counter, and a waiting writer adds 1. So as many writers can wait for one root.
const TERM_STEP: i64 = 1 << 32;

/// The outcome of a claim.
#[derive(Debug, PartialEq, Eq)]
pub enum Claim {
    /// This writer is the creator. It must swap without any operation before the swap.
    Elected,
    /// The root may exist by now.
    ReadAgain,
}

/// One writer's part in the election of a root's creator.
pub struct Election<'a> {
    env: &'a Env,
    key: &'a str,
    state: State,
    /// The number of further terms that this writer waits through.
    terms_left: u32,
    /// The longest and the shortest increment so far.
    longest: Duration,
    shortest: Option<Duration>,
}

enum State {
    /// The counter has not been read yet.
    New,
    /// Another writer is the creator of this term.
    Waiting { term: i64 },
    /// This writer is the creator of this term.
    Claimed { term: i64, increment: Increment },
}

#[derive(Clone, Copy)]
struct Increment {
    /// When it was sent, in milliseconds.
    sent: i64,
    count: i64,
    /// The lease of a claim by this increment.
    lease: Duration,
}

impl Increment {
    fn term(&self) -> i64 {
        self.count / TERM_STEP
    }
}

impl<'a> Election<'a> {
    pub fn new(env: &'a Env, key: &'a str) -> Self {
        Election { env, key, state: State::New, terms_left: MAX_TERMS, longest: Duration::ZERO, shortest: None }
    }

    /// Claims the creation, or waits until another writer has created the root. [`StoreError::Contended`] if
    /// [`MAX_TERMS`] creators did not create it.
    pub fn claim(&mut self) -> Result<Claim, StoreError> {
        loop {
            match self.state {
                State::New => {
                    let increment = self.increment(1)?;
                    self.state = match increment.count {
                        1 => State::Claimed { term: 0, increment },
                        _ => State::Waiting { term: increment.term() },
                    };
                }
                State::Claimed { increment, .. } if self.holds_lease(&increment) => return Ok(Claim::Elected),
                // If this writer is elected again, no other writer was elected since the root was seen to be absent.
                // But the facts that it decided on may have changed since then.
                State::Claimed { term, .. } => {
                    self.begin_term(term)?;
                    if matches!(self.state, State::Claimed { .. }) {
                        return Ok(Claim::ReadAgain);
                    }
                }
                State::Waiting { term } => {
                    if self.wait_for_root()? {
                        return Ok(Claim::ReadAgain);
                    }
                    self.terms_left = match self.terms_left.checked_sub(1) {
                        Some(left) => left,
                        None => return Err(StoreError::Contended(self.key.to_owned())),
                    };
                    self.begin_term(term)?;
                    if matches!(self.state, State::Claimed { .. }) {
                        return Ok(Claim::ReadAgain);
                    }
                }
            }
        }
    }

    /// Begins the term after `term`, unless another writer has done so.
    fn begin_term(&mut self, term: i64) -> Result<(), StoreError> {
        // Without this read, late writers would begin terms that have no creator.
        let now = self.increment(0)?.term();
        self.state = if now != term {
            State::Waiting { term: now }
        } else {
            let increment = self.increment(TERM_STEP)?;
            match increment.term() {
                next if next == term + 1 => State::Claimed { term: next, increment },
                next => State::Waiting { term: next },
            }
        };
        Ok(())
    }

    /// Waits for the root until the election timeout, and returns whether the root exists. It does not begin a
    /// compare-and-swap, for which some hosts open a connection.
    fn wait_for_root(&mut self) -> Result<bool, StoreError> {
        let timeout = ELECTION_TIMEOUT.max(self.longest * TIMEOUT_PER_WRITE);
        let (mut waited, mut backoff) = (Duration::ZERO, Backoff::new(self.env));
        while waited < timeout {
            waited += backoff.pause();
            if self.env.store.exists(self.key)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn holds_lease(&self, claim: &Increment) -> bool {
        // After the clock was set back, every claim is expired.
        let age = self.env.clock.now().millis() - claim.sent;
        u128::try_from(age).is_ok_and(|age| age <= claim.lease.as_millis())
    }

    fn increment(&mut self, delta: i64) -> Result<Increment, StoreError> {
        let sent = self.env.clock.now().millis();
        let count = self.env.store.increment(&counter(self.key), delta)?;
        let took = Duration::from_millis((self.env.clock.now().millis() - sent).unsigned_abs());
        // Only earlier increments determine the lease. A slow increment must not extend its own lease.
        let lease = LEASE.max(self.shortest.unwrap_or_default() * LEASE_PER_WRITE);
        self.longest = self.longest.max(took);
        self.shortest = Some(self.shortest.map_or(took, |shortest| shortest.min(took)));
        Ok(Increment { sent, count, lease })
    }
}
