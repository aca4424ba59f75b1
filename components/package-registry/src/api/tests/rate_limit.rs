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
        forge.advance_clock();
    }
    assert_eq!(statuses(&forge, [by("developer"), from("192.0.2.1:3")]), [200, 200]);
}

#[test]
fn the_refusal_has_retry_after() {
    let mut forge = Forge::new();
    forge.variables.push(("registry_rate_limit_authenticated", "1"));
    forge.publish(PUBLIC, "lib", "1.0.0");
    let answer = forge.get("/projects/7/packages/npm/lib");
    assert_eq!((answer.status, answer.header("retry-after")), (429, "15"));
    let text = "This endpoint has been requested too many times. Try again later.";
    let limit = "registry_rate_limit_authenticated";
    let body = json!({"message": {"error": text}, "error": text, "limit": limit});
    assert_eq!(answer.json(), body, "package managers print `error`");
    assert_eq!(answer.header("ratelimit-name"), limit);
}

#[test]
fn without_variables_cheap_requests_are_not_counted() {
    let mut forge = Forge::new();
    forge.publish(PUBLIC, "lib", "1.0.0");
    forge.variables.push(("registry_rate_limit_lookups", "1"));
    let keys = forge.store.keys();
    assert_eq!(statuses(&forge, (0..50).map(|_| from("192.0.2.1:1"))), [200; 50]);
    let by = |user: &str| {
        let path = "/projects/7/packages/npm/lib";
        request(Method::GET, path).by(user).with("spin-client-addr", "192.0.2.1:1")
    };
    assert_eq!(statuses(&forge, ["", "guest"].into_iter().cycle().take(50).map(by)), [200; 50]);
    assert_eq!(forge.store.keys(), keys);
}

/// How many requests to one instance pass before the first refusal, after which all are refused.
fn first_refusal(forge: &Forge, count: usize, request: impl Fn() -> TestRequest) -> Option<usize> {
    let env = forge.env();
    let statuses: Vec<u16> = (0..count).map(|_| TestResponse::of(env.clone(), request()).status).collect();
    let first = statuses.iter().position(|status| *status == 429)?;
    assert!(statuses.iter().skip(first).all(|status| *status == 429), "{statuses:?}");
    Some(first)
}

#[test]
fn searches_and_lookups_without_a_token_are_bounded_by_default() {
    let forge = Forge::new();
    forge.publish(PUBLIC, "@acme/lib", "1.0.0");
    let get = |path: &str, user: &str, address: &str| {
        request(Method::GET, &format!("{path}/packages/npm/{}", "-/v1/search?text=lib"))
            .by(user)
            .with("spin-client-addr", address)
    };
    for (path, address) in [("/projects/7", "192.0.2.1:1"), ("/groups/acme/-", "192.0.2.2:1"), ("", "192.0.2.3:1")] {
        assert_eq!(first_refusal(&forge, 130, || get(path, "", address)), Some(120), "{path}");
        assert_eq!(first_refusal(&forge, 1, || get(path, "", address)), Some(0), "another instance knows: {path}");
        assert_eq!(first_refusal(&forge, 130, || get(path, "guest", address)), None, "{path}");
    }
    let name = |path: &str, address: &str| {
        let path = format!("{path}/packages/npm/@acme%2flib");
        request(Method::GET, &path).by("").with("spin-client-addr", address)
    };
    assert_eq!(first_refusal(&forge, 2010, || name("", "192.0.2.1:1")), Some(2000));
    assert_eq!(first_refusal(&forge, 1, || name("/groups/acme/-", "192.0.2.1:1")), Some(0), "both levels together");
    assert_eq!(first_refusal(&forge, 1, || name("/projects/7", "192.0.2.1:1")), None);
    let mut forge = forge;
    forge.variables.extend([("registry_rate_limit_lookups", "0"), ("registry_rate_limit_searches", "3")]);
    assert_eq!(first_refusal(&forge, 1, || name("", "192.0.2.1:1")), None, "0 disables the limit");
    assert_eq!(first_refusal(&forge, 9, || get("", "", "192.0.2.9:1")), Some(3));
    let audit = |address: &str| {
        let path = "/projects/7/packages/npm/-/npm/v1/security/advisories/bulk";
        request(Method::POST, path).by("").with("spin-client-addr", address).body("{}")
    };
    assert_eq!(first_refusal(&forge, 9, || audit("192.0.2.20:1")), None, "it is not read");
    forge.variables.push(("registry_forward_url", "https://registry.example/"));
    assert_eq!(first_refusal(&forge, 9, || audit("192.0.2.21:1")), Some(3));
}

#[test]
fn invalid_tokens_count_against_the_address() {
    let forge = Forge::new();
    forge.publish(PUBLIC, "lib", "1.0.0");
    let env = forge.env();
    let send = |env: &Env, user: &str, address: &str| {
        let request = request(Method::GET, "/projects/7/packages/npm/lib").by(user);
        TestResponse::of(env.clone(), request.with("spin-client-addr", address)).status
    };
    for n in 0..100 {
        assert_eq!(send(&env, &format!("guess-{n}"), "192.0.2.1:1"), 401, "{n}");
    }
    assert_eq!(send(&env, "guess", "192.0.2.1:1"), 429);
    assert_eq!(send(&env, "developer", "192.0.2.1:2"), 429, "nor can a right guess be told from a wrong one");
    assert_eq!(send(&env, "", "192.0.2.1:1"), 200, "without a token");
    assert_eq!((send(&env, "developer", "192.0.2.2:1"), send(&env, "guess", "192.0.2.2:1")), (200, 401));
    let other = forge.env();
    assert_eq!((send(&other, "guess", "192.0.2.1:1"), send(&other, "developer", "192.0.2.1:1")), (429, 429));
    let later = Env { now: Timestamp::from_millis(forge.now.millis() + 60_000), ..env };
    assert_eq!((send(&later, "developer", "192.0.2.1:1"), send(&later, "guess", "192.0.2.1:1")), (200, 401));
}

#[test]
fn changes_of_packages_are_counted_by_user_before_their_bodies_are_read() {
    let mut forge = Forge::new();
    forge.variables.push(("registry_rate_limit_publishes", "3"));
    forge.publish(PUBLIC, "lib", "1.0.0");
    let tag = |user: &str| {
        let path = "/projects/7/packages/npm/-/package/lib/dist-tags/next";
        request(Method::PUT, path).by(user).body("\"1.0.0\"")
    };
    let passed = statuses(&forge, ["developer", "developer", "developer"].map(tag));
    assert_eq!(passed.last(), Some(&429), "{passed:?}");
    assert!(passed.first().is_some_and(|status| *status < 300), "{passed:?}");
    assert_eq!(statuses(&forge, [tag("maintainer")]), [passed[0]], "another user");
    assert_eq!(forge.get("/projects/7/packages/npm/lib").status, 200, "reads are not counted");
}
