//! `hexad swap`, `hexad promote`, `hexad rollback`: deployments of components.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use hexad_deploy::Signature;
use hexad_support::bounded_file::read_component;
use serde::Deserialize;

use super::admin::{AdminRequest, HostArgs};

/// Serve another version of one component; no request fails or waits because of it.
#[derive(Args)]
pub struct Swap {
    /// The component's id in the manifest.
    component: String,

    /// The new version.
    file: PathBuf,

    /// The file's Ed25519 signature, 64 bytes or base64, for a host that requires one (`hexad up --trusted-key`)
    /// [default: the file's name with `.sig` behind it, if it exists].
    #[arg(long, value_name = "FILE")]
    signature: Option<PathBuf>,

    /// Run a canary: only this part of the callers gets the new version. The host rolls it back if it fails.
    #[arg(long, value_name = "PERCENT")]
    percent: Option<f64>,

    /// How long the new version is on trial before all callers get it. The trial goes on until the new version has
    /// answered ten requests.
    #[arg(long, value_name = "TIME", requires = "percent", default_value = "60s")]
    window: String,

    /// By how many percentage points the canary's share of failed answers (status 500 and above, or a body that breaks)
    /// may exceed the active version's.
    #[arg(long, value_name = "PERCENT", requires = "percent", default_value_t = 5.0)]
    max_errors: f64,

    /// The maximum latency of 95 % of the canary's answers.
    #[arg(long, value_name = "TIME", requires = "percent", default_value = "1s")]
    max_latency: String,

    /// Do not ask this host of the store whether it can serve the new version. The host is not ready until it can. Use
    /// the name from `hexad status`; can be repeated.
    #[arg(long, value_name = "HOST")]
    exclude_host: Vec<String>,

    /// The former name.
    #[arg(long, hide = true, conflicts_with = "exclude_host")]
    without: Vec<String>,

    #[command(flatten)]
    host: HostArgs,
}

/// Give the canary to all callers now.
#[derive(Args)]
pub struct Promote {
    /// The component's id in the manifest.
    component: String,

    #[command(flatten)]
    host: HostArgs,
}

/// End a canary. Without a canary, serve the previous version again.
#[derive(Args)]
pub struct Rollback {
    /// The component's id in the manifest.
    component: String,

    #[command(flatten)]
    host: HostArgs,
}

#[derive(Deserialize)]
struct SwapReport {
    component: String,
    digest: String,
    version: Option<String>,
    #[serde(rename = "generation")]
    revision: u64,
    previous: Option<String>,
    canary: bool,
    milliseconds: u64,
}

impl Swap {
    pub fn run(self) -> Result<()> {
        let wasm = read_component(&self.file).with_context(|| format!("cannot read {}", self.file.display()))?;
        let mut parameters = url::form_urlencoded::Serializer::new(String::new());
        if let Some(percent) = self.percent {
            let (window, errors, latency) = (&self.window, self.max_errors, &self.max_latency);
            parameters.append_pair("percent", &percent.to_string()).append_pair("window", window);
            parameters.append_pair("max_errors", &errors.to_string()).append_pair("max_latency", latency);
        }
        parameters.extend_pairs(self.exclude_host.iter().chain(&self.without).map(|host| ("without", host)));
        let (path, parameters) = (component_path(&self.component)?, parameters.finish());
        let path = if parameters.is_empty() { path } else { format!("{path}?{parameters}") };
        let signature = match &self.signature {
            Some(path) => Some(Signature::read(path)?.with_context(|| format!("there is no file {}", path.display()))?),
            None => Signature::read(&Signature::beside(&self.file))?,
        };
        let signature = signature.map(|signature| signature.to_string());
        let report: SwapReport = self.host.send(&AdminRequest::Swap { component: &wasm, signature }, &path)?;
        report.print(if report.canary { "on trial" } else { "serving" })
    }
}

impl Promote {
    pub fn run(self) -> Result<()> {
        let path = component_path(&self.component)? + "/promote";
        self.host.send::<SwapReport>(&AdminRequest::Deploy, &path)?.print("serving")
    }
}

impl Rollback {
    pub fn run(self) -> Result<()> {
        let path = component_path(&self.component)? + "/rollback";
        self.host.send::<SwapReport>(&AdminRequest::Deploy, &path)?.print("serving")
    }
}

impl SwapReport {
    fn print(&self, state: &str) -> Result<()> {
        let Self { component, digest, revision, milliseconds, .. } = self;
        let version = self.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
        let mut text =
            format!("{component}{version} is {state}: revision {revision}, sha256 {digest} ({milliseconds} ms)\n");
        if let Some(previous) = &self.previous {
            let short = previous.get(..12).unwrap_or(previous);
            text += &format!("`hexad rollback {component}` goes back to {short}\n");
        }
        std::io::stdout()
            .write_all(text.as_bytes())
            .with_context(|| format!("{component} is {state}, but the report of it cannot be written"))
    }
}

/// The path of a component on the admin listener. The characters of ids need no escaping.
fn component_path(component: &str) -> Result<String> {
    match component.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        true => Ok(format!("/components/{component}")),
        false => bail!("`{}` is not the id of a component", component.escape_debug()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        swap: Swap,
    }

    #[test]
    fn hosts_are_excluded_by_one_name_of_the_flag() {
        let of = |flags: &[&str]| Program::try_parse_from(["hexad", "hello", "a.wasm"].iter().chain(flags));
        assert_eq!(of(&["--without", "a", "--without", "b"]).unwrap().swap.without, ["a", "b"]);
        assert_eq!(of(&["--exclude-host", "a"]).unwrap().swap.exclude_host, ["a"]);
        assert!(of(&["--without", "a", "--exclude-host", "b"]).is_err());
    }
}
