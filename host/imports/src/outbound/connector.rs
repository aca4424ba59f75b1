//! Opens connections, only to checked addresses.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hexad_limits::concurrency_limit::{ClientKeys, HOST, Permit};
use hexad_limits::read_bounds::{self, OverheadMeter, begin_turn};
use http::Uri;
use hyper::rt::Executor;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower_service::Service;
use url::Host;

use super::allowed_hosts::Reach;
use super::component_outbound::ComponentOutbound;
use super::error::ConnectError;
use super::target::Target;

/// Most bytes that one read takes from a connection. The buffer starts smaller and grows to this.
pub(super) const READ_BUFFER_BYTES: usize = 256 * 1024;

tokio::task_local! {
    /// The request that the connector opens a connection for. The pool passes only the URI to it.
    pub(super) static CONNECTION_REQUEST: ConnectionRequest;
}

/// The request that needs a connection.
#[derive(Clone, Copy)]
pub struct ConnectionRequest {
    pub timeout: Duration,
    pub client: ClientKeys,
}

/// Opens the connections of one component.
#[derive(Clone)]
pub struct OutboundConnector(Arc<ComponentOutbound>);

impl OutboundConnector {
    pub fn new(egress: Arc<ComponentOutbound>) -> Self {
        Self(egress)
    }
}

impl Service<Uri> for OutboundConnector {
    type Response = TokioIo<OutboundConnection>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let egress = self.0.clone();
        let request = CONNECTION_REQUEST.try_with(|request| *request);
        let ConnectionRequest { timeout, client } = request
            .unwrap_or(ConnectionRequest { timeout: egress.limits.connect_timeout, client: ClientKeys::default() });
        Box::pin(async move {
            let connected = tokio::time::timeout(timeout, connect(&egress, client, uri, timeout));
            connected.await.unwrap_or(Err(ConnectError::ConnectTimeout)).map(TokioIo::new)
        })
    }
}

async fn connect(
    egress: &Arc<ComponentOutbound>,
    client: ClientKeys,
    uri: Uri,
    timeout: Duration,
) -> Result<OutboundConnection, ConnectError> {
    // A second check, directly before the connection is opened.
    let target = Target::of(&uri).ok_or(ConnectError::Denied)?;
    let reach = egress.allowed_hosts.reach(&target).ok_or(ConnectError::Denied)?;
    if target.ip().is_some_and(|address| !egress.is_permitted(&target, reach, address)) {
        return Err(ConnectError::Prohibited);
    }
    let permit = egress.connections.acquire(HOST).await.map_err(|_| ConnectError::Saturated)?;
    let resolver = CheckedResolver { egress: egress.clone(), client, target: target.clone(), reach };
    let mut tcp = HttpConnector::new_with_resolver(resolver);
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    // Each address of a name gets a part of the time, so that an unresponsive address leaves time for the next.
    tcp.set_connect_timeout(Some(timeout));
    let tcp = Socket(tcp.call(uri).await.map_err(ConnectError::Connect)?.into_inner());
    let (stream, h2): (Box<dyn Stream>, _) = match target.tls {
        false => (Box::new(tcp), false),
        true => {
            let name = match &target.host {
                Host::Domain(name) => {
                    ServerName::try_from(name.clone()).map_err(|_| ConnectError::InvalidServerName)?
                }
                Host::Ipv4(address) => ServerName::from(std::net::IpAddr::from(*address)),
                Host::Ipv6(address) => ServerName::from(std::net::IpAddr::from(*address)),
            };
            let tls = TlsConnector::from(egress.network.tls.clone());
            let tls = tls.connect(name, tcp).await.map_err(ConnectError::Tls)?;
            let h2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
            (Box::new(tls), h2)
        }
    };
    egress.counters.connections.add(1);
    let overhead = (!h2).then(|| Arc::new(OverheadMeter::new(READ_BUFFER_BYTES)));
    Ok(OutboundConnection { stream, overhead, _permit: permit })
}

/// Resolves a name for one connection. It leaves out addresses that the component may not reach.
#[derive(Clone)]
struct CheckedResolver {
    egress: Arc<ComponentOutbound>,
    client: ClientKeys,
    target: Target,
    reach: Reach,
}

impl Service<Name> for CheckedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let Self { egress, client, target, reach } = self.clone();
        Box::pin(async move {
            let mut addresses = egress.network.lookups.resolve(&egress.lookups, client, name.as_str()).await?;
            if addresses.is_empty() {
                return Err(ConnectError::Resolve(io::Error::new(io::ErrorKind::NotFound, "the name has no address")));
            }
            addresses.retain(|address| egress.is_permitted(&target, reach, *address));
            if addresses.is_empty() {
                return Err(ConnectError::Prohibited);
            }
            let sockets: Vec<_> = addresses.into_iter().map(|address| (address, target.port).into()).collect();
            Ok(sockets.into_iter())
        })
    }
}

/// A connected socket, below TLS. It bounds the bytes that it reads in one turn.
struct Socket(TcpStream);

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        read_bounds::poll_read_in_turn(&mut self.0, cx, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Runs the tasks of connections.
#[derive(Clone)]
pub struct ConnectionExecutor;

impl<F> Executor<F> for ConnectionExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, connection: F) {
        tokio::spawn(async move {
            let mut connection = pin!(connection);
            let turn = |cx: &mut Context<'_>| {
                begin_turn();
                connection.as_mut().poll(cx)
            };
            poll_fn(turn).await
        });
    }
}

/// An open connection. It holds its permit until it is closed.
pub struct OutboundConnection {
    stream: Box<dyn Stream>,
    /// The meter, which the connection's responses update at their heads and frames. `None` on HTTP/2.
    overhead: Option<Arc<OverheadMeter>>,
    _permit: Permit,
}

impl Connection for OutboundConnection {
    fn connected(&self) -> Connected {
        match &self.overhead {
            Some(overhead) => Connected::new().extra(overhead.clone()),
            None => Connected::new().negotiated_h2(),
        }
    }
}

impl AsyncRead for OutboundConnection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        read_bounds::poll_read_metered(&mut this.stream, this.overhead.as_deref(), cx, buffer)
    }
}

impl AsyncWrite for OutboundConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
