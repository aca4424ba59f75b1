//! Cancelled requests on a proxy's HTTP/2 connection, counted for each of the proxy's clients.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::frame_meter::{MAX_RESETS, PERIOD};

/// Counts cancellations in periods.
#[derive(Default)]
pub struct Cancellations(Mutex<Period>);

#[derive(Default)]
struct Period {
    /// `None` before the first cancellation.
    end: Option<Instant>,
    /// How many requests each client has cancelled. The frame meter bounds the sum over all clients.
    counts: HashMap<IpAddr, u32>,
}

impl Cancellations {
    /// Whether the client at this address has cancelled too many requests: the host refuses its next ones until the
    /// period ends.
    pub fn are_too_many(&self, client: IpAddr) -> bool {
        let mut period = self.period();
        period.end.is_some() && {
            period.renew(Instant::now());
            period.counts.get(&client).is_some_and(|count| *count >= MAX_RESETS)
        }
    }

    /// Records a cancellation. True if it is the client's last one before the host refuses its requests.
    fn record(&self, client: IpAddr, now: Instant) -> bool {
        let mut period = self.period();
        period.renew(now);
        period.end.get_or_insert(now + PERIOD);
        let count = period.counts.entry(client).or_default();
        *count += 1;
        *count == MAX_RESETS
    }

    fn period(&self) -> MutexGuard<'_, Period> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Period {
    fn renew(&mut self, now: Instant) {
        if self.end.is_some_and(|end| end <= now) {
            *self = Self::default();
        }
    }
}

/// A stream whose response is not complete. Dropping it records a cancellation.
pub struct OpenStream {
    cancellations: Arc<Cancellations>,
    client: IpAddr,
    is_completed: bool,
}

impl OpenStream {
    pub fn begin(cancellations: &Arc<Cancellations>, client: IpAddr) -> Self {
        Self { cancellations: cancellations.clone(), client, is_completed: false }
    }

    /// Records no cancellation: the response is complete, or broke for another reason than its client.
    pub fn complete(mut self) {
        self.is_completed = true;
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        if !self.is_completed && self.cancellations.record(self.client, Instant::now()) {
            let (client, seconds) = (self.client, PERIOD.as_secs());
            tracing::warn!(%client, "a client of a proxy has cancelled {MAX_RESETS} requests within {seconds} seconds");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_refused_for_the_rest_of_the_period_and_others_are_not() {
        let cancellations = Cancellations::default();
        let [client, other] = ["192.0.2.1", "192.0.2.2"].map(|address| address.parse().unwrap());
        let past = Instant::now() - PERIOD;
        assert!((1..=MAX_RESETS).all(|count| cancellations.record(client, past) == (count == MAX_RESETS)));
        assert!(!cancellations.are_too_many(client), "another period");
        let now = Instant::now();
        assert!((1..=MAX_RESETS).all(|count| cancellations.record(client, now) == (count == MAX_RESETS)));
        assert!(cancellations.are_too_many(client));
        assert!(!cancellations.are_too_many(other));
    }

    #[test]
    fn completed_requests_are_no_cancellations() {
        let cancellations = Arc::new(Cancellations::default());
        let client = "192.0.2.1".parse().unwrap();
        (0..2 * MAX_RESETS).for_each(|_| OpenStream::begin(&cancellations, client).complete());
        assert!(!cancellations.are_too_many(client));
        (0..MAX_RESETS).for_each(|_| drop(OpenStream::begin(&cancellations, client)));
        assert!(cancellations.are_too_many(client));
    }
}
