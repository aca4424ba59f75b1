//! Records how long the client waits for the response, and limits the wait for each part of its body.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::RequestContext;

/// The part of a response that its client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    Head,
    Body,
}

impl RequestContext {
    /// Records whether the client waits for the guest to write more of the response's body.
    pub fn set_awaiting_body(&self, awaits: bool) {
        if awaits != (self.body_awaited.load(Ordering::Relaxed) > 0) {
            self.body_awaited.store(if awaits { self.micros().max(1) } else { 0 }, Ordering::Relaxed);
        }
    }

    /// When the client began to wait for more of the response's body. `None` if it does not wait.
    fn body_awaited_since(&self) -> Option<Instant> {
        let since = Some(self.body_awaited.load(Ordering::Relaxed)).filter(|since| *since > 0);
        since.map(|since| self.started + Duration::from_micros(since))
    }

    /// When the response breaks off if the guest writes no more of its body. The guest has `request_timeout` for each
    /// part that the client waits for. A wait for the client itself is not the guest's time, and neither is one for
    /// another server, which has time-outs of its own.
    pub fn body_expires_at(&self, waits_for_server: bool) -> Instant {
        let progress = self.started + Duration::from_micros(self.progress.load(Ordering::Relaxed));
        let since = self.body_awaited_since().filter(|_| !waits_for_server && !self.upload.is_waiting());
        let since = since.map_or_else(Instant::now, |since| since.max(progress));
        self.expires_at().min(since + self.request_timeout)
    }

    /// The part of the response for which the client waits, or waited until it left, for longer than `patience`. `None`
    /// if the guest waits for the client itself.
    pub fn awaited_for(&self, patience: Duration) -> Option<Awaited> {
        let (awaited, waited) = match self.head_at.get() {
            None => (Awaited::Head, self.service_time()),
            Some(_) => {
                let until = self.ended_at.get().map_or_else(Instant::now, |ended_at| *ended_at);
                (Awaited::Body, until.saturating_duration_since(self.body_awaited_since()?))
            }
        };
        (waited > patience && !self.is_waiting_for_client()).then_some(awaited)
    }
}
