//! The options of `hexad up` about its clients.

use std::net::IpAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use bytesize::ByteSize;
use clap::Args;
use hexad_http::forwarding::{ForwardedFamily, Forwarding};
use hexad_http::send_buffer::{DrainPolicy, SendLimits};
use hexad_runtime::ingress::IngressOptions;
use hexad_telemetry::access_log::{AccessLog, AccessLogFormat};
use ipnet::IpNet;

use super::values::{parse_count, parse_time};

/// Who may connect, which claims of clients the host believes, and limits of clients.
#[derive(Args)]
pub struct IngressArgs {
    /// The certificates to show to clients (PEM): with them, the host speaks TLS. SIGHUP reads
    /// them again.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The key of the certificates (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// The address or network of a proxy that names the address and the scheme of its clients; can be
    /// repeated.
    #[arg(long = "trusted-proxy", value_name = "NETWORK", value_parser = parse_network)]
    trusted_proxies: Vec<IpNet>,

    /// The headers in which trusted proxies name their clients: `X-Forwarded-For` and `-Proto`, or `Forwarded`. The
    /// host drops all others.
    #[arg(long, value_name = "FAMILY", default_value = "x-forwarded")]
    trusted_proxy_headers: ForwardedFamily,

    /// Trusted proxies also name the host that the client addressed, in `X-Forwarded-Host` or in
    /// `Forwarded`. Without it the host is the one in the proxy's `Host`.
    #[arg(long)]
    trusted_proxy_host: bool,

    /// How many connections there may be at once; more wait. The limit is lower if the process may not open as many
    /// files and sockets [default: 10000].
    #[arg(long, value_name = "N", value_parser = parse_count::<NonZeroUsize>)]
    max_connections: Option<NonZeroUsize>,

    /// How many connections one address may have; more are closed [default: 1000].
    #[arg(long, value_name = "N", value_parser = parse_count::<NonZeroUsize>)]
    max_connections_per_address: Option<NonZeroUsize>,

    /// How long a connection stays open without a request [default: 75s].
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    keep_alive: Option<Duration>,

    /// HTTP/2: how long a connection takes requests; requests under way may finish [default: 1h].
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    max_connection_age: Option<Duration>,

    /// HTTP/2: how many requests of one connection may be under way [default: 100].
    #[arg(long, value_name = "N", value_parser = parse_count::<NonZeroU32>)]
    max_streams: Option<NonZeroU32>,

    /// How many bytes of responses the host keeps for one connection whose client reads slowly; then the component
    /// waits [default: 4MiB].
    #[arg(long, value_name = "SIZE")]
    send_buffer_per_connection: Option<ByteSize>,

    /// The same for all connections of one address [default: 32MiB].
    #[arg(long, value_name = "SIZE")]
    send_buffer_per_address: Option<ByteSize>,

    /// The same for all connections [default: 128MiB].
    #[arg(long, value_name = "SIZE")]
    send_buffer: Option<ByteSize>,

    /// HTTP/2: how many bytes of requests' bodies may wait for the components; above it, the host refuses requests with
    /// a body for a while [default: 128MiB].
    #[arg(long, value_name = "SIZE")]
    receive_buffer: Option<ByteSize>,

    /// The minimum rate, in bytes per second, at which a client must read a waiting response, or send a request's body
    /// while others wait for the instance. A slower client loses its request; 0 is no minimum [default: 8KiB].
    #[arg(long, value_name = "SIZE")]
    min_send_rate: Option<ByteSize>,

    /// The time over which that rate is averaged [default: 10s].
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    min_send_rate_period: Option<Duration>,

    /// Write a line for each request to this file, or to standard output for `-`. SIGHUP opens the file
    /// again.
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,

    /// The form of the lines of the access log.
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    access_log_format: AccessLogFormat,
}

impl IngressArgs {
    pub fn options(&self) -> Result<IngressOptions> {
        let defaults = IngressOptions::default();
        let bytes = |size: Option<ByteSize>, default: usize| {
            size.map_or(default, |ByteSize(bytes)| usize::try_from(bytes).unwrap_or(usize::MAX))
        };
        let access_log = self.access_log.as_ref().map(|path| {
            let log = AccessLog::open(path.clone(), self.access_log_format);
            log.with_context(|| format!("cannot open {}; name a file with --access-log", path.display()))
        });
        let connections = self.max_connections.map_or(defaults.connections, NonZeroUsize::get);
        let asked = self.max_connections_per_address.map_or(defaults.connections_per_address, NonZeroUsize::get);
        if asked > connections {
            tracing::warn!(
                connections,
                connections_per_address = asked,
                "one client can have every connection: --max-connections-per-address is more than --max-connections; \
                 set it to less"
            );
        }
        Ok(IngressOptions {
            certificates: self.tls_cert.clone().zip(self.tls_key.clone()),
            proxies: self.trusted_proxies.clone(),
            forwarding: Forwarding { family: self.trusted_proxy_headers, host: self.trusted_proxy_host },
            connections,
            connections_per_address: asked.min(connections),
            send: SendLimits {
                per_connection: bytes(self.send_buffer_per_connection, defaults.send.per_connection),
                per_address: bytes(self.send_buffer_per_address, defaults.send.per_address),
                total: bytes(self.send_buffer, defaults.send.total),
            },
            receive_buffer: bytes(self.receive_buffer, defaults.receive_buffer),
            drain: DrainPolicy {
                min_rate: self.min_send_rate.map_or(defaults.drain.min_rate, |ByteSize(bytes)| bytes),
                period: self.min_send_rate_period.unwrap_or(defaults.drain.period),
            },
            keep_alive: self.keep_alive.unwrap_or(defaults.keep_alive),
            max_streams: self.max_streams.map_or(defaults.max_streams, NonZeroU32::get),
            max_connection_age: self.max_connection_age.unwrap_or(defaults.max_connection_age),
            access_log: access_log.transpose()?,
        })
    }
}

fn parse_network(text: &str) -> Result<IpNet, String> {
    let address = text.parse::<IpAddr>().map(IpNet::from);
    address.or_else(|_| text.parse()).map_err(|_| "write an address or a network, such as 10.0.0.0/8".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        ingress: IngressArgs,
    }

    #[test]
    fn an_address_has_no_more_connections_than_there_are() {
        for (arguments, expected) in [
            (vec![], (10_000, 1000)),
            (vec!["--max-connections=100"], (100, 100)),
            (vec!["--max-connections=100", "--max-connections-per-address=200"], (100, 100)),
            (vec!["--max-connections=100", "--max-connections-per-address=20"], (100, 20)),
        ] {
            let command = Command::parse_from(["up"].into_iter().chain(arguments));
            let options = command.ingress.options().unwrap();
            assert_eq!((options.connections, options.connections_per_address), expected);
        }
    }
}
