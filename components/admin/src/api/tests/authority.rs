//! Permissions that the sender of a request loses while its body arrives.

use super::*;
use bytes::Bytes;
use directory::user::UserState;

/// The answer to a request of the administrator `root`. `change` happens before each further part of the body arrives.
fn send_slowly(env: &Env, method: Method, path: &str, parts: &[&str], change: impl Fn(&Env) + 'static) -> (u16, Value) {
    let parts: Vec<Bytes> = parts.iter().map(|part| Bytes::copy_from_slice(part.as_bytes())).collect();
    let other = Env { instance_cache: Default::default(), ..env.clone() };
    let body = parts.into_iter().enumerate().map(move |(number, part)| {
        if number > 0 {
            change(&other);
        }
        Ok(part)
    });
    let media_type = if path.starts_with("import/") { "application/x-ndjson" } else { "application/json" };
    call(env, "adm", method, path, media_type, Body::pull(body))
}

/// A way to lose permissions, and the status of later requests.
type Loss = (&'static str, fn(&Env), u16);

const LOSSES: [Loss; 4] = [
    ("the token is revoked", |env| token::revoke(env, &Fingerprint::of(b"adm")).unwrap(), 401),
    ("the user is deleted", |env| drop(send_lines(env, r#"{"kind":"user","id":1,"deleted":true}"#)), 401),
    ("the user is demoted", |env| drop(send_lines(env, r#"{"kind":"user","id":1,"username":"root"}"#)), 403),
    ("the user is blocked", block, 403),
];

fn block(env: &Env) {
    send_lines(env, r#"{"kind":"user","id":1,"username":"root","is_admin":true,"state":"blocked"}"#);
}

const BACKDOOR: &str = r#"{"kind":"user","id":66,"username":"backdoor","is_admin":true}"#;

#[test]
fn an_import_makes_no_administrator() {
    for (loss, change, status) in LOSSES {
        let env = forge();
        let answer = send_slowly(&env, Method::POST, "import/directory", &["\n", BACKDOOR], change);
        assert_eq!((answer.0, answer.1.get("imported")), (status, None), "{loss}: nothing was applied, or is told");
        assert!(user::by_id(&env, 66).unwrap().is_none(), "{loss}");
    }
}

#[test]
fn lines_applied_before_the_caller_is_blocked_stay_and_are_reported() {
    let env = forge();
    // The permissions change before the next line, which is in another batch.
    let lines: String =
        (0..20_000).map(|id| format!("{{\"kind\":\"user\",\"id\":{},\"username\":\"u{id}\"}}\n", id + 1000)).collect();
    let (status, answer) = send_slowly(&env, Method::POST, "import/directory", &[&lines, BACKDOOR], block);
    assert_eq!((status, &answer["imported"], &answer["failed"]), (403, &json!({"user": 16_384}), &json!(0)));
    assert!(answer["message"].as_str().unwrap().contains("blocked"), "{answer}");
    assert!(user::by_id(&env, 1000).unwrap().is_some() && user::by_id(&env, 66).unwrap().is_none());
    assert_eq!(user::by_id(&env, 1).unwrap().unwrap().state, UserState::Blocked);
}

/// An import that revokes the permissions of its own sender is applied, as the last request of this sender.
#[test]
fn an_import_can_revoke_the_permissions_of_its_sender() {
    let env = forge();
    let (status, report) = send_slowly(
        &env,
        Method::POST,
        "import/directory",
        &[r#"{"kind":"user","id":1,"username":"root"}"#, "\n", r#"{"kind":"feature","name":"x","value":true}"#],
        |_| {},
    );
    assert_eq!((status, &report["imported"]), (200, &json!({"user": 1, "feature": 1})), "one batch");
}

#[test]
fn requests_with_small_bodies_are_refused_after_a_loss_of_rights() {
    for (loss, change, status) in LOSSES {
        for (method, path, parts) in [
            (Method::PUT, "application/settings", ["{\"license\":", "\"free\"}"]),
            (Method::POST, "features/held", ["{\"value\":", "true}"]),
            (
                Method::POST,
                "personal_access_tokens",
                ["{\"username\":\"alice\",\"name\":\"n\",", "\"scopes\":[\"api\"]}"],
            ),
            (Method::POST, "users/2/personal_access_tokens", ["{\"name\":\"n\",", "\"scopes\":[\"api\"]}"]),
            (Method::POST, "personal_access_tokens/self/rotate", ["{\"expires_at\":", "\"2099-01-01\"}"]),
            (Method::POST, "packages/npm/-/npm/v1/tokens", ["{\"name\":\"n\",\"password\":\"adm\"", "}"]),
            (Method::POST, "maintenance/admin/gc", ["{\"cursor\":", "null}"]),
        ] {
            let env = forge();
            // A demoted user may still manage their own tokens.
            if loss == "the user is demoted" && (path.contains("rotate") || path.contains("npm")) {
                continue;
            }
            let tokens = || token::of_user(&env, 2).unwrap().len() + token::of_user(&env, 1).unwrap().len();
            let before = tokens();
            assert_eq!(send_slowly(&env, method, path, &parts, change).0, status, "{path}: {loss}");
            assert!(tokens() <= before, "{path}: {loss}");
            assert_eq!(setting::read(&env).unwrap().license(), setting::License::Premium, "{path}: {loss}");
            assert!(!feature::all(&env).unwrap().contains_key("held"), "{path}: {loss}");
        }
    }
}
