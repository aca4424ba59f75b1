//! Logins and profiles.

use super::*;

fn login(name: &str, password: Value) -> TestRequest {
    let document = json!({"_id": format!("org.couchdb.user:{name}"), "name": name, "password": password,
        "type": "user", "roles": [], "date": "2026-01-01T00:00:00.000Z"});
    let path = format!("/projects/7/packages/npm/-/user/org.couchdb.user:{name}");
    request(Method::PUT, &path).by("").with("content-type", "application/json").body(document.to_string())
}

#[test]
fn a_personal_token_is_the_password() {
    let forge = Forge::new();
    let answer = forge.send(login("Developer", json!("developer")));
    let expected = json!({"ok": true, "id": "org.couchdb.user:developer", "token": "developer"});
    assert_eq!((answer.status, answer.json(), answer.header("cache-control")), (201, expected, "no-store"));
    let stale = forge.send(login("developer", json!("developer")).by("a-token-of-before"));
    assert_eq!(stale.status, 201, "what the client still has does not count");
    for (name, password) in
        [("developer", "wrong"), ("developer", "reporter"), ("nobody", "developer"), ("developer", "a\u{e9}\n")]
    {
        let text = format!("the password has to be a personal access token of {name}");
        forge.send(login(name, json!(password))).is(401, "401 Unauthorized", &text);
    }
    forge.send(login("developer", json!(""))).is_refused(400, "password is missing");
}

#[test]
fn a_token_that_is_no_longer_valid_is_no_password() {
    let forge = Forge::new();
    forge.token("deploy", Subject::Deployment(Source::Project(7)), &["write_package_registry"]);
    assert_eq!(forge.send(login("developer", json!("deploy"))).status, 401);
    let revoked = Token {
        subject: Subject::User(4),
        name: "r".into(),
        scopes: vec!["api".into()],
        expires_at: None,
        revoked: true,
    };
    token::save(&forge.env(), &Fingerprint::of(b"revoked"), Some(revoked)).unwrap();
    let answer = forge.send(login("developer", json!("revoked")));
    assert_eq!((answer.status, &answer.json()["error"]), (401, &json!("invalid_token")));
}

/// After such a login, every request would be refused.
#[test]
fn a_token_that_is_not_for_packages_is_no_password() {
    let forge = Forge::new();
    for (scope, status) in [("self_rotate", 403), ("read_user", 403), ("read_repository", 403), ("read_api", 201)] {
        forge.token("other", Subject::User(4), &[scope]);
        let answer = forge.send(login("developer", json!("other")));
        assert_eq!(answer.status, status, "{scope}: {}", answer.text());
        assert_eq!(answer.json()["error"] == "insufficient_scope", status == 403);
        assert_eq!(forge.send(login("reporter", json!("other"))).status, 401, "of another user");
    }
}

#[test]
fn logins_count_against_the_address() {
    let mut forge = Forge::new();
    forge.variables.push(("registry_rate_limit_unauthenticated", "1"));
    let statuses =
        [(); 2].map(|()| forge.send(login("developer", json!("wrong")).with("spin-client-addr", "192.0.2.1:1")).status);
    assert_eq!(statuses, [401, 429]);
}

#[test]
fn a_profile_is_that_of_the_caller() {
    let forge = Forge::new();
    let path = "/packages/npm/-/npm/v1/user";
    let profile = forge.send(request(Method::GET, path).by("reporter")).json();
    assert_eq!((&profile["name"], &profile["email"], &profile["tfa"]), (&json!("reporter"), &json!(""), &Value::Null));
    assert_eq!(forge.send(request(Method::GET, path).by("")).status, 401);
}
