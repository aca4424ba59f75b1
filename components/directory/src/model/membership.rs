//! Memberships of users, and groups that are invited into others.

use super::role::Role;
use kit::Timestamp;
use std::collections::BTreeMap;

/// What one can be a member of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Group(u64),
    Project(u64),
}

/// A role, and the end of its last day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Membership {
    pub role: Role,
    /// From this moment on it does not count.
    pub expires_at: Option<Timestamp>,
}

/// A group that is invited: its members have their own role in it, but at most `role`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub group_id: u64,
    pub role: Role,
    pub expires_at: Option<Timestamp>,
}

/// Every direct membership of one user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memberships(pub BTreeMap<Source, Membership>);

impl Memberships {
    /// The direct role in `source` at the moment `now`.
    pub fn role(&self, source: Source, now: Timestamp) -> Role {
        match self.0.get(&source) {
            Some(membership) if is_current(membership.expires_at, now) => membership.role,
            _ => Role::None,
        }
    }
}

/// Whether something that expires (or never does) still counts.
pub(crate) fn is_current(expires_at: Option<Timestamp>, now: Timestamp) -> bool {
    expires_at.is_none_or(|end| now < end)
}

/// Changes to a user's memberships; `None` ends one.
pub type MembershipChanges = BTreeMap<Source, Option<Membership>>;
