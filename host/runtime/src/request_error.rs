//! Why a request gets no response of its component.

use std::time::Duration;

use hexad_limits::anonymous_work::UsedUp;
use hexad_telemetry::metrics::Refusal;

use crate::request_context::RequestContext;

/// A failure to which the host responds itself, and which it counts.
#[derive(Clone, Copy, Debug)]
pub enum RequestError {
    /// HTTP does not allow the request. The text is a sentence for the client.
    Malformed(&'static str),
    /// The request's body passes this limit, in bytes.
    BodyTooLarge(u64),
    /// The client goes on waiting for `100 Continue`, which hyper cannot send over HTTP/2. The client repeats the
    /// request without the expectation (RFC 9110, 10.1.1).
    ExpectationFailed,
    /// The client stopped sending in the middle of its request.
    SlowClient,
    /// Clients without an accepted credential have used up a limit of their network.
    AnonymousWork(UsedUp),
    /// Every instance is busy, and the queue is full or the wait was too long.
    Saturated,
    /// While the request waited, its client left too many other responses unread.
    Unread,
    /// wasmtime cannot make another instance.
    NoInstance,
    /// The host had no memory left for the component.
    NoMemory,
    /// The component's circuit breaker is open for this long.
    Failing(Duration),
    /// The component trapped, returned an error or was ended. The cause is in the log.
    Failed,
    /// The component used up the processor time of a request.
    OutOfCpuTime,
    /// The component did not respond in time.
    TimedOut,
    /// The component's writes could not be made durable, and a retry would fail as well.
    NotDurable,
    /// The store is unavailable. `maybe_stored`: part of the request may have been stored.
    StoreUnavailable { maybe_stored: bool },
    /// The component's response broke before any of it was sent.
    Broken,
    /// The component's response passes this limit, in bytes.
    ResponseTooLarge(u64),
}

impl RequestError {
    /// The counter of the error.
    pub fn refusal(&self) -> Refusal {
        match self {
            Self::Malformed(_) => Refusal::Malformed,
            Self::BodyTooLarge(_) => Refusal::TooLarge,
            Self::ExpectationFailed => Refusal::ExpectationFailed,
            Self::SlowClient => Refusal::SlowClient,
            Self::AnonymousWork(_) => Refusal::AnonymousWork,
            Self::Saturated => Refusal::Saturated,
            Self::Unread => Refusal::Unread,
            Self::NoInstance => Refusal::NoInstance,
            Self::NoMemory => Refusal::NoMemory,
            Self::Failing(_) => Refusal::Failing,
            Self::Failed => Refusal::Failed,
            Self::OutOfCpuTime => Refusal::CpuTime,
            Self::TimedOut => Refusal::TimedOut,
            Self::NotDurable => Refusal::NotDurable,
            Self::StoreUnavailable { .. } => Refusal::StoreUnavailable,
            Self::Broken => Refusal::Broken,
            Self::ResponseTooLarge(_) => Refusal::ResponseTooLarge,
        }
    }

    /// Whether the error counts in a trial of the component. Errors of the host, its store or the client do not.
    pub fn is_of_component(&self) -> bool {
        match self {
            Self::Malformed(_)
            | Self::BodyTooLarge(_)
            | Self::ExpectationFailed
            | Self::SlowClient
            | Self::AnonymousWork(_)
            | Self::Saturated
            | Self::Unread
            | Self::NoMemory
            | Self::NotDurable
            | Self::StoreUnavailable { .. } => false,
            Self::NoInstance
            | Self::Failing(_)
            | Self::Failed
            | Self::OutOfCpuTime
            | Self::TimedOut
            | Self::Broken
            | Self::ResponseTooLarge(_) => true,
        }
    }

    /// The error of a request whose time is over.
    pub fn of_timeout(context: &RequestContext) -> Self {
        match context.is_waiting_for_client() {
            true => Self::SlowClient,
            false => Self::TimedOut,
        }
    }
}
