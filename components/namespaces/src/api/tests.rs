use super::*;
use directory::access::Role;
use directory::dependents;
use directory::member::{Membership, Share, Source};
use directory::namespace::{Details, NewGroup, Visibility};
use directory::project::{self, FeatureAccess, NewProject};
use directory::testing::{change, issue_to, list_group, list_member, list_project, list_user, new_user};
use directory::user::{NewUser, UserState};
use futures::executor::block_on;
use http::Method;
use kit::Timestamp;
use kit::testing::{FailingStore, MemoryStore, env};
use serde_json::{Map, Value, json};
use std::rc::Rc;

mod directory_lists;
mod exists;
mod keyset;
mod list;
mod list_filters;
mod members;
mod oracle;
mod parameters;
mod show;
mod user_search;

/// A forge that tests fill step by step. The catalog follows each change.
pub struct Forge(pub Env);

impl Forge {
    pub fn empty() -> Self {
        Forge(env(MemoryStore::default(), &[("external_url", "https://forge.test/")]))
    }

    /// Users 1 (administrator), 2 alice, 3 bob, 4 eve, 5 a bot. Groups 10 acme, 11 acme/core, 12 acme/core/deep, 20
    /// guild. Tokens are `t` and the id of the user.
    pub fn filled() -> Self {
        let forge = Forge::empty();
        [(1, "root"), (2, "alice"), (3, "bob"), (4, "eve")].into_iter().for_each(|(id, name)| forge.user(id, name));
        forge.save_user(NewUser { bot: true, ..new_user(5, "robot") });
        forge.group(10, "acme", None);
        forge.group(11, "core", Some(10));
        forge.group(12, "deep", Some(11));
        forge.group(20, "guild", None);
        forge
    }

    pub fn user(&self, id: u64, username: &str) {
        self.save_user(NewUser { is_admin: id == 1, ..new_user(id, username) });
    }

    pub fn save_user(&self, new: NewUser) {
        let id = new.id;
        list_user(&self.0, new);
        for (prefix, scope) in [("t", "api"), ("r", "read_api"), ("x", "read_user")] {
            issue_to(&self.0, &format!("{prefix}{id}"), id, &[scope]);
        }
    }

    pub fn group(&self, id: u64, path: &str, parent_id: Option<u64>) {
        self.save_group(new_group(id, path, parent_id));
    }

    pub fn save_group(&self, new: NewGroup) {
        list_group(&self.0, new);
    }

    pub fn project(&self, id: u64, namespace_id: u64, shares: Vec<Share>, pages: Option<&str>) {
        let pages_unique_domain = pages.map(str::to_owned);
        self.save_project(NewProject { shares, pages_unique_domain, ..new_project(id, namespace_id) });
    }

    pub fn save_project(&self, new: NewProject) {
        list_project(&self.0, new);
    }

    pub fn join(&self, user_id: u64, source: Source, role: Role, expires_at: Option<Timestamp>) {
        list_member(&self.0, user_id, source, Some(Membership { role, expires_at }));
    }

    fn set(&self, settings: Value) {
        let settings: Map<String, Value> = settings.as_object().unwrap().clone();
        setting::save(&self.0, &settings).unwrap();
    }

    pub fn get(&self, token: &str, path: &str) -> TestResponse {
        get(&self.0, token, path)
    }

    fn fields(&self, token: &str, path: &str) -> String {
        let answer = self.get(token, path);
        let names = |body: &Value| body.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
        names(&answer.body)
    }
}

pub fn new_group(id: u64, path: &str, parent_id: Option<u64>) -> NewGroup {
    NewGroup { visibility: Visibility::Public, ..directory::testing::new_group(id, path, parent_id) }
}

pub fn new_project(id: u64, namespace_id: u64) -> NewProject {
    let new = directory::testing::new_project(id, &format!("p{id}"), namespace_id);
    NewProject { visibility: Visibility::Public, default_branch: None, ..new }
}

pub struct TestResponse {
    pub status: u16,
    pub body: Value,
    pub headers: http::HeaderMap,
}

impl TestResponse {
    pub fn ids(&self) -> Vec<u64> {
        self.body
            .as_array()
            .unwrap_or_else(|| panic!("{}", self.body))
            .iter()
            .map(|n| n["id"].as_u64().unwrap())
            .collect()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("(none)", |value| value.to_str().unwrap())
    }
}

fn get(env: &Env, token: &str, path: &str) -> TestResponse {
    let mut request = Request::new(Method::GET, &format!("/api/v4/{path}"));
    if !token.is_empty() {
        request.headers.insert("private-token", token.parse().unwrap());
    }
    let response = block_on(handle(env.clone(), request));
    let status = response.status.as_u16();
    let body = block_on(response.body.collect(1 << 20)).unwrap();
    TestResponse { status, body: serde_json::from_slice(&body).unwrap_or(Value::Null), headers: response.headers }
}

const PERSONAL: u64 = 4_000_000_000;

#[test]
fn anonymous_callers_and_small_tokens_get_nothing() {
    let forge = Forge::filled();
    for path in ["namespaces?page=x", "namespaces/10", "namespaces/acme/exists?parent_id=x"] {
        let answer = forge.get("", path);
        assert_eq!((answer.status, answer.body), (401, json!({"message": "401 Unauthorized"})), "{path}");
        let answer = forge.get("x2", path);
        assert_eq!((answer.status, &answer.body["error"]), (403, &json!("insufficient_scope")), "{path}");
    }
    assert_eq!(forge.get("r2", "namespaces").status, 200);
}

#[test]
fn parameters_are_checked_together() {
    let forge = Forge::filled();
    let error = |query: &str| {
        let answer = forge.get("t2", &format!("namespaces?{query}"));
        (answer.status, answer.body["error"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(error("owned_only=maybe"), (400, "owned_only is invalid".into()));
    let expected =
        "top_level_only is invalid, full_path_search is invalid, page is invalid, per_page has a value not allowed"
            .into();
    assert_eq!(error("top_level_only=x&full_path_search=x&page=z&per_page=0"), (400, expected));
    let answer = forge.get("t2", "namespaces/acme/exists?parent_id=x");
    assert_eq!((answer.status, answer.body), (400, json!({"error": "parent_id is invalid"})));
    assert_eq!(forge.get("t2", "namespaces?unknown=1&owned_only=&search=").status, 200);
}

#[test]
fn a_storage_that_fails_anywhere_is_a_500() {
    let store = MemoryStore::default();
    let forge = Forge(env(store.clone(), &[]));
    forge.user(2, "alice");
    forge.group(10, "acme", None);
    forge.join(2, Source::Group(10), Role::Owner, None);
    for path in ["namespaces?search=acme", "namespaces/acme", "namespaces/acme/exists"] {
        for after in 0.. {
            let failing = FailingStore::after(after, store.clone());
            let answer = get(&env(failing.clone(), &[]), "t2", path);
            if !failing.failed() {
                assert_eq!((answer.status, after > 3), (200, true));
                break;
            }
            let expected = (500, json!({"message": "500 Internal Server Error"}));
            assert_eq!((answer.status, answer.body), expected, "{path} {after}");
        }
    }
}
