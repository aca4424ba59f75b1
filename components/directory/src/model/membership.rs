//! Memberships of users, and groups that are invited into groups or projects.

use super::role::Role;
use kit::Timestamp;
use std::collections::BTreeMap;

/// A group or project that has members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Group(u64),
    Project(u64),
}

/// A role in a group or project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Membership {
    pub role: Role,
    /// The role ends at this moment.
    pub expires_at: Option<Timestamp>,
}

/// An invited group. Its members get the role that they have in it, but at most `role`.
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

/// Whether the expiry, if any, is in the future.
pub(crate) fn is_current(expires_at: Option<Timestamp>, now: Timestamp) -> bool {
    expires_at.is_none_or(|end| now < end)
}

/// Changes of a user's memberships; `None` ends a membership.
pub type MembershipChanges = BTreeMap<Source, Option<Membership>>;
