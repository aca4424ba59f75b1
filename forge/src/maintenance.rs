//! Tasks that areas do for the store in bounded steps: what `hexad gc` and `hexad fsck` share.

use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::{Duration, Instant};

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
/// with each step; `seen` is shown what each found. While an area waits, the others go on.
pub fn run(
    server: &Server,
    task: &str,
    wanted: &Value,
    mut seen: impl FnMut(&str, &Step) -> io::Result<()>,
) -> Result<Vec<(&'static str, Step)>, Failure> {
    let bar = if io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    let mut sums = Vec::new();
    let mut turns: VecDeque<Turn> = AREAS.into_iter().map(|area| Turn::new(area, wanted)).collect();
    while let Some(mut turn) = turns.pop_front() {
        while let Some(left) = turn.due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            bar.set_message(format!("{}: {} s until requests under way are over", turn.area, left.as_secs() + 1));
            bar.tick();
            std::thread::sleep(left.min(Duration::from_secs(1)));
        }
        let step = match turn.step(server, task) {
            Ok(step) => step,
            Err(ServerError::NotServed { .. }) => continue,
            Err(error) => return Err(format!("{}: {error}", turn.area).into()),
        };
        bar.suspend(|| seen(turn.area, &step))?;
        turn.sum.add(&step);
        bar.set_message(format!("{}: {} roots, {} keys", turn.area, turn.sum.roots, turn.sum.keys));
        bar.tick();
        match step.cursor {
            None => sums.push((turn.area, turn.sum)),
            // Whoever waits comes after those who do not, which leaves the turns in order of when
            // they are due.
            Some(cursor) if step.wait_seconds > 0 => {
                turn.go_on(&cursor, step.wait_seconds);
                turns.push_back(turn);
            }
            Some(cursor) => {
                turn.go_on(&cursor, 0);
                turns.push_front(turn);
            }
        }
    }
    bar.finish_and_clear();
    match sums.is_empty() {
        true => Err("no area of this server has such a task; is its manifest complete?".into()),
        false => Ok(sums),
    }
}

/// An area that is at work.
struct Turn {
    area: &'static str,
    /// What the next step is asked with, and when.
    body: Value,
    due: Instant,
    sum: Step,
}

impl Turn {
    fn new(area: &'static str, wanted: &Value) -> Self {
        Turn { area, body: wanted.clone(), due: Instant::now(), sum: Step::default() }
    }

    fn step(&self, server: &Server, task: &str) -> Result<Step, ServerError> {
        let text = self.body.to_string();
        let path = format!("maintenance/{}/{task}", self.area);
        server.post(&path, "application/json", SendBody::from_reader(&mut text.as_bytes()))
    }

    fn go_on(&mut self, cursor: &str, wait_seconds: u64) {
        if let Some(fields) = self.body.as_object_mut() {
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
        ];
        for (sum, part) in sums {
            *sum += part;
        }
    }
}
