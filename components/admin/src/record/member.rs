//! Memberships. All of one user are one stored record, so those that arrive together are written
//! together.

use super::word;
use crate::bad_line::{BadLine, Unapplied};
use directory::access::Role;
use directory::member::{self, Changes, Membership, Source};
use kit::store::Fault;
use kit::{Env, Timestamp};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::num::NonZeroU64;

/// How many memberships are collected before they are written.
const MAX_PENDING: usize = 10_000;

/// Memberships that are read and not written yet.
#[derive(Default)]
pub struct Pending {
    by_user: BTreeMap<u64, Changes>,
    count: usize,
}

impl Pending {
    fn add(&mut self, env: &Env, user_id: u64, source: Source, membership: Option<Membership>) -> Result<(), Fault> {
        self.by_user.entry(user_id).or_default().insert(source, membership);
        self.count += 1;
        if self.count >= MAX_PENDING { self.write(env) } else { Ok(()) }
    }

    /// Writes what is collected.
    pub fn write(&mut self, env: &Env) -> Result<(), Fault> {
        self.count = 0;
        std::mem::take(&mut self.by_user).iter().try_for_each(|(user_id, changes)| member::save(env, *user_id, changes))
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
    pub fn apply(self, env: &Env, deleted: bool, pending: &mut Pending) -> Result<(), Unapplied> {
        let source = match (self.source_type.as_deref(), self.source_id) {
            (Some("group" | "namespace"), Some(id)) => Source::Group(id.get()),
            (Some("project"), Some(id)) => Source::Project(id.get()),
            _ => return Err(BadLine::Fields("source_type must be group or project, with a source_id").into()),
        };
        let awaited = self.requested_at.is_some() || self.state.as_deref().is_some_and(|state| state != "active");
        let membership = match (deleted || awaited, self.access_level) {
            (true, _) | (_, Some(Role::None)) => None,
            (false, Some(role)) => Some(Membership { role, expires_at: self.expires_at }),
            (false, None) => return Err(BadLine::Fields("access_level is missing").into()),
        };
        Ok(pending.add(env, self.user_id.get(), source, membership)?)
    }
}
