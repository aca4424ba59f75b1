//! The listening socket, and the thread that hands its connections to the shards.

use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hexad_http::origin::client_network;
use hexad_support::log_throttle::LogThrottle;
use hexad_support::serving_threads::ServingThreads;
use hexad_support::serving_threads::StopSignal;
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::TcpListener;
use tokio::sync::OwnedSemaphorePermit;

use crate::ingress::{Accepted, Ingress};
use crate::shard::{self, Job, Shard};

/// Connections that the kernel queues until the host accepts them. The kernel drops further ones, and their clients try
/// again after a second, after three, and so on.
const BACKLOG: i32 = 1024;

/// How long the acceptor waits when the process or the machine is out of descriptors, or the kernel of memory.
/// Meanwhile, connections wait in the backlog.
const BACK_OFF: Duration = Duration::from_millis(50);

/// The kernel closes a connection whose client acknowledges no sent bytes for this long.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a connection may be silent before the kernel asks whether its client is still there, and how often the
/// kernel asks. Without a reply by `SEND_TIMEOUT`, the kernel closes the connection.
const KEEPALIVE_TIME: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// An idle connection closes within this time after the host has asked it to, unless a request came just then.
const EVICTION_TIMEOUT: Duration = Duration::from_secs(1);

/// A bound socket and its thread.
pub struct Acceptor {
    address: SocketAddr,
    thread: JoinHandle<()>,
}

impl Acceptor {
    /// Starts to accept connections from a listening socket.
    pub fn start(
        listener: StdTcpListener,
        ingress: Arc<Ingress>,
        shards: Arc<Vec<Shard>>,
        stop: StopSignal,
        threads: &ServingThreads,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        listener.set_nonblocking(true)?;
        // The accepted connections inherit it. Without it, a client that vanishes silently would hold its instance
        // until the guest's time is over.
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_TIME).with_interval(KEEPALIVE_INTERVAL);
        SockRef::from(&listener).set_tcp_keepalive(&keepalive)?;
        let listener = {
            let _context = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let address = listener.local_addr()?;
        let serving = threads.thread(&format!("acceptor of {address}"), stop.clone());
        let thread = std::thread::Builder::new().name("acceptor".to_owned()).spawn(move || {
            let _serving = serving;
            runtime.block_on(accept(listener, &ingress, &shards, stop));
        })?;
        Ok(Self { address, thread })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the thread; the stop must have been signalled.
    pub fn join(self) {
        if self.thread.join().is_err() {
            tracing::error!("the acceptor panicked");
        }
    }
}

/// Binds `address` and listens. Port 0 stands for any free port.
pub fn bind(address: SocketAddr) -> io::Result<StdTcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restart need not wait until the connections of the previous process have timed out.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

async fn accept(listener: TcpListener, ingress: &Arc<Ingress>, shards: &[Shard], mut stop: StopSignal) {
    let (error_throttle, limit_throttle) = (LogThrottle::new(1, 3), LogThrottle::new(1, 3));
    loop {
        let accepted = tokio::select! {
            accepted = async {
                let permit = acquire_permit(ingress).await;
                (permit, listener.accept().await)
            } => accepted,
            _ = stop.wait_for(Option::is_some) => return,
        };
        let (Some(permit), accepted) = accepted else {
            return;
        };
        if let Err(error) = &accepted
            && is_for_good(error)
        {
            tracing::error!(%error, "the listening socket cannot be used any more");
            return;
        }
        let stream = accepted.and_then(|(stream, peer)| {
            // With Nagle's algorithm, a small response would wait until the client has acknowledged the one before.
            stream.set_nodelay(true)?;
            #[cfg(target_os = "linux")]
            SockRef::from(&stream).set_tcp_user_timeout(Some(SEND_TIMEOUT))?;
            Ok((stream.into_std()?, peer))
        });
        match stream {
            Ok((stream, peer)) => {
                let address_permit = match ingress.trusts(peer) {
                    // Many clients share the address of a trusted proxy.
                    true => None,
                    false => match ingress.connections.acquire_for(peer.ip()) {
                        Some(permit) => Some(permit),
                        None => {
                            if let Some(suppressed) = limit_throttle.pass() {
                                let client = client_network(peer.ip());
                                tracing::warn!(%client, suppressed, "too many connections from one address");
                            }
                            continue;
                        }
                    },
                };
                let permits = (permit, address_permit);
                if let Some(shard) = shard::least_loaded(shards) {
                    shard.submit(Job::Connection(Box::new(Accepted {
                        stream,
                        peer,
                        ingress: ingress.clone(),
                        permits,
                    })));
                }
            }
            Err(error) => {
                if let Some(suppressed) = error_throttle.pass() {
                    tracing::warn!(%error, suppressed, "cannot accept a connection");
                }
                if concerns_one_connection(&error) {
                    continue;
                }
                if is_out_of_descriptors(&error) {
                    ingress.idle.try_evict();
                }
                tokio::time::sleep(BACK_OFF).await;
            }
        }
    }
}

/// Waits until the listener may have one more connection. At the limit, the host closes one idle connection for each
/// new one.
async fn acquire_permit(ingress: &Ingress) -> Option<OwnedSemaphorePermit> {
    loop {
        tokio::select! {
            biased;
            permit = ingress.connections.acquire() => return permit,
            () = ingress.idle.evict() => {}
        }
        if let Ok(permit) = tokio::time::timeout(EVICTION_TIMEOUT, ingress.connections.acquire()).await {
            return permit;
        }
    }
}

/// Whether the listening socket is unusable, so that the host can accept no further connection.
fn is_for_good(error: &io::Error) -> bool {
    let error = Errno::from_io_error(error);
    matches!(error, Some(Errno::INVAL | Errno::BADF | Errno::NOTSOCK | Errno::OPNOTSUPP))
}

/// Whether closing a connection helps: the process or the machine is out of descriptors. The connection limit leaves
/// some free, unless components or other programs have used them.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Whether the error concerns a connection that ended in the backlog. Then the next one may succeed.
fn concerns_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, InvalidInput, NotConnected};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | InvalidInput | NotConnected)
}
