//! Records who waits for the response: the client, or the host, which checks whether the guest can still write it.

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

    /// Records whether the response waits for the guest to write more of its body. Wakes the guest's task, which checks
    /// whether it can.
    pub fn set_guest_awaited(&self, awaits: bool) {
        if awaits != self.is_body_awaited.load(Ordering::SeqCst) {
            self.is_body_awaited.store(awaits, Ordering::SeqCst);
            if awaits {
                self.response_ended.wake();
            }
        }
    }

    /// Whether the host has to know if the guest is idle: the response waits for the guest, or only its permit does.
    pub fn awaits_guest(&self) -> bool {
        let has_ended = self.ended_at.get().is_some();
        (self.is_body_awaited.load(Ordering::SeqCst) || has_ended) && !self.is_guest_idle()
    }

    /// Records that neither the guest nor the host has work left for this request: the guest can write no more.
    pub fn mark_guest_idle(&self) {
        self.is_guest_idle.store(true, Ordering::SeqCst);
        self.body_reader.wake();
    }

    pub fn is_guest_idle(&self) -> bool {
        self.is_guest_idle.load(Ordering::SeqCst)
    }

    /// Records that the guest has left the body of its response unfinished.
    pub fn mark_left_unfinished(&self) {
        self.is_left_unfinished.store(true, Ordering::SeqCst);
    }

    pub fn is_left_unfinished(&self) -> bool {
        self.is_left_unfinished.load(Ordering::SeqCst)
    }

    /// The part of the response for which the client waits, or waited until it left, for longer than `patience`. `None`
    /// if the guest waits for the client itself.
    pub fn awaited_for(&self, patience: Duration) -> Option<Awaited> {
        let (awaited, waited) = match (self.head_at.get(), self.body_awaited.load(Ordering::Relaxed)) {
            (None, _) => (Awaited::Head, self.service_time()),
            (Some(_), 0) => return None,
            (Some(_), since) => {
                let until = self.ended_at.get().map_or_else(Instant::now, |ended_at| *ended_at);
                (Awaited::Body, until.saturating_duration_since(self.started + Duration::from_micros(since)))
            }
        };
        (waited > patience && !self.is_waiting_for_client()).then_some(awaited)
    }
}
