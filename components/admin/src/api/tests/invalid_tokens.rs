//! The limit of invalid credentials.

use super::*;
use http::HeaderName;

fn ask(env: &Env, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> u16 {
    let mut request = Request::new(method, &format!("/api/v4/{path}"));
    request.body = body.to_owned().into();
    for (name, value) in headers.iter().chain(&[("spin-client-addr", "192.0.2.1:1")]) {
        request.headers.insert(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
    }
    handle(env.clone(), request).now_or_never().unwrap().status.as_u16()
}

#[test]
fn every_endpoint_counts_invalid_tokens_of_an_address() {
    let wrong = [("private-token", "wrong")];
    for (method, path) in [
        (Method::GET, "projects/100/packages/npm/-/npm/v1/tokens"),
        (Method::DELETE, "packages/npm/-/user/token/x"),
        (Method::GET, "personal_access_tokens/self"),
        (Method::POST, "personal_access_tokens/self/rotate"),
        (Method::GET, "application/settings"),
        (Method::POST, "maintenance/admin/fsck"),
    ] {
        let env = forge();
        let ask = |headers: &[(&str, &str)]| ask(&env, method.clone(), path, headers, "");
        for n in 0..100 {
            assert_eq!(ask(&wrong), 401, "{n} at {path}");
            assert_eq!(ask(&[]), 401, "no credential at {path}");
        }
        assert_eq!((ask(&wrong), ask(&[])), (429, 401), "{path}");
    }
}

#[test]
fn passwords_of_npm_count_too() {
    let env = forge();
    let headers = [("private-token", "ali"), ("content-type", "application/json")];
    let ask = |password: &str| {
        let body = json!({ "password": password }).to_string();
        ask(&env, Method::POST, "packages/npm/-/npm/v1/tokens", &headers, &body)
    };
    assert_eq!(ask("ali"), 201);
    for n in 0..100 {
        assert_eq!(ask(&format!("guess-{n}")), 401, "{n}");
    }
    assert_eq!(ask("guess"), 429);
}
