//! Which generation may take a slot: the one way in which what is served changes.
//!
//! A swap is compiled and checked off the request path, one at a time and at low priority, by
//! the same gate as at the start: what it imports, what it exports, which area it is, which
//! stored formats it reads, its own check. Then its bytes, a line in the audit log and the record
//! of what serves are on disk, in this order, and then one pointer changes. Whatever refuses it
//! changes nothing.
//!
//! In the data folder:
//!
//! | file | what |
//! |---|---|
//! | `components/<digest>.wasm` | the components that serve, or served before, by a swap |
//! | `components/active.json` | which those are: see [`record`] |
//! | `audit.ndjson` | every attempt: see [`audit`] |

mod artifacts;
mod audit;
mod background;
mod keeper;
mod record;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Serialize;

use crate::application::Application;
use crate::component::{AreaError, Artifact, Generation, LoadError, Slot, Terms};
use crate::manifest::Component;
use crate::runtime::{Digest, Runtime};
use artifacts::Artifacts;
use audit::{Action, Audit, Line, Outcome};
use record::{Choice, Entry, Records};

pub use keeper::Keeper;

/// The name under which the host itself acts.
const HOST: &str = "hexad";

/// Something that whoever keeps the records hears of.
#[derive(Debug)]
pub enum Event {
    /// A canary did worse than its terms and was taken out.
    CanaryFailed {
        component: String,
        digest: Digest,
        reason: String,
    },
    /// A trial began; somebody must look after its end.
    CanaryBegan,
    Stop,
}

/// A component that is to serve.
#[derive(Clone, Debug)]
pub struct Order {
    /// The slot.
    pub component: String,
    pub wasm: Bytes,
    /// Who asks for it, for the audit log.
    pub by: String,
    /// For some callers first.
    pub canary: Option<Terms>,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    pub component: String,
    /// What the action was about.
    pub digest: Digest,
    pub version: Option<String>,
    pub generation: u64,
    /// What a rollback leads to.
    pub previous: Option<Digest>,
    /// Whether it is on trial.
    pub canary: bool,
    pub milliseconds: u64,
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("there is no component `{0}` in the manifest")]
    Unknown(String),
    #[error("component `{0}` has a canary; promote it or roll it back first")]
    CanaryUnderWay(String),
    #[error("component `{0}` has no canary")]
    NoCanary(String),
    #[error("component `{0}` has nothing to go back to")]
    NoPrevious(String),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("the host is stopping")]
    Stopping,
    #[error("cannot keep {what}: {source}")]
    Io { what: &'static str, source: io::Error },
}

/// Why the records of a data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("cannot use {path}: {source}; restore it, or remove it to serve what the manifest names")]
    Record { path: PathBuf, source: io::Error },
    #[error(
        "component `{component}`: {path}, which was swapped in, cannot be used: {source}; restore it, or remove \
         `active.json` beside it to serve what the manifest names"
    )]
    Artifact { component: String, path: PathBuf, source: io::Error },
}

/// The files of a data folder.
pub struct Deployments {
    artifacts: Artifacts,
    records: Records,
    audit: Audit,
}

/// What a slot starts with.
pub struct Chosen {
    pub wasm: Vec<u8>,
    pub origin: PathBuf,
}

impl Deployments {
    pub fn open(data: &Path) -> Result<Self, RecordError> {
        let folder = data.join("components");
        let at = |path: PathBuf| move |source| RecordError::Record { path, source };
        let artifacts = Artifacts::open(folder.clone()).map_err(at(folder.clone()))?;
        let path = folder.join("active.json");
        let records = Records::open(path.clone()).map_err(at(path))?;
        let path = data.join("audit.ndjson");
        let audit = Audit::open(&path).map_err(at(path))?;
        Ok(Self { artifacts, records, audit })
    }

