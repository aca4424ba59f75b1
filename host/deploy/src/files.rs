//! The deployer's files in the data folder.

use std::io;
use std::path::{Path, PathBuf};

use hexad_manifest::Component;
use hexad_runtime::component::ComponentService;
use hexad_support::bounded_file::read_component;
use hexad_support::digest::Digest;

use super::artifacts::Artifacts;
use super::audit::{Action, Audit, AuditEntry, AuditOutcome};
use super::fleet::{Fleet, ServingEntry, Signed, own_or_fetched};
use super::policy::{PolicyError, Signature, Trust, TrustPolicy, Untrusted};
use super::record::{Choice, RecordEntry, Records};
use super::transfer::{FOLDER, RECORD};
use super::{DeployError, HOST};

/// Why the host cannot use the deployment state of a data folder.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("cannot use {path}: {source}; restore it, or remove it to serve what the manifest names")]
    Record { path: PathBuf, source: io::Error },
    #[error(
        "component `{component}`: {path}, which was swapped in, cannot be used: {source}; restore it, or remove \
         `active.json` beside it to serve what the manifest names"
    )]
    Artifact { component: String, path: PathBuf, source: io::Error },
    #[error("component `{component}`: it cannot be recorded that the manifest's source serves: {source}")]
    Supersede { component: String, source: Box<DeployError> },
    #[error("component `{component}`: {path} is not trusted: {source}")]
    Untrusted { component: String, path: PathBuf, source: Box<Untrusted> },
    #[error("the policy of what may be served cannot be used: {0}")]
    Policy(#[from] PolicyError),
}

/// The deployment state on disk (components, active records, audit log), and the policy.
pub struct Deployments {
    policy: TrustPolicy,
    /// If true, the host leaves the files as they are.
    is_read_only: bool,
    artifacts: Artifacts,
    pub(super) records: Records,
    pub(super) audit: Audit,
}

/// The component that a service starts with.
pub struct InitialComponent {
    pub wasm: Vec<u8>,
    pub origin: PathBuf,
}

impl Deployments {
    pub fn open(data: &Path, policy: TrustPolicy, is_read_only: bool) -> Result<Self, RecordError> {
        policy.check()?;
        let folder = data.join(FOLDER);
        let at = |path: PathBuf| move |source| RecordError::Record { path, source };
        let artifacts = Artifacts::open(folder.clone()).map_err(at(folder.clone()))?;
        let path = folder.join(RECORD);
        let records = Records::open(path.clone()).map_err(at(path))?.read_only(is_read_only);
        let path = data.join("audit.ndjson");
        let audit = Audit::open(&path).map_err(at(path))?;
        let mut files = Self { policy, is_read_only, artifacts, records, audit };
        if !is_read_only && let Err(error) = files.log_recorded() {
            tracing::error!(%error, "the audit log does not have its line of the last change yet");
        }
        Ok(files)
    }

    /// Chooses the component that a service starts with: the swapped-in one, unless the manifest's source has changed
    /// since. The inner error means that the source is needed and cannot be read. The host applies the policy again,
    /// because an operator may have withdrawn trust since the swap.
    pub fn choose(&mut self, component: &Component) -> Result<Result<InitialComponent, io::Error>, RecordError> {
        let source = read_component(&component.source);
        let digest = source.as_deref().ok().map(Digest::of);
        let path = self.records.path().to_owned();
        let adopted = self.records.adopt_source(&component.id, digest);
        adopted.map_err(|source| RecordError::Record { path, source })?;
        let choice = self.records.choose(&component.id, digest);
        self.open_choice(component, source, choice, "the manifest's source was changed after the swap")
    }

    /// Chooses the component that a service starts with if no host of the store has ever swapped it: the manifest's
    /// source, as on the other hosts. A component that this host swapped in before it joined the store is ignored,
    /// because the other hosts do not serve it. The inner error is that of [`choose`](Self::choose).
    pub fn choose_source(&mut self, component: &Component) -> Result<Result<InitialComponent, io::Error>, RecordError> {
        let source = read_component(&component.source);
        let choice = match self.records.choose(&component.id, source.as_deref().ok().map(Digest::of)) {
            Choice::Recorded(entry) => Choice::Superseded(entry),
            choice => choice,
        };
        let reason = "the hosts of the store have not swapped it, and serve what their manifests name";
        self.open_choice(component, source, choice, reason)
    }

