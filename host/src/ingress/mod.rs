//! Between a socket and a request: connection limits, TLS certificates, and forwarded headers.

mod certificates;
mod connection_limit;
mod forwarded;
mod forwarding;
mod idle_connections;
mod listener;
mod own_cookies;
mod receive_budget;

pub use certificates::{CertificateError, CertificateState, Certificates, HTTP2, ReloadFailure};
pub use connection_limit::{ReceiveBounds, client_network};
pub use forwarded::{CLIENT_ADDRESS, Peer, RequestOrigin, is_host_and_port};
pub use forwarding::{ForwardedFamily, Forwarding, is_forwarding, is_reserved};
pub use idle_connections::IdleConnection;
pub use listener::{Accepted, ClientSource, Ingress, IngressOptions, KeepAlive, Unread};
pub use own_cookies::{OPERATOR_COOKIE, OwnCookie};
pub use receive_budget::{ReceiveBudget, ReceiveReservation};
