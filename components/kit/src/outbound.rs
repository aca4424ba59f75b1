//! The port for outbound HTTP requests. A client reaches the network only if the component's world imports
//! `wasi:http/client` (see `wasi::serve_with`).

use crate::body::Body;
use bytes::Bytes;
use futures::future::LocalBoxFuture;
use http::{HeaderMap, Method, StatusCode, Uri};
use std::time::Duration;
use thiserror::Error;

/// A request to another server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboundRequest {
    pub method: Method,
    /// Absolute, `http` or `https`.
    pub url: Uri,
    pub headers: HeaderMap,
    /// If empty, the request has no body.
    pub body: Bytes,
    pub timeouts: Timeouts,
}

/// The timeouts of an outbound request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For connecting.
    pub connect: Duration,
    /// For the response head, and for each further part of the body.
    pub idle: Duration,
    /// For the whole response. Time that the reader spends between reads does not count.
    pub total: Duration,
}

/// The response to an outbound request. Redirects are not followed.
pub struct OutboundResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// Ends with [`crate::body::BodyError::Upstream`] if the server closes the connection early or times out.
    pub body: Body,
}

/// A failed outbound request. The texts name no address and no secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OutboundError {
    /// The host's limit of concurrent outbound requests is reached.
    #[error("too many calls are under way")]
    Busy,
    /// The manifest does not grant this address, or the host's address policy forbids it.
    #[error("its address is not allowed")]
    Denied,
    /// One of the [`Timeouts`] passed.
    #[error("it did not answer in time")]
    Timeout,
    /// The server refused the connection.
    #[error("it refused the connection")]
    Refused,
    /// The host's name could not be resolved.
    #[error("its name could not be resolved")]
    Name,
    /// No secure connection could be made.
    #[error("no secure connection could be made")]
    Tls,
    /// Any other error, in the host's words, for the log.
    #[error("the connection failed")]
    Other(String),
}

/// Sends outbound requests.
pub trait Client {
    /// Sends a request. The future ends with the response head.
    fn send(&self, request: OutboundRequest) -> LocalBoxFuture<'static, Result<OutboundResponse, OutboundError>>;
}

/// The client of a component without outbound HTTP. It denies every request.
pub struct NoNetwork;

impl Client for NoNetwork {
    fn send(&self, _: OutboundRequest) -> LocalBoxFuture<'static, Result<OutboundResponse, OutboundError>> {
        Box::pin(std::future::ready(Err(OutboundError::Denied)))
    }
}
