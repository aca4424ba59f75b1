//! The response of each route, with a store in memory and repositories made by git.

mod access;
mod ambiguous_names;
mod apply;
mod apply_cost;
mod apply_special_files;
mod atomic_push;
mod authority;
mod deep_trees;
mod deepening;
mod delta_chains;
mod discussions;
mod encodings;
mod fetch;
mod git_server;
mod golden;
mod import;
mod import_packs;
mod internal_notes;
mod limits;
mod line_endings;
mod long_histories;
mod loose_objects;
mod made_pack;
mod maintenance;
mod merge_request_diffs;
mod merge_request_filters;
mod merge_request_races;
mod merge_requests;
mod merges;
mod notes;
mod odd_objects;
mod pack_damage;
mod pack_deltas;
mod parameter_forms;
mod push;
mod random;
mod reanchoring;
mod ref_names;
mod repository;
mod reused_user_ids;
mod special_files;
mod storage_failures;
mod text_bounds;

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../../tests/harness/repository.rs"]
mod local_repository;

pub use local_repository::Repository;

use crate::api;
use crate::api::source_branch::InapplicableReason;
use crate::git::pack_entry::EntryKind;
use crate::git::{Object, ObjectId, ObjectKind, pktline};
use crate::repository_id::RepositoryId;
use crate::store::refs::{self, Conflict, RefChange, update_all};
use bytes::Bytes;
use directory::access::Role;
use directory::dependents;
use directory::member::{self, Membership, Source};
use directory::namespace::{NewGroup, Visibility};
use directory::project::{self, FeatureAccess, NewProject, ProjectKey, ProtectedBranch};
use directory::testing::{issue, issue_to, join, new_group, new_token, set_membership};
use directory::token::{self, Fingerprint, Subject, Token};
use directory::user::{self, NewUser, UserState};
use futures::FutureExt as _;
use futures::executor::block_on;
use http::{HeaderMap, Method};
use kit::gc::GRACE;
use kit::store::{Store as _, StoreError};
use kit::testing::{
    self, CountingEntropy, CountingStore, FailingStore, LostReplyStore, MemoryStore, NOW, WatchedStore,
};
use kit::{Body, Env, Request};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;
use std::rc::Rc;

/// Project ids by visibility; `FORK` is a fork of `PUBLIC` that belongs to `dev`.
pub const PUBLIC: u64 = 7;
pub const PRIVATE: u64 = 9;
pub const FORK: u64 = 17;

/// A forge in which each user's name is their token: root (administrator), mia (Maintainer), dev
/// (Developer), rep (Reporter), gus (Guest), otto (no member).
pub struct Forge {
    pub store: MemoryStore,
    entropy: Rc<CountingEntropy>,
}

pub struct TestResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl TestResponse {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|why| panic!("{why}: {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// This response, which has to have a status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }

    /// The id of the first suggestion in the first note of a discussion.
    #[track_caller]
    pub fn suggestion(&self) -> u64 {
        self.json()["notes"][0]["suggestions"][0]["id"].as_u64().unwrap_or_else(|| panic!("{}", self.text()))
    }

    /// The numbers of the merge requests in a list.
    #[track_caller]
    pub fn iids(&self) -> Vec<u64> {
        self.json().as_array().unwrap().iter().map(|one| one["iid"].as_u64().unwrap()).collect()
    }

    /// The status and the error message.
    pub fn refusal(&self) -> (u16, String) {
        let body = self.json();
        let words = body["message"].as_str().or(body["error"].as_str()).or(body["error_description"].as_str());
        (self.status, words.unwrap_or_default().to_owned())
    }
}

/// A user as they are when a forge is new; the first one is its administrator.
pub fn new_user(id: u64, name: &str) -> NewUser {
    let new = directory::testing::new_user(id, name);
    NewUser { name: format!("{name} of Acme"), is_admin: id == 1, namespace_id: Some(1000 + id), ..new }
}

impl Forge {
    pub fn new() -> Self {
        let forge = Forge { store: MemoryStore::default(), entropy: Rc::default() };
        let env = forge.env();
        let names = [(1, "root"), (2, "mia"), (3, "dev"), (4, "rep"), (5, "gus"), (6, "otto")];
        for (id, name) in names {
            let commit_email = (id == 2).then(|| "mia@acme.test".into());
            let user = NewUser { commit_email, ..new_user(id, name) };
            user::save(&env, user).unwrap();
            forge.token(name, id, &["api"]);
        }
        let group = NewGroup { name: "Acme".into(), visibility: Visibility::Public, ..new_group(10, "acme", None) };
        dependents::save_group(&env, group).unwrap();
        for (id, role) in [(2, Role::Maintainer), (3, Role::Developer), (4, Role::Reporter), (5, Role::Guest)] {
            join(&env, id, Source::Group(10), role);
        }
        forge.project(PUBLIC, |_| {});
        forge.project(PRIVATE, |project| project.visibility = Visibility::Private);
        forge.project(FORK, |project| project.namespace_id = 1003);
        forge
    }

