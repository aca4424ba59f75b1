//! The answers of each route, over a store in memory.

mod access;
mod authority;
mod filters;
mod hostile;
mod imports;
mod interleaving;
mod maintenance;
mod oracle;
mod reused_id_users;
mod storage_failures;

use super::handle;
use directory::access::Role;
use directory::dependents;
use directory::member::{Membership, Source};
use directory::namespace::{NewGroup, Visibility};
use directory::project::{FeatureAccess, NewProject};
use directory::testing::{
    change, issue_to, list_group, list_member, list_project, list_user, new_group, new_project, new_user,
};
use directory::token::{self, Fingerprint};
use directory::user::{NewUser, UserState};
use futures::FutureExt as _;
use http::Method;
use kit::testing::{MemoryStore, env};
use kit::{Body, Env, Request};
use serde_json::{Value, json};

#[derive(Debug, PartialEq)]
pub struct TestResponse {
    pub status: u16,
    pub body: Value,
    pub location: Option<String>,
}

pub fn send_body(env: &Env, method: Method, target: &str, token: &str, body: Body) -> TestResponse {
    let mut request = Request::new(method, target);
    request.body = body;
    if !token.is_empty() {
        request.headers.insert("private-token", token.parse().unwrap());
    }
    // The future never waits. A test may send a request while another one is being handled.
    let response = handle(env.clone(), request).now_or_never().expect("an answer");
    let location = response.headers.get("location").map(|value| value.to_str().unwrap().to_owned());
    let status = response.status.as_u16();
    let bytes = response.body.collect(1 << 20).now_or_never().expect("a body").unwrap();
    let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
    TestResponse { status, body: serde_json::from_slice(&bytes).unwrap_or_else(|_| text()), location }
}

/// The count of all issues of project 100.
#[track_caller]
pub fn in_project(env: &Env, token: &str, query: &str) -> u64 {
    all(env, token, &format!("projects/100/issues_statistics{query}"))
}

/// Imports so many issues of one shape.
#[track_caller]
pub fn import_many(env: &Env, ids: std::ops::Range<u64>, issue: impl Fn(u64) -> Value) -> Value {
    import(env, &ids.map(issue).collect::<Vec<_>>())
}

pub fn get(env: &Env, token: &str, path: &str) -> TestResponse {
    send_body(env, Method::GET, &format!("/api/v4/{path}"), token, Body::Empty)
}

/// The numbers of all, closed and opened issues.
#[track_caller]
pub fn counts(env: &Env, token: &str, path: &str) -> [u64; 3] {
    let answer = get(env, token, path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    let counts = &answer.body["statistics"]["counts"];
    ["all", "closed", "opened"].map(|name| counts[name].as_u64().unwrap())
}

/// The count of all issues.
#[track_caller]
pub fn all(env: &Env, token: &str, path: &str) -> u64 {
    let [all, closed, opened] = counts(env, token, path);
    assert_eq!(all, closed + opened);
    all
}

/// Imports lines and returns the report.
#[track_caller]
pub fn import(env: &Env, lines: &[Value]) -> Value {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let answer = send_body(env, Method::POST, "/api/v4/import/issues", "root", text.into());
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

/// An issue of project 100, with `fields` added or replaced.
pub fn issue(id: u64, fields: Value) -> Value {
    let mut issue = json!({
        "kind": "issue", "id": id, "iid": id, "project_id": 100, "title": "", "description": null, "state": "opened",
        "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-02T00:00:00.000Z", "labels": [],
        "author": {"id": 2}, "assignees": [],
    });
    fields.as_object().unwrap().iter().for_each(|(name, value)| issue[name] = value.clone());
    issue
}

/// A forge. The token of each user is their name:
///
/// ```text
/// users     1 root (administrator)   2 alice   3 bob   4 eve (external)
/// groups    10 acme (public)   11 acme/core (private)   12 guild (private)
/// projects  100 acme/site (public)   101 acme/core/engine (private)   102 acme/tools (internal)
///           103 bob/notes (private)
/// ```
pub fn forge() -> Env {
    forge_on(MemoryStore::default())
}

pub fn forge_on(store: MemoryStore) -> Env {
    let env = env(store, &[]);
    for (id, username) in [(1, "root"), (2, "alice"), (3, "bob"), (4, "eve")] {
        save_user(&env, id, username);
    }
    for (id, path, parent_id, visibility) in [
        (10, "acme", None, Visibility::Public),
        (11, "core", Some(10), Visibility::Private),
        (12, "guild", None, Visibility::Private),
    ] {
        save_group(&env, id, path, parent_id, visibility);
    }
    for (id, path, namespace_id, visibility) in [
        (100, "site", 10, Visibility::Public),
        (101, "engine", 11, Visibility::Private),
        (102, "tools", 10, Visibility::Internal),
        (103, "notes", 4_000_000_003, Visibility::Private),
    ] {
        save_project(&env, id, path, namespace_id, visibility, FeatureAccess::Enabled);
    }
    env
}

pub fn save_user(env: &Env, id: u64, username: &str) {
    save_user_as(env, id, username, UserState::Active);
}

pub fn save_user_as(env: &Env, id: u64, username: &str, state: UserState) {
    let new = NewUser { state, is_admin: username == "root", external: username == "eve", ..new_user(id, username) };
    list_user(env, new);
    issue_to(env, username, id, &["api"]);
}

pub fn save_group(env: &Env, id: u64, path: &str, parent_id: Option<u64>, visibility: Visibility) {
    list_group(env, NewGroup { visibility, ..new_group(id, path, parent_id) });
}

pub fn save_project(env: &Env, id: u64, path: &str, namespace_id: u64, visibility: Visibility, issues: FeatureAccess) {
    list_project(env, NewProject { visibility, issues, ..new_project(id, path, namespace_id) });
}

pub fn join(env: &Env, user_id: u64, source: Source, role: Role) {
    list_member(env, user_id, source, Some(Membership { role, expires_at: None }));
}
