use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Mutex, mpsc};

use futures::poll;
use hexad_limits::concurrency_limit::{ConcurrencyLimit, client_keys};
use hexad_limits::instance_permit::{StalledInstances, StalledPermits};
use hexad_limits::memory_budget::MemoryBudget;

use super::*;

#[test]
fn a_guest_can_only_shorten_timeouts() {
    let second = Duration::from_secs(1);
    assert_eq!(shorter(None, second), second);
    assert_eq!(shorter(Some(second * 2), second), second);
    assert_eq!(shorter(Some(second / 2), second), second / 2);
}

#[tokio::test]
async fn denied_outbound_requests_wait_for_no_permit() {
    let client = client_keys(None, Some(1));
    let of_component = ConcurrencyLimit::new(1, Duration::from_secs(60), 1);
    let stalled = StalledInstances::new(StalledPermits::new(2), MemoryBudget::new(1));
    let permit = of_component.try_acquire(client).unwrap();
    let permit = Arc::new(InstancePermit::new(permit, client, stalled));
    // Another request takes the permit of the instance while the instance waits for its client.
    let mut other = pin!(of_component.acquire(client));
    assert!(poll!(&mut other).is_pending());
    let mut yield_permit = pin!(permit.yield_permit(Duration::ZERO));
    assert!(poll!(&mut yield_permit).is_pending() && permit.try_yield_permit());
    let _other = other.await.unwrap();

    let mut allowed_hosts = AllowedHosts::default();
    allowed_hosts.add("http://*:1", None).unwrap();
    let network = Arc::new(SharedOutbound::new(&OutboundOptions::default(), MemoryBudget::new(u64::MAX)).unwrap());
    let limits = OutboundLimits { queue_timeout: Duration::from_millis(1), ..OutboundLimits::default() };
    let outbound = Outbound::new("a", Arc::new(allowed_hosts), limits, network, 1);
    let send = async |method: Method, uri: &str| {
        let sender = Sender { shard: 0, client, trace: None, parent: None, permit: Some(&permit) };
        let body = http_body_util::Empty::new().map_err(|never| match never {}).boxed_unsync();
        let request = Request::builder().method(method).uri(uri).body(body).unwrap();
        outbound.send(sender, request, RequestOptions::default()).await.unwrap_err()
    };
    assert!(matches!(send(Method::GET, "http://a.example:2/").await, WasiError::HttpRequestDenied));
    assert!(matches!(send(Method::GET, "http://127.0.0.1:1/").await, WasiError::DestinationIpProhibited));
    assert!(matches!(send(Method::CONNECT, "http://a.example:1/").await, WasiError::HttpRequestMethodInvalid));
    assert!(matches!(send(Method::GET, "http://a.example:1/").await, WasiError::ConnectionLimitReached));
}

/// A resolver that knows no name. A look-up of a name below `hangs` returns only after its sender is dropped.
#[derive(Debug)]
struct Hanging {
    begun: mpsc::Sender<String>,
    release: Mutex<mpsc::Receiver<()>>,
}

impl Resolve for Hanging {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.begun.send(name.to_owned()).map_err(io::Error::other)?;
        if name.ends_with(".hangs") {
            let _ = self.release.lock().unwrap().recv();
        }
        Err(io::ErrorKind::NotFound.into())
    }
}

/// A component that may send requests to port 1 of every public host.
fn component(id: &str, limits: OutboundLimits, network: &Arc<SharedOutbound>) -> Outbound {
    let mut allowed_hosts = AllowedHosts::default();
    allowed_hosts.add("http://*:1", None).unwrap();
    Outbound::new(id, Arc::new(allowed_hosts), limits, network.clone(), 1)
}

/// Sends a request for the client of this number. The request gets no response.
async fn send(outbound: &Outbound, client: u64, uri: String) -> WasiError {
    let client = client_keys(None, Some(client));
    let sender = Sender { shard: 0, client, trace: None, parent: None, permit: None };
    let body = http_body_util::Empty::new().map_err(|never| match never {}).boxed_unsync();
    let request = Request::get(uri).body(body).unwrap();
    outbound.send(sender, request, RequestOptions::default()).await.unwrap_err()
}

