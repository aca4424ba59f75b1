//! The HTTP client of the commands.

use std::time::Duration;

use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

/// How long making a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client that trusts the system's certificate authorities. An answer may take any time, and one
/// with an error status is an answer.
pub fn agent() -> Agent {
    let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
    Agent::config_builder()
        .tls_config(tls)
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .http_status_as_error(false)
        // A redirect would send the token to another server.
        .max_redirects(0)
        .build()
        .into()
}
