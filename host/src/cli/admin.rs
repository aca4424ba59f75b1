//! A running host, seen from a command that changes or shows what it serves.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::Agent;

use super::Failure;
use super::server::printable;
use crate::admin::Access;

/// The token of an admin listener that is not found through a data folder, and the one that
/// `hexad up` takes instead of a random one.
pub const TOKEN: &str = "HEXAD_ADMIN_TOKEN";

const CONNECT: Duration = Duration::from_secs(10);

/// The largest answer that is read, in bytes.
const MAX_ANSWER: u64 = 16 << 20;

/// Which host.
#[derive(Args)]
pub struct Host {
    /// The data folder of the running host: its admin listener is found through it.
    #[arg(long, default_value = "data", value_name = "FOLDER")]
    data: PathBuf,

    /// The address of the admin listener, with its token in HEXAD_ADMIN_TOKEN.
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
}

/// What is sent.
pub enum Ask<'a> {
    Get,
    Post,
    /// A component.
    Put {
        body: &'a [u8],
        signature: Option<String>,
    },
}

impl Host {
    fn access(&self) -> Result<Access, Failure> {
        match &self.admin {
            None => Ok(Access::find(&self.data)?),
            Some(url) => {
                let token =
                    std::env::var(TOKEN).map_err(|_| format!("--admin needs the listener's token in {TOKEN}"))?;
                Ok(Access { url: url.trim_end_matches('/').to_owned(), token })
            }
        }
    }

    /// Asks the host; a refusal is a failure with its reason.
    pub fn ask<A: DeserializeOwned>(&self, ask: &Ask<'_>, path: &str) -> Result<A, Failure> {
        let Access { url, token } = self.access()?;
        let agent: Agent = Agent::config_builder()
            .timeout_connect(Some(CONNECT))
            .http_status_as_error(false)
            .max_redirects(0)
            .build()
            .into();
        let (target, bearer) = (format!("{url}{path}"), format!("Bearer {token}"));
        let actor = actor();
        let sent = match ask {
            Ask::Get => agent.get(target).header("authorization", bearer).call(),
            Ask::Post => agent.post(target).header("authorization", bearer).header("x-hexad-actor", actor).send_empty(),
            Ask::Put { body, signature } => {
                let request = agent.put(target).header("authorization", bearer).header("x-hexad-actor", actor);
                let request = match signature {
                    Some(signature) => request.header("x-hexad-signature", signature),
                    None => request,
                };
                // A host that refuses says so before the component is on its way.
                request.header("expect", "100-continue").content_type("application/wasm").send(*body)
            }
        };
        let mut response = sent.map_err(|error| format!("cannot reach the host at {url}: {error}; is it running?"))?;
        let text = response.body_mut().with_config().limit(MAX_ANSWER).read_to_string()?;
        match response.status().is_success() {
            true => Ok(serde_json::from_str(&text)?),
            false => {
                let answer: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
                let reason = answer.get("error").and_then(Value::as_str).unwrap_or("it does not say why");
                Err(printable(reason).into())
            }
        }
    }
}

/// Who runs the command, as far as it knows.
fn actor() -> String {
    let name = ["SUDO_USER", "USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    let name = name.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()));
    name.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').collect()
}
