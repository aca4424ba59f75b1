//! Requests and answers, with a function as the engine.

mod access;
mod upstream;

use super::handle;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use directory::access::Role;
use directory::dependents;
use directory::member::{Membership, Source};
use directory::namespace::{NewGroup, Visibility};
use directory::project::{self, Analytics, NewProject};
use directory::testing::{change, issue_to, join, list_member, new_group, new_project, new_user};
use directory::token::{self, Fingerprint};
use directory::user::{self, NewUser};
use directory::{feature, setting};
use futures::executor::block_on;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use kit::body::{Body, BodyError, Chunk};
use kit::outbound::{OutboundError, OutboundRequest, OutboundResponse};
use kit::request::Origin;
use kit::store::Store;
use kit::testing::{self, FailingStore, MemoryStore, Upstream};
use kit::{Env, Request};
use serde_json::{Value, json};
use std::rc::Rc;

const PUBLIC: u64 = 7;
const PRIVATE: u64 = 9;
/// In the personal namespace of `dev`.
const PERSONAL: u64 = 20;

/// Groups `acme` (public) with project 7, `acme/labs` (private) with project 9; `dev` and `guest` are members of
/// `acme`, `outsider` is not. Each user has a token of their name, and `reader` is a token of `dev` that may only read.
/// Analytics is configured, and a function is its engine.
struct Forge {
    store: MemoryStore,
    engine: Upstream,
    variables: Vec<(&'static str, &'static str)>,
}

/// A response, read to its end.
struct TestResponse {
    status: u16,
    headers: HeaderMap,
    /// The body, and whether it broke off.
    body: Vec<u8>,
    broken: Option<BodyError>,
}

impl TestResponse {
    #[track_caller]
    fn json(&self) -> Value {
        assert_eq!(self.broken, None);
        serde_json::from_slice(&self.body).unwrap_or_else(|why| panic!("{why}: {}", self.text()))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    fn is(&self, status: u16, body: Value) {
        assert_eq!((self.status, self.json()), (status, body));
    }
}

fn reply(body: impl Into<Body>) -> OutboundResponse {
    OutboundResponse { status: StatusCode::OK, headers: HeaderMap::new(), body: body.into() }
}

/// A body that arrives in these parts.
fn parts(parts: Vec<Chunk>) -> Body {
    Body::pull(parts.into_iter())
}

impl Forge {
    fn answering(body: &'static str) -> Self {
        Forge::with(move |_| Ok(reply(body)))
    }

    fn with(answer: impl Fn(&OutboundRequest) -> Result<OutboundResponse, OutboundError> + 'static) -> Self {
        let forge = Forge { store: MemoryStore::default(), engine: Upstream::new(answer), variables: Vec::new() };
        let env = forge.env();
        for (id, name) in [(1, "dev"), (2, "guest"), (3, "outsider")] {
            user::save(&env, new_user(id, name)).unwrap();
            forge.token(name, id, &["api"]);
        }
        forge.token("reader", 1, &["read_api"]);
        for (id, path, parent_id, visibility) in
            [(10, "acme", None, Visibility::Public), (11, "labs", Some(10), Visibility::Private)]
        {
            dependents::save_group(&env, NewGroup { visibility, ..new_group(id, path, parent_id) }).unwrap();
        }
        forge.project(PUBLIC, "open", 10, Visibility::Public, Analytics::default());
        forge.project(PRIVATE, "secret", 11, Visibility::Private, Analytics::default());
        let personal = user::by_id(&env, 1).unwrap().unwrap().namespace_id;
        forge.project(PERSONAL, "notes", personal, Visibility::Public, Analytics::default());
        join(&env, 1, Source::Group(10), Role::Developer);
        join(&env, 2, Source::Group(10), Role::Guest);
        forge.set(json!({"analytics_api_base_url": "http://engine.test/x/", "analytics_api_key": "very secret"}));
        feature::save(&env, super::FEATURE, |gates| gates.boolean = true).unwrap();
        forge
    }

    fn env(&self) -> Env {
        self.env_over(self.store.clone())
    }

    fn env_over(&self, store: impl Store + 'static) -> Env {
        Env { outbound: Rc::new(self.engine.clone()), ..testing::env(store, &self.variables) }
    }

    fn token(&self, text: &str, user: u64, scopes: &[&str]) {
        issue_to(&self.env(), text, user, scopes);
    }

    fn project(&self, id: u64, path: &str, namespace_id: u64, visibility: Visibility, analytics: Analytics) {
        let project = NewProject { visibility, analytics, ..new_project(id, path, namespace_id) };
        project::save(&self.env(), project).unwrap();
    }

    fn set(&self, settings: Value) {
        setting::save(&self.env(), settings.as_object().unwrap()).unwrap();
    }

    fn ask(&self, token: &str, method: Method, path: &str, body: impl Into<Body>) -> TestResponse {
        ask(self.env(), token, method, path, body)
    }

    /// A query for project 7, by `dev`.
    fn load(&self, body: impl Into<Body>) -> TestResponse {
        self.ask("dev", Method::POST, "7/product_analytics/request/load", body)
    }
}

fn ask(env: Env, token: &str, method: Method, path: &str, body: impl Into<Body>) -> TestResponse {
    let mut request = Request::new(method, &format!("/api/v4/projects/{path}"));
    request.origin = Origin::known("http", "forge.test:8080");
    request.body = body.into();
    request.headers.insert("content-type", HeaderValue::from_static("application/json"));
    if !token.is_empty() {
        request.headers.insert(HeaderName::from_static("private-token"), HeaderValue::from_str(token).unwrap());
    }
    block_on(async {
        let mut response = handle(env, request).await;
        let (mut body, mut broken) = (Vec::new(), None);
        while let Some(chunk) = response.body.next().await {
            match chunk {
                Ok(bytes) => body.extend_from_slice(&bytes),
                Err(why) => broken = Some(why),
            }
        }
        TestResponse { status: response.status.as_u16(), headers: response.headers, body, broken }
    })
}

/// The body of an error: its text for clients of the API, and for the engine's own.
fn refusal(text: &str) -> Value {
    json!({"message": text, "error": text})
}

/// A valid query.
const QUERY: &str = r#"{"query":{"measures":["TrackedEvents.count"]}}"#;

/// The claims of the token in a call.
fn claims(call: &OutboundRequest) -> Value {
    let token = call.headers["authorization"].to_str().unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap()).unwrap()
}
