//! A plain registry client: publish documents in, status and bytes out.

use crate::package;
use crate::server::Server;
use std::io::Read as _;

/// One project's registry on a server, with a token.
#[derive(Clone)]
pub struct Registry {
    base: String,
    token: String,
    agent: ureq::Agent,
}

/// A status and a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|why| panic!("{why}: {:?}", String::from_utf8_lossy(&self.body)))
    }
}

impl Registry {
    pub fn new(server: &Server, project: u64, token: &str) -> Self {
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        Registry {
            base: format!("{}/api/v4/projects/{project}/packages/npm", server.url),
            token: format!("Bearer {token}"),
            agent,
        }
    }

    /// Publishes a package; the answer, or an error if the server went away.
    pub fn publish(&self, name: &str, version: &str, tarball: &[u8]) -> Result<Answer, ureq::Error> {
        let document = package::document(name, version, "latest", tarball);
        let response = self
            .agent
            .put(format!("{}/{}", self.base, name.replace('/', "%2f")))
            .header("authorization", &self.token)
            .content_type("application/json")
            .send(&document);
        answer(response?)
    }

    /// Gets a path below the registry, for example `/name`.
    pub fn get(&self, path: &str) -> Result<Answer, ureq::Error> {
        answer(self.agent.get(format!("{}{path}", self.base)).header("authorization", &self.token).call()?)
    }

    /// Gets an absolute address, such as a tarball's.
    pub fn fetch(&self, url: &str) -> Result<Answer, ureq::Error> {
        answer(self.agent.get(url).header("authorization", &self.token).call()?)
    }
}

fn answer(response: ureq::http::Response<ureq::Body>) -> Result<Answer, ureq::Error> {
    let status = response.status().as_u16();
    let mut body = Vec::new();
    response.into_body().into_reader().read_to_end(&mut body)?;
    Ok(Answer { status, body })
}
