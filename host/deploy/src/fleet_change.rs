//! Deployments to all hosts of a store. A host records a pending change, and every live host prepares the component or
//! refuses. Then one compare-and-swap of the record makes all hosts serve it.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use hexad_runtime::component::ComponentService;
use hexad_support::digest::Digest;

use super::audit::AuditEntry;
use super::change::Change;
use super::fleet::{Fleet, FleetHost, PendingChange, ServingEntry, new_id};
use super::policy::Signature;
use super::stop_phase::StopPhase;
use super::{DeployError, Deployer};

/// How long the hosts may take to compile and check a component.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(120);

/// How long the hosts may take to serve a prepared component.
const FLIP_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the host reads the reports of the hosts during these waits.
const LOOK: Duration = Duration::from_millis(50);

impl Deployer {
    /// Makes all hosts serve a revision that this host has checked. Returns the component that a rollback restores:
    /// other hosts may have deployed meanwhile.
    pub(super) fn deploy_to_fleet(
        &self,
        fleet: &Fleet,
        service: &ComponentService,
        digest: Digest,
        FleetChange { change, without, sent }: &FleetChange<'_>,
    ) -> Result<ServingEntry, DeployError> {
        let _changing = fleet.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let (component, current) = (service.id(), service.current().digest);
        if let Some((wasm, signature)) = sent {
            // A concurrent change may have pruned the component, because no record names it yet.
            self.state().files.keep(&digest, wasm, *signature)?;
        }
        // The hosts need the present component too, for a rollback or beside a canary.
        for digest in [current, digest] {
            self.publish_stored(fleet, &digest)?;
        }
        let id = new_id()?;
        // The other hosts must know this host before they read its pending change.
        let hosts = fleet.exchange_reports()?;
        fleet.check_known(without, &hosts)?;
        let proposed = fleet.update(|record| {
            // Refuses a change that is certain to fail before any host prepares it.
            change.apply(component, &mut record.entry(service))?;
            fleet.check_no_other_change(record, &hosts)?;
            let (host, component) = (fleet.instance.clone(), component.to_owned());
            record.proposal = Some(PendingChange { id: id.clone(), host, component, digest });
            Ok(Vec::new())
        });
        let left_out = (!without.is_empty()).then(|| format!("without {}", without.join(", ")));
        let mut changed = ServingEntry::of(service);
        let moved = proposed.and_then(|_| wait_until_prepared(fleet, &id, without)).and_then(|()| {
            fleet.update(|record| {
                if record.proposal.as_ref().is_none_or(|proposal| proposal.id != id) {
                    let reason = "another host deploys now; look at `hexad status`, and try again";
                    return Err(DeployError::Fleet(reason.to_owned()));
                }
                record.proposal = None;
                // The record may have changed while the hosts compiled and checked the component.
                let mut entry = record.entry(service);
                let line = change.apply(component, &mut entry)?;
                let line = AuditEntry { reason: left_out.as_deref().or(line.reason), ..line }.to_json();
                changed.clone_from(&entry);
                record.components.insert(component.to_owned(), entry);
                Ok(vec![line])
            })
        });
        match moved {
            Ok(record_version) => {
                finish(fleet, record_version, without)?;
                prune(fleet);
                Ok(changed)
            }
            Err(error) => {
                fleet.withdraw(&id);
                Err(error)
            }
        }
    }

    /// Publishes a component of the data folder to all hosts.
    fn publish_stored(&self, fleet: &Fleet, digest: &Digest) -> Result<(), DeployError> {
        let stored = self.state().files.read_signed(digest);
        match stored {
            Ok((wasm, signature)) => fleet.publish(digest, wasm, signature.as_ref()),
            // If the folder has no copy, the store has one already, or the component cannot be restored.
            Err(_) => Ok(()),
        }
    }
}

/// Waits until every live host that is not left out is prepared for the change.
fn wait_until_prepared(fleet: &Fleet, id: &str, without: &[String]) -> Result<(), DeployError> {
    let end = Instant::now() + PREPARE_TIMEOUT;
    loop {
        if fleet.phases.is_in(StopPhase::Stopping) {
            return Err(DeployError::Stopping);
        }
        let hosts = match fleet.read_hosts() {
            Err(error) if error.is_passing() && Instant::now() < end => {
                std::thread::sleep(LOOK);
                continue;
            }
            hosts => hosts?,
        };
        let mut is_known = false;
        let mut waited_for = Vec::new();
        let asked = hosts.iter().filter(|host| host.is_live() && !fleet.leaves_out(without, host));
        for FleetHost { instance, name, report, .. } in asked {
            is_known |= *instance == fleet.instance;
            match (&report.proposal, &report.refusal) {
                (Some(proposal), Some(refusal)) if proposal == id => {
                    return Err(DeployError::Fleet(format!(
                        "the host {name} refuses it: {refusal}; correct that, or leave that host out (`hexad swap --exclude-host`)"
                    )));
                }
                (Some(proposal), None) if proposal == id => {}
                _ => waited_for.push(name.as_str()),
            }
        }
        if is_known && waited_for.is_empty() {
            return Ok(());
        }
        if Instant::now() >= end {
            let (seconds, names) = (PREPARE_TIMEOUT.as_secs(), waited_for.join(", "));
            return Err(DeployError::Fleet(format!(
                "these hosts have not prepared it within {seconds} s: {names}; their logs say why"
            )));
        }
        std::thread::sleep(LOOK);
    }
}

/// Waits until this host and every other live host that is not left out serve the record. A late host reads the record
/// before it answers a request. The change is made, even if the wait fails.
pub(super) fn finish(fleet: &Fleet, record_version: i64, without: &[String]) -> Result<(), DeployError> {
    let end = Instant::now() + FLIP_TIMEOUT;
    fleet.wait_until_applied(record_version, end)?;
    loop {
        let hosts = match fleet.read_hosts() {
            Ok(hosts) => hosts,
            Err(error) => {
                tracing::warn!(%error, "it is not known whether the other hosts serve what was deployed");
                return Ok(());
            }
        };
        let late: Vec<&str> = hosts
            .iter()
            .filter(|host| {
                host.instance != fleet.instance && host.is_live() && host.report.record_version < record_version
            })
            .filter(|host| !fleet.leaves_out(without, host))
            // A host with a problem has reported that it does not serve the record.
            .filter(|host| host.report.problem.is_none())
            .map(|host| &*host.name)
            .collect();
        if late.is_empty() || fleet.phases.is_in(StopPhase::Stopping) {
            return Ok(());
        }
        if Instant::now() >= end {
            tracing::warn!(hosts = late.join(", "), "these hosts have not said that they serve what was deployed");
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
}

/// Removes unused components from the store.
fn prune(fleet: &Fleet) {
    let pruned = fleet.read().and_then(|(_, record)| {
        let wanted = record.digests().iter().map(Digest::to_string).collect();
        fleet.store.prune_components(wanted).map_err(DeployError::Store)
    });
    if let Err(error) = pruned {
        tracing::warn!(%error, "old components cannot be removed from the store");
    }
}

/// A change that every host prepares first.
pub struct FleetChange<'a> {
    pub change: &'a Change<'a>,
    /// The hosts that the change leaves out, by name or instance.
    pub without: &'a [String],
    /// The component and its signature, if it was sent.
    pub sent: Option<(&'a [u8], Option<&'a Signature>)>,
}

#[cfg(test)]
mod tests;