    /// Reads the chosen component and applies the policy. If the source supersedes the swapped-in one, records the
    /// `reason`.
    fn open_choice(
        &mut self,
        component: &Component,
        source: Result<Vec<u8>, io::Error>,
        choice: Choice,
        reason: &str,
    ) -> Result<Result<InitialComponent, io::Error>, RecordError> {
        if let Choice::Recorded(entry) = choice {
            let path = self.artifacts.path(&entry.digest);
            let wasm = self.artifacts.read(&entry.digest).map_err(|source| RecordError::Artifact {
                component: component.id.clone(),
                path: path.clone(),
                source,
            })?;
            self.admit_at_start(&component.id, &path, &wasm, &entry.digest)?;
            return Ok(Ok(InitialComponent { wasm, origin: path }));
        }
        let wasm = match source {
            Ok(wasm) => wasm,
            Err(error) => return Ok(Err(error)),
        };
        let digest = Digest::of(&wasm);
        self.admit_at_start(&component.id, &component.source, &wasm, &digest)?;
        if let Choice::Superseded(entry) = choice
            && !self.is_read_only
        {
            tracing::warn!(component = component.id, swapped = %entry.digest, "not serving what was swapped in: {reason}");
            let line = completed(HOST, Action::Supersede, &component.id, digest, Some(entry.digest));
            let next = RecordEntry { digest, previous: Some(entry.digest), source: Some(digest) };
            self.store_source(&component.source, &digest, &wasm)
                .map_err(io_error("the component"))
                .and_then(|()| self.record(&component.id, next, &AuditEntry { reason: Some(reason), ..line }))
                .map_err(|source| RecordError::Supersede { component: component.id.clone(), source: source.into() })?;
        }
        Ok(Ok(InitialComponent { wasm, origin: component.source.clone() }))
    }

    fn admit_at_start(&mut self, id: &str, path: &Path, wasm: &[u8], digest: &Digest) -> Result<(), RecordError> {
        let Err(untrusted) = self.trust_file(path, wasm, digest) else { return Ok(()) };
        let refusal = |source| RecordError::Untrusted { component: id.to_owned(), path: path.to_owned(), source };
        if self.is_read_only {
            return Err(refusal(Box::new(untrusted)));
        }
        let reason = untrusted.to_string();
        let line = AuditEntry { outcome: AuditOutcome::Refused, ..completed(HOST, Action::Start, id, *digest, None) };
        self.log_refused(&AuditEntry { reason: Some(&reason), ..line });
        Err(refusal(Box::new(untrusted)))
    }

    pub(super) fn has_policy(&self) -> bool {
        self.policy.is_set()
    }

    /// Applies the policy to an uploaded component.
    pub(super) fn trust(
        &self,
        component: &str,
        wasm: &[u8],
        digest: &Digest,
        signature: Option<&Signature>,
    ) -> Result<Trust, DeployError> {
        let trust = self.policy.admit(wasm, digest, signature);
        trust.map_err(|source| untrusted(component, source))
    }

    /// Applies the policy to a stored component, because an operator may have withdrawn trust since.
    pub(super) fn trust_stored(&self, component: &str, digest: &Digest) -> Result<Trust, DeployError> {
        if !self.policy.is_set() {
            return Ok(Trust::NoPolicy);
        }
        let wasm = self.read(digest)?;
        let trust = self.trust_file(&self.artifacts.path(digest), &wasm, digest);
        trust.map_err(|source| untrusted(component, source))
    }

    /// Applies the policy to a file with its signature beside it.
    fn trust_file(&self, path: &Path, wasm: &[u8], digest: &Digest) -> Result<Trust, Untrusted> {
        if !self.policy.is_set() {
            return Ok(Trust::NoPolicy);
        }
        let signature = Signature::read(&Signature::beside(path))?;
        self.policy.admit(wasm, digest, signature.as_ref())
    }

