//! The HTTP client of the commands.

use std::time::Duration;

use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

/// The timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client that trusts the system's certificate authorities. A response has no timeout, and an error
/// status is not an error.
pub fn agent() -> Agent {
    agent_with(None)
}

/// The same, for requests that must be answered within `timeout` as a whole.
pub fn agent_with(timeout: Option<Duration>) -> Agent {
    let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
    Agent::config_builder()
        .tls_config(tls)
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_global(timeout)
        .http_status_as_error(false)
        // A redirect would send the token to another server.
        .max_redirects(0)
        .build()
        .into()
}
