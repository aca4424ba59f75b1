//! Reload of the manifest while the host serves: routes, limits, variables, grants.
//!
//! The host first makes and checks all settings and revisions. Then it replaces each component's in one step, and the
//! routes last. If the host cannot apply a part of the manifest, it changes nothing.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use hexad_limits::memory_budget::MemoryError;
use hexad_manifest::router::RouteError;
use hexad_manifest::{Component, Manifest, ManifestError};
use hexad_runtime::application::RouteTarget;
use hexad_runtime::component::{ActiveRevisions, ComponentService, LoadContext, LoadError, Revision, Settings};
use hexad_support::tls::TlsError;

use super::audit::{Action, AuditEntry, AuditOutcome};
use super::files::{completed, io_error, log_audit_entry};
use super::stop_phase::StopPhase;
use super::{DeployError, Deployer};
use crate::secrets::SecretError;

/// The actor in the audit log.
const ACTOR: &str = "SIGHUP";

/// Why a manifest was not applied. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("component `{0}` is new; restart the host to add it")]
    Added(String),
    #[error("component `{0}` is no longer there; restart the host to remove it")]
    Removed(String),
    #[error("component `{id}`: its source changed from {from} to {to}; swap the component in, or restart the host")]
    Source { id: String, from: PathBuf, to: PathBuf },
    #[error("{0}")]
    Routes(RouteError),
    #[error("component `{0}` was replaced while its new settings were checked; reload again")]
    Replaced(String),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error(transparent)]
    Component(#[from] LoadError),
    #[error(transparent)]
    Outbound(#[from] TlsError),
    #[error(transparent)]
    Deployment(#[from] DeployError),
}

impl ReloadError {
    /// The component that the error is about, if any.
    fn component(&self) -> Option<&str> {
        match self {
            Self::Added(id) | Self::Removed(id) | Self::Replaced(id) | Self::Source { id, .. } => Some(id),
            Self::Memory(error) => Some(&error.id),
            Self::Component(error) => Some(error.component()),
            Self::Deployment(DeployError::CanaryUnderWay(id)) => Some(id),
            _ => None,
        }
    }
}

/// A service's new settings, and its revision with them.
struct ServiceChange<'a> {
    service: &'a ComponentService,
    /// The service's active revisions when the change was made.
    before: Arc<ActiveRevisions>,
    settings: Arc<Settings>,
    revision: Arc<Revision>,
    names: Vec<&'static str>,
}

impl Deployer {
    /// Applies the manifest that was read, or records why it could not be read. Blocks; must not be called from an
    /// asynchronous runtime.
    pub fn reload(&self, manifest: Result<Manifest, ManifestError>) -> Result<Reloaded, ReloadError> {
        let outcome = manifest.map_err(ReloadError::Manifest).and_then(|manifest| self.try_reload(manifest));
        let record = match &outcome {
            Ok(reloaded) => {
                if let Some(fleet) = &self.fleet {
                    fleet.report_manifest();
                }
                ReloadOutcome::Applied(reloaded.clone())
            }
            Err(error) => {
                self.log_refused_reload(error);
                ReloadOutcome::Refused(error.to_string())
            }
        };
        self.set_last_reload(ReloadRecord { at: SystemTime::now(), outcome: record });
        outcome
    }

    fn try_reload(&self, manifest: Manifest) -> Result<Reloaded, ReloadError> {
        // Otherwise the host would serve a component with the old settings if it is being checked now.
        let _compiling = self.lock_compiling();
        let services = self.application().services();
        let Manifest { path, mut components, routes, former_names, .. } = manifest;
        former_names.iter().for_each(|note| tracing::warn!("{}: {note}", path.display()));
        if let Some(new) = components.iter().find(|new| !services.iter().any(|service| service.id() == new.id)) {
            return Err(ReloadError::Added(new.id.clone()));
        }
        self.secrets.fill_in(&mut components, false)?;
        self.memory_division.check(components.iter().map(|component| (&*component.id, component.limits.memory)))?;
        let router = RouteTarget::router(routes, |id| services.iter().position(|service| service.id() == id));
        let router = router.map_err(ReloadError::Routes)?;
        let mut components: Vec<_> = components.into_iter().map(Arc::new).collect();
        let mut changes = Vec::new();
        for service in services {
            let position = components.iter().position(|component| component.id == service.id());
            let position = position.ok_or_else(|| ReloadError::Removed(service.id().to_owned()))?;
            changes.extend(self.change(service, components.swap_remove(position))?);
        }
        let changed_routes = *self.application().router() != router;

        let mut state = self.state();
        if !self.is_open() {
            return Err(DeployError::Stopping.into());
        }
        // A rollback does not wait for the checks, and may have replaced a revision meanwhile.
        if let Some(change) = changes.iter().find(|change| !Arc::ptr_eq(&change.service.deployment(), &change.before)) {
            return Err(ReloadError::Replaced(change.service.id().to_owned()));
        }
        let mut lines = Vec::new();
        for ServiceChange { service, revision, names, .. } in &changes {
            let (digest, names) = (revision.digest, names.join(", "));
            let line = completed(ACTOR, Action::Reload, service.id(), digest, Some(digest));
            let line = AuditEntry { reason: Some(&names), ..line };
            log_audit_entry(&line);
            lines.push(line.to_json());
        }
        if changed_routes {
            lines.push(AuditEntry { reason: Some("routes"), ..AuditEntry::done(ACTOR, Action::Reload) }.to_json());
        }
        // In one append: if one line cannot be written, the log has none of them.
        state.files.audit.append_lines(&lines).map_err(io_error("the audit log"))?;
        let mut reloaded = Reloaded { components: Vec::with_capacity(changes.len()), routes: changed_routes };
        for ServiceChange { service, settings, revision, names, .. } in changes {
            service.reconfigure(settings, revision);
            reloaded.components.push((service.id().to_owned(), names));
        }
        if changed_routes {
            self.application().set_router(router);
        }
        Ok(reloaded)
    }

    /// The service's new settings and its revision with them; `None` if nothing has changed.
    fn change<'a>(
        &self,
        service: &'a ComponentService,
        component: Arc<Component>,
    ) -> Result<Option<ServiceChange<'a>>, ReloadError> {
        let deployment = service.deployment();
        let present = &deployment.settings;
        if component.source != present.component.source {
            let (from, to) = (present.component.source.clone(), component.source.clone());
            return Err(ReloadError::Source { id: component.id.clone(), from, to });
        }
        let names = present.component.differences(&component);
        if names.is_empty() {
            return Ok(None);
        }
        drop(self.lock_for_change(service)?);
        let (hosts, limits) = (&component.allowed_hosts, &component.limits.outbound);
        let outbound = self.outbound.make(&component.id, hosts, limits, present.outbound.as_ref())?;
        component.grants.continue_count(&present.component.grants);
        let settings = Arc::new(Settings::new(component, outbound));
        let current = deployment.current.clone();
        let check = move |context: LoadContext<'_>, number| current.with_settings(context, number);
        let made = self.make(service, settings.clone(), StopPhase::Stopping, check);
        let revision = Arc::new(made.map_err(|error| match error {
            DeployError::Load(error) => ReloadError::Component(error),
            error => ReloadError::Deployment(error),
        })?);
        Ok(Some(ServiceChange { service, before: deployment.clone(), settings, revision, names }))
    }

    fn log_refused_reload(&self, error: &ReloadError) {
        let reason = error.to_string();
        tracing::error!(component = error.component(), reason, "the manifest was not applied; nothing was changed");
        let (component, outcome, reason) = (error.component(), AuditOutcome::Refused, Some(&*reason));
        let line = AuditEntry { component, outcome, reason, ..AuditEntry::done(ACTOR, Action::Reload) };
        self.state().files.log_refused(&line);
    }
}

/// The changes that a reload has made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// The components with other settings, and the names of these settings.
    pub components: Vec<(String, Vec<&'static str>)>,
    pub routes: bool,
}

impl fmt::Display for Reloaded {
    /// For example `probe (limits, variables), routes`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let components = self.components.iter().map(|(id, names)| format!("{id} ({})", names.join(", ")));
        let changes: Vec<_> = components.chain(self.routes.then(|| "routes".to_owned())).collect();
        f.write_str(if changes.is_empty() { "none" } else { "" })?;
        f.write_str(&changes.join(", "))
    }
}

/// The last reload of the manifest.
#[derive(Clone, Debug)]
pub struct ReloadRecord {
    pub at: SystemTime,
    pub outcome: ReloadOutcome,
}

#[derive(Clone, Debug)]
pub enum ReloadOutcome {
    Applied(Reloaded),
    /// A sentence with the reason.
    Refused(String),
}
