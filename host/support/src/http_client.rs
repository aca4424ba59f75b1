//! The HTTP client of the commands and of the exporter of traces. It blocks.

use std::time::Duration;

use ureq::Agent;
use ureq::config::ConfigBuilder;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::typestate::AgentScope;

/// The timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client for requests of any length. `timeout` applies to each of three waits: for the server to take the next part
/// of the request, to begin the response, and to end it.
pub fn agent(timeout: Duration) -> Agent {
    let config = config().timeout_send_request(Some(timeout)).timeout_per_write(Some(timeout));
    config.timeout_recv_response(Some(timeout)).timeout_recv_body(Some(timeout)).build().into()
}

/// A client for requests that must be answered within `timeout` as a whole.
pub fn agent_with(timeout: Duration) -> Agent {
    config().timeout_global(Some(timeout)).build().into()
}

/// The client trusts the system's certificate authorities and uses no proxy. An error status is not an error.
fn config() -> ConfigBuilder<AgentScope> {
    let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
    Agent::config_builder()
        .tls_config(tls)
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .http_status_as_error(false)
        // By default, ureq takes a proxy from variables such as `http_proxy`. Over plain HTTP a proxy would read the
        // token, and it cannot reach a host or a collector on this machine.
        .proxy(None)
        // A redirect would send the token to another server.
        .max_redirects(0)
}
