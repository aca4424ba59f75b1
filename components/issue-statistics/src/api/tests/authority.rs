//! Permissions that an administrator loses while the body of an import arrives.

use super::*;
use bytes::Bytes;

/// The answer to an import by `root`. `change` happens before the last part of the body arrives.
fn import_slowly(env: &Env, parts: Vec<String>, change: impl Fn(&Env) + 'static) -> TestResponse {
    let other = Env { instance_cache: Default::default(), ..env.clone() };
    let count = parts.len();
    let body = parts.into_iter().enumerate().map(move |(number, part)| {
        if number + 1 == count {
            change(&other);
        }
        Ok(Bytes::from(part))
    });
    send_body(env, Method::POST, "/api/v4/import/issues", "root", Body::pull(body))
}

fn lines(ids: std::ops::Range<u64>) -> String {
    ids.map(|id| format!("{}\n", issue(id, json!({})))).collect()
}

fn revoke(env: &Env) {
    token::revoke(env, &Fingerprint::of(b"root")).unwrap();
}

fn total(env: &Env) -> u64 {
    in_project(env, "alice", "")
}

#[test]
fn an_import_changes_nothing_more() {
    for (change, status) in [
        (revoke as fn(&Env), 401),
        (|env| save_user_as(env, 1, "root", UserState::Blocked), 403),
        (|env| save_user(env, 1, "demoted"), 403),
    ] {
        let env = forge();
        let answer = import_slowly(&env, vec![lines(1..3), lines(3..5)], change);
        assert_eq!((answer.status, answer.body.get("imported"), total(&env)), (status, None, 0), "{}", answer.body);
    }
}

#[test]
fn lines_applied_before_the_token_is_revoked_stay_and_are_reported() {
    let env = forge();
    let batch = 1 << 15;
    let answer = import_slowly(&env, vec![lines(1..batch + 11), lines(batch + 11..batch + 21)], revoke);
    let told = (&answer.body["imported"], &answer.body["failed"], &answer.body["error"]);
    assert_eq!((answer.status, told), (401, (&json!({"issue": batch}), &json!(0), &json!("invalid_token"))));
    assert_eq!(total(&env), batch);
}

#[test]
fn an_administrator_who_is_demoted_meanwhile_collects_no_garbage() {
    let env = forge();
    let other = env.clone();
    let parts = ["{\"cursor\":", "null}"].into_iter().enumerate().map(move |(number, part)| {
        if number == 1 {
            save_user(&other, 1, "demoted");
        }
        Ok(Bytes::from(part))
    });
    let answer = send_body(&env, Method::POST, "/api/v4/maintenance/issue-statistics/gc", "root", Body::pull(parts));
    assert_eq!(answer.status, 403);
}
