//! The limit of invalid credentials.

use super::tokens::{mint, revoked};
use super::*;
use http::HeaderName;
use std::rc::Rc;

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
            assert_eq!(ask(&[("private-token", &format!("wrong-{n}"))]), 401, "{n} at {path}");
            // The last counted attempt exhausts the limit.
            let again = if n < 99 { 401 } else { 429 };
            assert_eq!(ask(&[("private-token", "wrong-0")]), again, "the same once more, {n} at {path}");
            assert_eq!(ask(&[]), 401, "no credential at {path}");
        }
        assert_eq!((ask(&[("private-token", "wrong")]), ask(&[])), (429, 401), "{path}");
    }
}

/// A rotation with a revoked token revokes its successor. A request beyond the limit is rejected without a look-up and
/// revokes nothing.
#[test]
fn a_rotation_beyond_the_limit_revokes_nothing() {
    let env = forge();
    let (_, first) = mint(&env, "alice", "ci", "self_rotate");
    let path = "personal_access_tokens/self/rotate";
    let (status, new) = json_call(&env, &first, Method::POST, path, json!({}));
    assert_eq!(status, 200, "{new}");
    let second = new["token"].as_str().unwrap().to_owned();
    let rotate = |token: &str| ask(&env, Method::POST, path, &[("private-token", token)], "");
    for n in 0..100 {
        assert_eq!(rotate(&format!("wrong-{n}")), 401);
    }
    assert_eq!(rotate(&first), 429);
    assert_eq!(get(&env, &second, "personal_access_tokens/self").0, 200);
    let later = Env { now: kit::Timestamp::from_millis(env.now.millis() + 60_000), ..env.clone() };
    assert_eq!(ask(&later, Method::POST, path, &[("private-token", &first)], ""), 401);
    assert_eq!(get(&later, &second, "personal_access_tokens/self"), revoked());
}

#[test]
fn new_tokens_of_a_user_are_bounded_by_default() {
    let env = forge();
    let limited = Env { variables: Rc::new([("tokens_rate_limit", "2".to_owned())].into_iter().collect()), ..env };
    let create = || {
        let fields = json!({"username": "alice", "name": "n", "scopes": ["api"]});
        json_call(&limited, "adm", Method::POST, "personal_access_tokens", fields).0
    };
    assert_eq!([(); 3].map(|()| create()), [201, 201, 429]);
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
