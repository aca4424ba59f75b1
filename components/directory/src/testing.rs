//! A small data set for tests, and builders of records:
//!
//! ```text
//! users     1 root (administrator)   2 alice   3 bob   4 eve (external)
//! groups    10 acme (public)   11 acme/core (private)   12 guild (private)
//! projects  100 acme/site (public)   101 acme/core/engine (private)   102 acme/tools (internal)
//!           103 bob/notes (private)
//! ```

#![allow(clippy::unwrap_used, reason = "only tests use it")]

use crate::access::Role;
use crate::catalog::changes::Changes;
use crate::catalog::intent_log::IntentLog;
use crate::dependents;
use crate::member::{self, Membership, Source};
use crate::namespace::{Details, NewGroup, Visibility};
use crate::project::{self, Analytics, FeatureAccess, JobTokenScope, NewProject};
use crate::token::{self, Fingerprint, Subject, Token};
use crate::user::{self, NewUser, UserState};
use http::Method;
use kit::testing::{MemoryStore, env};
use kit::{Env, Request};

pub fn forge() -> Env {
    let env = env(MemoryStore::default(), &[("bootstrap_admin_token", "bootstrap-secret")]);
    fill(&env);
    env
}

pub fn fill(env: &Env) {
    for (id, username) in [(1, "root"), (2, "Alice"), (3, "bob"), (4, "eve")] {
        user::save(env, NewUser { is_admin: id == 1, external: id == 4, ..new_user(id, username) }).unwrap();
    }
    for (id, path, parent_id, visibility) in [
        (10, "Acme", None, Visibility::Public),
        (11, "core", Some(10), Visibility::Private),
        (12, "guild", None, Visibility::Private),
    ] {
        dependents::save_group(env, NewGroup { visibility, ..new_group(id, path, parent_id) }).unwrap();
    }
    for (id, path, namespace_id, visibility) in [
        (100, "site", 10, Visibility::Public),
        (101, "Engine", 11, Visibility::Private),
        (102, "tools", 10, Visibility::Internal),
        (103, "notes", 4_000_000_003, Visibility::Private),
    ] {
        project::save(env, NewProject { visibility, ..new_project(id, path, namespace_id) }).unwrap();
    }
}

pub fn new_user(id: u64, username: &str) -> NewUser {
    NewUser {
        id,
        username: username.into(),
        name: username.to_uppercase(),
        commit_email: None,
        state: UserState::Active,
        is_admin: false,
        external: false,
        bot: false,
        namespace_id: None,
        details: Details::default(),
    }
}

pub fn new_group(id: u64, path: &str, parent_id: Option<u64>) -> NewGroup {
    let name = path.to_uppercase();
    NewGroup {
        id,
        name,
        path: path.into(),
        parent_id,
        visibility: Visibility::Private,
        shares: vec![],
        details: Details::default(),
    }
}

pub fn new_project(id: u64, path: &str, namespace_id: u64) -> NewProject {
    NewProject {
        id,
        name: path.to_uppercase(),
        path: path.into(),
        namespace_id,
        visibility: Visibility::Private,
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
        analytics: Analytics::default(),
        pages_unique_domain: None,
    }
}

/// Announces changes of records.
pub fn begin(env: &Env, name: impl FnOnce(&mut Changes)) -> IntentLog {
    let mut changes = Changes::default();
    name(&mut changes);
    IntentLog::begin(env, changes).unwrap()
}

/// Changes records as an import does, with the catalog.
pub fn change(env: &Env, name: impl FnOnce(&mut Changes), records: impl FnOnce()) {
    let intent_log = begin(env, name);
    records();
    intent_log.commit(env).unwrap();
}

/// Lists all records of the small data set in the catalog.
pub fn list_all(env: &Env) {
    let name = |changes: &mut Changes| {
        (1..=4).for_each(|id| changes.user(id, None));
        (10..=12).for_each(|id| changes.group(id));
        (100..=103).for_each(|id| changes.project(id));
    };
    change(env, name, || ());
}

/// A request with a header.
pub fn request(header: &'static str, value: &str) -> Request {
    let mut request = Request::new(Method::GET, "/");
    request.headers.insert(header, value.parse().unwrap());
    request
}

/// Saves a user, and lists them in the catalog.
pub fn list_user(env: &Env, new: NewUser) {
    let id = new.id;
    change(env, |changes| changes.user(id, None), || user::save(env, new).unwrap());
}

/// Saves a group, and lists it in the catalog.
pub fn list_group(env: &Env, new: NewGroup) {
    let id = new.id;
    change(env, |changes| changes.group(id), || dependents::save_group(env, new).unwrap());
}

/// Saves a project, and lists it in the catalog.
pub fn list_project(env: &Env, new: NewProject) {
    let id = new.id;
    change(env, |changes| changes.project(id), || project::save(env, new).unwrap());
}

/// Saves a membership, and lists it in the catalog.
pub fn list_member(env: &Env, user_id: u64, source: Source, membership: Option<Membership>) {
    change(env, |changes| changes.member(source, user_id), || set_membership(env, user_id, source, membership));
}

pub fn join(env: &Env, user_id: u64, source: Source, role: Role) {
    set_membership(env, user_id, source, Some(Membership { role, expires_at: None }));
}

pub fn set_membership(env: &Env, user_id: u64, source: Source, membership: Option<Membership>) {
    member::save(env, user_id, &[(source, membership)].into()).unwrap();
}

pub fn new_token(subject: Subject, scopes: &[&str]) -> Token {
    let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    Token { subject, name: "test".into(), scopes, expires_at: None, revoked: false }
}

/// Issues a token of a user, whose text is `text`.
pub fn issue_to(env: &Env, text: &str, user_id: u64, scopes: &[&str]) {
    issue(env, text, new_token(Subject::User(user_id), scopes));
}

pub fn issue(env: &Env, text: &str, token: Token) {
    token::save(env, &Fingerprint::of(text.as_bytes()), Some(token)).unwrap();
}