#[tokio::test]
async fn a_client_leaves_requests_of_all_components_to_others() {
    let (begun, _lookups) = mpsc::channel();
    let (_hold, release) = mpsc::channel::<()>();
    let resolver = Arc::new(Hanging { begun, release: Mutex::new(release) });
    let options = OutboundOptions { resolver, authority: None };
    let network = Arc::new(SharedOutbound::new(&options, MemoryBudget::new(u64::MAX)).unwrap());
    // Each component lets a client have more than half of the host's requests.
    let limits = OutboundLimits { requests: 512, requests_per_client: 512, ..OutboundLimits::default() };
    let components = ["one", "other"].map(|id| component(id, limits.clone(), &network));
    let hang = |client: u64, name: usize| {
        let outbound = &components[name % components.len()];
        Box::pin(send(outbound, client, format!("http://{client}-{name}.hangs:1/")))
    };
    let mut held: Vec<_> = (0..256).map(|name| hang(1, name)).collect();
    for request in &mut held {
        assert!(poll!(request).is_pending());
    }
    let mut next = hang(1, 256);
    assert!(poll!(&mut next).is_pending());
    assert_eq!((network.requests.taken(), network.requests.waiting()), (256, 1));
    let mut of_other = hang(2, 0);
    assert!(poll!(&mut of_other).is_pending());
    assert_eq!((network.requests.taken(), network.requests.waiting()), (257, 1), "another client waits for no permit");
    drop(held.pop());
    assert_eq!((network.requests.taken(), network.requests.waiting()), (257, 0));
}

#[tokio::test]
async fn names_that_hang_take_a_share_of_the_look_ups() {
    let (begun, lookups) = mpsc::channel();
    let (hold, release) = mpsc::channel::<()>();
    let resolver = Arc::new(Hanging { begun, release: Mutex::new(release) });
    let network = Arc::new(
        SharedOutbound::new(&OutboundOptions { resolver, authority: None }, MemoryBudget::new(u64::MAX)).unwrap(),
    );
    let [one, other] = ["one", "other"].map(|id| component(id, OutboundLimits::default(), &network));
    let hang = |client: u64, name: u64| Box::pin(send(&one, client, format!("http://{client}-{name}.hangs:1/")));
    let is_unknown = |error| matches!(error, WasiError::DnsError { .. });

    // One client sends as many requests as it may, and another client of the same component looks up a name.
    let mut hanging: Vec<_> = (0..32).map(|name| hang(1, name)).collect();
    for request in &mut hanging {
        assert!(poll!(request).is_pending());
    }
    assert!(is_unknown(send(&one, 2, "http://2.unknown:1/".to_owned()).await));
    // The component sends as many requests as it may, and another component looks up a name.
    for name in 0..32 {
        let mut request = hang(2, name);
        assert!(poll!(&mut request).is_pending());
        hanging.push(request);
    }
    assert!(is_unknown(send(&other, 1, "http://1.unknown:1/".to_owned()).await));

    // Waiting look-ups continue when others have ended. Some of their clients have gone.
    let gone = hanging.split_off(48);
    drop((gone, hold));
    for request in hanging {
        assert!(is_unknown(request.await));
    }
    drop((one, other, network));
    let names: Vec<String> = lookups.iter().collect();
    assert!(names.contains(&"1-31.hangs".to_owned()) && !names.contains(&"2-31.hangs".to_owned()), "{names:?}");
}

#[tokio::test]
async fn pools_are_not_replaced_for_each_request_while_all_connections_are_in_use() {
    let network = Arc::new(SharedOutbound::new(&OutboundOptions::default(), MemoryBudget::new(u64::MAX)).unwrap());
    let outbound = component("a", OutboundLimits::default(), &network);
    let unused = outbound.pool(0).unwrap();
    assert!(Arc::ptr_eq(&unused, &outbound.pool(0).unwrap()));
    let client = |number| client_keys(None, Some(number));
    let taken: Vec<_> = (0..).map_while(|number| outbound.egress.connections.try_acquire(client(number))).collect();
    let replaced = outbound.pool(0).unwrap();
    assert!(!taken.is_empty() && !Arc::ptr_eq(&unused, &replaced));
    assert!(Arc::ptr_eq(&replaced, &outbound.pool(0).unwrap()), "some connections may be idle once, and are none now");
}
