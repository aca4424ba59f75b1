//! A plain client of the package registry.

use crate::http::{self, Answer};
use crate::package;
use crate::server::Server;

/// One project's registry on a server, with a token.
#[derive(Clone)]
pub struct Registry {
    base: String,
    token: String,
    agent: ureq::Agent,
}

impl Registry {
    pub fn new(server: &Server, project: u64, token: &str) -> Self {
        Registry {
            base: format!("{}/api/v4/projects/{project}/packages/npm", server.url),
            token: format!("Bearer {token}"),
            agent: http::agent(),
        }
    }

    /// Publishes a package; the answer, or an error if the connection broke.
    pub fn publish(&self, name: &str, version: &str, tarball: &[u8]) -> Result<Answer, ureq::Error> {
        let document = package::document(name, version, "latest", tarball);
        let response = self
            .agent
            .put(format!("{}/{}", self.base, name.replace('/', "%2f")))
            .header("authorization", &self.token)
            .content_type("application/json")
            .send(&document);
        http::read(response?)
    }

    /// Gets a path below the registry, for example `/name`.
    pub fn get(&self, path: &str) -> Result<Answer, ureq::Error> {
        http::read(self.agent.get(format!("{}{path}", self.base)).header("authorization", &self.token).call()?)
    }

    /// Gets an absolute address, such as a tarball's.
    pub fn fetch(&self, url: &str) -> Result<Answer, ureq::Error> {
        http::read(self.agent.get(url).header("authorization", &self.token).call()?)
    }
}
