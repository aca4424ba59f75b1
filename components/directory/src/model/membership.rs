//! Memberships of users, and groups that are invited into groups or projects.

use super::is_default;
use kit::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A group or project that has members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Group(u64),
    Project(u64),
}

/// A role in a group or project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    pub role: Role,
    /// The role ends at this moment.
    #[serde(default, skip_serializing_if = "is_default")]
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

/// A role in a group or project, ordered by its rights. The numbers are the reference service's `access_level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "u64", into = "u64")]
pub enum Role {
    None = 0,
    /// Counts as a member, but gives no rights.
    MinimalAccess = 5,
    Guest = 10,
    Planner = 15,
    Reporter = 20,
    Developer = 30,
    Maintainer = 40,
    Owner = 50,
}

impl Role {
    const ALL: [Role; 8] = [
        Role::None,
        Role::MinimalAccess,
        Role::Guest,
        Role::Planner,
        Role::Reporter,
        Role::Developer,
        Role::Maintainer,
        Role::Owner,
    ];

    /// The role with this `access_level`.
    pub fn from_level(level: u64) -> Option<Self> {
        Role::ALL.into_iter().find(|role| role.level() == level)
    }

    pub fn level(self) -> u64 {
        self as u64
    }
}

/// An unknown `access_level` in a record gives no rights.
impl From<u64> for Role {
    fn from(level: u64) -> Self {
        Role::from_level(level).unwrap_or(Role::None)
    }
}

impl From<Role> for u64 {
    fn from(role: Role) -> Self {
        role.level()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_have_the_access_levels_of_the_api() {
        for level in [0, 5, 10, 15, 20, 30, 40, 50] {
            assert_eq!(Role::from_level(level).map(Role::level), Some(level));
        }
        assert_eq!(Role::from_level(25), None);
        assert!(Role::Planner < Role::Reporter && Role::MinimalAccess < Role::Guest);
    }
}
