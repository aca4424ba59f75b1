//! Memberships. All of one user are one stored record, so those that arrive together are written
//! together.

use super::word;
use crate::bad_line::{BadLine, Unapplied};
use directory::access::Role;
use directory::catalog;
use directory::member::{self, Membership, MembershipChanges, Source};
use kit::store::StoreError;
use kit::{Env, Timestamp};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::num::NonZeroU64;

/// Memberships that are read and not written yet.
#[derive(Default)]
pub struct Pending(BTreeMap<u64, MembershipChanges>);

impl Pending {
    fn add(&mut self, user_id: u64, source: Source, membership: Option<Membership>) {
        self.0.entry(user_id).or_default().insert(source, membership);
    }

    /// Writes what is collected.
    pub fn write(self, env: &Env) -> Result<(), StoreError> {
        self.0.iter().try_for_each(|(user_id, changes)| member::save(env, *user_id, changes))
    }
}

#[derive(Deserialize)]
pub struct Record {
    #[serde(default, deserialize_with = "word::lower_case")]
    source_type: Option<String>,
    source_id: Option<NonZeroU64>,
    user_id: NonZeroU64,
    #[serde(default, deserialize_with = "word::some_role")]
    access_level: Option<Role>,
    #[serde(default, deserialize_with = "word::moment")]
    expires_at: Option<Timestamp>,
    /// `awaiting` and the like until somebody approved.
    state: Option<String>,
    /// Set while access is asked for and not granted.
    requested_at: Option<String>,
}

impl Record {
    fn source(&self) -> Option<Source> {
        match (self.source_type.as_deref(), self.source_id) {
            (Some("group" | "namespace"), Some(id)) => Some(Source::Group(id.get())),
            (Some("project"), Some(id)) => Some(Source::Project(id.get())),
            _ => None,
        }
    }

    pub fn announce(&self, changes: &mut catalog::intent_log::Changes) {
        if let Some(source) = self.source() {
            changes.member(source, self.user_id.get());
        }
    }

    pub fn apply(self, deleted: bool, pending: &mut Pending) -> Result<(), Unapplied> {
        let Some(source) = self.source() else {
            return Err(BadLine::Fields("source_type must be group or project, with a source_id").into());
        };
        let awaited = self.requested_at.is_some() || self.state.as_deref().is_some_and(|state| state != "active");
        let membership = match (deleted || awaited, self.access_level) {
            (true, _) | (_, Some(Role::None)) => None,
            (false, Some(role)) => Some(Membership { role, expires_at: self.expires_at }),
            (false, None) => return Err(BadLine::Fields("access_level is missing").into()),
        };
        pending.add(self.user_id.get(), source, membership);
        Ok(())
    }
}
