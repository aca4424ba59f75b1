//! Pauses between repeated looks at a key that other writers are changing.

use crate::env::Env;
use std::time::Duration;

/// The first pause and the longest one, in microseconds. The first is about the time of a commit on a
/// local disk.
const FIRST: u64 = 3_000;
const LONGEST: u64 = 100_000;

/// Pauses that grow by half each time. Each is lengthened or shortened by up to a half at random, so that
/// writers that began together do not go on together.
pub struct Backoff<'a> {
    env: &'a Env,
    /// In microseconds, before it is changed at random.
    next: u64,
}

impl<'a> Backoff<'a> {
    pub fn new(env: &'a Env) -> Self {
        Backoff { env, next: FIRST }
    }

    /// Pauses, and returns for how long at least.
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