    /// What a component starts with: what was swapped in, unless the manifest's source was
    /// changed since. `None` if that source is wanted and cannot be read, for the given reason.
    pub fn choose(&mut self, component: &Component) -> Result<Result<Chosen, io::Error>, RecordError> {
        let source = std::fs::read(&component.source);
        let digest = source.as_deref().ok().map(Digest::of);
        let superseded = match self.records.choose(&component.id, digest) {
            Choice::Source => None,
            Choice::Superseded(entry) => Some(entry),
            Choice::Recorded(entry) => {
                let path = self.artifacts.path(&entry.digest);
                let wasm = self.artifacts.read(&entry.digest).map_err(|source| RecordError::Artifact {
                    component: component.id.clone(),
                    path: path.clone(),
                    source,
                })?;
                return Ok(Ok(Chosen { wasm, origin: path }));
            }
        };
        if let (Some(entry), Ok(wasm), Some(digest)) = (superseded, &source, digest) {
            let reason = "the manifest's source was changed after the swap";
            tracing::warn!(component = component.id, swapped = %entry.digest, "not serving what was swapped in: {reason}");
            let line = done(HOST, Action::Supersede, &component.id, digest, Some(entry.digest));
            let next = Entry { digest, previous: Some(entry.digest), source: Some(digest) };
            let path = self.records.path().to_owned();
            self.artifacts
                .keep(&digest, wasm)
                .and_then(|()| self.audit.append(&Line { reason: Some(reason), ..line }))
                .and_then(|()| self.records.set(&component.id, Some(next)))
                .map_err(|source| RecordError::Record { path, source })?;
        }
        Ok(source.map(|wasm| Chosen { wasm, origin: component.source.clone() }))
    }
}

/// Changes what is served.
pub struct Deployer {
    runtime: Arc<Runtime>,
    application: Arc<Application>,
    events: Sender<Event>,
    /// Held while a component is compiled and checked.
    gate: Mutex<()>,
    state: Mutex<State>,
}

struct State {
    files: Deployments,
    open: bool,
}

impl Deployer {
    pub fn new(
        runtime: Arc<Runtime>,
        application: Arc<Application>,
        files: Deployments,
        events: Sender<Event>,
    ) -> Arc<Self> {
        let state = Mutex::new(State { files, open: true });
        Arc::new(Self { runtime, application, events, gate: Mutex::new(()), state })
    }

    pub fn application(&self) -> &Arc<Application> {
        &self.application
    }

    /// Refuses everything from now on.
    pub fn close(&self) {
        self.state().open = false;
        let _ = self.events.send(Event::Stop);
    }

    pub fn is_open(&self) -> bool {
        self.state().open
    }

    /// Compiles, checks and serves a component. It blocks, for seconds, and must not be called
    /// from within an asynchronous runtime.
    pub fn swap(&self, order: &Order) -> Result<Report, Refusal> {
        let digest = Digest::of(&order.wasm);
        let action = if order.canary.is_some() { Action::Canary } else { Action::Swap };
        let outcome = self.try_swap(order, digest, action);
        self.log_refusal(&outcome, &order.by, action, &order.component, Some(digest));
        outcome
    }

    fn try_swap(&self, order: &Order, digest: Digest, action: Action) -> Result<Report, Refusal> {
        let slot = self.slot(&order.component)?;
        let admitted = || self.admitted(slot);
        drop(admitted()?);
        let one_at_a_time = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        drop(admitted()?);
        // Whoever waits for a turn does not count as the time of this one.
        let started = Instant::now();
        let generation = self.load(slot, &order.wasm, "the component that was sent")?;
        let mut state = admitted()?;
        let files = &mut state.files;
        files.artifacts.keep(&digest, &order.wasm).map_err(keeping("the component"))?;
        let report = |previous: Option<Digest>| Report {
            previous,
            canary: order.canary.is_some(),
            ..self.report(slot, &generation, started)
        };
        let report = match &order.canary {
            Some(terms) => {
                let current = slot.current().digest;
                files.log(&done(&order.by, action, &order.component, digest, Some(current)))?;
                slot.begin_trial(generation.clone(), terms.clone());
                let _ = self.events.send(Event::CanaryBegan);
                report(Some(current))
            }
            None => {
                self.install(files, slot, &generation, &order.by, action)?;
                report(slot.stage().previous.as_ref().map(|previous| previous.digest))
            }
        };
        drop(state);
        drop(one_at_a_time);
        Ok(report)
    }

    /// Ends the trial of a canary in its favour.
    pub fn promote(&self, component: &str, by: &str) -> Result<Report, Refusal> {
        let outcome = self.try_promote(component, by, None);
        self.log_refusal(&outcome, by, Action::Promote, component, None);
        outcome
    }

