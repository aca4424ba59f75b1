//! Tasks of areas on their stored data, in bounded steps, for `hexad gc` and `hexad fsck`.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use hexad::cli::{SecretArgs, code_folder, parse_server_url};
use hexad::manifest::{self, Manifest};
use hexad::store::sqlite;
use hexad::{Host, HostOptions, Runtime};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::server::{NotServed, Server, TimeoutArgs};
use crate::{progress, token};

/// The areas with maintenance routes. An area without the task answers 404.
const AREAS: [&str; 7] =
    ["admin", "issue-statistics", "package-registry", "suggestions", "namespaces", "product-analytics", "experiments"];

/// The store of a command: the store of a running server, or a folder that no server uses.
#[derive(Args)]
pub struct StoreArgs {
    /// The server's address.
    #[arg(long, env = "HEXAD_URL", default_value = "http://127.0.0.1:8080", value_name = "URL", value_parser = parse_server_url)]
    url: String,

    /// An administrator's token; safer in the environment, where other users do not see it.
    #[arg(long, env = "HEXAD_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    token: Option<String>,

    #[command(flatten)]
    timeout: TimeoutArgs,

    /// The data folder of a stopped server, instead of a running server.
    #[arg(long, value_name = "FOLDER")]
    pub data: Option<PathBuf>,

    /// With --data: the application's manifest.
    #[arg(long, default_value = manifest::FILE_NAME, value_name = "FILE")]
    manifest: PathBuf,

    #[command(flatten)]
    secrets: SecretArgs,
}

/// An open store. For a folder, a server runs inside this process.
pub struct OpenStore {
    pub server: Server,
    _host: Option<Host>,
}

impl StoreArgs {
    pub fn open(&self) -> Result<OpenStore> {
        let Some(data) = &self.data else {
            let token = self.token.as_deref().filter(|token| !token.is_empty());
            let token = token
                .context("no token; give an administrator's with --token or HEXAD_TOKEN, or a folder with --data")?;
            return Ok(OpenStore { server: Server::new(&self.url, token).with_timeout(self.timeout), _host: None });
        };
        // In a folder without a store, a host would create an empty one.
        if !data.join(sqlite::FILE_NAME).is_file() {
            return Err(sqlite::SqliteOpenError::NoStore { directory: data.clone() }.into());
        }
        let bootstrap_token = token::random()?;
        let secrets = self.secrets.read()?.with(token::BOOTSTRAP_TOKEN, bootstrap_token.clone());
        let manifest = Manifest::load(&self.manifest, &|name: &str| secrets.get(name), None)?;
        let runtime = Runtime::new(Some(code_folder(data)))?;
        let options = HostOptions { is_temporary: true, ..HostOptions::new(data.clone()) };
        let mut host = Host::start(&runtime, manifest, &options)?;
        let address = host.listen(([127, 0, 0, 1], 0).into()).context("cannot listen on the loopback interface")?;
        let server = Server::new(&format!("http://{address}"), &bootstrap_token).with_timeout(self.timeout);
        Ok(OpenStore { server, _host: Some(host) })
    }
}

/// The answer of an area to one step. Each task uses some of the counts. The field `cursor` may be null. A document
/// without it is not from an area.
#[derive(Debug, Default, Deserialize)]
pub struct Step {
    #[serde(deserialize_with = "Option::deserialize")]
    cursor: Option<String>,
    #[serde(default)]
    wait_seconds: u64,
    #[serde(default)]
    pub roots: u64,
    #[serde(default)]
    pub keys: u64,
    #[serde(default)]
    pub removed: u64,
    #[serde(default)]
    pub removed_bytes: u64,
    #[serde(default)]
    pub bytes: u64,
    #[serde(default)]
    pub failed: u64,
    #[serde(default)]
    pub problems: Vec<Problem>,
    #[serde(default)]
    pub remarked: u64,
    #[serde(default)]
    pub remarks: Vec<Problem>,
}

#[derive(Debug, Deserialize)]
pub struct Problem {
    pub key: String,
    pub problem: String,
}

/// Runs `task` in every area, step by step. Returns the sums of each area that has the task. Each step sends `request`,
/// and `on_step` gets its answer. While an area waits, others continue.
pub fn run(
    server: &Server,
    task: &str,
    request: &Value,
    mut on_step: impl FnMut(&str, &Step) -> io::Result<()>,
) -> Result<Vec<(&'static str, Step)>> {
    let bar = progress::spinner();
    let mut sums = Vec::new();
    let mut queue: VecDeque<AreaRun> = AREAS.into_iter().map(|area| AreaRun::new(area, request)).collect();
    while let Some(mut run) = queue.pop_front() {
        while let Some(left) = run.due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            bar.set_message(format!("{}: {} s until requests under way are over", run.area, left.as_secs() + 1));
            bar.tick();
            std::thread::sleep(left.min(Duration::from_secs(1)));
        }
        bar.set_message(format!("{}: {} roots, {} keys", run.area, run.sum.roots, run.sum.keys));
        bar.tick();
        let step: Step = match server.post_json(&format!("maintenance/{}/{task}", run.area), &run.request) {
            Ok(step) => step,
            Err(error) if error.is::<NotServed>() => continue,
            Err(error) => return Err(error.context(run.area)),
        };
        bar.suspend(|| on_step(run.area, &step))?;
        run.sum.add(&step);
        match step.cursor {
            None => sums.push((run.area, run.sum)),
            // Waiting areas are at the end of the queue, so the queue stays ordered by `due`.
            Some(cursor) if step.wait_seconds > 0 => {
                run.schedule(&cursor, step.wait_seconds);
                queue.push_back(run);
            }
            Some(cursor) => {
                run.schedule(&cursor, 0);
                queue.push_front(run);
            }
        }
    }
    bar.finish_and_clear();
    if sums.is_empty() {
        bail!("no area of this server has such a task; is its manifest complete?");
    }
    Ok(sums)
}

/// The run of a task in one area, between two steps.
struct AreaRun {
    area: &'static str,
    /// The body of the next step.
    request: Value,
    /// When the next step is sent.
    due: Instant,
    sum: Step,
}

impl AreaRun {
    fn new(area: &'static str, request: &Value) -> Self {
        AreaRun { area, request: request.clone(), due: Instant::now(), sum: Step::default() }
    }

    fn schedule(&mut self, cursor: &str, wait_seconds: u64) {
        if let Some(fields) = self.request.as_object_mut() {
            fields.insert("cursor".to_owned(), json!(cursor));
        }
        self.due = Instant::now() + Duration::from_secs(wait_seconds);
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
            (&mut self.remarked, step.remarked),
        ];
        for (sum, part) in sums {
            *sum += part;
        }
    }
}
