//! The port for requests to other servers. Only a component whose contract imports
//! `wasi:http/client` has one that reaches anything (see `wasi::serve_with`).

use crate::body::Body;
use bytes::Bytes;
use futures::future::LocalBoxFuture;
use http::{HeaderMap, Method, StatusCode, Uri};
use std::fmt;
use std::time::Duration;

/// A request to another server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboundRequest {
    pub method: Method,
    /// Absolute, `http` or `https`.
    pub url: Uri,
    pub headers: HeaderMap,
    /// Empty: the request has no body.
    pub body: Bytes,
    pub patience: Timeouts,
}

/// How long to wait for another server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection.
    pub connect: Duration,
    /// For the head of the answer, and for each further part of its body.
    pub silence: Duration,
    /// For all of the answer together. Time that the reader takes for itself does not count.
    pub total: Duration,
}

/// What another server answered. Redirects are not followed.
pub struct OutboundResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// Ends with [`crate::body::BodyError::Upstream`] if the server broke it off or took too long.
    pub body: Body,
}

/// Why there is no answer. The texts name no address and no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutboundError {
    /// As many calls as the host allows are under way already.
    Busy,
    /// The manifest does not grant this address, or the address policy forbids it.
    Denied,
    Timeout,
    Refused,
    Name,
    Tls,
    /// Anything else, in the host's words; for the log.
    Other(String),
}

impl fmt::Display for OutboundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OutboundError::Busy => "too many calls are under way",
            OutboundError::Denied => "its address is not allowed",
            OutboundError::Timeout => "it did not answer in time",
            OutboundError::Refused => "it refused the connection",
            OutboundError::Name => "its name could not be resolved",
            OutboundError::Tls => "no secure connection could be made",
            OutboundError::Other(_) => "the connection failed",
        })
    }
}

/// Sends requests to other servers.
pub trait Client {
    fn send(&self, call: OutboundRequest) -> LocalBoxFuture<'static, Result<OutboundResponse, OutboundError>>;
}

/// The client of a component that may not call anybody.
pub struct NoNetwork;

impl Client for NoNetwork {
    fn send(&self, _: OutboundRequest) -> LocalBoxFuture<'static, Result<OutboundResponse, OutboundError>> {
        Box::pin(std::future::ready(Err(OutboundError::Denied)))
    }
}
