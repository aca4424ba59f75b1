//! Requests and responses over a store in memory.

mod access;
mod account;
mod attestation;
mod authority;
mod cost;
mod damage;
mod deprecate;
mod document_tags;
mod file_list;
mod forward;
mod golden;
mod list;
mod maintainers;
mod maintenance;
mod name_owners;
mod noop_update;
mod organization;
mod package_by_id;
mod package_names;
mod projects_by_name;
mod protection;
mod protection_rules;
mod publish;
mod publisher;
mod race;
mod rate_limit;
mod read;
mod scopes;
mod search;
mod size;
mod store_errors;
mod tag;
mod unpublish;
mod untrusted;
mod visibility;

use super::handle;
use crate::tarball::tests::tarball;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use directory::access::Role;
use directory::catalog::changes::Changes;
use directory::catalog::intent_log::IntentLog;
use directory::dependents;
use directory::member::{self, Membership, Share, Source};
use directory::namespace::{Details, NewGroup, Visibility};
use directory::project::{self, FeatureAccess, JobTokenScope, NewProject};
use directory::token::{self, Fingerprint, Subject, Token};
use directory::user::{self, NewUser, UserState};
use futures::FutureExt as _;
use http::{HeaderName, HeaderValue, Method};
use kit::body::{Body, BodyError, Chunk};
use kit::request::Origin;
use kit::testing::{self, CountingEntropy, MemoryStore};
use kit::{Env, Request, Timestamp};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha512};
use std::rc::Rc;

const PUBLIC: u64 = 7;
const INTERNAL: u64 = 8;
const PRIVATE: u64 = 9;

/// Publications are not counted, unless a test says otherwise.
const UNLIMITED: (&str, &str) = ("registry_rate_limit_publishes", "0");

/// The smallest forge that has every kind of caller and project:
///
/// | group | project | visibility |
/// |---|---|---|
/// | `acme` (100, public) | 7 `acme/web` | public |
/// | | 8 `acme/tools` | internal |
/// | `acme/sub` (101, private) | 9 `acme/sub/core` | private |
/// | `other` (200, public) | 17 `other/web` | public |
///
/// Users `guest`, `reporter`, `developer`, `maintainer` have that role in both groups `acme` and
/// `other`; `outsider` has none. Each has a token called like the user.
struct Forge {
    store: MemoryStore,
    variables: Vec<(&'static str, &'static str)>,
    /// One source for all requests, so that ids are unique.
    entropy: Rc<CountingEntropy>,
    now: Timestamp,
}

impl Forge {
    fn new() -> Self {
        let forge = Forge {
            store: MemoryStore::default(),
            variables: vec![UNLIMITED],
            entropy: Rc::default(),
            now: testing::NOW,
        };
        let users = [
            (2, "guest", Some(Role::Guest)),
            (3, "reporter", Some(Role::Reporter)),
            (4, "developer", Some(Role::Developer)),
            (5, "maintainer", Some(Role::Maintainer)),
            (6, "outsider", None),
        ];
        let groups = [
            (100, "acme", None, Visibility::Public),
            (101, "sub", Some(100), Visibility::Private),
            (200, "other", None, Visibility::Public),
        ];
        let projects = [
            (PUBLIC, "web", 100, Visibility::Public),
            (INTERNAL, "tools", 100, Visibility::Internal),
            (PRIVATE, "core", 101, Visibility::Private),
            (17, "web", 200, Visibility::Public),
        ];
        let changes = |changes: &mut Changes| {
            groups.iter().for_each(|(id, ..)| changes.group(*id));
            projects.iter().for_each(|(id, ..)| changes.project(*id));
            for (id, ..) in users {
                changes.user(id, None);
                [100, 200].into_iter().for_each(|group| changes.member(Source::Group(group), id));
            }
        };
        forge.import(changes, || {
            for (id, path, parent_id, visibility) in groups {
                forge.save_group(id, path, parent_id, visibility, Vec::new());
            }
            for (id, path, group, visibility) in projects {
                forge.save_project(id, path, group, visibility, FeatureAccess::Enabled);
            }
            for (id, username, role) in users {
                forge.save_user(id, username, UserState::Active);
                let membership = role.map(|role| Membership { role, expires_at: None });
                let changes = [100, 200].map(|group| (Source::Group(group), membership)).into();
                member::save(&forge.env(), id, &changes).unwrap();
                forge.token(username, Subject::User(id), &["api"]);
            }
        });
        forge
    }

