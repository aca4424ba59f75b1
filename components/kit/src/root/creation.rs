//! Which of several writers creates an absent root.
//!
//! On some hosts a swap of an absent key is a plain write, so that two creators would both win, and the
//! first one's write would be lost after it was acknowledged. A swap of a present key, and an increment,
//! are atomic everywhere. So a counter beside the root elects one creator, and the others wait until the
//! root is there.
//!
//! The counter has two parts. Each writer that finds the root absent adds 1, and the first one is the
//! creator. A writer that has waited for [`ELECTION_TIMEOUT`] takes the creator for dead and begins a new *term*
//! by adding [`TERM`]; it is the creator if it moved the counter from the term in which it waited to the
//! next. So a term has one creator at most.
//!
//! A creator that was only slow must not write any more after its successor, because no host can refuse
//! that write. So a claim is valid for [`LEASE`], half of [`ELECTION_TIMEOUT`], from before it was made. Its owner
//! looks at the clock right before the swap, and claims a term anew if the claim is too old. A write is
//! lost only if that one swap reaches the store more than half of the timeout after it was sent, while
//! the operations of another writer take an eighth of that.

use super::backoff::Backoff;
use crate::env::Env;
use crate::store::StoreError;
use std::time::Duration;

/// For how long a writer waits for another one to create the root, at least. The sum of its pauses, so
/// that it does not end early if the whole machine stops for a while.
const ELECTION_TIMEOUT: Duration = Duration::from_secs(2);

/// On a slow store: so many times the longest of this writer's increments.
const ELECTION_TIMEOUT_PER_WRITE: u32 = 8;

/// For how long a claim is valid, at least, and on a slow store.
const LEASE: Duration = Duration::from_secs(1);
const LEASE_PER_WRITE: u32 = 4;

/// How many creators a writer outlives before it gives up.
const TERMS: u32 = 5;

/// The key of the counter beside a root, which its first writer makes before the root.
pub fn counter(key: &str) -> String {
    format!("{key}/init")
}

/// How long the store takes for a write, by an increment of the counter beside a root that changes nothing.
pub fn time_write(env: &Env, key: &str) -> Result<Duration, StoreError> {
    let began = env.clock.now().millis();
    env.store.increment(&counter(key), 0)?;
    Ok(Duration::from_millis((env.clock.now().millis() - began).unsigned_abs()))
}

/// A new term adds so much to the counter. So many writers can wait for one root.
const TERM: i64 = 1 << 32;

/// Whether a writer that has found the root absent may create it.
#[derive(Debug, PartialEq, Eq)]
pub enum Claim {
    /// Now, and without any operation before the swap.
    Create,
    /// The root may be there by now.
    LookAgain,
}

/// The part of one writer in the creation of a root.
pub struct Creation<'a> {
    env: &'a Env,
    key: &'a str,
    state: State,
    /// How many more creators are waited for.
    terms_left: u32,
    /// The longest and the shortest increment so far.
    longest: Duration,
    shortest: Option<Duration>,
}

enum State {
    /// No look at the counter yet.
    New,
    /// Another writer is the creator of this term.
    Waiting { term: i64 },
    /// This writer is the creator of this term.
    Claimed { term: i64, increment: Increment },
}

/// An increment of the counter.
#[derive(Clone, Copy)]
struct Increment {
    /// When it was sent, in milliseconds.
    began: i64,
    count: i64,
    /// For how long a claim by it is valid.
    lease: Duration,
}

impl Increment {
    fn term(&self) -> i64 {
        self.count / TERM
    }
}

impl<'a> Creation<'a> {
    pub fn of(env: &'a Env, key: &'a str) -> Self {
        Creation { env, key, state: State::New, terms_left: TERMS, longest: Duration::ZERO, shortest: None }
    }

    /// Claims the creation, or waits until another writer has created the root. Contended if
    /// [`TERMS`] creators did not do it.
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
                State::Claimed { increment, .. } if self.is_valid(&increment) => return Ok(Claim::Create),
                // If this writer is elected again, no other was elected since the root was seen to be absent. But the
                // state that it decided on may have changed in that time.
                State::Claimed { term, .. } => {
                    self.begin_term(term)?;
                    if matches!(self.state, State::Claimed { .. }) {
                        return Ok(Claim::LookAgain);
                    }
                }
                State::Waiting { term } => {
                    if self.wait_for_root()? {
                        return Ok(Claim::LookAgain);
                    }
                    self.terms_left = match self.terms_left.checked_sub(1) {
                        Some(left) => left,
                        None => return Err(StoreError::Contended(self.key.to_owned())),
                    };
                    self.begin_term(term)?;
                    if matches!(self.state, State::Claimed { .. }) {
                        return Ok(Claim::LookAgain);
                    }
                }
            }
        }
    }

    /// Begins the term after `term`, unless another writer has done so.
    fn begin_term(&mut self, term: i64) -> Result<(), StoreError> {
        // Without this look, writers that come late would begin terms without a creator.
        let now = self.increment(0)?.term();
        self.state = if now != term {
            State::Waiting { term: now }
        } else {
            let increment = self.increment(TERM)?;
            match increment.term() {
                next if next == term + 1 => State::Claimed { term: next, increment },
                next => State::Waiting { term: next },
            }
        };
        Ok(())
    }

    /// Waits for the root or for the election timeout; whether the root is there. It is looked for
    /// without a compare-and-swap, for which some hosts open a connection.
    fn wait_for_root(&mut self) -> Result<bool, StoreError> {
        let timeout = ELECTION_TIMEOUT.max(self.longest * ELECTION_TIMEOUT_PER_WRITE);
        let (mut waited, mut backoff) = (Duration::ZERO, Backoff::new(self.env));
        while waited < timeout {
            waited += backoff.pause();
            if self.env.store.exists(self.key)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_valid(&self, claim: &Increment) -> bool {
        // A clock that was set back makes every claim old.
        let age = self.env.clock.now().millis() - claim.began;
        u128::try_from(age).is_ok_and(|age| age <= claim.lease.as_millis())
    }

    fn increment(&mut self, delta: i64) -> Result<Increment, StoreError> {
        let began = self.env.clock.now().millis();
        let count = self.env.store.increment(&counter(self.key), delta)?;
        let took = Duration::from_millis((self.env.clock.now().millis() - began).unsigned_abs());
        // A claim is not made valid for longer by its own delay, only by those before.
        let lease = LEASE.max(self.shortest.unwrap_or_default() * LEASE_PER_WRITE);
        self.longest = self.longest.max(took);
        self.shortest = Some(self.shortest.map_or(took, |shortest| shortest.min(took)));
        Ok(Increment { began, count, lease })
    }
}
