//! Memberships. All memberships of a user are one stored record, so a batch writes them together.

use super::deserialize;
use crate::line_error::{InvalidLine, LineError};
use directory::access::Role;
use directory::catalog;
use directory::catalog::dangling::DeletedRecords;
use directory::member::{self, Membership, MembershipChanges, Source};
use kit::ndjson::ImportReport;
use kit::store::StoreError;
use kit::{Env, Timestamp};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::num::NonZeroU64;

/// Changes of memberships that are parsed and not written yet, by user.
#[derive(Default)]
pub struct PendingMemberships(BTreeMap<u64, MembershipsOfUser>);

#[derive(Default)]
struct MembershipsOfUser {
    changes: MembershipChanges,
    /// The numbers and sources of the lines that change them.
    lines: Vec<(u64, Source)>,
}

impl PendingMemberships {
    fn add(&mut self, line: u64, user_id: u64, source: Source, membership: Option<Membership>) {
        let of_user = self.0.entry(user_id).or_default();
        of_user.changes.insert(source, membership);
        of_user.lines.push((line, source));
    }

    /// Writes the collected changes, one record for each user, and reports their lines. Roles of deleted users, groups
    /// and projects are not stored, because a later record with the id must not inherit them. 1 read for each user,
    /// group and project.
    pub fn write(self, env: &Env, deleted: &mut DeletedRecords, report: &mut ImportReport) -> Result<(), StoreError> {
        for (user_id, MembershipsOfUser { mut changes, lines }) in self.0 {
            let mut deleted_names = BTreeMap::new();
            for (source, membership) in &mut changes {
                if membership.is_none() {
                    continue;
                }
                if let Some(name) = deleted_record(env, deleted, user_id, *source)? {
                    deleted_names.insert(*source, name);
                    *membership = None;
                }
            }
            match member::save(env, user_id, &changes).map_err(LineError::from) {
                Ok(()) => lines.iter().for_each(|(line, source)| {
                    report.imported("member");
                    if let Some(name) = deleted_names.get(source) {
                        report.warn(*line, format!("{name} is deleted, and nobody has the role"));
                    }
                }),
                Err(LineError::Invalid(invalid)) => lines.iter().for_each(|(line, _)| report.failed(*line, &invalid)),
                Err(LineError::Store(error)) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The name of the user, group or project, if it is deleted.
fn deleted_record(
    env: &Env,
    deleted: &mut DeletedRecords,
    user_id: u64,
    source: Source,
) -> Result<Option<String>, StoreError> {
    if deleted.user(env, user_id)? {
        return Ok(Some(format!("user {user_id}")));
    }
    Ok(deleted.source(env, source)?.then(|| match source {
        Source::Group(id) => format!("group {id}"),
        Source::Project(id) => format!("project {id}"),
    }))
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
    /// `active`, or for example `awaiting` before the membership is approved.
    state: Option<String>,
    /// Present while a request for access is not granted yet.
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
