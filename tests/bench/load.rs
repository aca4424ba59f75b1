//! The client: a number of connections, each with one request in flight. In a closed loop, a connection sends the next
//! request after the answer to the last one. At a steady rate, it sends at fixed times.

use crate::*;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const CONNECTIONS: usize = 16;
/// The number of connections when requests must not wait for one another.
const MANY: usize = 64;
/// By how much a timer may be late.
const TICK: Duration = Duration::from_millis(2);
const WARM_UP: Duration = Duration::from_millis(500);
const MEASURED: Duration = Duration::from_secs(3);
/// The times for servers that take turns, and the number of turns.
const TURN: Duration = Duration::from_secs(1);
const TURNS: usize = 5;
const UNCOUNTED_TURNS: usize = 2;

#[derive(Clone)]
pub struct Request {
    pub method: &'static str,
    pub path: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn of(
        method: &'static str,
        path: impl Into<String>,
        headers: &[(&'static str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Self {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Self { method, path: path.into(), headers, body: body.into() }
    }
}

/// One request of a connection.
struct Planned {
    request: Request,
    /// When its latency starts to count.
    due: Instant,
    /// Whether its latency is recorded.
    counts: bool,
}

/// The measurement of a load.
pub struct Load {
    /// Milliseconds of each request, sorted.
    latencies: Vec<f64>,
    bytes: u64,
    took: Duration,
}

impl Load {
    /// Sends `request` again and again on [`CONNECTIONS`] connections.
    pub fn run(url: &str, request: &Request) -> Load {
        Self::on(url, request, CONNECTIONS)
    }

    /// The same on a number of connections.
    pub fn on(url: &str, request: &Request, connections: usize) -> Load {
        Self::for_time(url, request, connections, MEASURED)
    }

    fn for_time(url: &str, request: &Request, connections: usize, time: Duration) -> Load {
        measure(url, connections, |started| {
            let request = request.clone();
            let warm = started + WARM_UP;
            async move || {
                let due = Instant::now();
                (due < warm + time).then(|| Planned { request: request.clone(), due, counts: due >= warm })
            }
        })
        .over(time)
    }

    /// Servers take turns, so that other work of the machine slows down all of them. Returns each server's turn with
    /// the median rate. The first turns do not count: with a just-in-time compiler, an engine's rate can double within
    /// seconds.
    pub fn in_turns<const N: usize>(servers: [(&str, &Request); N]) -> [Load; N] {
        Self::in_turns_on(servers, CONNECTIONS)
    }

    /// The same on a number of connections.
    pub fn in_turns_on<const N: usize>(servers: [(&str, &Request); N], connections: usize) -> [Load; N] {
        let turn = || servers.map(|(url, request)| Self::for_time(url, request, connections, TURN));
        for _ in 0..UNCOUNTED_TURNS {
            turn();
        }
        let mut all = servers.map(|_| Vec::new());
        for _ in 0..TURNS {
            all.iter_mut().zip(turn()).for_each(|(loads, load)| loads.push(load));
        }
        all.map(|mut loads: Vec<Load>| {
            loads.sort_by(|a, b| a.per_second().total_cmp(&b.per_second()));
            loads.swap_remove(TURNS / 2)
        })
    }

    /// The same on [`MANY`] connections.
    pub fn on_many(url: &str, request: &Request) -> Load {
        Self::on(url, request, MANY)
    }

    /// Sends `request` on [`MANY`] connections without a pause, while `work` is done.
    pub fn during(url: &str, request: &Request, work: impl FnOnce() + Send) -> Load {
        let done = &*Box::leak(Box::new(AtomicBool::new(false)));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                work();
                done.store(true, Ordering::Relaxed);
            });
            measure(url, MANY, |_| {
                let request = request.clone();
                async move || {
                    let due = Instant::now();
                    (!done.load(Ordering::Relaxed)).then(|| Planned { request: request.clone(), due, counts: true })
                }
            })
        })
    }

    /// Sends `request` at a steady rate per second, however long the answers take. The latency counts from the time
    /// when the request was due.
    pub fn paced(url: &str, request: &Request, rate: f64) -> Load {
        let interval = Duration::from_secs_f64(MANY as f64 / rate);
        let started_connections = std::cell::Cell::new(0);
        measure(url, MANY, |started| {
            // The connections take turns.
            let mut next =
                started + interval * started_connections.replace(started_connections.get() + 1) / MANY as u32;
            let (request, warm) = (request.clone(), started + WARM_UP);
            async move || {
                let planned = next;
                next += interval;
                tokio::time::sleep_until(planned.into()).await;
                // A delay of up to one tick is due to this client's timer. A longer one is due to the server's late
                // answer.
                let now = Instant::now();
                let due = if now < planned + TICK { now } else { planned };
                (planned < warm + MEASURED).then(|| Planned { request: request.clone(), due, counts: planned >= warm })
            }
        })
        .over(MEASURED)
    }

    fn over(mut self, took: Duration) -> Self {
        self.took = took;
        self
    }

    /// Adds the measurements of another run of the same requests.
    pub fn add(&mut self, other: Load) {
        self.latencies.extend(other.latencies);
        self.latencies.sort_by(f64::total_cmp);
        self.bytes += other.bytes;
        self.took += other.took;
    }

    pub fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.took.as_secs_f64()
    }

    pub fn megabytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.took.as_secs_f64() / 1e6
    }

    /// Milliseconds within which this share of the requests was answered.
    pub fn percentile(&self, share: f64) -> f64 {
        let last = self.latencies.len().saturating_sub(1);
        self.latencies.get((last as f64 * share) as usize).copied().unwrap_or(f64::NAN)
    }
}

