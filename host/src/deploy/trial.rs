//! How the trial of a canary ends.

use std::time::{Duration, Instant};

use super::audit::{Action, Line};
use super::files::done;
use super::{Deployer, HOST, Refusal, Report};
use crate::component::Verdict;
use crate::digest::Digest;

impl Deployer {
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
        let canary = slot.deployment().canary.clone().ok_or_else(|| Refusal::NoCanary(component.to_owned()))?;
        if only.is_some_and(|digest| digest != canary.generation.digest) || !canary.conclude() {
            return Err(Refusal::NoCanary(component.to_owned()));
        }
        if let Err(refusal) = self.install(&mut state.files, slot, &canary.generation, by, Action::Promote) {
            // A trial without an end would go on for ever.
            slot.end_trial(&canary.generation.digest);
            return Err(refusal);
        }
        let previous = slot.deployment().previous.as_ref().map(|previous| previous.digest);
        Ok(Report { previous, ..self.report(slot, &canary.generation, started) })
    }

    /// Promotes the canaries whose trials are over and passed. Returns when to call it again.
    pub(super) fn end_trials(&self) -> Option<Duration> {
        /// How soon a trial that is over but has too few answers is looked at again.
        const AGAIN: Duration = Duration::from_secs(1);
        let mut next: Option<Duration> = None;
        for slot in self.application().slots() {
            let Some(canary) = slot.deployment().canary.clone() else { continue };
            let wait = canary.ends_at().saturating_duration_since(Instant::now());
            if wait.is_zero() && canary.verdict() == Verdict::Passed {
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

    pub(super) fn canary_failed(&self, component: &str, digest: Digest, reason: &str) {
        tracing::warn!(component, %digest, reason, "the canary was rolled back");
        let Ok(slot) = self.slot(component) else { return };
        let mut state = self.state();
        let current = slot.current().digest;
        let line = done(HOST, Action::Rollback, component, current, Some(digest));
        if let Err(refusal) = state.files.log(&Line { reason: Some(reason), ..line }) {
            tracing::error!(%refusal, "a canary was rolled back, and the audit log does not say so");
        }
        state.files.prune(self.application().slots());
    }
}
