use std::pin::pin;

use futures::poll;

use super::*;
use crate::concurrency_limit::{ClientKey, ConcurrencyLimit};
use crate::instance_permit::StalledInstances;

#[test]
fn a_guest_can_only_shorten_timeouts() {
    let second = Duration::from_secs(1);
    assert_eq!(shorter(None, second), second);
    assert_eq!(shorter(Some(second * 2), second), second);
    assert_eq!(shorter(Some(second / 2), second), second / 2);
}

#[tokio::test]
async fn what_is_denied_waits_for_no_permit() {
    let client = [Some(ClientKey::Credential(1)), None];
    let of_component = ConcurrencyLimit::new(1, Duration::from_secs(60), 1);
    let stalled = StalledInstances::new(StalledInstances::limit(2), Box::new(|| true));
    let permit = of_component.try_acquire(client).unwrap();
    let permit = Arc::new(InstancePermit::new(permit, client, stalled));
    // Another request takes the permit of the instance while that waits for its client.
    let mut other = pin!(of_component.acquire(client));
    assert!(poll!(&mut other).is_pending());
    let mut make_way = pin!(permit.make_way());
    assert!(poll!(&mut make_way).is_pending() && permit.try_make_way());
    let _other = other.await.unwrap();

    let mut allowed_hosts = AllowedHosts::default();
    allowed_hosts.add("http://*:1", false).unwrap();
    let network = Arc::new(Network::new(&Options::default()).unwrap());
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
