//! The settings and the open connections of one listener.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hexad_http::forwarding::Forwarding;
use hexad_http::send_buffer::{BelowMinRate, DrainPolicy, SendBudgets, SendLimits};
use hexad_support::log_throttle::LogThrottle;
use hexad_telemetry::access_log::AccessLog;
use http::{Extensions, HeaderValue};
use ipnet::IpNet;
use tokio::sync::OwnedSemaphorePermit;

use super::certificates::{CertificateError, Certificates};
use super::connection_limit::{ConnectionLimit, ConnectionPermit};
use super::idle_connections::IdleConnections;
use super::receive_budget::ReceiveBudget;

/// The settings and the connections of one listener.
#[derive(Debug)]
pub struct Ingress {
    /// With certificates, the listener accepts only TLS.
    pub certificates: Option<Certificates>,
    /// Proxies whose word on the client's address and scheme the host trusts.
    pub proxies: Vec<IpNet>,
    pub forwarding: Forwarding,
    pub connections: Arc<ConnectionLimit>,
    pub idle: IdleConnections,
    /// Response bytes that clients have not taken.
    pub send_budgets: SendBudgets,
    /// The bytes of request bodies over HTTP/2 that components have not read.
    pub receive_budget: Arc<ReceiveBudget>,
    /// The minimum rate for taking a response, and for sending a request's body while others wait for the instance.
    pub drain: DrainPolicy,
    pub keep_alive: KeepAlive,
    /// Concurrent requests on one HTTP/2 connection.
    pub max_streams: u32,
    /// An HTTP/2 connection takes no more requests after this time.
    pub max_connection_age: Duration,
    pub access_log: Option<Arc<AccessLog>>,
    slow_reader_throttle: LogThrottle,
    flood_throttle: LogThrottle,
}

/// A request's extension with its client's send budget. The application checks it before it calls the component, so
/// that the connection need not refuse the response of an unsafe method.
#[derive(Clone)]
pub struct Unread {
    pub ingress: Arc<Ingress>,
    pub network: IpAddr,
}

impl Unread {
    /// The minimum rate for a request's body while others wait for the instance.
    pub fn min_rate(extensions: &Extensions) -> DrainPolicy {
        extensions.get::<Self>().map_or_else(DrainPolicy::default, |unread| unread.ingress.drain)
    }

    /// Whether the client's network leaves too much unread for another response.
    pub fn is_too_much(&self) -> bool {
        self.ingress.send_budgets.is_overdrawn_by(self.network)
    }
}

/// A client as the limits see it, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientSource {
    /// The client's network. `None` if the proxy's client is unknown.
    pub client: Option<IpAddr>,
    /// The trusted proxy that forwarded the request.
    pub proxy: Option<IpAddr>,
}

/// How long a connection stays open without a request.
#[derive(Clone, Debug)]
pub struct KeepAlive {
    pub timeout: Duration,
    /// The announcement to clients, in seconds. `None` below one: zero would say that no request may follow.
    pub header: Option<HeaderValue>,
}

/// The host waits this much longer than it has announced, because a client may send a request until the announced end.
const KEEP_ALIVE_MARGIN: Duration = Duration::from_secs(2);

impl KeepAlive {
    pub fn new(timeout: Duration) -> Self {
        let seconds = Some(timeout.as_secs()).filter(|seconds| *seconds > 0);
        let header = seconds.and_then(|seconds| HeaderValue::try_from(format!("timeout={seconds}")).ok());
        Self { timeout: timeout.saturating_add(KEEP_ALIVE_MARGIN), header }
    }
}

/// Open connections in total, and from one address.
const MAX_CONNECTIONS: usize = 10_000;
const MAX_CONNECTIONS_PER_ADDRESS: usize = 1_000;

/// Longer than common proxies keep idle connections, so that the proxy closes first.
const IDLE_TIMEOUT: Duration = Duration::from_secs(75);

const MAX_STREAMS: u32 = 100;

const RECEIVE_BUFFER: usize = 128 << 20;

const MAX_CONNECTION_AGE: Duration = Duration::from_secs(3600);

