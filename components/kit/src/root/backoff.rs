//! Pauses between repeated reads of a key that other writers are changing.

use crate::env::Env;
use std::time::Duration;

/// The first and the longest pause, in microseconds. A commit on a local disk takes about as long as the first.
const FIRST: u64 = 3_000;
const LONGEST: u64 = 100_000;

/// Pauses that grow by half each time (exponential backoff with jitter). Each is changed by up to half at random, so
/// that writers that began together spread out.
pub struct Backoff<'a> {
    env: &'a Env,
    /// The next pause in microseconds, before jitter.
    next: u64,
}

impl<'a> Backoff<'a> {
    /// A backoff whose first pause is about 3 ms.
    pub fn new(env: &'a Env) -> Self {
        Backoff { env, next: FIRST }
    }

    /// Pauses, and returns the least length of the pause.
    pub fn pause(&mut self) -> Duration {
        let mut random = [0];
        self.env.entropy.fill(&mut random);
        let [random] = random;
        let pause = Duration::from_micros(self.next / 2 + self.next * u64::from(random) / 255);
        self.next = (self.next * 3 / 2).min(LONGEST);
        self.env.clock.sleep(pause);
        pause
    }
}
