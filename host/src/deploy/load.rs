//! Makes the revisions of services, off the request path and at low priority.

use std::sync::Arc;

use bytes::Bytes;

use super::stop_phase::StopPhase;
use super::{DeployError, Deployer, background, service_of};
use crate::component::{Artifact, ComponentService, LoadContext, LoadError, Revision, Settings};

impl Deployer {
    /// Compiles and checks a component with the service's present settings. Blocks until that is done, or until the
    /// host has come to `end`.
    pub(super) fn load(
        &self,
        service: &ComponentService,
        wasm: Bytes,
        origin: &'static str,
        end: StopPhase,
    ) -> Result<Arc<Revision>, DeployError> {
        let settings = service.deployment().settings.clone();
        let load =
            move |context: LoadContext<'_>, number| Revision::load(context, &Artifact { wasm: &wasm, origin }, number);
        let loaded = self.make(service, settings, end, load)?;
        loaded.check_replaces(service.id(), &service.current())?;
        Ok(Arc::new(loaded))
    }

    /// Makes a revision of the service with these settings.
    pub(super) fn make(
        &self,
        service: &ComponentService,
        settings: Arc<Settings>,
        end: StopPhase,
        make: impl FnOnce(LoadContext<'_>, u64) -> Result<Revision, LoadError> + Send + 'static,
    ) -> Result<Revision, DeployError> {
        let (runtime, application, memory) = (self.runtime.clone(), self.application().clone(), self.memory.clone());
        let (id, number) = (service.id().to_owned(), service.next_number());
        let made = background::run(&self.phases, end, move || {
            let metrics = service_of(&application, &id)?.metrics();
            let Settings { component, outbound, .. } = &*settings;
            let (backends, outbound) = (application.backends(), outbound.as_ref());
            let context = LoadContext { runtime: &runtime, component, backends, outbound, metrics, memory: &memory };
            Ok(make(context, number)?)
        });
        let made = made.map_err(|source| DeployError::Io { subject: "a thread to compile on", source })?;
        made.ok_or(DeployError::Stopping)?
    }
}
