//! Copies the active components with a store: from the files of a data folder to the tables of a shared store, and
//! back. A canary is not copied, because a trial does not outlive a restart.

use std::collections::BTreeMap;
use std::path::Path;

use hexad_store::StoreError;
use hexad_store_postgres::FleetStore;
use hexad_support::digest::Digest;

use super::artifacts::Artifacts;
use super::audit::{Action, Audit, AuditEntry};
use super::files::{completed, io_error};
use super::fleet::{ServingEntry, ServingRecord, decode, fetch_from, new_id, publish_to};
use super::policy::Signature;
use super::record::{RecordEntry, Records};
use super::transfer::{FOLDER, RECORD};
use super::{DeployError, HOST};

/// The reason in the audit log's line of each component.
const REASON: &str = "copied with the store";

/// Where a store has the record of active components.
pub enum RecordLocation<'a> {
    /// The data folder.
    Folder(&'a Path),
    Fleet(FleetStore),
}

impl RecordLocation<'_> {
    /// Whether no component was ever swapped in.
    pub fn is_empty(&self) -> Result<bool, DeployError> {
        Ok(match self {
            Self::Folder(data) => open_records(data)?.iter().next().is_none(),
            Self::Fleet(store) => store.read().map_err(DeployError::Store)?.revision == 0,
        })
    }

    /// Copies the active components to an empty location, and returns how many there are.
    pub fn copy_to(&self, target: &RecordLocation<'_>) -> Result<usize, DeployError> {
        let mut entries = self.entries()?;
        for entry in entries.values_mut() {
            let (wasm, signature) = self.component(&entry.digest)?;
            target.put(&entry.digest, wasm, signature.as_ref())?;
            // The previous component may be missing: only a rollback needs it.
            let previous = entry.previous.and_then(|digest| Some((digest, self.component(&digest).ok()?)));
            entry.previous = previous.as_ref().map(|(digest, _)| *digest);
            if let Some((digest, (wasm, signature))) = previous {
                target.put(&digest, wasm, signature.as_ref())?;
            }
        }
        let components = entries.len();
        if components > 0 {
            target.record(entries)?;
        }
        Ok(components)
    }

    fn entries(&self) -> Result<BTreeMap<String, RecordEntry>, DeployError> {
        Ok(match self {
            Self::Folder(data) => {
                open_records(data)?.iter().map(|(component, entry)| (component.to_owned(), entry.clone())).collect()
            }
            Self::Fleet(store) => {
                let (_, record) = decode(&store.read().map_err(DeployError::Store)?)?;
                let entry =
                    |entry: ServingEntry| RecordEntry { digest: entry.digest, previous: entry.previous, source: None };
                record.components.into_iter().map(|(component, served)| (component, entry(served))).collect()
            }
        })
    }

    fn component(&self, digest: &Digest) -> Result<(Vec<u8>, Option<Signature>), DeployError> {
        match self {
            Self::Folder(data) => {
                let artifacts = open_artifacts(data)?;
                let wasm = artifacts.read(digest).map_err(io_error("a component that was swapped in"))?;
                // An unreadable signature counts as absent. A policy that needs a signature reports it.
                Ok((wasm, Signature::read(&Signature::beside(&artifacts.path(digest))).ok().flatten()))
            }
            Self::Fleet(store) => fetch_from(store, digest),
        }
    }

    fn put(&self, digest: &Digest, wasm: Vec<u8>, signature: Option<&Signature>) -> Result<(), DeployError> {
        match self {
            Self::Folder(data) => {
                open_artifacts(data)?.keep(digest, &wasm, signature).map_err(io_error("the components of the copy"))
            }
            Self::Fleet(store) => publish_to(store, digest, wasm, signature),
        }
    }

    /// Writes the record, and before it a line of the audit log for each component.
    fn record(&self, entries: BTreeMap<String, RecordEntry>) -> Result<(), DeployError> {
        let line = |(component, entry): (&String, &RecordEntry)| -> String {
            let line = completed(HOST, Action::Swap, component, entry.digest, entry.previous);
            AuditEntry { reason: Some(REASON), ..line }.to_json()
        };
        let lines: Vec<String> = entries.iter().map(line).collect();
        match self {
            Self::Folder(data) => {
                let log = Audit::open(&data.join("audit.ndjson"));
                let logged = log.and_then(|mut log| log.append_lines(&lines));
                logged.map_err(io_error("the audit log"))?;
                open_records(data)?.set_copied(entries).map_err(io_error("the serving record"))
            }
            Self::Fleet(store) => {
                let id = new_id()?;
                let entry = |entry: RecordEntry| {
                    let (RecordEntry { digest, previous, .. }, by) = (entry, HOST.to_owned());
                    ServingEntry { digest, previous, canary: None, by, action: Action::Swap, reason: None }
                };
                let components = entries.into_iter().map(|(component, copied)| (component, entry(copied))).collect();
                let recent = BTreeMap::from([(1, id.clone())]);
                let record = ServingRecord { id, components, proposal: None, recent };
                let text = serde_json::to_string(&record)
                    .map_err(|error| DeployError::Store(StoreError::Engine(error.to_string().into())))?;
                match store.replace(0, &text, HOST, lines).map_err(DeployError::Store)? {
                    Some(_) => Ok(()),
                    None => Err(DeployError::Fleet("a host has swapped in a component meanwhile".to_owned())),
                }
            }
        }
    }
}

