//! Tasks that areas do for the store in bounded steps: what `hexad gc` and `hexad fsck` share.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use serde::Deserialize;
use serde_json::{Value, json};
use ureq::SendBody;

use super::server::{Server, ServerError};
use super::{Failure, demo};
use crate::host::{Host, Options};
use crate::manifest::{self, Manifest};
use crate::runtime::Runtime;

/// Everybody who may have something to do; who has not answers 404.
const AREAS: [&str; 7] =
    ["admin", "issue-statistics", "package-registry", "suggestions", "namespaces", "product-analytics", "experiments"];

/// Whose store is meant: that of a running server, or that of a folder which no server uses.
#[derive(Args)]
pub struct Place {
    /// The server's address.
    #[arg(long, env = "HEXAD_URL", default_value = "http://127.0.0.1:8080", value_name = "URL")]
    url: String,

    /// An administrator's token; safer in the environment, where other users do not see it.
    #[arg(long, env = "HEXAD_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    token: Option<String>,

    /// The data folder of a server that does not run, in place of a running one.
    #[arg(long, value_name = "FOLDER")]
    pub data: Option<PathBuf>,

    /// With --data: the application's manifest.
    #[arg(long, default_value = manifest::FILE_NAME, value_name = "FILE")]
    manifest: PathBuf,
}

/// The server of a [`Place`], which for a folder runs inside this process.
pub struct Open {
    pub server: Server,
    _host: Option<Host>,
}

impl Place {
    pub fn open(&self) -> Result<Open, Failure> {
        let Some(data) = &self.data else {
            let token = self.token.as_deref().filter(|token| !token.is_empty());
            let token = token
                .ok_or("no token; give an administrator's with --token or HEXAD_TOKEN, or a folder with --data")?;
            return Ok(Open { server: Server::at(&self.url, token), _host: None });
        };
        // A token that nobody else gets to know.
        let token = demo::token()?;
        let environment =
            |name: &str| if name == demo::ADMIN_TOKEN { Some(token.clone()) } else { std::env::var(name).ok() };
        let manifest = Manifest::load(&self.manifest, &environment, None)?;
        let runtime = Runtime::new(Some(data.join(super::up::CODE)))?;
        let mut host = Host::start(&runtime, manifest, &Options::new(data.clone()))?;
        let address = host.listen(([127, 0, 0, 1], 0).into())?;
        Ok(Open { server: Server::at(&format!("http://{address}"), &token), _host: Some(host) })
    }
}

/// What an area answers to a step. Each has the numbers that it counts.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Step {
    cursor: Option<String>,
    wait_seconds: u64,
    pub roots: u64,
    pub keys: u64,
    pub removed: u64,
    pub removed_bytes: u64,
    pub bytes: u64,
    pub failed: u64,
    pub problems: Vec<Problem>,
}

#[derive(Debug, Deserialize)]
pub struct Problem {
    pub key: String,
    pub problem: String,
}

/// Has every area do `task`, step by step, and gives the sums for each that has it. `wanted` goes
/// with each step; `seen` is shown what each found.
pub fn run(
    server: &Server,
    task: &str,
    wanted: &Value,
    mut seen: impl FnMut(&str, &Step) -> io::Result<()>,
) -> Result<Vec<(&'static str, Step)>, Failure> {
    let mut sums = Vec::new();
    for area in AREAS {
        match run_area(server, area, task, wanted, &mut seen) {
            Ok(sum) => sums.push((area, sum)),
            Err(Stopped::Server(ServerError::NotServed { .. })) => {}
            Err(Stopped::Server(error)) => return Err(format!("{area}: {error}").into()),
            Err(Stopped::Output(error)) => return Err(error.into()),
        }
    }
    match sums.is_empty() {
        true => Err("no area of this server has such a task; is its manifest complete?".into()),
        false => Ok(sums),
    }
}

enum Stopped {
    Server(ServerError),
    Output(io::Error),
}

fn run_area(
    server: &Server,
    area: &str,
    task: &str,
    wanted: &Value,
    seen: &mut impl FnMut(&str, &Step) -> io::Result<()>,
) -> Result<Step, Stopped> {
    let bar = if io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    let mut body = wanted.clone();
    let mut sum = Step::default();
    loop {
        let text = body.to_string();
        let path = format!("maintenance/{area}/{task}");
        let sent = server.post(&path, "application/json", SendBody::from_reader(&mut text.as_bytes()));
        let step: Step = sent.map_err(Stopped::Server)?;
        bar.suspend(|| seen(area, &step)).map_err(Stopped::Output)?;
        sum.add(&step);
        let Some(cursor) = step.cursor else {
            bar.finish_and_clear();
            return Ok(sum);
        };
        if let Some(fields) = body.as_object_mut() {
            fields.insert("cursor".to_owned(), json!(cursor));
        }
        for left in (1..=step.wait_seconds).rev() {
            bar.set_message(format!("{area}: {left} s until requests under way are over"));
            bar.tick();
            std::thread::sleep(Duration::from_secs(1));
        }
        bar.set_message(format!("{area}: {} roots, {} keys", sum.roots, sum.keys));
        bar.tick();
    }
}

impl Step {
    fn add(&mut self, step: &Step) {
        let sums = [
            (&mut self.roots, step.roots),
            (&mut self.keys, step.keys),
            (&mut self.removed, step.removed),
            (&mut self.removed_bytes, step.removed_bytes),
            (&mut self.bytes, step.bytes),
            (&mut self.failed, step.failed),
        ];
        for (sum, part) in sums {
            *sum += part;
        }
    }
}
