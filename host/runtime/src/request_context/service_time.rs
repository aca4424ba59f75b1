//! The time that a guest takes for the head of a response.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time from a request's permit to the head of its response, without the guest's waits for its client. The queue
/// for the permit and a slow upload are not the guest's time.
#[derive(Default)]
pub struct ServiceTime(Mutex<Stopwatch>);

#[derive(Default)]
struct Stopwatch {
    measured: Duration,
    /// Set while the stopwatch runs.
    since: Option<Instant>,
    /// Between the permit and the head of the response.
    is_in_service: bool,
}

impl ServiceTime {
    /// The request has its permit.
    pub fn begin(&self, now: Instant) {
        let mut stopwatch = self.stopwatch();
        stopwatch.is_in_service = true;
        stopwatch.since = Some(now);
    }

    /// The guest begins or stops to wait for its client.
    pub fn set_waiting_for_client(&self, waits: bool, now: Instant) {
        let mut stopwatch = self.stopwatch();
        match waits {
            true => stopwatch.pause(now),
            false if stopwatch.is_in_service => {
                stopwatch.since.get_or_insert(now);
            }
            false => {}
        }
    }

    /// The response has its head, or will never have one.
    pub fn end(&self, now: Instant) {
        let mut stopwatch = self.stopwatch();
        stopwatch.pause(now);
        stopwatch.is_in_service = false;
    }

    /// The time until now, or until the end.
    pub fn elapsed(&self, now: Instant) -> Duration {
        let stopwatch = self.stopwatch();
        let running = stopwatch.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        stopwatch.measured + running
    }

    fn stopwatch(&self) -> MutexGuard<'_, Stopwatch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stopwatch {
    fn pause(&mut self, now: Instant) {
        if let Some(since) = self.since.take() {
            self.measured += now.saturating_duration_since(since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canary_s_clients_and_the_queue_take_none_of_its_time() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let elapsed = |time: &ServiceTime, seconds| time.elapsed(at(seconds)).as_secs();
        let time = ServiceTime::default();
        time.set_waiting_for_client(false, at(5));
        assert_eq!(elapsed(&time, 10), 0, "it waits for its permit");
        time.begin(at(10));
        assert_eq!(elapsed(&time, 11), 1);
        time.set_waiting_for_client(true, at(12));
        time.set_waiting_for_client(true, at(15));
        assert_eq!(elapsed(&time, 19), 2, "it waits for its client");
        time.set_waiting_for_client(false, at(20));
        time.set_waiting_for_client(false, at(22));
        assert_eq!(elapsed(&time, 23), 5);
        time.end(at(24));
        time.set_waiting_for_client(true, at(25));
        time.set_waiting_for_client(false, at(26));
        assert_eq!(elapsed(&time, 90), 6, "what comes after the head is no part of it");
    }

    #[test]
    fn a_client_that_leaves_during_its_upload_ends_the_time() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let time = ServiceTime::default();
        time.begin(at(0));
        time.set_waiting_for_client(true, at(1));
        time.end(at(60));
        time.set_waiting_for_client(false, at(61));
        assert_eq!(time.elapsed(at(90)), Duration::from_secs(1));
    }
}
