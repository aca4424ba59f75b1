//! Does the shipped artifact do it, with the manifest's own grants? The built `.wasm` in the host
//! as a library: a request goes in, a response comes out, without a socket.

mod admin;
mod experiments;
mod issue_statistics;
mod namespaces;
mod package_registry;
mod product_analytics;
mod suggestions;
mod swap;

use bytes::Bytes;
use hexad::{Host, Manifest, Options, Runtime};
use hexad_tests::forge;
use hexad_tests::server::{BOOTSTRAP_TOKEN, root};
use http_body_util::{BodyExt as _, Full};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

/// One engine for all tests, and the code compiled once.
static RUNTIME: LazyLock<Arc<Runtime>> =
    LazyLock::new(|| Runtime::new(Some(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("code"))).expect("an engine"));

/// The project's own manifest over a store of its own.
pub struct Forge {
    host: Host,
    executor: tokio::runtime::Runtime,
    _data: tempfile::TempDir,
}

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|why| panic!("{why}: {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header's text; empty if it is not there.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

impl Forge {
    /// An empty store; only the bootstrap token is known.
    pub fn empty() -> Self {
        Forge::empty_with(&[])
    }

    /// The same with values for the manifest's variables.
    pub fn empty_with(variables: &[(&str, &str)]) -> Self {
        let data = tempfile::tempdir().expect("a temporary folder");
        let environment = |name: &str| {
            let name = name.strip_prefix("SPIN_VARIABLE_")?.to_lowercase();
            let given = [("bootstrap_admin_token", BOOTSTRAP_TOKEN)];
            given.iter().chain(variables).find(|(given, _)| *given == name).map(|(_, value)| (*value).to_owned())
        };
        let manifest = Manifest::load(&root().join("spin.toml"), &environment, Some("https://forge.test"));
        let mut options = Options::new(data.path());
        options.threads = NonZeroUsize::MIN;
        let host = Host::start(&RUNTIME, manifest.expect("spin.toml is good"), &options).expect("the host starts");
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an executor");
        Forge { host, executor, _data: data }
    }

    /// The people and projects of [`forge`].
    pub fn seeded() -> Self {
        Forge::seeded_with(&[])
    }

    pub fn seeded_with(variables: &[(&str, &str)]) -> Self {
        let forge = Forge::empty_with(variables);
        let answer = forge.send("POST", "/api/v4/import/directory", BOOTSTRAP_TOKEN, forge::RECORDS);
        assert_eq!((answer.status, &answer.json()["failed"]), (200, &0.into()), "{}", answer.text());
        forge
    }

    /// Sends a request with a token (none if it is empty) and a body (none if it is empty).
    pub fn send(&self, method: &str, path: &str, token: &str, body: impl Into<Bytes>) -> Answer {
        self.send_with(method, path, token, &[], body)
    }

    /// The same with more headers.
    pub fn send_with(
        &self,
        method: &str,
        path: &str,
        token: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let body = body.into();
        let mut request = http::Request::builder().method(method).uri(format!("http://forge.test{path}"));
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if !body.is_empty() {
            request = request.header("content-length", body.len());
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body)).expect("a valid request");
        self.executor.block_on(async {
            let (head, body) = self.host.handle(request).await.into_parts();
            let body = body.collect().await.expect("a whole body").to_bytes().to_vec();
            Answer { status: head.status.as_u16(), headers: head.headers, body }
        })
    }

    pub fn get(&self, path: &str, token: &str) -> Answer {
        self.send("GET", path, token, "")
    }

    /// How many of a component's requests to others waited for another that was the same.
    pub fn shared(&self, component: &str) -> u64 {
        let slot = self.host.slots().iter().find(|slot| slot.component().id == component).expect("the component");
        slot.outbound().map_or(0, |outbound| outbound.shared())
    }

    /// How many flushes to disk there have been.
    pub fn commits(&self) -> u64 {
        self.host.commits()
    }
}