    /// A forge in which names have no owners.
    fn shared() -> Self {
        let mut forge = Forge::new();
        forge.variables.push(("registry_name_policy", "shared"));
        forge
    }

    fn env(&self) -> Env {
        self.env_over(self.store.clone())
    }

    fn env_over(&self, store: impl kit::store::Store + 'static) -> Env {
        let mut env = testing::env(store, &self.variables);
        env.entropy = self.entropy.clone();
        env.now = self.now;
        env.clock = Rc::new(self.now);
        env
    }

    /// Advances the clock by a second.
    fn advance_clock(&mut self) {
        self.now = Timestamp::from_millis(self.now.millis() + 1000);
    }

    fn project(&self, id: u64, path: &str, group: u64, visibility: Visibility, registry: FeatureAccess) {
        self.import(|changes| changes.project(id), || self.save_project(id, path, group, visibility, registry));
    }

    fn save_project(&self, id: u64, path: &str, group: u64, visibility: Visibility, registry: FeatureAccess) {
        let project = NewProject { registry, ..self.new_project(id, path, group, visibility) };
        project::save(&self.env(), project).unwrap();
    }

    fn new_project(&self, id: u64, path: &str, group: u64, visibility: Visibility) -> NewProject {
        NewProject {
            id,
            name: path.into(),
            path: path.into(),
            namespace_id: group,
            visibility,
            registry: FeatureAccess::Enabled,
            issues: FeatureAccess::Enabled,
            repository: FeatureAccess::Enabled,
            merge_requests: FeatureAccess::Enabled,
            archived: false,
            default_branch: None,
            creator_id: None,
            shares: Vec::new(),
            job_tokens: JobTokenScope { restricted: true, projects: Vec::new(), groups: Vec::new() },
            protected_branches: None,
            suggestion_commit_message: None,
            analytics: Default::default(),
            pages_unique_domain: None,
        }
    }

    fn group(&self, id: u64, path: &str, shares: Vec<Share>) {
        self.import(|changes| changes.group(id), || self.save_group(id, path, None, Visibility::Public, shares));
    }

    fn save_group(&self, id: u64, path: &str, parent_id: Option<u64>, visibility: Visibility, shares: Vec<Share>) {
        let (name, path, details) = (path.into(), path.into(), Details::default());
        let group = NewGroup { id, name, path, parent_id, visibility, shares, details };
        dependents::save_group(&self.env(), group).unwrap();
    }

    fn user(&self, id: u64, username: &str, state: UserState) {
        self.import(|changes| changes.user(id, None), || self.save_user(id, username, state));
    }

    fn save_user(&self, id: u64, username: &str, state: UserState) {
        user::save(&self.env(), self.new_user(id, username, state)).unwrap();
    }

    fn new_user(&self, id: u64, username: &str, state: UserState) -> NewUser {
        NewUser {
            id,
            username: username.into(),
            name: username.into(),
            commit_email: None,
            state,
            is_admin: false,
            external: false,
            bot: false,
            namespace_id: None,
            details: Details::default(),
        }
    }

    /// Changes records as an import does, with the catalog.
    fn import(&self, changes: impl FnOnce(&mut Changes), write: impl FnOnce()) {
        let mut changed = Changes::default();
        changes(&mut changed);
        let log = IntentLog::begin(&self.env(), changed).unwrap();
        write();
        log.commit(&self.env()).unwrap();
    }

    /// Gives a user a role, or ends their membership.
    fn join(&self, user: u64, source: Source, role: Option<Role>) {
        let membership = role.map(|role| Membership { role, expires_at: None });
        let write = || member::save(&self.env(), user, &[(source, membership)].into()).unwrap();
        self.import(|changes| changes.member(source, user), write);
    }

    fn token(&self, text: &str, subject: Subject, scopes: &[&str]) {
        let token = Token {
            subject,
            name: text.into(),
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            expires_at: None,
            revoked: false,
        };
        token::save(&self.env(), &Fingerprint::of(text.as_bytes()), Some(token)).unwrap();
    }

    fn send(&self, request: TestRequest) -> TestResponse {
        TestResponse::of(self.env(), request)
    }

    fn get(&self, path: &str) -> TestResponse {
        self.send(request(Method::GET, path))
    }

    /// Publishes as the developer, and asserts success.
    #[track_caller]
    fn publish(&self, project: u64, name: &str, version: &str) -> TestResponse {
        let answer = self.send(publication(name, version).to(project));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer
    }
}

