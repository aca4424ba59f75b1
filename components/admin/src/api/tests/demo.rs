//! The demo record, and the stores that the demo must not change.

use super::*;

/// The first records that the demo loads.
const DEMO: &str = r#"
{"kind":"group","id":1000,"path":"demo"}
{"kind":"project","id":1,"path_with_namespace":"demo/packages","namespace_id":1000}
{"kind":"setting","name":"hosted","value":true}
{"kind":"feature","name":"new_search","value":true}
{"kind":"user","id":1,"username":"root","name":"Administrator","is_admin":true}
"#;

const NAMES: [&str; 5] =
    ["group 1000 (demo)", "project 1 (demo/packages)", "setting hosted", "feature new_search", "user 1 (root)"];

fn step(env: &Env, body: Value) -> (u16, Value) {
    json_call(env, BOOTSTRAP_TOKEN, Method::POST, "import/demo", body)
}

fn begin(env: &Env) -> (u16, Value) {
    step(env, json!({"state": "loading", "records": NAMES}))
}

fn load(env: &Env) {
    assert_eq!(send_lines(env, DEMO).1["failed"], 0);
}

fn refusal(record: &str) -> (u16, Value) {
    let text = format!("The demo is loaded into an empty store only, and this one has {record}");
    (409, json!({"message": text}))
}

fn state(state: &str) -> (u16, Value) {
    (200, json!({"state": state}))
}

#[test]
fn an_empty_store_gets_the_demo_once() {
    let env = empty();
    assert_eq!(begin(&env), state("loading"));
    assert_eq!(begin(&env), state("loading"), "interrupted before the first record");
    load(&env);
    assert_eq!(begin(&env), state("loading"), "interrupted before the last record");
    assert_eq!(step(&env, json!({"state": "loaded"})), state("loaded"));
    assert_eq!(begin(&env), state("loaded"));
    let own = r#"{"kind":"user","id":9,"username":"nia"}"#;
    assert_eq!(send_lines(&env, own).1["failed"], 0);
    assert_eq!(begin(&env), state("loaded"), "with records of its users");
}

#[test]
fn a_demo_without_records_is_in_no_store() {
    let env = empty();
    assert_eq!(send_lines(&env, r#"{"kind":"user","id":1,"username":"alice"}"#).1["failed"], 0);
    assert_eq!(step(&env, json!({"state": "loading", "records": []})), refusal("user 1 (alice)"));
}

#[test]
fn a_store_with_a_record_of_any_kind_is_refused() {
    for (line, record) in [
        (r#"{"kind":"user","id":1,"username":"alice"}"#, "user 1 (alice)"),
        (r#"{"kind":"user","id":1,"username":"root"}"#, "user 1 (root)"),
        (r#"{"kind":"group","id":1000,"path":"prod"}"#, "group 1000 (prod)"),
        (r#"{"kind":"setting","name":"license","value":"free"}"#, "setting license"),
        (r#"{"kind":"setting","name":"hosted","value":false}"#, "setting hosted"),
        (r#"{"kind":"feature","name":"dark","value":true}"#, "feature dark"),
    ] {
        let env = empty();
        assert_eq!(send_lines(&env, line).1["failed"], 0);
        assert_eq!(begin(&env), refusal(record));
        assert_eq!(begin(&env), refusal(record), "nothing was recorded");
    }
    let env = forge();
    assert_eq!(begin(&env), refusal("feature bright"));
}

#[test]
fn an_interrupted_demo_is_not_finished_over_other_records() {
    let env = empty();
    assert_eq!(begin(&env), state("loading"));
    load(&env);
    for (line, record) in [
        (r#"{"kind":"user","id":1,"username":"alice"}"#, "user 1 (alice)"),
        (
            r#"{"kind":"project","id":1,"path_with_namespace":"demo/secret","namespace_id":1000}"#,
            "project 1 (demo/secret)",
        ),
    ] {
        assert_eq!(send_lines(&env, line).1["failed"], 0);
        assert_eq!(begin(&env), refusal(record));
        load(&env);
        assert_eq!(begin(&env), state("loading"));
    }
}

#[test]
fn the_demo_of_an_earlier_build_is_known_by_its_records() {
    let env = empty();
    load(&env);
    let own = r#"{"kind":"project","id":7,"path_with_namespace":"demo/own","namespace_id":1000}"#;
    assert_eq!(send_lines(&env, own).1["failed"], 0);
    assert_eq!(begin(&env), state("loaded"));
    assert_eq!(send_lines(&env, r#"{"kind":"user","id":1,"username":"alice"}"#).1["failed"], 0);
    assert_eq!(begin(&env), state("loaded"), "the store has a record of it from now on");
}

#[test]
fn only_administrators_change_the_state() {
    let env = forge();
    for (token, status) in [("", 401), ("ali", 403), ("reader", 403)] {
        let body = json!({"state": "loaded"});
        assert_eq!(json_call(&env, token, Method::POST, "import/demo", body).0, status);
    }
    assert_eq!(step(&env, json!({"state": "gone"})).0, 400);
    assert_eq!(step(&env, json!({"state": "loading"})).0, 400);
    assert_eq!(begin(&env).0, 409);
}

#[test]
fn a_store_that_fails_says_so() {
    let memory = MemoryStore::default();
    for operations in 0.. {
        let store = FailingStore::after(operations, memory.clone());
        let answer = begin(&env(store, &[("bootstrap_admin_token", BOOTSTRAP_TOKEN)]));
        if answer == state("loading") {
            break;
        }
        assert!(answer.0 >= 500, "{answer:?}");
    }
}