/// Sends each request once, spread over `connections` connections.
pub fn each_once(url: &str, requests: Vec<Request>, connections: usize) -> Load {
    let queue = Arc::new(Mutex::new(requests.into_iter()));
    measure(url, connections, |_| {
        let queue = queue.clone();
        async move || {
            let request = queue.lock().expect("no panic").next()?;
            Some(Planned { request, due: Instant::now(), counts: true })
        }
    })
}

/// One header of the answer to `request`.
pub fn header(url: &str, request: &Request, name: &str) -> Option<String> {
    runtime().block_on(async {
        let mut connection = connect(url).await;
        let response = connection.send_request(build(url, request.clone())).await.expect("an answer");
        Some(response.headers().get(name)?.to_str().ok()?.to_owned())
    })
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Runs `connections` loops, each of which sends the requests that its `next` returns.
fn measure<N>(url: &str, connections: usize, next: impl Fn(Instant) -> N) -> Load
where
    N: AsyncFnMut() -> Option<Planned> + 'static,
{
    let started = Instant::now();
    let (latencies, bytes) = runtime().block_on(async {
        let tasks = tokio::task::LocalSet::new();
        let loops: Vec<_> =
            (0..connections).map(|_| tasks.spawn_local(one_connection(url.to_owned(), next(started)))).collect();
        tasks.await;
        let mut all = (Vec::new(), 0);
        for each in loops {
            let (latencies, bytes) = each.await.expect("the loop ended well");
            all.0.extend(latencies);
            all.1 += bytes;
        }
        all
    });
    let mut latencies = latencies;
    latencies.sort_by(f64::total_cmp);
    Load { latencies, bytes, took: started.elapsed() }
}

async fn one_connection(url: String, mut next: impl AsyncFnMut() -> Option<Planned>) -> (Vec<f64>, u64) {
    let mut connection = connect(&url).await;
    let (mut latencies, mut bytes) = (Vec::new(), 0);
    while let Some(Planned { request, due, counts }) = next().await {
        let (method, path, sent) = (request.method, request.path.clone(), request.body.len() as u64);
        let response = connection.send_request(build(&url, request)).await.expect("an answer");
        let status = response.status();
        let mut body = response.into_body();
        let mut received = 0;
        while let Some(frame) = body.frame().await {
            received += frame.expect("a whole body").data_ref().map_or(0, |data| data.len() as u64);
        }
        assert!(status.is_success() || status == 304, "{method} {path}: {status}");
        if counts {
            latencies.push(due.elapsed().as_secs_f64() * 1000.0);
            bytes += sent + received;
        }
    }
    (latencies, bytes)
}

async fn connect(url: &str) -> SendRequest<Full<Bytes>> {
    let address = url.strip_prefix("http://").expect("a plain address");
    let stream = tokio::net::TcpStream::connect(address).await.expect("the server accepts");
    stream.set_nodelay(true).expect("a TCP option");
    let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("HTTP/1.1");
    tokio::task::spawn(connection);
    sender
}

fn build(url: &str, request: Request) -> hyper::Request<Full<Bytes>> {
    let mut builder = hyper::Request::builder()
        .method(request.method)
        .uri(request.path)
        .header("host", url.trim_start_matches("http://"));
    for (name, value) in request.headers {
        builder = builder.header(name, value);
    }
    builder.body(Full::new(Bytes::from(request.body))).expect("a valid request")
}