    /// `only`: if this is still the canary.
    fn try_promote(&self, component: &str, by: &str, only: Option<Digest>) -> Result<Report, Refusal> {
        let started = Instant::now();
        let slot = self.slot(component)?;
        let mut state = self.state();
        if !state.open {
            return Err(Refusal::Stopping);
        }
        let canary = slot.stage().canary.clone().ok_or_else(|| Refusal::NoCanary(component.to_owned()))?;
        if only.is_some_and(|digest| digest != canary.generation.digest) || !canary.conclude() {
            return Err(Refusal::NoCanary(component.to_owned()));
        }
        if let Err(refusal) = self.install(&mut state.files, slot, &canary.generation, by, Action::Promote) {
            // A trial without an end would go on for ever.
            slot.end_trial(&canary.generation.digest);
            return Err(refusal);
        }
        let previous = slot.stage().previous.as_ref().map(|previous| previous.digest);
        Ok(Report { previous, ..self.report(slot, &canary.generation, started) })
    }

    /// Ends the trial of a canary, if there is one; otherwise serves again what served before.
    pub fn roll_back(&self, component: &str, by: &str) -> Result<Report, Refusal> {
        let outcome = self.try_roll_back(component, by);
        self.log_refusal(&outcome, by, Action::Rollback, component, None);
        outcome
    }

    fn try_roll_back(&self, component: &str, by: &str) -> Result<Report, Refusal> {
        let started = Instant::now();
        let slot = self.slot(component)?;
        let mut state = self.state();
        if !state.open {
            return Err(Refusal::Stopping);
        }
        let stage = slot.stage();
        if let Some(canary) = &stage.canary {
            canary.conclude();
            let (current, digest) = (stage.current.digest, canary.generation.digest);
            let line = done(by, Action::Rollback, component, current, Some(digest));
            state.files.log(&Line { reason: Some("the canary"), ..line })?;
            slot.end_trial(&digest);
            state.files.prune(self.application.slots());
            return Ok(self.report(slot, &stage.current, started));
        }
        let previous = match &stage.previous {
            Some(previous) => previous.clone(),
            // After a restart the code of the one before is not loaded yet.
            None => {
                let none = || Refusal::NoPrevious(component.to_owned());
                let digest = state.files.records.get(component).and_then(|entry| entry.previous).ok_or_else(none)?;
                let wasm = state.files.artifacts.read(&digest).map_err(keeping("the component that served before"))?;
                drop(state);
                let generation = self.load(slot, &wasm, "the component that served before")?;
                state = self.admitted(slot)?;
                generation
            }
        };
        self.install(&mut state.files, slot, &previous, by, Action::Rollback)?;
        let before = slot.stage().previous.as_ref().map(|previous| previous.digest);
        Ok(Report { previous: before, ..self.report(slot, &previous, started) })
    }

    /// The host's word on trials: takes note of one that failed, and promotes those that passed.
    /// Returns when to look again.
    fn look_after_canaries(&self) -> Option<Duration> {
        /// How soon a trial that is over but has too few answers is looked at again.
        const AGAIN: Duration = Duration::from_secs(1);
        let mut next: Option<Duration> = None;
        for slot in self.application.slots() {
            let Some(canary) = slot.stage().canary.clone() else { continue };
            let wait = canary.ends_at().saturating_duration_since(Instant::now());
            if wait.is_zero() && canary.verdict() == crate::component::Verdict::Passed {
                let promoted = self.try_promote(&slot.component().id, HOST, Some(canary.generation.digest));
                if let Err(refusal) = promoted {
                    tracing::warn!(component = slot.component().id, %refusal, "the canary passed and was not promoted");
                }
                continue;
            }
            let wait = if wait.is_zero() { AGAIN } else { wait };
            next = Some(next.map_or(wait, |next| next.min(wait)));
        }
        next
    }

    fn canary_failed(&self, component: &str, digest: Digest, reason: &str) {
        tracing::warn!(component, %digest, reason, "the canary was rolled back");
        let Ok(slot) = self.slot(component) else { return };
        let mut state = self.state();
        let current = slot.current().digest;
        let line = done(HOST, Action::Rollback, component, current, Some(digest));
        if let Err(refusal) = state.files.log(&Line { reason: Some(reason), ..line }) {
            tracing::error!(%refusal, "a canary was rolled back, and the audit log does not say so");
        }
        state.files.prune(self.application.slots());
    }

