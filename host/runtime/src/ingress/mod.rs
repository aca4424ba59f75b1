//! Between a socket and a request: connection limits, TLS certificates, and forwarded headers.

mod certificates;
mod connection_limit;
mod forwarded;
mod idle_connections;
mod listener;
mod own_cookies;
mod receive_budget;

pub use certificates::{CertificateError, CertificateState, Certificates, HTTP2, ReloadFailure};
pub use connection_limit::ReceiveBounds;
pub use forwarded::{Peer, is_host_and_port};
pub use idle_connections::IdleConnection;
pub use listener::{Accepted, ClientSource, Ingress, IngressOptions, KeepAlive, Unread};
pub use own_cookies::{OPERATOR_COOKIE, OwnCookie};
pub use receive_budget::{ReceiveBudget, ReceiveReservation};
