//! Changes of the hosts' shared record, by compare-and-swap. If the reply to a change is lost, the host looks for the
//! change in the record or makes it again. It never reports such a change as one that did not take place.

use std::time::Duration;

use super::DeployError;
use super::fleet::{Fleet, ServingRecord};
use crate::store::StoreError;
use crate::store::postgres::ServingRow;

/// How many of the last versions a record lists with their ids.
const RECENT: usize = 32;

/// How often the host tries one change without a reply.
const MAX_UNKNOWN: u32 = 3;

/// How long the host waits for the store, to find out an unknown outcome.
const READ_BACK: Duration = Duration::from_secs(10);

/// Attempts of a change whose replies were lost.
#[derive(Default)]
struct Unknown {
    attempts: u32,
    /// The version that the last attempt was to replace, and its error. `None` if it is certain that no attempt has
    /// taken place or will.
    pending: Option<(i64, StoreError)>,
}

impl Unknown {
    /// The error of a change that the host cannot try again.
    fn refuse(&self, error: DeployError) -> DeployError {
        match &self.pending {
            Some((_, lost)) => DeployError::Unconfirmed(lost.clone()),
            None => error,
        }
    }

    /// Whether the host can try the change again. The present record does not have this change.
    fn settle(&mut self, record_version: i64, record: &ServingRecord) -> Result<(), DeployError> {
        let Some((replaced, lost)) = &self.pending else { return Ok(()) };
        // While the record stays the same, an attempt may still be in progress. The next one replaces the same version,
        // so that at most one of them succeeds.
        let may_follow = *replaced == record_version && self.attempts < MAX_UNKNOWN;
        // Another change has replaced that version.
        let is_settled = *replaced < record_version && record.recent.contains_key(&(replaced + 1));
        if !may_follow && !is_settled {
            return Err(DeployError::Unconfirmed(lost.clone()));
        }
        if is_settled {
            self.pending = None;
        }
        Ok(())
    }
}

impl Fleet {
    /// The version of the present record, and the record.
    pub fn read(&self) -> Result<(i64, ServingRecord), DeployError> {
        decode(&self.store.read().map_err(DeployError::Store)?)
    }

    /// Changes the record, and returns its new version. `change` gets the present record and returns lines for the
    /// audit log. The host calls `change` again if another host was faster, or if a reply is lost.
    ///
    /// `Unconfirmed` if a reply is lost and the record cannot be read, or does not show whether the change was made.
    pub fn update(
        &self,
        mut change: impl FnMut(&mut ServingRecord) -> Result<Vec<String>, DeployError>,
    ) -> Result<i64, DeployError> {
        let id = self.new_id()?;
        let mut unknown = Unknown::default();
        loop {
            let read = match &unknown.pending {
                None => self.read(),
                Some(_) => self.store.read_within(READ_BACK).map_err(DeployError::Store).and_then(|read| decode(&read)),
            };
            let (record_version, mut record) = read.map_err(|error| unknown.refuse(error))?;
            if let Some((record_version, _)) = record.recent.iter().find(|(_, recent)| **recent == id) {
                self.followed.wake();
                return Ok(*record_version);
            }
            unknown.settle(record_version, &record)?;
            let lines = change(&mut record).map_err(|error| unknown.refuse(error))?;
            record.id.clone_from(&id);
            record.recent.insert(record_version + 1, id.clone());
            while record.recent.len() > RECENT {
                record.recent.pop_first();
            }
            let text = serde_json::to_string(&record)
                .map_err(|error| DeployError::Store(StoreError::Engine(error.to_string().into())))?;
            match self.store.replace(record_version, &text, &self.name, lines) {
                Ok(Some(record_version)) => {
                    self.followed.wake();
                    return Ok(record_version);
                }
                // Another host was faster, or an earlier attempt of this change.
                Ok(None) => {}
                Err(error @ StoreError::Unknown { .. }) => {
                    unknown.attempts += 1;
                    unknown.pending = Some((record_version, error));
                }
                Err(error) => return Err(unknown.refuse(DeployError::Store(error))),
            }
        }
    }
}

pub(super) fn decode(serving: &ServingRow) -> Result<(i64, ServingRecord), DeployError> {
    let record = serde_json::from_str(&serving.record).map_err(|error| {
        let reason = format!("what the hosts serve is written in a form that this hexad does not read: {error}");
        DeployError::Store(StoreError::Engine(reason.into()))
    })?;
    Ok((serving.revision, record))
}

#[cfg(test)]
mod tests;
