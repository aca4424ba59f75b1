//! Makes the generations of slots, off the request path and at low priority.

use std::sync::Arc;

use bytes::Bytes;

use super::stop_phase::StopPhase;
use super::{DeployError, Deployer, background, slot_of};
use crate::component::{Artifact, Generation, LoadError, Settings, Slot, Surroundings};

impl Deployer {
    /// Compiles and checks a component with the slot's present settings. It blocks until that is done, or
    /// until the host has come to `end`.
    pub(super) fn load(
        &self,
        slot: &Slot,
        wasm: Bytes,
        origin: &'static str,
        end: StopPhase,
    ) -> Result<Arc<Generation>, DeployError> {
        let settings = slot.deployment().settings.clone();
        let load = move |surroundings: Surroundings<'_>, number| {
            Generation::load(surroundings, &Artifact { wasm: &wasm, origin }, number)
        };
        let loaded = self.make(slot, settings, end, load)?;
        loaded.check_replaces(slot.id(), &slot.current())?;
        Ok(Arc::new(loaded))
    }

    /// Makes a generation of the slot with these settings.
    pub(super) fn make(
        &self,
        slot: &Slot,
        settings: Arc<Settings>,
        end: StopPhase,
        make: impl FnOnce(Surroundings<'_>, u64) -> Result<Generation, LoadError> + Send + 'static,
    ) -> Result<Generation, DeployError> {
        let (runtime, application, memory) = (self.runtime.clone(), self.application().clone(), self.memory.clone());
        let (id, number) = (slot.id().to_owned(), slot.next_number());
        let made = background::run(&self.phases, end, move || {
            let metrics = slot_of(&application, &id)?.metrics();
            let Settings { component, outbound, .. } = &*settings;
            let (backends, outbound) = (application.backends(), outbound.as_ref());
            let surroundings =
                Surroundings { runtime: &runtime, component, backends, outbound, metrics, memory: &memory };
            Ok(make(surroundings, number)?)
        });
        let made = made.map_err(|source| DeployError::Io { subject: "a thread to compile on", source })?;
        made.ok_or(DeployError::Stopping)?
    }
}
