//! Pending changes of this host and of other hosts.

use super::DeployError;
use super::fleet::{Fleet, FleetHost, PendingChange, ServingRecord};
use crate::store::ErrorKind;

/// The live host that makes a pending change. Without one, any host may replace the change.
fn coordinator<'a>(proposal: &PendingChange, hosts: &'a [FleetHost]) -> Option<&'a FleetHost> {
    let mut live = hosts.iter().filter(|host| host.is_live());
    live.find(|host| host.instance == proposal.host && host.report.given_up.as_ref() != Some(&proposal.id))
}

/// Only hosts of a fleet can be left out.
pub(super) fn check_left_out(without: &[String], fleet: Option<&Fleet>) -> Result<(), DeployError> {
    match without.is_empty() || fleet.is_some() {
        true => Ok(()),
        false => Err(DeployError::Fleet("no other host shares the store, so that none can be left out".to_owned())),
    }
}

impl DeployError {
    /// Whether the store is unavailable or the host stops. Either is no reason to refuse a component.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Store(error) => error.kind() != ErrorKind::Fault,
            Self::Load(error) => error.store_error().is_some_and(|error| error.kind() != ErrorKind::Fault),
            // The other hosts learn soon that this host has stopped.
            Self::Stopping => true,
            _ => false,
        }
    }
}

impl Fleet {
    /// Fails if another host is deploying a component.
    pub(super) fn check_no_other_change(&self, record: &ServingRecord, hosts: &[FleetHost]) -> Result<(), DeployError> {
        let Some(other) = record.proposal.as_ref().filter(|other| other.host != self.instance) else { return Ok(()) };
        match coordinator(other, hosts) {
            None => Ok(()),
            Some(host) => Err(DeployError::Fleet(format!(
                "the host {} is deploying the component `{}`; try again when it is done",
                host.name, other.component
            ))),
        }
    }

    /// Whether `without` has the host's name or instance. This host is never left out.
    pub(super) fn leaves_out(&self, without: &[String], host: &FleetHost) -> bool {
        host.instance != self.instance && without.iter().any(|name| *name == host.name || *name == host.instance)
    }

    /// Fails if a name matches no host that can be left out.
    pub(super) fn check_known(&self, without: &[String], hosts: &[FleetHost]) -> Result<(), DeployError> {
        for name in without {
            if hosts.iter().any(|host| self.leaves_out(std::slice::from_ref(name), host)) {
                continue;
            }
            let reason = match *name == self.name || *name == self.instance {
                true => "a host that deploys a component cannot leave itself out; ask another host".to_owned(),
                false => format!("there is no host `{}`; `hexad status` names them", name.escape_debug()),
            };
            return Err(DeployError::Fleet(reason));
        }
        Ok(())
    }

    /// Withdraws a pending change. If that fails, this host's reports say that it has abandoned the change.
    pub(super) fn withdraw(&self, id: &str) {
        let withdrawn = self.update(|record| match &record.proposal {
            Some(proposal) if proposal.id == id => {
                record.proposal = None;
                Ok(Vec::new())
            }
            _ => Err(DeployError::Fleet("it is not there any more".to_owned())),
        });
        match withdrawn {
            Ok(_) | Err(DeployError::Fleet(_)) => {}
            Err(error) => {
                tracing::debug!(%error, "a proposal was not withdrawn");
                self.set_report(|report| report.given_up = Some(id.to_owned()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::deploy::fleet::HostReport;
    use crate::digest::Digest;

    #[test]
    fn a_proposal_counts_while_its_host_reports_and_has_not_given_it_up() {
        let host = |instance: &str, seconds, given_up: Option<&str>| {
            let report = HostReport { given_up: given_up.map(str::to_owned), ..HostReport::default() };
            FleetHost {
                instance: instance.to_owned(),
                name: "web".to_owned(),
                age: Duration::from_secs(seconds),
                read_at: std::time::Instant::now(),
                report,
            }
        };
        let (id, component) = ("7".to_owned(), "admin".to_owned());
        let proposal = PendingChange { id, host: "web#1".to_owned(), component, digest: Digest::of(b"new") };
        assert!(coordinator(&proposal, &[host("web#2", 1, None), host("web#1", 9, Some("6"))]).is_some());
        assert!(coordinator(&proposal, &[host("web#2", 1, None), host("web#1", 10, None)]).is_none(), "it is gone");
        assert!(coordinator(&proposal, &[host("web#2", 1, None)]).is_none(), "another one has its name");
        assert!(coordinator(&proposal, &[host("web#1", 1, Some("7"))]).is_none());
        // An earlier build: the name is the key.
        assert!(
            coordinator(&PendingChange { host: "db:/data".to_owned(), ..proposal }, &[host("db:/data", 1, None)])
                .is_some()
        );
    }
}