    /// Makes a checked generation the slot's, on disk and then in memory.
    fn install(
        &self,
        files: &mut Deployments,
        slot: &Slot,
        generation: &Arc<Generation>,
        by: &str,
        action: Action,
    ) -> Result<(), Refusal> {
        let component = slot.component();
        let current = slot.current();
        let source = std::fs::read(&component.source).ok();
        let source_digest = source.as_deref().map(Digest::of);
        // A rollback after a restart needs what serves now; its file may be the manifest's only.
        if let Some(wasm) = source.filter(|_| source_digest == Some(current.digest)) {
            files.artifacts.keep(&current.digest, &wasm).map_err(keeping("the component that serves now"))?;
        }
        let previous = match current.digest == generation.digest {
            true => files.records.get(&component.id).and_then(|entry| entry.previous),
            false => Some(current.digest),
        };
        let entry = Entry { digest: generation.digest, previous, source: source_digest };
        files.log(&done(by, action, &component.id, generation.digest, Some(current.digest)))?;
        files.records.set(&component.id, Some(entry)).map_err(keeping("the record of what serves"))?;
        slot.replace(generation.clone());
        files.prune(self.application.slots());
        Ok(())
    }

    fn load(&self, slot: &Slot, wasm: &[u8], origin: &str) -> Result<Arc<Generation>, Refusal> {
        let artifact = Artifact { wasm, origin };
        let number = slot.next_number();
        let loaded = background::run(|| {
            let (backends, outbound) = (self.application.backends(), slot.outbound());
            Generation::load(&self.runtime, slot.component(), &artifact, number, backends, outbound, slot.metrics())
        });
        let loaded = loaded.map_err(|source| Refusal::Io { what: "a thread to compile on", source })??;
        // Another area is refused by its own word; what says nothing could be anything.
        if let (Some(area), None) = (&slot.current().description, &loaded.description) {
            let (id, source) = (slot.component().id.clone(), AreaError::NoArea(area.area.clone()));
            return Err(LoadError::Area { id, source }.into());
        }
        Ok(Arc::new(loaded))
    }

    fn report(&self, slot: &Slot, generation: &Generation, started: Instant) -> Report {
        Report {
            component: slot.component().id.clone(),
            digest: generation.digest,
            version: generation.description.as_ref().map(|area| area.version.clone()),
            generation: generation.number,
            previous: None,
            canary: false,
            milliseconds: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }

    fn slot(&self, component: &str) -> Result<&Slot, Refusal> {
        let mut slots = self.application.slots().iter();
        slots.find(|slot| slot.component().id == component).ok_or_else(|| Refusal::Unknown(component.to_owned()))
    }

    /// The state, if a new generation may take the slot now.
    fn admitted(&self, slot: &Slot) -> Result<MutexGuard<'_, State>, Refusal> {
        let state = self.state();
        if !state.open {
            return Err(Refusal::Stopping);
        }
        match slot.stage().canary {
            Some(_) => Err(Refusal::CanaryUnderWay(slot.component().id.clone())),
            None => Ok(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log_refusal(
        &self,
        ended: &Result<Report, Refusal>,
        by: &str,
        action: Action,
        component: &str,
        digest: Option<Digest>,
    ) {
        let Err(refusal) = ended else { return };
        let reason = refusal.to_string();
        tracing::warn!(component, by, reason, "refused");
        let line =
            Line { by, action, component, digest, previous: None, outcome: Outcome::Refused, reason: Some(&reason) };
        if let Err(error) = self.state().files.audit.append(&line) {
            tracing::error!(%error, "the audit log cannot be written");
        }
    }
}

impl Deployments {
    fn log(&mut self, line: &Line<'_>) -> Result<(), Refusal> {
        let Line { component, by, action, reason, .. } = line;
        tracing::info!(
            component,
            by,
            ?action,
            digest = line.digest.map(|digest| digest.to_string()),
            reason,
            "changing what is served"
        );
        self.audit.append(line).map_err(keeping("the audit log"))
    }

    /// Files that no restart and no rollback asks for are only in the way of a clean folder.
    fn prune(&self, slots: &[Slot]) {
        let mut wanted = self.records.digests();
        wanted.extend(slots.iter().filter_map(|slot| Some(slot.stage().canary.as_ref()?.generation.digest)));
        if let Err(error) = self.artifacts.prune(&wanted) {
            tracing::warn!(%error, "old components cannot be removed");
        }
    }
}

/// The line of a change that was made.
fn done<'a>(by: &'a str, action: Action, component: &'a str, digest: Digest, previous: Option<Digest>) -> Line<'a> {
    Line { by, action, component, digest: Some(digest), previous, outcome: Outcome::Done, reason: None }
}

fn keeping(what: &'static str) -> impl FnOnce(io::Error) -> Refusal {
    move |source| Refusal::Io { what, source }
}