/// A request of a test.
struct TestRequest {
    method: Method,
    path: String,
    token: Option<String>,
    headers: Vec<(&'static str, String)>,
    body: Vec<Chunk>,
}

/// A request to a path below `/api/v4`, as the developer.
fn request(method: Method, path: &str) -> TestRequest {
    let (path, token) = (format!("/api/v4{path}"), Some("developer".into()));
    TestRequest { method, path, token, headers: Vec::new(), body: Vec::new() }
}

impl TestRequest {
    /// As the user of this name, or anonymously if it is empty.
    fn by(mut self, user: &str) -> Self {
        self.token = (!user.is_empty()).then(|| user.to_owned());
        self
    }

    fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into().chunks(1000).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        self
    }

    /// The peer closes the connection after this much of the body.
    fn cut_off(mut self, chunks: usize) -> Self {
        self.body.truncate(chunks);
        self.body.push(Err(BodyError::Peer("reset".into())));
        self
    }
}

struct TestResponse {
    status: u16,
    headers: http::HeaderMap,
    body: Vec<u8>,
    cause: Option<String>,
}

impl TestResponse {
    fn of(env: Env, mut sent: TestRequest) -> Self {
        let body = Body::pull(std::mem::take(&mut sent.body).into_iter());
        TestResponse::with_body(env, sent, body)
    }

    /// The response to a request, with `body` in place of its own.
    fn with_body(env: Env, sent: TestRequest, body: Body) -> Self {
        let mut http = Request::new(sent.method, &sent.path);
        http.origin = Origin::known("http", "registry.example");
        if let Some(token) = &sent.token {
            let value = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
            http.headers.insert("authorization", value);
        }
        for (name, value) in &sent.headers {
            http.headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        http.body = body;
        // No future is pending, so a concurrent request can be answered inside another one.
        let response = handle(env, http).now_or_never().unwrap();
        let status = response.status.as_u16();
        let (headers, cause) = (response.headers, response.cause);
        let body =
            response.body.collect(1 << 30).now_or_never().unwrap().unwrap_or_else(|error| error.to_string().into());
        TestResponse { status, headers, body, cause }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|why| panic!("{}: {why}: {}", self.status, self.text()))
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    /// Checks the status and, under both keys, the text.
    #[track_caller]
    fn is(&self, status: u16, message: &str, error: &str) {
        assert_eq!((self.status, self.json()), (status, json!({"message": message, "error": error})));
        assert_eq!((self.header("content-type"), self.header("cache-control")), ("application/json", "no-store"));
    }

    #[track_caller]
    fn is_refused(&self, status: u16, text: &str) {
        self.is(status, text, text);
    }
}

/// A document as npm sends it, and where to change it before it is sent.
struct Publication {
    document: Value,
}

fn publication(name: &str, version: &str) -> Publication {
    publication_of(name, version, &tarball(name, version, b"payload"))
}

fn publication_of(name: &str, version: &str, file: &[u8]) -> Publication {
    let integrity = format!("sha512-{}", STANDARD.encode(Sha512::digest(file)));
    let shasum = hex::encode(sha1::Sha1::digest(file));
    let file_name = format!("{name}-{version}.tgz");
    let mut document = json!({
        "_id": name, "name": name, "description": "d", "dist-tags": {"latest": version}, "versions": {}, "access": null,
    });
    document["versions"][version] = json!({
        "name": name, "version": version, "description": "d", "readme": format!("# {version}"), "_npmVersion": "11.19.1",
        "_id": format!("{name}@{version}"),
        "dist": {"integrity": integrity, "shasum": shasum, "tarball": "http://elsewhere.example/x.tgz"},
    });
    document["_attachments"] = json!({});
    document["_attachments"][file_name.as_str()] =
        json!({"content_type": "application/octet-stream", "data": STANDARD.encode(file), "length": file.len()});
    Publication { document }
}

impl Publication {
    fn change(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.document);
        self
    }

    /// The request that publishes it to a project.
    fn to(&self, project: u64) -> TestRequest {
        let name = self.document["name"].as_str().unwrap_or("unnamed").replace('/', "%2f");
        let request = request(Method::PUT, &format!("/projects/{project}/packages/npm/{name}"));
        request.with("user-agent", "npm/11.19.1 node/v20.20.2 linux x64").body(self.document.to_string())
    }
}