/// The options of the command line.
#[derive(Clone, Debug)]
pub struct IngressOptions {
    /// Files in PEM: the chain of certificates, and its key.
    pub certificates: Option<(PathBuf, PathBuf)>,
    pub proxies: Vec<IpNet>,
    pub forwarding: Forwarding,
    pub connections: usize,
    pub connections_per_address: usize,
    pub send: SendLimits,
    /// Bytes of request bodies over HTTP/2 that components have not read.
    pub receive_buffer: usize,
    pub drain: DrainPolicy,
    pub keep_alive: Duration,
    pub max_streams: u32,
    pub max_connection_age: Duration,
    pub access_log: Option<Arc<AccessLog>>,
}

impl Default for IngressOptions {
    fn default() -> Self {
        Self {
            certificates: None,
            proxies: Vec::new(),
            forwarding: Forwarding::default(),
            connections: MAX_CONNECTIONS,
            connections_per_address: MAX_CONNECTIONS_PER_ADDRESS,
            send: SendLimits::default(),
            receive_buffer: RECEIVE_BUFFER,
            drain: DrainPolicy::default(),
            keep_alive: IDLE_TIMEOUT,
            max_streams: MAX_STREAMS,
            max_connection_age: MAX_CONNECTION_AGE,
            access_log: None,
        }
    }
}

impl Ingress {
    pub fn new(options: IngressOptions) -> Result<Self, CertificateError> {
        let certificates = options.certificates.map(|(chain, key)| Certificates::load(chain, key)).transpose()?;
        if let Some(certificates) = &certificates {
            log_refusal(certificates);
        }
        let connections = Arc::new(ConnectionLimit::new(options.connections, options.connections_per_address));
        Ok(Self {
            certificates,
            proxies: options.proxies,
            forwarding: options.forwarding,
            connections,
            idle: IdleConnections::default(),
            send_budgets: SendBudgets::new(options.send),
            receive_budget: ReceiveBudget::new(options.receive_buffer),
            drain: options.drain,
            keep_alive: KeepAlive::new(options.keep_alive),
            max_streams: options.max_streams,
            max_connection_age: options.max_connection_age,
            access_log: options.access_log,
            slow_reader_throttle: LogThrottle::new(1, 3),
            flood_throttle: LogThrottle::new(1, 3),
        })
    }

    /// Logs that a client has lost a response, because it took too little of it.
    pub fn log_slow_reader(&self, source: ClientSource, reason: BelowMinRate) {
        if let Some(suppressed) = self.slow_reader_throttle.pass() {
            let ClientSource { client, proxy } = source;
            tracing::warn!(
                client = client.map(tracing::field::display),
                proxy = proxy.map(tracing::field::display),
                %reason,
                suppressed,
                "a response was ended before its client had taken it"
            );
        }
    }

    /// Logs that the host closed a connection because its client flooded it with frames.
    pub fn log_flood(&self, source: ClientSource) {
        if let Some(suppressed) = self.flood_throttle.pass() {
            let ClientSource { client, proxy } = source;
            tracing::warn!(
                client = client.map(tracing::field::display),
                proxy = proxy.map(tracing::field::display),
                suppressed,
                "a connection was closed: its client floods it with bytes that carry nothing"
            );
        }
    }

    /// Reopens the access log and reloads the certificates. If the reload fails, the old ones stay.
    pub fn reload(&self) {
        if let Some(log) = &self.access_log {
            log.reopen();
        }
        let Some(certificates) = &self.certificates else { return };
        match certificates.reload() {
            Ok(()) => tracing::info!("the certificates were reloaded"),
            Err(error) => tracing::error!(%error, "the certificates cannot be reloaded; the old ones stay in use"),
        }
        log_refusal(certificates);
    }

    pub fn scheme(&self) -> &'static str {
        match self.certificates {
            Some(_) => "https",
            None => "http",
        }
    }

    pub fn trusts(&self, peer: SocketAddr) -> bool {
        let peer = peer.ip().to_canonical();
        self.proxies.iter().any(|network| network.contains(&peer))
    }
}

fn log_refusal(certificates: &Certificates) {
    if let Some(reason) = certificates.refusal() {
        tracing::warn!("{reason}");
    }
}

/// A connection's permits: of its listener, and of its address unless the peer is a trusted proxy.
pub type ConnectionPermits = (OwnedSemaphorePermit, Option<ConnectionPermit>);

/// A connection on its way to a shard.
pub struct Accepted {
    pub stream: std::net::TcpStream,
    pub peer: SocketAddr,
    pub ingress: Arc<Ingress>,
    /// Held until the connection ends.
    pub permits: ConnectionPermits,
}