    /// Reads a stored component.
    pub(super) fn read(&self, digest: &Digest) -> Result<Vec<u8>, DeployError> {
        let unusable = |source| DeployError::Artifact { path: self.artifacts.path(digest), source };
        self.artifacts.read(digest).map_err(unusable)
    }

    /// Fails if a restart could not serve this component, because its file is missing or damaged. If the manifest's
    /// `source` is a copy, the host writes the file from it again.
    pub(super) fn check_kept(&self, digest: &Digest, source: &Path) -> Result<(), DeployError> {
        let Err(error) = self.read(digest) else { return Ok(()) };
        match read_component(source) {
            Ok(wasm) if Digest::of(&wasm) == *digest => {
                self.store_source(source, digest, &wasm).map_err(io_error("the component"))
            }
            _ => Err(error),
        }
    }

    /// Reads a stored component and its signature.
    pub(super) fn read_signed(&self, digest: &Digest) -> Result<(Vec<u8>, Option<Signature>), DeployError> {
        let wasm = self.read(digest)?;
        // An unreadable signature counts as absent. A policy that needs a signature reports it.
        let signature = Signature::read(&Signature::beside(&self.artifacts.path(digest))).ok().flatten();
        Ok((wasm, signature))
    }

    /// Stores a component that is about to be served.
    pub(super) fn keep(&self, digest: &Digest, wasm: &[u8], signature: Option<&Signature>) -> Result<(), DeployError> {
        self.store(digest, wasm, signature).map_err(io_error("the component"))
    }

    /// Chooses the component that the other hosts of the store serve.
    pub fn choose_served(
        &mut self,
        component: &Component,
        entry: &ServingEntry,
        fleet: &Fleet,
    ) -> Result<InitialComponent, DeployError> {
        let (digest, path) = (&entry.digest, self.artifacts.path(&entry.digest));
        let is_trusted = |(wasm, signature): &Signed| self.policy.admit(wasm, digest, signature.as_ref()).is_ok();
        let own = self.read_signed(digest);
        let (wasm, signature) = own_or_fetched(own, is_trusted, || fleet.fetch(digest))?;
        self.keep(digest, &wasm, signature.as_ref())?;
        self.admit_at_start(&component.id, &path, &wasm, digest)?;
        let source = read_component(&component.source).ok().as_deref().map(Digest::of);
        if source.is_some_and(|source| source != *digest && Some(source) != entry.previous) {
            let reason = "the manifest names another component than the hosts serve; `hexad swap` makes all serve it";
            tracing::warn!(component = component.id, serving = %digest, reason);
        }
        let record = RecordEntry { digest: *digest, previous: entry.previous, source };
        self.records.set(&component.id, Some(record)).map_err(io_error("the serving record"))?;
        Ok(InitialComponent { wasm, origin: path })
    }

    /// Stores a component and its signature.
    pub(super) fn store(&self, digest: &Digest, wasm: &[u8], signature: Option<&Signature>) -> io::Result<()> {
        self.artifacts.keep(digest, wasm, signature)
    }

    fn store_source(&self, path: &Path, digest: &Digest, wasm: &[u8]) -> io::Result<()> {
        // An unreadable signature counts as absent. A policy that needs a signature reports it.
        let signature = Signature::read(&Signature::beside(path)).ok().flatten();
        self.store(digest, wasm, signature.as_ref())
    }

    /// Stores the active component if the manifest's source is a copy of it: before a rollback, the next build may
    /// overwrite the source. The signature beside the source may be newer than the stored one.
    pub(super) fn preserve_active(&self, service: &ComponentService) -> io::Result<()> {
        let (digest, component) = (service.current().digest, service.component());
        let source = &component.source;
        match read_component(source) {
            Ok(wasm) if Digest::of(&wasm) == digest => self.store_source(source, &digest, &wasm),
            _ => Ok(()),
        }
    }