    /// Merge request 1 from `topic` of a repository with these files, which is imported.
    pub fn with(files: &[(&str, &[u8])]) -> (Self, Repository) {
        let (forge, repository) = (Forge::new(), Repository::with(files));
        forge.import(PUBLIC, &repository);
        forge.merge_request(1, Value::Null);
        (forge, repository)
    }

    /// The same forge over a copy of its store.
    pub fn copy(&self) -> Self {
        self.over(self.store.snapshot())
    }

    /// The same forge over another store.
    pub fn over(&self, store: MemoryStore) -> Self {
        Forge { store, entropy: self.entropy.clone() }
    }

    /// Calls `attempt` with copies of the forge, of which the first fails at once and each further one an operation
    /// later, until one does not fail. Returns how many failed.
    pub fn fail_at_each_operation(&self, mut attempt: impl FnMut(u64, &Forge, FailingStore)) -> u64 {
        for operations in 0.. {
            let copy = self.copy();
            let failing = FailingStore::after(operations, copy.store.clone());
            attempt(operations, &copy, failing.clone());
            if !failing.failed() {
                return operations;
            }
        }
        unreachable!("the range has no end")
    }

    pub fn project(&self, id: u64, change: impl FnOnce(&mut NewProject)) {
        let new = directory::testing::new_project(id, &format!("p{id}"), 10);
        let mut project = NewProject { name: format!("Project {id}"), visibility: Visibility::Public, ..new };
        change(&mut project);
        project::save(&self.env(), project).unwrap();
    }

    pub fn token(&self, text: &str, user_id: u64, scopes: &[&str]) {
        issue_to(&self.env(), text, user_id, scopes);
    }

    pub fn env(&self) -> Env {
        self.env_over(self.store.clone())
    }

    pub fn env_over(&self, store: impl kit::store::Store + 'static) -> Env {
        self.env_with(store, &[])
    }

    /// As [`Self::env_over`], with more variables. Without them, writes are not counted.
    pub fn env_with(&self, store: impl kit::store::Store + 'static, variables: &[(&str, &str)]) -> Env {
        let unlimited =
            ["merge_requests_rate_limit", "notes_rate_limit", "pushes_rate_limit", "suggestions_rate_limit"];
        let mut all = vec![("external_url", "https://forge.test:8443")];
        all.extend(unlimited.map(|name| (name, "0")));
        all.extend(variables);
        let mut env = testing::env(store, &all);
        env.entropy = self.entropy.clone();
        env
    }

    pub fn send(&self, method: Method, path: &str, token: &str, body: Value) -> TestResponse {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.send_bytes(method, path, token, "application/json", body)
    }

    pub fn send_bytes(&self, method: Method, path: &str, token: &str, media_type: &str, body: Vec<u8>) -> TestResponse {
        send(self.env(), method, path, token, media_type, body)
    }

    pub fn get(&self, path: &str, token: &str) -> TestResponse {
        self.send(Method::GET, path, token, Value::Null)
    }

    /// Imports all objects and refs of a repository, with `main` as its default branch.
    pub fn import(&self, project: u64, repository: &Repository) {
        self.import_with_head(project, repository, "heads/main");
    }

    /// As [`Self::import`], with another branch checked out.
    pub fn import_with_head(&self, project: u64, repository: &Repository, head: &str) {
        let objects = repository.git(&["cat-file", "--batch", "--batch-all-objects"]);
        let path = format!("import/suggestions/{project}/objects");
        self.send_bytes(Method::POST, &path, "root", "application/octet-stream", objects).expect(200);
        let refs = repository.text(&["for-each-ref", "--format=%(objectname) %(refname)"]);
        let current = self.refs(project, "root");
        let moves: Vec<Value> = refs
            .lines()
            .map(|line| {
                let (id, name) = line.split_once(" refs/").unwrap();
                let old = current.lines().find_map(|line| line.strip_suffix(&format!("\trefs/{name}")));
                json!({"name": name, "old": old, "new": id})
            })
            .collect();
        let path = format!("import/suggestions/{project}/refs");
        let answer = self.send(Method::POST, &path, "root", json!({"refs": moves, "head": head}));
        assert_eq!((answer.status, answer.json()["failed"].clone()), (200, json!([])), "{}", answer.text());
    }

    pub fn delete_branch(&self, project: u64, name: &str) {
        let old = self.head(project, name);
        let path = format!("import/suggestions/{project}/refs");
        let body = json!({"refs": [{"name": format!("heads/{name}"), "old": old}]});
        assert_eq!(self.send(Method::POST, &path, "root", body).json()["moved"], 1);
    }

    /// The commit that a branch points to.
    pub fn head(&self, project: u64, branch: &str) -> String {
        let refs = self.refs(project, "root");
        let suffix = format!("\trefs/heads/{branch}");
        refs.lines().find_map(|line| line.strip_suffix(&suffix)).expect("the branch is there").to_owned()
    }

