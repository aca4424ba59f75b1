use super::*;
use directory::dependents;
use directory::member::Membership;
use directory::testing::{change, issue_to, list_member, list_user, new_group, new_user, set_membership};
use directory::token::{self, Fingerprint};
use directory::user::{self, NewUser};
use futures::executor::block_on;
use http::Method;
use kit::Body;
use kit::store::Store as _;
use kit::testing::{FailingStore, MemoryStore, env};
use serde_json::{Map, Value, json};

const BOOT: &str = "bootstrap-secret";

/// A forge with five users: 1 is an administrator, 2 a member of the operator's group, 3 a bot and member. 4 is a
/// member of a subgroup, 5 a former member. Each token is `t` and the id.
fn forge(store: MemoryStore) -> Env {
    let env = env(store, &[("bootstrap_admin_token", BOOT)]);
    for id in 1..=5 {
        let user = NewUser { is_admin: id == 1, bot: id == 3, ..new_user(id, &format!("u{id}")) };
        user::save(&env, user).unwrap();
        for (prefix, scope) in [("t", "api"), ("r", "read_api"), ("x", "read_user")] {
            issue_to(&env, &format!("{prefix}{id}"), id, &[scope]);
        }
    }
    for (id, path, parent_id) in [(10, "operator", None), (11, "team", Some(10))] {
        dependents::save_group(&env, new_group(id, path, parent_id)).unwrap();
    }
    for (user_id, group, role, expires_at) in [
        (2, 10, Role::MinimalAccess, None),
        (3, 10, Role::Owner, None),
        (4, 11, Role::Owner, None),
        (5, 10, Role::Owner, Some(env.now)),
    ] {
        set_membership(&env, user_id, Source::Group(group), Some(Membership { role, expires_at }));
    }
    set(&env, json!({"operator_group": "Operator"}));
    env
}

fn set(env: &Env, settings: Value) {
    let settings: Map<String, Value> = settings.as_object().unwrap().clone();
    setting::save(env, &settings).unwrap();
}

fn send(env: &Env, request: Request) -> (u16, Value, http::HeaderMap) {
    let response = block_on(handle(env.clone(), request));
    let status = response.status.as_u16();
    let body = block_on(response.body.collect(1 << 20)).unwrap();
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null), response.headers)
}

fn get(env: &Env, token: &str) -> (u16, Value, http::HeaderMap) {
    let mut request = Request::new(Method::GET, "/api/v4/experiments");
    if !token.is_empty() {
        request.headers.insert("private-token", token.parse().unwrap());
    }
    send(env, request)
}

fn import(env: &Env, token: &str, lines: impl Into<Body>) -> (u16, Value) {
    let mut request = Request::new(Method::POST, "/api/v4/import/experiments");
    request.headers.insert("private-token", token.parse().unwrap());
    request.body = lines.into();
    let (status, body, _) = send(env, request);
    (status, body)
}

#[test]
fn only_humans_of_the_operators_group_see_experiments() {
    let env = forge(MemoryStore::default());
    let message = |text: &str| json!({"message": text});
    assert_eq!(get(&env, "").1, message("401 Unauthorized"));
    assert_eq!(get(&env, "unknown").0, 401);
    assert_eq!((get(&env, "t2").0, get(&env, "r2").0, get(&env, "t2").1), (200, 200, json!([])));
    assert_eq!(get(&env, "x2").1["error"], "insufficient_scope");
    for (token, why) in [
        ("t1", "an administrator is no exception"),
        ("t3", "a bot"),
        ("t4", "a member of a subgroup"),
        ("t5", "a former member"),
        (BOOT, "the built-in administrator"),
    ] {
        let (status, body, _) = get(&env, token);
        assert_eq!((status, body), (403, message("403 Forbidden")), "{why}");
    }
    set(&env, json!({"hosted": false}));
    assert_eq!(get(&env, "t2").0, 403);
    for group in [json!(null), json!("nobody"), json!("operator/team"), json!("u2")] {
        set(&env, json!({"hosted": null, "operator_group": group}));
        assert_eq!((get(&env, "t2").0, get(&env, "t4").0), (403, 403), "{group}");
    }
}

