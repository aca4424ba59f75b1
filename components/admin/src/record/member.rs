//! Memberships. All memberships of one user are one stored record, so those of a batch are written
//! together.

use super::deserialize;
use crate::line_error::{InvalidLine, LineError};
use directory::access::Role;
use directory::catalog;
use directory::member::{self, Membership, MembershipChanges, Source};
use kit::ndjson::ImportReport;
use kit::store::StoreError;
use kit::{Env, Timestamp};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::num::NonZeroU64;

/// Changes of memberships that are read and not written yet, by user.
#[derive(Default)]
pub struct PendingMemberships(BTreeMap<u64, MembershipsOfUser>);

#[derive(Default)]
struct MembershipsOfUser {
    changes: MembershipChanges,
    /// The numbers of the lines that change them.
    lines: Vec<u64>,
}

impl PendingMemberships {
    fn add(&mut self, line: u64, user_id: u64, source: Source, membership: Option<Membership>) {
        let of_user = self.0.entry(user_id).or_default();
        of_user.changes.insert(source, membership);
        of_user.lines.push(line);
    }

    /// Writes the collected changes, one record for each user, and reports their lines.
    pub fn write(self, env: &Env, report: &mut ImportReport) -> Result<(), StoreError> {
        for (user_id, MembershipsOfUser { changes, lines }) in self.0 {
            match member::save(env, user_id, &changes).map_err(LineError::from) {
                Ok(()) => lines.iter().for_each(|_| report.imported("member")),
                Err(LineError::Invalid(invalid)) => lines.iter().for_each(|line| report.failed(*line, &invalid)),
                Err(LineError::Store(error)) => return Err(error),
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
pub struct MemberRecord {
    #[serde(default, deserialize_with = "deserialize::lower_case")]
    source_type: Option<String>,
    source_id: Option<NonZeroU64>,
    user_id: NonZeroU64,
    #[serde(default, deserialize_with = "deserialize::some_role")]
    access_level: Option<Role>,
    #[serde(default, deserialize_with = "deserialize::expires_at")]
    expires_at: Option<Timestamp>,
    /// `active`, or for example `awaiting` until the membership is approved.
    state: Option<String>,
    /// Set while access is requested and not granted.
    requested_at: Option<String>,
}

impl MemberRecord {
    fn source(&self) -> Option<Source> {
        match (self.source_type.as_deref(), self.source_id) {
            (Some("group" | "namespace"), Some(id)) => Some(Source::Group(id.get())),
            (Some("project"), Some(id)) => Some(Source::Project(id.get())),
            _ => None,
        }
    }

    pub fn add_to(&self, changes: &mut catalog::changes::Changes) {
        if let Some(source) = self.source() {
            changes.member(source, self.user_id.get());
        }
    }

    pub fn apply(self, line: u64, deleted: bool, pending: &mut PendingMemberships) -> Result<(), LineError> {
        let Some(source) = self.source() else {
            return Err(InvalidLine::Fields("source_type must be group or project, with a source_id").into());
        };
        let is_pending = self.requested_at.is_some() || self.state.as_deref().is_some_and(|state| state != "active");
        let membership = match (deleted || is_pending, self.access_level) {
            (true, _) | (_, Some(Role::None)) => None,
            (false, Some(role)) => Some(Membership { role, expires_at: self.expires_at }),
            (false, None) => return Err(InvalidLine::Fields("access_level is missing").into()),
        };
        pending.add(line, self.user_id.get(), source, membership);
        Ok(())
    }
}