    /// Imports merge request `iid` of `PUBLIC`, from `topic`, with other fields if there are any.
    pub fn merge_request(&self, iid: u64, more: Value) {
        let mut record = json!({"kind": "merge_request", "id": 100 + iid, "iid": iid, "project_id": PUBLIC,
            "source_branch": "topic", "target_branch": "main", "title": "T", "author": {"id": 3}});
        record.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        let body = record.to_string().into_bytes();
        let answer = self.send_bytes(Method::POST, "import/suggestions", "root", "application/x-ndjson", body);
        assert_eq!(answer.json()["failed"], 0, "{}", answer.text());
    }

    /// Comments on a line of `topic` as `rep`. Returns the ids of the suggestions.
    pub fn suggest(&self, iid: u64, path: &str, line: u64, body: &str) -> Vec<u64> {
        let project = if iid == 3 { FORK } else { PUBLIC };
        let answer = self.comment(iid, "rep", comment(&self.head(project, "topic"), path, line, body)).expect(201);
        let suggestions = answer.json()["notes"][0]["suggestions"].clone();
        suggestions.as_array().unwrap().iter().map(|suggestion| suggestion["id"].as_u64().unwrap()).collect()
    }

    /// Checks everything. Returns the problems, or another list of the reports.
    #[track_caller]
    pub fn fsck(&self, list: &str) -> Vec<Value> {
        let (mut body, mut found) = (json!({}), Vec::new());
        loop {
            let report = self.send(Method::POST, "maintenance/suggestions/fsck", "root", body).expect(200).json();
            found.extend(report[list].as_array().cloned().unwrap_or_default());
            if report["cursor"].is_null() {
                return found;
            }
            body = json!({"cursor": report["cursor"]});
        }
    }

    /// The packs of `PUBLIC`, as they are listed.
    pub fn packs(&self) -> Vec<Value> {
        let list = self.store.get(&format!("suggestions/v1/packs/{PUBLIC}")).unwrap().unwrap();
        serde_json::from_slice::<Value>(&list).unwrap()["packs"].as_array().unwrap().clone()
    }

    /// git's list of refs.
    pub fn refs(&self, project: u64, token: &str) -> String {
        self.get(&format!("projects/{project}/repository.git/info/refs"), token).text()
    }

    pub fn comment(&self, iid: u64, token: &str, body: Value) -> TestResponse {
        self.send(Method::POST, &format!("projects/{PUBLIC}/merge_requests/{iid}/discussions"), token, body)
    }

    pub fn apply(&self, id: u64, token: &str, body: Value) -> TestResponse {
        self.send(Method::PUT, &format!("suggestions/{id}/apply"), token, body)
    }

    pub fn apply_all(&self, ids: &[u64], token: &str) -> TestResponse {
        self.send(Method::PUT, "suggestions/batch_apply", token, json!({"ids": ids}))
    }

    /// The flags `applicable` and `applied` of a suggestion.
    pub fn flags(&self, id: u64) -> (bool, bool) {
        let shown = self.get(&format!("suggestions/{id}"), "otto").json();
        assert_eq!(shown["applicable"], shown["appliable"]);
        (shown["applicable"].as_bool().unwrap(), shown["applied"].as_bool().unwrap())
    }

    /// A local copy of a project's repository, checked by git.
    pub fn clone(&self, project: u64) -> Repository {
        let repository = Repository::empty();
        self.git(&repository, project, "root", &["fetch", "-q", "--update-head-ok", "URL", "+refs/*:refs/*"]).unwrap();
        repository.git(&["fsck", "--full", "--strict"]);
        repository
    }
}

pub fn send(env: Env, method: Method, path: &str, token: &str, media_type: &str, body: Vec<u8>) -> TestResponse {
    let headers = [("private-token", token), ("content-type", media_type)];
    send_with(env, method, path, &headers, body)
}

/// Sends the headers that are not empty.
pub fn send_with(
    env: Env,
    method: Method,
    path: &str,
    headers: &[(&'static str, &str)],
    body: impl Into<Body>,
) -> TestResponse {
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/api/v4/{path}") };
    let mut request = Request::new(method, &path);
    for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
        request.headers.insert(*name, value.parse().unwrap());
    }
    request.body = body.into();
    // The future never waits. A test may send a request while another one is being handled.
    let response = api::handle(env, request).now_or_never().expect("it waits for nothing");
    let body = response.body.collect(1 << 30).now_or_never().expect("it waits for nothing").unwrap();
    if let Some(cause) = response.cause {
        eprintln!("cause: {cause}");
    }
    TestResponse { status: response.status.as_u16(), headers: response.headers, body }
}

/// A comment on a line of a file at `head`.
pub fn comment(head: &str, path: &str, line: u64, body: &str) -> Value {
    json!({"body": body, "position": {"position_type": "text", "base_sha": head, "start_sha": head, "head_sha": head,
        "old_path": path, "new_path": path, "new_line": line}})
}

/// A comment with a suggestion block.
pub fn block(label: &str, text: &str) -> String {
    format!("Better:\n\n```suggestion{label}\n{text}\n```\n")
}
