//! A fake of the API. All texts that users can write are one text.

use crate::api::handle;
use crate::session::Session;
use bytes::Bytes;
use futures::executor::block_on;
use http::{HeaderMap, Method, StatusCode};
use kit::outbound::{OutboundError, OutboundRequest, OutboundResponse};
use kit::request::Origin;
use kit::testing::{MemoryStore, Upstream, env};
use kit::{Env, Request, Response};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

pub const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

pub struct Forge {
    env: Env,
    upstream: Upstream,
    /// The cookies of sessions, by token.
    sessions: RefCell<BTreeMap<String, String>>,
}

/// A page as the visitor receives it.
pub struct Shown {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Shown {
    /// The cookie that the page sets, as the browser sends it.
    pub fn cookie(&self) -> Option<String> {
        let header = self.headers.get("set-cookie")?.to_str().ok()?;
        header.split(';').next().map(str::to_owned)
    }

    pub fn form_token(&self) -> String {
        let (_, rest) = self.text.split_once("name=\"form_token\" value=\"").expect("a form");
        rest.split('"').next().unwrap_or_default().to_owned()
    }
}

impl Forge {
    /// A forge in which users wrote `text` everywhere.
    pub fn new(text: &str) -> Self {
        let text = text.to_owned();
        Forge::with(&[], move |request| answer(request, &text))
    }

    /// A forge with these values of variables, whose API answers by `answer`.
    pub fn with(
        variables: &[(&str, &str)],
        answer: impl Fn(&OutboundRequest) -> Result<OutboundResponse, OutboundError> + 'static,
    ) -> Self {
        let upstream = Upstream::new(answer);
        let defaults = [("external_url", "http://forge.test"), ("console_session_key", KEY)];
        let mut env = env(MemoryStore::default(), &[&defaults[..], variables].concat());
        env.outbound = Rc::new(upstream.clone());
        Forge { env, upstream, sessions: RefCell::default() }
    }

    /// The cookie of the session with this token.
    pub fn cookie(&self, token: &str) -> String {
        self.sessions.borrow_mut().entry(token.to_owned()).or_insert_with(|| self.sign_in(token)).clone()
    }

    fn sign_in(&self, token: &str) -> String {
        let mut request = Request::new(Method::GET, "/");
        request.origin = Origin::known("http", "forge.test");
        let header = Session::of(&self.env, &request).sign_in(token).expect("a session");
        header.split(';').next().unwrap_or_default().to_owned()
    }

    /// Requests a page as a browser does. `token` may have further cookies after it.
    pub fn get(&self, path: &str, token: Option<&str>) -> Shown {
        let (token, more) = token.map_or((None, ""), |token| {
            let (token, more) = token.split_once("; ").unwrap_or((token, ""));
            (Some(token), more)
        });
        self.get_with_cookie(path, &token.map_or_else(String::new, |token| format!("{}; {more}", self.cookie(token))))
    }

    /// Requests a page with these cookies.
    pub fn get_with_cookie(&self, path: &str, cookies: &str) -> Shown {
        let mut request = Request::new(Method::GET, path);
        request.origin = Origin::known("http", "forge.test");
        request.headers.insert("accept", "text/html,*/*;q=0.8".parse().unwrap());
        if !cookies.is_empty() {
            request.headers.insert("cookie", cookies.parse().unwrap());
        }
        shown(self.handle(request))
    }

    /// Requests a document of these types, without a session.
    pub fn accept(&self, path: &str, types: &str) -> Shown {
        let mut request = Request::new(Method::GET, path);
        request.origin = Origin::known("http", "forge.test");
        request.headers.insert("accept", types.parse().unwrap());
        shown(self.handle(request))
    }

