//! `hexad swap`, `hexad promote`, `hexad rollback`: change which component serves.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;

use super::Failure;
use super::admin::{Ask, Host};
use crate::deploy::Signature;

/// Serve another version of one component, without a pause for anybody.
#[derive(Args)]
pub struct Swap {
    /// The component's id in the manifest.
    component: String,

    /// The new version.
    file: PathBuf,

    /// Its Ed25519 signature, 64 bytes or base64, for a host that asks for one (`hexad up
    /// --trusted-key`) [default: the file's name with `.sig` behind it, if that is there].
    #[arg(long, value_name = "FILE")]
    signature: Option<PathBuf>,

    /// Let only this part of the callers have it, and go back by itself if it does badly.
    #[arg(long, value_name = "PERCENT")]
    percent: Option<f64>,

    /// How long the new version is on trial before all callers get it.
    #[arg(long, value_name = "TIME", requires = "percent", default_value = "60s")]
    window: String,

    /// By how many percent points more of its answers may fail (status 500 and above) than of the
    /// present version's.
    #[arg(long, value_name = "PERCENT", requires = "percent", default_value_t = 5.0)]
    max_errors: f64,

    /// What 95 of 100 of its answers must not take longer than.
    #[arg(long, value_name = "TIME", requires = "percent", default_value = "1s")]
    max_latency: String,

    #[command(flatten)]
    host: Host,
}

/// Let all callers have the canary now.
#[derive(Args)]
pub struct Promote {
    /// The component's id in the manifest.
    component: String,

    #[command(flatten)]
    host: Host,
}

/// End a canary; without one, serve the version before again.
#[derive(Args)]
pub struct Rollback {
    /// The component's id in the manifest.
    component: String,

    #[command(flatten)]
    host: Host,
}

#[derive(Deserialize)]
struct Report {
    component: String,
    digest: String,
    version: Option<String>,
    generation: u64,
    previous: Option<String>,
    canary: bool,
    milliseconds: u64,
}

impl Swap {
    pub fn run(self) -> Result<(), Failure> {
        let wasm =
            std::fs::read(&self.file).map_err(|error| format!("cannot read {}: {error}", self.file.display()))?;
        let mut path = segment(&self.component)?;
        if let Some(percent) = self.percent {
            let (window, errors, latency) = (&self.window, self.max_errors, &self.max_latency);
            path += &format!("?percent={percent}&window={window}&max_errors={errors}&max_latency={latency}");
        }
        let signature = match &self.signature {
            Some(path) => Some(Signature::read(path)?.ok_or_else(|| format!("there is no file {}", path.display()))?),
            None => Signature::read(&Signature::beside(&self.file))?,
        };
        let ask = Ask::Put { body: &wasm, signature: signature.map(|signature| signature.to_string()) };
        let report: Report = self.host.ask(&ask, &path)?;
        report.print(if report.canary { "on trial" } else { "serving" })
    }
}

impl Promote {
    pub fn run(self) -> Result<(), Failure> {
        let path = segment(&self.component)? + "/promote";
        self.host.ask::<Report>(&Ask::Post, &path)?.print("serving")
    }
}

impl Rollback {
    pub fn run(self) -> Result<(), Failure> {
        let path = segment(&self.component)? + "/rollback";
        self.host.ask::<Report>(&Ask::Post, &path)?.print("serving")
    }
}

impl Report {
    fn print(&self, what: &str) -> Result<(), Failure> {
        let Self { component, digest, generation, milliseconds, .. } = self;
        let version = self.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
        let mut out = std::io::stdout();
        writeln!(out, "{component}{version} is {what}: generation {generation}, sha256 {digest} ({milliseconds} ms)")?;
        if let Some(previous) = &self.previous {
            let short = previous.get(..12).unwrap_or(previous);
            writeln!(out, "`hexad rollback {component}` goes back to {short}")?;
        }
        Ok(())
    }
}

/// An id as it stands in the manifest is a path segment as it is.
fn segment(component: &str) -> Result<String, Failure> {
    match component.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        true => Ok(format!("/components/{component}")),
        false => Err(format!("`{}` is not the id of a component", component.escape_debug()).into()),
    }
}