    /// Records the active component of a service, with its line for the audit log. The record has the line before the
    /// log does, so that the log has one line for each change that took place.
    pub(super) fn record(
        &mut self,
        component: &str,
        entry: RecordEntry,
        line: &AuditEntry<'_>,
    ) -> Result<(), DeployError> {
        log_audit_entry(line);
        // The record can hold one line only.
        self.log_recorded().map_err(io_error("the audit log"))?;
        let (before, line) = (self.records.content().clone(), line.to_json());
        let recorded = self.records.set_with_line(component, entry, line.clone());
        recorded.map_err(io_error("the serving record"))?;
        if let Err(error) = self.audit.append_lines(&[line]) {
            return match self.records.restore(before) {
                Ok(()) => Err(io_error("the audit log")(error)),
                Err(restoring) => {
                    tracing::error!(%error, %restoring, "the audit log gets the line of this change before that of the next");
                    Ok(())
                }
            };
        }
        self.remove_recorded_line();
        Ok(())
    }

    /// Appends the line of the last change to the audit log, if the host or its disk failed before.
    fn log_recorded(&mut self) -> io::Result<()> {
        let Some(line) = self.records.unlogged() else { return Ok(()) };
        if !self.audit.has(line)? {
            tracing::warn!(line, "the audit log did not have its line of the last change");
            self.audit.append_lines(&[line.to_owned()])?;
        }
        self.remove_recorded_line();
        Ok(())
    }

    /// Removes the line that the log has now. If the removal fails, the next change or start finds the line in both.
    fn remove_recorded_line(&mut self) {
        if let Err(error) = self.records.remove_line() {
            tracing::warn!(%error, "the serving record cannot be written; it keeps a line of the audit log");
        }
    }

    /// Writes the line of a change that does not outlast the host, before the change is made.
    pub(super) fn log(&mut self, line: &AuditEntry<'_>) -> Result<(), DeployError> {
        log_audit_entry(line);
        self.audit.append(line).map_err(io_error("the audit log"))
    }

    /// Writes the line of an attempt that changed nothing.
    pub(super) fn log_refused(&mut self, line: &AuditEntry<'_>) {
        if let Err(error) = self.audit.append(line) {
            tracing::error!(%error, "the audit log cannot be written");
        }
    }

    /// Sets each service's rollback target, as recorded before the host started. Hosts that share a store take it from
    /// their shared record.
    pub(super) fn set_rollback_targets(&self, services: &[ComponentService]) {
        for service in services {
            let entry = self.records.get(service.id()).filter(|entry| entry.digest == service.current().digest);
            service.set_rollback_target(entry.and_then(|entry| entry.previous));
        }
    }

    pub(super) fn are_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Removes components that are not `prepared` and that no restart and no rollback needs. Returns the digests of the
    /// others.
    pub(super) fn prune(&self, services: &[ComponentService], prepared: Vec<Digest>) -> Vec<Digest> {
        let mut wanted = self.records.digests();
        wanted.extend(prepared);
        for service in services {
            let deployment = service.deployment();
            wanted.push(deployment.current.digest);
            wanted.extend(deployment.previous.as_ref().map(|previous| previous.digest));
            wanted.extend(deployment.canary.as_ref().map(|canary| canary.revision.digest));
        }
        if let Err(error) = self.artifacts.prune(&wanted) {
            tracing::warn!(%error, "old components cannot be removed");
        }
        wanted
    }
}

/// Logs a change before the host makes it.
pub(super) fn log_audit_entry(line: &AuditEntry<'_>) {
    let AuditEntry { component, by, action, reason, .. } = line;
    let digest = line.digest.map(|digest| digest.to_string());
    tracing::info!(component, by, ?action, digest, reason, "changing what is served");
}

/// The audit entry of a completed change.
pub(super) fn completed<'a>(
    by: &'a str,
    action: Action,
    component: &'a str,
    digest: Digest,
    previous: Option<Digest>,
) -> AuditEntry<'a> {
    AuditEntry { component: Some(component), digest: Some(digest), previous, ..AuditEntry::done(by, action) }
}

pub(super) fn io_error(subject: &'static str) -> impl FnOnce(io::Error) -> DeployError {
    move |source| DeployError::Io { subject, source }
}

fn untrusted(component: &str, source: Untrusted) -> DeployError {
    DeployError::Untrusted { component: component.to_owned(), source: Box::new(source) }
}
