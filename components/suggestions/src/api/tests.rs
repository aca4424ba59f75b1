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
mod watched_store;

use crate::api;
use directory::access::Role;
use directory::dependents;
use directory::member::{self, Membership, Source};
use directory::namespace::{NewGroup, Visibility};
use directory::project::{self, FeatureAccess, JobTokenScope, NewProject};
use directory::token::{self, Fingerprint, Subject, Token};
use directory::user::{self, NewUser, UserState};
use futures::executor::block_on;
use http::{HeaderMap, Method};
use kit::testing::{self, CountingEntropy, MemoryStore};
use kit::{Env, Request};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
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

    /// The status and the error message.
    pub fn refusal(&self) -> (u16, String) {
        let body = self.json();
        let words = body["message"].as_str().or(body["error"].as_str()).or(body["error_description"].as_str());
        (self.status, words.unwrap_or_default().to_owned())
    }
}

/// A user as they are when a forge is new; the first one is its administrator.
pub fn new_user(id: u64, name: &str) -> NewUser {
    NewUser {
        id,
        username: name.into(),
        name: format!("{name} of Acme"),
        commit_email: None,
        state: UserState::Active,
        is_admin: id == 1,
        external: false,
        bot: false,
        namespace_id: Some(1000 + id),
        details: Default::default(),
    }
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
        let group = NewGroup {
            id: 10,
            name: "Acme".into(),
            path: "acme".into(),
            parent_id: None,
            visibility: Visibility::Public,
            shares: vec![],
            details: Default::default(),
        };
        dependents::save_group(&env, group).unwrap();
        for (id, role) in [(2, Role::Maintainer), (3, Role::Developer), (4, Role::Reporter), (5, Role::Guest)] {
            let membership = Some(Membership { role, expires_at: None });
            member::save(&env, id, &[(Source::Group(10), membership)].into()).unwrap();
        }
        forge.project(PUBLIC, |_| {});
        forge.project(PRIVATE, |project| project.visibility = Visibility::Private);
        forge.project(FORK, |project| project.namespace_id = 1003);
        forge
    }

    pub fn project(&self, id: u64, change: impl FnOnce(&mut NewProject)) {
        let mut project = NewProject {
            id,
            name: format!("Project {id}"),
            path: format!("p{id}"),
            namespace_id: 10,
            visibility: Visibility::Public,
            registry: FeatureAccess::Enabled,
            issues: FeatureAccess::Enabled,
            repository: FeatureAccess::Enabled,
            merge_requests: FeatureAccess::Enabled,
            archived: false,
            default_branch: Some("main".into()),
            creator_id: None,
            shares: vec![],
            job_tokens: JobTokenScope { restricted: true, projects: vec![], groups: vec![] },
            protected_branches: None,
            suggestion_commit_message: None,
            analytics: Default::default(),
            pages_unique_domain: None,
        };
        change(&mut project);
        project::save(&self.env(), project).unwrap();
    }

    pub fn token(&self, text: &str, user_id: u64, scopes: &[&str]) {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        let token =
            Token { subject: Subject::User(user_id), name: "t".into(), scopes, expires_at: None, revoked: false };
        token::save(&self.env(), &Fingerprint::of(text.as_bytes()), Some(token)).unwrap();
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
        let answer = self.send_bytes(Method::POST, &path, "root", "application/octet-stream", objects);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let refs = repository.text(&["for-each-ref", "--format=%(objectname) %(refname)"]);
        let current = self.get(&format!("projects/{project}/repository.git/info/refs"), "root").text();
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
        let refs = self.get(&format!("projects/{project}/repository.git/info/refs"), "root").text();
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
        let answer = self.comment(iid, "rep", comment(&self.head(project, "topic"), path, line, body));
        assert_eq!(answer.status, 201, "{}", answer.text());
        let suggestions = answer.json()["notes"][0]["suggestions"].clone();
        suggestions.as_array().unwrap().iter().map(|suggestion| suggestion["id"].as_u64().unwrap()).collect()
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
    let mut request = Request::new(method, &format!("/api/v4/{path}"));
    if !token.is_empty() {
        request.headers.insert("private-token", token.parse().unwrap());
    }
    if !media_type.is_empty() {
        request.headers.insert("content-type", media_type.parse().unwrap());
    }
    request.body = body.into();
    let response = block_on(api::handle(env, request));
    let body = block_on(response.body.collect(1 << 30)).unwrap();
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

/// A local git repository.
pub struct Repository {
    folder: tempfile::TempDir,
}

impl Repository {
    pub fn empty() -> Self {
        let repository = Repository { folder: tempfile::tempdir().unwrap() };
        repository.git(&["init", "-q", "-b", "main"]);
        repository
    }

    /// A repository with these files on `main` and on `topic`.
    pub fn with(files: &[(&str, &[u8])]) -> Self {
        let repository = Repository::empty();
        for (path, contents) in files {
            repository.write(path, contents);
        }
        repository.commit("first");
        repository.git(&["checkout", "-q", "-b", "topic"]);
        repository
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn file(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    pub fn write(&self, path: &str, contents: &[u8]) {
        std::fs::create_dir_all(self.file(path).parent().unwrap()).unwrap();
        std::fs::write(self.file(path), contents).unwrap();
    }

    /// Commits everything. Returns the commit's id.
    pub fn commit(&self, message: &str) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
        self.text(&["rev-parse", "HEAD"])
    }

    pub fn text(&self, arguments: &[&str]) -> String {
        String::from_utf8(self.git(arguments)).unwrap().trim_end().to_owned()
    }

    #[track_caller]
    pub fn git(&self, arguments: &[&str]) -> Vec<u8> {
        let output = self.command(arguments).output().expect("these tests need the program `git`");
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// git in this repository, without the user's configuration and with fixed authors and times.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command
            .args(arguments)
            .current_dir(self.path())
            .env("GIT_TERMINAL_PROMPT", "0")
            .env_remove("GIT_DIR")
            .envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")])
            .envs([("GIT_AUTHOR_NAME", "A"), ("GIT_AUTHOR_EMAIL", "a@x"), ("GIT_AUTHOR_DATE", "1700000000 +0000")])
            .envs([
                ("GIT_COMMITTER_NAME", "A"),
                ("GIT_COMMITTER_EMAIL", "a@x"),
                ("GIT_COMMITTER_DATE", "1700000000 +0000"),
            ])
            .stdin(Stdio::null());
        command
    }
}