fn open_records(data: &Path) -> Result<Records, DeployError> {
    Records::open(data.join(FOLDER).join(RECORD)).map_err(io_error("the serving record"))
}

fn open_artifacts(data: &Path) -> Result<Artifacts, DeployError> {
    Artifacts::open(data.join(FOLDER)).map_err(io_error("the folder of components"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet_hosts::{Host, start};

    #[test]
    fn deployments_are_copied_to_a_store_and_back() {
        let Some(server) = start() else { return };
        let (folder, back) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (source, returned) = (RecordLocation::Folder(folder.path()), RecordLocation::Folder(back.path()));
        let signature: Signature = "QUJD".repeat(21).chars().chain("QQ==".chars()).collect::<String>().parse().unwrap();
        let (new, old, gone) = (Digest::of(b"new"), Digest::of(b"old"), Digest::of(b"gone"));
        let artifacts = open_artifacts(folder.path()).unwrap();
        artifacts.keep(&new, b"new", Some(&signature)).unwrap();
        artifacts.keep(&old, b"old", None).unwrap();
        let mut records = open_records(folder.path()).unwrap();
        let entry = |digest, previous| RecordEntry { digest, previous: Some(previous), source: Some(old) };
        records.set("admin", Some(entry(new, old))).unwrap();
        records.set("hello", Some(entry(old, gone))).unwrap();

        let host = Host::open(&server.new_database("copied"));
        let fleet = RecordLocation::Fleet(host.store.fleet());
        assert!(!source.is_empty().unwrap() && fleet.is_empty().unwrap() && returned.is_empty().unwrap());
        assert_eq!(source.copy_to(&fleet).unwrap(), 2);
        let (record_version, record) = decode(&host.store.fleet().read().unwrap()).unwrap();
        assert_eq!(
            (record_version, record.components["admin"].digest, record.components["admin"].previous),
            (1, new, Some(old))
        );
        assert_eq!(record.components["hello"].previous, None, "it is not there");
        let lines = server.sql_in("copied", "select entry::json->>'component' from hexad.audit order by id;");
        assert_eq!(lines, "admin\nhello\n");
        // The copy does not overwrite a store that has deployed components.
        assert!(source.copy_to(&fleet).is_err() && !fleet.is_empty().unwrap());

        assert_eq!(fleet.copy_to(&returned).unwrap(), 2);
        assert_eq!(returned.component(&new).unwrap(), (b"new".to_vec(), Some(signature)));
        let kept: Vec<(String, Digest)> =
            returned.entries().unwrap().into_iter().map(|(component, entry)| (component, entry.digest)).collect();
        assert_eq!(kept, [("admin".to_owned(), new), ("hello".to_owned(), old)]);
        let log = std::fs::read_to_string(back.path().join("audit.ndjson")).unwrap();
        assert!(log.lines().count() == 2 && log.contains(REASON), "{log}");
    }
}
