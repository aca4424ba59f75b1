//! Memberships. All memberships of one user are one stored record, so those of a batch are written
//! together.

use super::deserialize;
use crate::line_error::{InvalidLine, LineError};
use directory::access::Role;
use directory::catalog;
use directory::member::{self, Membership, MembershipChanges, Source};
use kit::store::StoreError;
use kit::{Env, Timestamp};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::num::NonZeroU64;

/// Changes of memberships that are read and not written yet, by user.
#[derive(Default)]
pub struct PendingMemberships(BTreeMap<u64, MembershipChanges>);

impl PendingMemberships {
    fn add(&mut self, user_id: u64, source: Source, membership: Option<Membership>) {
        self.0.entry(user_id).or_default().insert(source, membership);
    }

    /// Writes the collected changes: one record for each user.
    pub fn write(self, env: &Env) -> Result<(), StoreError> {
        self.0.iter().try_for_each(|(user_id, changes)| member::save(env, *user_id, changes))
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

    pub fn apply(self, deleted: bool, pending: &mut PendingMemberships) -> Result<(), LineError> {
        let Some(source) = self.source() else {
            return Err(InvalidLine::Fields("source_type must be group or project, with a source_id").into());
        };
        let is_pending = self.requested_at.is_some() || self.state.as_deref().is_some_and(|state| state != "active");
        let membership = match (deleted || is_pending, self.access_level) {
            (true, _) | (_, Some(Role::None)) => None,
            (false, Some(role)) => Some(Membership { role, expires_at: self.expires_at }),
            (false, None) => return Err(InvalidLine::Fields("access_level is missing").into()),
        };
        pending.add(self.user_id.get(), source, membership);
        Ok(())
    }
}
