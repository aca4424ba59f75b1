//! Rate limits.

use super::*;

const PING: &str = "/packages/npm/-/ping";

fn statuses(forge: &Forge, requests: impl IntoIterator<Item = TestRequest>) -> Vec<u16> {
    requests.into_iter().map(|request| forge.send(request).status).collect()
}

fn from(address: &str) -> TestRequest {
    request(Method::GET, PING).by("").with("spin-client-addr", address)
}

#[test]
fn users_are_counted_across_tokens_and_anonymous_callers_by_address() {
    let mut forge = Forge::new();
    forge.token("second", Subject::User(4), &["api"]);
    forge.variables.push(("registry_rate_limit_authenticated", "2"));
    forge.variables.push(("registry_rate_limit_unauthenticated", "1"));
    let by = |user: &str| request(Method::GET, PING).by(user);
    assert_eq!(statuses(&forge, ["developer", "second", "developer", "guest"].map(by)), [200, 200, 429, 200]);
    let addresses = ["192.0.2.1:1", "192.0.2.1:2", "192.0.2.2:1", "[2001:db8::1]:1", "[2001:db8::2]:1"];
    assert_eq!(statuses(&forge, addresses.map(from)), [200, 429, 200, 200, 429]);
    assert_eq!(statuses(&forge, [request(Method::GET, PING).by(""), request(Method::GET, PING).by("")]), [200, 200]);
    for _ in 0..15 {
        forge.later();
    }
    assert_eq!(statuses(&forge, [by("developer"), from("192.0.2.1:3")]), [200, 200]);
}

#[test]
fn the_refusal_has_retry_after() {
    let mut forge = Forge::new();
    forge.variables.push(("registry_rate_limit_authenticated", "1"));
    forge.publish(PUBLIC, "lib", "1.0.0");
    let answer = forge.get("/projects/7/packages/npm/lib");
    assert_eq!((answer.status, answer.header("retry-after")), (429, "60"));
    let text = "This endpoint has been requested too many times. Try again later.";
    assert_eq!(answer.json(), json!({"message": {"error": text}}));
}

#[test]
fn without_variables_nothing_is_counted() {
    let forge = Forge::new();
    let keys = forge.store.keys();
    assert_eq!(statuses(&forge, (0..50).map(|_| from("192.0.2.1:1"))), [200; 50]);
    assert_eq!(forge.store.keys(), keys);
}
