//! The behaviour of each area in the shipped program, with the built components and the project's own manifest.

mod admin;
mod authorization;
mod by_value;
mod console;
mod experiments;
mod issue_statistics;
mod limits;
mod namespaces;
mod package_registry;
mod product_analytics;
mod shared_caches;
mod suggestions;
mod swap;

use hexad_tests::forge;
use hexad_tests::forge::{ADMIN, DEVELOPER, GUEST, OUTSIDER, PRIVATE, PUBLIC};
pub use hexad_tests::http::Answer;
use hexad_tests::http::{self, agent};
use hexad_tests::operator::Operator;
use hexad_tests::server::{BOOTSTRAP_TOKEN, Server, up};
use serde_json::{Value, json};
use std::path::Path;
use ureq::http::Request;

/// The project's own manifest over a store of its own.
pub struct Forge {
    server: Server,
    agent: ureq::Agent,
    _data: tempfile::TempDir,
}

impl Forge {
    /// An empty store. Only the bootstrap token is valid.
    pub fn empty() -> Self {
        Forge::empty_with(&[])
    }

    /// The same with values for the manifest's variables.
    pub fn empty_with(variables: &[(&str, &str)]) -> Self {
        Forge::empty_of(Path::new("spin.toml"), variables)
    }

    /// The same with another manifest.
    pub fn empty_of(manifest: &Path, variables: &[(&str, &str)]) -> Self {
        let data = tempfile::tempdir().expect("a temporary folder");
        let mut command = up(manifest, data.path());
        // The server does no work of its own that a test could count as a component's. It flushes only writes that a
        // request waits for, however slow the machine is.
        command.args(["--threads", "1", "--external-url", "https://forge.test", "--maintenance-every", "0"]);
        command.args(["--commit-interval", "60s"]);
        for (name, value) in [("bootstrap_admin_token", BOOTSTRAP_TOKEN)].iter().chain(variables) {
            command.env(format!("SPIN_VARIABLE_{}", name.to_uppercase()), value);
        }
        let server = Server::spawn(command, data.path());
        Forge { server, agent: agent(), _data: data }
    }

    /// The users and projects of [`forge`].
    pub fn seeded() -> Self {
        Forge::seeded_with(&[])
    }

    pub fn seeded_with(variables: &[(&str, &str)]) -> Self {
        Forge::empty_with(variables).seed()
    }

    pub fn seed(self) -> Self {
        self.import(forge::RECORDS);
        self
    }

    /// Imports records of the directory, and checks that all are accepted. Returns the answer, which comes after the
    /// last record.
    pub fn import(&self, records: impl Into<Vec<u8>>) -> Answer {
        let answer = self.send("POST", "/api/v4/import/directory", BOOTSTRAP_TOKEN, records);
        assert_eq!((answer.status, &answer.json()["failed"]), (200, &0.into()), "{}", answer.text());
        answer
    }

    /// Imports merge request 1 of a project, from its branch `topic`.
    pub fn import_merge_request(&self, project: u64) {
        let record = json!({"kind": "merge_request", "id": project, "iid": 1, "project_id": project,
            "source_branch": "topic", "target_branch": "main", "state": "opened"});
        let imported = self.send("POST", "/api/v4/import/suggestions", ADMIN, record.to_string());
        assert_eq!(imported.json()["imported"], json!({"merge_request": 1}), "{}", imported.text());
    }

    /// Sends a request with a token (none if it is empty) and a body (none if it is empty).
    pub fn send(&self, method: &str, path: &str, token: &str, body: impl Into<Vec<u8>>) -> Answer {
        self.send_with(method, path, token, &[], body)
    }

    /// The same with more headers.
    pub fn send_with(
        &self,
        method: &str,
        path: &str,
        token: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Answer {
        let url = format!("{}{path}", self.server.url);
        let mut request = Request::builder().method(method).uri(&url).header("host", "forge.test");
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = body.into();
        let answer = match body.is_empty() {
            true => http::send(&self.agent, request.body(()).expect("a valid request")),
            false => http::send(&self.agent, request.body(body).expect("a valid request")),
        };
        answer.unwrap_or_else(|why| panic!("{method} {url}: {why}"))
    }

    /// The same with a body of JSON.
    pub fn send_json(&self, method: &str, path: &str, token: &str, body: impl Into<Vec<u8>>) -> Answer {
        self.send_with(method, path, token, &[("content-type", "application/json")], body)
    }

    pub fn get(&self, path: &str, token: &str) -> Answer {
        self.send("GET", path, token, "")
    }

    pub fn operator(&self) -> Operator {
        Operator::of(&self.server)
    }

    /// How many of a component's upstream requests shared the response to an identical request.
    pub fn coalesced(&self, component: &str) -> u64 {
        self.operator().metric(&format!("hexad_outbound_requests_coalesced_total{{component=\"{component}\"}}"))
    }

    /// How many transactions were flushed to disk.
    pub fn commits(&self) -> u64 {
        self.operator().metric("hexad_store_commits_total")
    }
}