    pub fn post(&self, path: &str, cookie: &str, form: &str, headers: &[(&'static str, &str)]) -> Shown {
        let mut request = Request::new(Method::POST, path);
        request.origin = Origin::known("http", "forge.test");
        request.headers.insert("cookie", cookie.parse().unwrap());
        for (name, value) in headers {
            request.headers.insert(*name, value.parse().unwrap());
        }
        request.body = form.as_bytes().to_vec().into();
        shown(self.handle(request))
    }

    pub fn handle(&self, request: Request) -> Response {
        block_on(handle(self.env.clone(), request))
    }

    /// How often 8 bytes of randomness were drawn, including this call.
    pub fn draws(&self) -> u64 {
        let mut bytes = [0; 8];
        self.env.entropy.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// The requests to the API since the last call.
    pub fn take_calls(&self) -> Vec<String> {
        let call = |call: OutboundRequest| {
            format!("{} {} {}", call.method, call.url.path(), String::from_utf8_lossy(&call.body))
        };
        self.upstream.take_calls().into_iter().map(call).collect()
    }
}

fn shown(response: Response) -> Shown {
    Shown { status: response.status, headers: response.headers.clone(), text: text(response) }
}

pub fn text(response: Response) -> String {
    String::from_utf8(block_on(response.body.collect(16 << 20)).unwrap().to_vec()).unwrap()
}

pub fn answer(request: &OutboundRequest, text: &str) -> Result<OutboundResponse, OutboundError> {
    assert_eq!(request.url.authority().unwrap(), "self.alt");
    // Without the header, the host does not know that there is no body, and calls the area each time.
    assert!(!request.body.is_empty() || request.headers["content-length"] == "0");
    let token = request.headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    let user = match token.as_deref() {
        None => None,
        Some("Bearer admin-token") => Some(true),
        Some("Bearer developer-token") => Some(false),
        Some("Bearer limited-token") => return reply(429, &json!({"message": {"error": "too many times"}})),
        Some(_) => return reply(401, &json!({"message": "401 Unauthorized"})),
    };
    let path = request.url.path().strip_prefix("/api/v4/").unwrap();
    // A search that the API has no index for.
    let query = request.url.query().unwrap_or_default();
    if user == Some(true) && query.contains("search=rare") && !query.contains("user_id=") {
        return reply(400, &json!({"error": "this list takes too many reads"}));
    }
    if query.contains("&page=99&") || query.ends_with("&page=99") {
        return reply(200, &json!([]));
    }
    let (status, body) = route(&request.method, path, user, text);
    reply(status, &body)
}

pub fn reply(status: u16, body: &Value) -> Result<OutboundResponse, OutboundError> {
    let body = Bytes::from(body.to_string()).into();
    Ok(OutboundResponse { status: StatusCode::from_u16(status).unwrap(), headers: HeaderMap::new(), body })
}

/// `user` is whether the caller is an administrator.
fn route(method: &Method, path: &str, user: Option<bool>, text: &str) -> (u16, Value) {
    let is_admin = user == Some(true);
    let forbidden = (403, json!({"message": "403 Forbidden"}));
    if *method != Method::GET {
        return match path {
            "personal_access_tokens" if is_admin => (201, json!({"token": "secret-of-new-token"})),
            _ if path.contains("product_analytics") => (200, analytics_rows(text)),
            _ if is_admin => (200, json!({})),
            _ => forbidden,
        };
    }
    match path {
        "user" => match user {
            Some(is_admin) => (200, json!({"id": 1, "username": text, "name": text, "is_admin": is_admin})),
            None => (401, json!({"message": "401 Unauthorized"})),
        },
        "experiments" => (200, experiments(text)),
        "application/settings" if is_admin => (200, json!({"one": text, "two": 2, text: [text]})),
        "features" if is_admin => {
            (200, json!([{"name": text, "state": "on", "gates": [{"key": text, "value": text}]}]))
        }
        "personal_access_tokens" if is_admin => (
            200,
            json!([{
                "id": 5, "name": text, "user_id": 1, "scopes": [text], "active": true, "revoked": false,
                "expires_at": text, "last_used_at": text,
            }]),
        ),
        "users" => (200, json!([{"id": 1, "username": "mia"}])),
        "application/settings" | "features" | "personal_access_tokens" => forbidden,
        "namespaces" => (200, json!([namespace(text)])),
        "namespaces/acme" => (200, namespace(text)),
        "groups/acme" | "groups/100" => (200, group(text)),
        "groups/acme/subgroups" => (200, json!([group(text)])),
        "groups/acme/projects" | "users/acme/projects" => (200, json!([project(text, is_admin)])),
        "projects/acme%2Fapp" | "projects/acme%2Fother" | "projects/104" => (200, project(text, is_admin)),
        "projects/105" => (200, foreign_project(text)),
        "projects/acme%2Fforked" => (200, project(text, is_admin)),
        "projects/acme%2Fapp/packages" => {
            let name = if text == "plain" { "@acme/lib" } else { text };
            let row =
                json!({"name": name, "version": text, "status": text, "created_at": text, "tags": [{"name": text}]});
            (200, json!([row]))
        }
        "projects/acme%2Fapp/merge_requests" | "projects/acme%2Fplain/merge_requests" => {
            let author = json!({"name": text, "username": text});
            let merge_request = json!({"iid": 7, "title": text, "state": text, "source_branch": text, "target_branch": text,
                "author": author, "created_at": text});
            (200, json!([merge_request]))
        }
        "projects/acme%2Fapp/merge_requests/7" => (
            200,
            json!({"title": text, "description": text, "state": text, "source_branch": text, "target_branch": text}),
        ),
        "projects/acme%2Fapp/merge_requests/7/discussions"
        | "projects/acme%2Fapp/merge_requests/8/discussions"
        | "projects/acme%2Fforked/merge_requests/7/discussions" => (200, discussions(text)),
        "projects/acme%2Fapp/merge_requests/8" => (200, json!({"source_project_id": 105, "target_project_id": 104})),
        "projects/acme%2Fforked/merge_requests/7" => {
            (200, json!({"source_project_id": 105, "target_project_id": 104, "allow_collaboration": true}))
        }
        "projects/acme%2Fapp/product_analytics/request/meta" => (200, analytics_meta(text)),
        "packages/npm/broken" => (200, json!("not a package")),
        _ if path.ends_with("issues_statistics") => {
            (200, json!({"statistics": {"counts": {"all": 3, "opened": 1, "closed": 2}}}))
        }
        "users/mia/projects" | "users/plain/projects" => (200, json!([project(text, is_admin)])),
        _ if path.ends_with("/-/v1/search") => (200, search(text)),
        _ if path.ends_with("/dist-tags") && !path.contains("left-pad") => (200, json!({})),
        _ if path.ends_with("/-/package/%40acme%2Flib/files/1.0.0") => {
            (200, json!({"files": [{"path": text, "size": 7}], "truncated": true}))
        }
        _ if path.ends_with("packages/npm/%40acme%2Flib") => (200, package(text)),
        _ if path.ends_with("packages/npm/%40acme%2Flib/1.0.0") => (200, json!({"version": "1.0.0"})),
        _ => (404, json!({"message": "404 Not Found"})),
    }
}

fn namespace(text: &str) -> Value {
    json!({"id": 1, "name": format!("Acme {text}"), "kind": text, "full_path": format!("acme/{text}"), "path": text, "plan": text, "projects_count": 3})
}

fn group(text: &str) -> Value {
    json!({"name": text, "full_path": format!("acme/{text}"), "visibility": text})
}

fn project(text: &str, is_admin: bool) -> Value {
    let level = if is_admin { 40 } else { 30 };
    json!({
        "name": text, "path_with_namespace": format!("acme/{text}"), "visibility": text, "archived": true,
        "default_branch": text, "http_url_to_repo": text,
        "permissions": {"project_access": {"access_level": level}, "group_access": null},
    })
}

/// A project that the visitor may only read.
fn foreign_project(text: &str) -> Value {
    let permissions = json!({"project_access": {"access_level": 20}, "group_access": null});
    json!({"path_with_namespace": format!("mia/{text}"), "permissions": permissions})
}

fn search(text: &str) -> Value {
    json!({"total": 30, "objects": [{"package": {
        "name": if text == "plain" { "@acme/lib" } else { text }, "version": text, "description": text, "keywords": [text],
        "date": "2026-01-02T03:04:05.000Z", "publisher": {"username": text},
    }}]})
}

fn package(text: &str) -> Value {
    let version = json!({
        "deprecated": text, "dependencies": {text: text}, "peerDependencies": {text: text}, "license": text,
        "homepage": text, "repository": {"type": "git", "url": text}, "engines": {text: text},
        "dist": {"unpackedSize": 2048, "fileCount": 3, "integrity": text, "attestations": {"url": text}},
        "_npmUser": {"name": text},
    });
    json!({
        "_id": "@acme/lib", "_rev": "1-e", "name": if text == "plain" { "@acme/lib" } else { text }, "description": text,
        "dist-tags": {"latest": "2.0.0", text: "1.0.0"},
        "versions": {"1.0.0": version, "2.0.0": version},
        "time": {"1.0.0": "2026-01-02T03:04:05.000Z", "2.0.0": text},
        "readme": text, "maintainers": [{"name": text}],
    })
}

fn experiments(text: &str) -> Value {
    json!([{
        "key": text,
        "definition": {"introduced_by_url": text, "rollout_issue_url": text, "milestone": text, "group": text},
        "current_status": {"state": text, "gates": [
            {"key": "percentage_of_actors", "value": 30}, {"key": text, "value": true}, {"key": text, "value": [text]},
        ]},
    }])
}

fn discussions(text: &str) -> Value {
    let suggestion = |id: u64, is_applied: bool, is_appliable: bool| json!({"id": id, "from_line": 2, "applied": is_applied, "appliable": is_appliable, "from_content": text, "to_content": text});
    json!([{"id": text, "notes": [{
        "body": text, "author": {"username": text, "name": text}, "created_at": "2026-01-02T03:04:05.000Z",
        "position": {"new_path": text, "old_path": text},
        "suggestions": [suggestion(1, false, true), suggestion(2, true, false), suggestion(3, false, false)],
    }, {
        "body": format!("A reply.\n\n{text}"), "author": null, "created_at": "2026-01-02T03:04:05.000Z",
    }]}])
}

fn analytics_meta(text: &str) -> Value {
    json!({"cubes": [{
        "name": text, "title": text,
        "measures": [{"name": "Events.count", "title": text, "type": "number"}],
        "dimensions": [{"name": "Events.at", "title": text, "type": "time"}, {"name": text, "title": text, "type": "string"}],
    }]})
}

fn analytics_rows(text: &str) -> Value {
    json!({"results": [{"data": [
        {"Events.at.day": text, "Events.count": "3"}, {"Events.at.day": "2026-01-02T00:00:00.000", "Events.count": text},
    ]}]})
}
