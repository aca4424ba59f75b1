//! The response cache of a component that asks its own application. The host reuses a response only while the responses
//! inside it are valid.

use crate::fixture::{granting, load};
use crate::*;

const SELF: &[&str] = &["http://self"];
const TOOL: &str =
    "response_cache = \"60s\"\nresponse_cache_headers = [\"accept\", \"spin-client-addr\"]\nreuse = 100000";

/// A host whose probe has served a request, so that it does not initialise itself in the test.
async fn server() -> Server {
    let server = Server::reaching(SELF, TOOL, OutboundOptions::default());
    server.ok("served").await;
    server
}

/// The probe's page with the response to its own request. Each new page differs, because it has the response's request
/// id.
async fn page(server: &Server, path: &str) -> String {
    server.ok(&format!("outbound?url=http://self.alt/{path}&header=content-length:0")).await
}

async fn is_cached(server: &Server, path: &str) -> bool {
    page(server, path).await == page(server, path).await
}

#[tokio::test]
async fn a_cached_response_is_used_until_its_read_set_changes() {
    let server = server().await;
    let path = "probe/recall?key=probe/v1/a";
    server.ok("kv/set?key=probe/v1/a&value=one").await;
    for value in ["two", "three"] {
        let first = page(&server, path).await;
        let hits = server.host.cache_counters().hits.load(Ordering::Relaxed);
        assert_eq!(page(&server, path).await, first);
        assert_eq!(server.host.cache_counters().hits.load(Ordering::Relaxed), hits + 1, "the guest was not asked");
        server.ok("kv/set?key=probe/v1/unrelated&value=x").await;
        assert_eq!(page(&server, path).await, first, "another key has changed");
        server.ok(&format!("kv/set?key=probe/v1/a&value={value}")).await;
        // The second time, the response inside it comes from the cache.
        if value == "three" {
            server.ok("recall?key=probe/v1/a").await;
        }
        assert!(page(&server, path).await.contains(&format!("some {value}")));
    }
}

#[tokio::test]
async fn a_response_made_of_an_uncacheable_response_is_not_cached() {
    let server = server().await;
    assert!(is_cached(&server, "probe/recall?act=chunked").await, "otherwise the test shows nothing");
    for act in ["set", "increment", "list", "print", "random", "late", "cookie", "no-store", "fail"] {
        assert!(!is_cached(&server, &format!("probe/recall?act={act}")).await, "{act}");
    }
    assert!(!is_cached(&server, "incoming").await, "a component without a cache");
    assert!(!is_cached(&server, "nowhere").await, "no component");
    assert!(!is_cached(&server, "probe/recall?act=chunked&method=POST").await);
    assert!(!is_cached(&server, "probe/lie").await, "a body that ends too early");
}

#[tokio::test]
async fn nothing_is_sent_again_that_another_version_of_a_component_has_answered() {
    let cached = format!("[component.incoming.tool.hexad]\n{TOOL}\n[component.probe]");
    let manifest = granting(SELF, TOOL).replace("[component.probe]", &cached);
    let server = Server::of(&manifest, |options| options);
    server.ok("served").await;
    page(&server, "incoming").await;
    let first = page(&server, "incoming").await;
    assert_eq!(page(&server, "incoming").await, first);
    swap(&server, "incoming", variant("incoming", 1)).unwrap();
    page(&server, "incoming").await;
    let second = page(&server, "incoming").await;
    assert_ne!(second, first);
    assert_eq!(page(&server, "incoming").await, second);
    server.host.deployer().roll_back("incoming", "the tests", None).unwrap();
    let third = page(&server, "incoming").await;
    assert!(third != first && third != second);
}

#[tokio::test]
async fn clients_are_kept_apart_and_named() {
    let server = server().await;
    let ask = async |address: &'static str, id: &'static str| {
        let mut request = get("outbound?url=http://self.alt/probe/headers&header=content-length:0");
        request.headers_mut().insert("spin-client-addr", address.parse().unwrap());
        request.headers_mut().insert("x-request-id", id.parse().unwrap());
        text(server.send(request).await).await.1
    };
    let first = ask("192.0.2.7:1000", "first").await;
    assert!(first.contains("spin-client-addr: 192.0.2.7:") && first.contains("x-request-id: first\n"), "{first}");
    assert_eq!(ask("192.0.2.7:2000", "second").await, first);
    let other = ask("192.0.2.8:1000", "third").await;
    assert!(other.contains("spin-client-addr: 192.0.2.8:") && other.contains("x-request-id: third\n"), "{other}");
}

#[test]
fn only_the_application_itself_may_be_asked_and_as_the_client() {
    let refusal = |hosts: &str, headers: &str| {
        let folder = tempfile::tempdir().unwrap();
        let tool = format!("response_cache = \"1s\"\nresponse_cache_headers = [{headers}]");
        let manifest = manifest(&tool).replace("allowed_outbound_hosts = []", hosts);
        load(&folder, &manifest, &[], None).err().map(|error| error.to_string())
    };
    let own = "allowed_outbound_hosts = [\"http://self\", \"http://*.spin.internal\"]";
    let other = "allowed_outbound_hosts = [\"http://self\", \"https://example.com\"]";
    assert_eq!(refusal(own, "\"spin-client-addr\""), None);
    assert!(refusal(other, "\"spin-client-addr\"").unwrap().contains("other than \"http://self\""));
    assert!(refusal(own, "\"cookie\"").unwrap().contains("needs \"spin-client-addr\""));
    assert!(refusal("allowed_outbound_hosts = []", "\"x-request-id\"").unwrap().contains("differs for each request"));
}