#[test]
fn imported_experiments_are_listed_with_the_gates_of_their_features() {
    let env = forge(MemoryStore::default());
    let lines = r#"
{"kind":"experiment","name":"b_experiment_percentage","introduced_by_url":"https://forge.test/1","rollout_issue_url":"https://forge.test/2","milestone":"14.1","type":"experiment","group":"group::adoption","default_enabled":false}
{"kind":"experiment","key":"a","definition":{"name":"a","type":"experiment","milestone":null},"current_status":{"state":"on","gates":[]}}
{"kind":"experiment","name":"gone"}
{"kind":"experiment","name":"gone","deleted":true}
{"kind":"experiment","name":"dev","type":"development"}
{"kind":"experiment","name":"on","default_enabled":true}
{"kind":"experiment","name":"a b"}
{"kind":"experiment"}
{"kind":"feature","name":"x"}
["experiment"]
{"#;
    assert_eq!(import(&env, "t2", lines).0, 403);
    let (status, report) = import(&env, "t1", lines);
    assert_eq!((status, &report["imported"], &report["failed"]), (200, &json!({"experiment": 4}), &json!(7)));
    let failed: Vec<u64> = report["errors"].as_array().unwrap().iter().filter_map(|e| e["line"].as_u64()).collect();
    assert_eq!(failed, [6, 7, 8, 9, 10, 11, 12]);
    feature::save(&env, "a", |gates| gates.percentage_of_actors = 30).unwrap();
    feature::save(&env, "b_experiment_percentage", |gates| gates.boolean = true).unwrap();
    feature::save(&env, "no_experiment", |gates| gates.boolean = true).unwrap();
    let (_, listed, _) = get(&env, "t2");
    let expected = json!([
        {"key": "b", "definition": {"name": "b_experiment_percentage", "introduced_by_url": "https://forge.test/1",
            "rollout_issue_url": "https://forge.test/2", "milestone": "14.1", "type": "experiment",
            "group": "group::adoption", "default_enabled": false},
            "current_status": {"state": "on", "gates": [{"key": "boolean", "value": true}]}},
        {"key": "a", "definition": {"name": "a", "introduced_by_url": null, "rollout_issue_url": null,
            "milestone": null, "type": "experiment", "group": null, "default_enabled": false},
            "current_status": {"state": "conditional",
                "gates": [{"key": "boolean", "value": false}, {"key": "percentage_of_actors", "value": 30}]}},
    ]);
    assert_eq!(listed, expected);
}

#[test]
fn an_unchanged_list_is_not_sent_again() {
    let env = forge(MemoryStore::default());
    import(&env, BOOT, r#"{"kind":"experiment","name":"a"}"#);
    let tag = |headers: &http::HeaderMap| headers["etag"].to_str().unwrap().to_owned();
    let ask = |known: &str| {
        let mut request = Request::new(Method::GET, "/api/v4/experiments");
        request.headers.insert("private-token", "t2".parse().unwrap());
        request.headers.insert("if-none-match", known.parse().unwrap());
        send(&env, request)
    };
    let first = tag(&get(&env, "t2").2);
    let (status, body, headers) = ask(&format!("\"x\", {first}"));
    assert_eq!((status, body, tag(&headers)), (304, Value::Null, first.clone()));
    assert_eq!((ask("*").0, ask("\"x\"").0), (304, 200));
    feature::save(&env, "a", |gates| gates.boolean = true).unwrap();
    let (status, body, headers) = ask(&first);
    assert_eq!((status, &body[0]["current_status"]["state"]), (200, &json!("on")));
    assert_ne!(tag(&headers), first);
    import(&env, BOOT, r#"{"kind":"experiment","name":"b"}"#);
    assert_eq!(ask(&tag(&headers)).0, 200);
}

fn fsck(env: &Env, token: &str) -> (u16, Value) {
    let mut request = Request::new(Method::POST, "/api/v4/maintenance/experiments/fsck");
    request.headers.insert("private-token", token.parse().unwrap());
    let (status, body, _) = send(env, request);
    (status, body)
}

#[test]
fn a_check_names_the_damaged_record() {
    let store = MemoryStore::default();
    let env = forge(store.clone());
    let checked = |env: &Env| {
        let (status, report) = fsck(env, "t1");
        assert_eq!((status, &report["cursor"]), (200, &Value::Null));
        (report["roots"].clone(), report["problems"].clone())
    };
    assert_eq!(checked(&env), (json!(0), json!([])));
    import(&env, BOOT, r#"{"kind":"experiment","name":"a"}"#);
    assert_eq!(checked(&env), (json!(1), json!([])));
    assert_eq!((fsck(&env, "t2").0, fsck(&env, "x1").0, fsck(&env, "unknown").0), (403, 403, 401));
    let key = "experiments/v1/definitions";
    for damaged in [r#"[{"name":""#, r#"[{"nAme":"a"}]"#, r#"{"name":"a"}"#, "", r#"[{"name":"a"},{"name":"a"}]"#] {
        store.set(key, damaged.as_bytes()).unwrap();
        let (_, problems) = checked(&env);
        assert_eq!((problems[0]["key"].as_str(), problems.as_array().unwrap().len()), (Some(key), 1), "{damaged}");
    }
}

/// The number of store operations of a list in an instance from `new`. The store fails after each of them once.
fn operations_until_answered(store: &MemoryStore, new: impl Fn() -> Env) -> u64 {
    for after in 0.. {
        let failing = FailingStore::after(after, store.clone());
        let (status, body, _) = get(&Env { store: Rc::new(failing.clone()), ..new() }, "t2");
        if !failing.failed() {
            assert_eq!(status, 200);
            return after;
        }
        assert_eq!((status, body), (500, json!({"message": "500 Internal Server Error"})), "{after}");
    }
    unreachable!()
}

#[test]
fn a_failing_store_is_a_500() {
    let store = MemoryStore::default();
    let setup = forge(store.clone());
    change(&setup, |changes| changes.group(10), || ());
    let new = || env(store.clone(), &[]);
    let used = new();
    assert_eq!(get(&used, "t2").0, 200);
    let counts = [operations_until_answered(&store, new), operations_until_answered(&store, || used.clone())];
    // The instance does not read users, groups and memberships again. It reads the catalog's root, the token, settings,
    // definitions and features.
    assert_eq!(counts, [9, 5]);
}

#[test]
fn cached_records_are_never_out_of_date() {
    let store = MemoryStore::default();
    let env = forge(store.clone());
    change(&env, |changes| changes.group(10), || ());
    let status = || get(&env, "t2").0;
    assert_eq!(status(), 200);
    list_member(&env, 2, Source::Group(10), None);
    assert_eq!(status(), 403, "no member");
    list_member(&env, 2, Source::Group(10), Some(Membership { role: Role::Guest, expires_at: None }));
    assert_eq!(status(), 200);
    set(&env, json!({"operator_group": "other"}));
    assert_eq!(status(), 403, "another group");
    set(&env, json!({"operator_group": "operator"}));
    assert_eq!(status(), 200);
    import(&env, BOOT, r#"{"kind":"experiment","name":"a"}"#);
    assert_eq!(get(&env, "t2").1[0]["current_status"]["state"], "off");
    feature::save(&env, "a", |gates| gates.boolean = true).unwrap();
    assert_eq!(get(&env, "t2").1[0]["current_status"]["state"], "on");
    token::revoke(&env, &Fingerprint::of(b"t2")).unwrap();
    assert_eq!(status(), 401, "a revoked token");
}

#[test]
fn an_administrator_who_is_blocked_while_the_body_of_an_import_arrives_changes_nothing() {
    let store = MemoryStore::default();
    let env = forge(store.clone());
    change(&env, |changes| changes.group(10), || ());
    let line = r#"{"kind":"experiment","name":"held"}"#;
    let other = Env { instance_cache: Default::default(), ..env.clone() };
    let parts = line.split_inclusive(',').map(|part| Ok(part.to_owned().into())).enumerate();
    let body = Body::pull(parts.map(move |(number, part)| {
        if number == 1 {
            list_user(&other, new_user(1, "u1"));
        }
        part
    }));
    assert_eq!(import(&env, "t1", body), (403, json!({"message": "403 Forbidden"})));
    assert!(store::read(&env).unwrap().is_empty());
}
