//! One change of what is served, from the order to the pointer.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::audit::{Action, Line, Outcome};
use super::background;
use super::files::{Deployments, done, keeping};
use super::policy::Trust;
use super::record::Entry;
use super::{Order, Refusal, Report};
use crate::application::Application;
use crate::component::{AreaError, Artifact, Generation, LoadError, Slot};
use crate::deployment_event::DeploymentEvent;
use crate::digest::Digest;
use crate::runtime::Runtime;

/// Changes what is served.
pub struct Deployer {
    runtime: Arc<Runtime>,
    application: Arc<Application>,
    events: Sender<DeploymentEvent>,
    /// Held while a component is compiled and checked.
    gate: Mutex<()>,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) files: Deployments,
    pub(super) open: bool,
}

impl Deployer {
    pub fn new(
        runtime: Arc<Runtime>,
        application: Arc<Application>,
        files: Deployments,
        events: Sender<DeploymentEvent>,
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
        let _ = self.events.send(DeploymentEvent::Stop);
    }

    /// Keeps what serves since the start, for a rollback.
    pub(super) fn keep_serving(&self) {
        for slot in self.application.slots() {
            if let Err(error) = self.state().files.keep_serving(slot) {
                tracing::warn!(component = slot.component().id, %error, "what serves cannot be kept for a rollback");
            }
        }
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
        let trust = admitted()?.files.trust(&order.component, &order.wasm, &digest, order.signature.as_ref())?;
        let one_at_a_time = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        drop(admitted()?);
        // Whoever waits for a turn does not count as the time of this one.
        let started = Instant::now();
        let generation = self.load(slot, &order.wasm, "the component that was sent")?;
        let mut state = admitted()?;
        let files = &mut state.files;
        files.keep(&digest, &order.wasm, order.signature.as_ref()).map_err(keeping("the component"))?;
        let report = |previous: Option<Digest>| Report {
            previous,
            canary: order.canary.is_some(),
            ..self.report(slot, &generation, started)
        };
        let report = match &order.canary {
            Some(terms) => {
                let current = slot.current().digest;
                let trust = (trust != Trust::Unasked).then(|| trust.to_string());
                let line = done(&order.by, action, &order.component, digest, Some(current));
                files.log(&Line { trust: trust.as_deref(), ..line })?;
                slot.begin_trial(generation.clone(), terms.clone());
                let _ = self.events.send(DeploymentEvent::CanaryBegan);
                report(Some(current))
            }
            None => {
                self.install(files, slot, &generation, &order.by, action)?;
                report(slot.deployment().previous.as_ref().map(|previous| previous.digest))
            }
        };
        drop(state);
        drop(one_at_a_time);
        Ok(report)
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
        let deployment = slot.deployment();
        if let Some(canary) = &deployment.canary {
            canary.conclude();
            let (current, digest) = (deployment.current.digest, canary.generation.digest);
            let line = done(by, Action::Rollback, component, current, Some(digest));
            state.files.log(&Line { reason: Some("the canary"), ..line })?;
            slot.end_trial(&digest);
            state.files.prune(self.application.slots());
            return Ok(self.report(slot, &deployment.current, started));
        }
        let previous = match &deployment.previous {
            Some(previous) => previous.clone(),
            // After a restart the code of the one before is not loaded yet.
            None => {
                let none = || Refusal::NoPrevious(component.to_owned());
                let digest = state.files.records.get(component).and_then(|entry| entry.previous).ok_or_else(none)?;
                let wasm = state.files.read(&digest)?;
                state.files.trust_in_kept(component, &digest)?;
                drop(state);
                let generation = self.load(slot, &wasm, "the component that served before")?;
                state = self.admitted(slot)?;
                generation
            }
        };
        self.install(&mut state.files, slot, &previous, by, Action::Rollback)?;
        let before = slot.deployment().previous.as_ref().map(|previous| previous.digest);
        Ok(Report { previous: before, ..self.report(slot, &previous, started) })
    }

    /// Makes a checked generation the slot's, on disk and then in memory.
    pub(super) fn install(
        &self,
        files: &mut Deployments,
        slot: &Slot,
        generation: &Arc<Generation>,
        by: &str,
        action: Action,
    ) -> Result<(), Refusal> {
        let component = slot.component();
        let current = slot.current();
        let trust = files.trust_in_kept(&component.id, &generation.digest)?;
        let trust = (trust != Trust::Unasked).then(|| trust.to_string());
        // A rollback after a restart needs what serves now.
        files.keep_serving(slot).map_err(keeping("the component that serves now"))?;
        let source = std::fs::read(&component.source).ok().as_deref().map(Digest::of);
        let previous = match current.digest == generation.digest {
            true => files.records.get(&component.id).and_then(|entry| entry.previous),
            false => Some(current.digest),
        };
        let entry = Entry { digest: generation.digest, previous, source };
        let line = done(by, action, &component.id, generation.digest, Some(current.digest));
        files.log(&Line { trust: trust.as_deref(), ..line })?;
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

    pub(super) fn report(&self, slot: &Slot, generation: &Generation, started: Instant) -> Report {
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

    pub(super) fn slot(&self, component: &str) -> Result<&Slot, Refusal> {
        let mut slots = self.application.slots().iter();
        slots.find(|slot| slot.component().id == component).ok_or_else(|| Refusal::Unknown(component.to_owned()))
    }

    /// The state, if a new generation may take the slot now.
    pub(super) fn admitted(&self, slot: &Slot) -> Result<MutexGuard<'_, State>, Refusal> {
        let state = self.state();
        if !state.open {
            return Err(Refusal::Stopping);
        }
        match slot.deployment().canary {
            Some(_) => Err(Refusal::CanaryUnderWay(slot.component().id.clone())),
            None => Ok(state),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn log_refusal(
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
        let line = Line {
            by,
            action,
            component,
            digest,
            previous: None,
            outcome: Outcome::Refused,
            trust: None,
            reason: Some(&reason),
        };
        if let Err(error) = self.state().files.audit.append(&line) {
            tracing::error!(%error, "the audit log cannot be written");
        }
    }
}
