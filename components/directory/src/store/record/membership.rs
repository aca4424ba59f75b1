//! The stored forms of a user's memberships and of an invited group.

use super::is_default::is_default;
use crate::model::membership::{Membership, Memberships, Share, Source};
use crate::model::role::Role;
use kit::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShareRecord {
    pub group_id: u64,
    role: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    expires_at: Option<Timestamp>,
}

impl From<ShareRecord> for Share {
    fn from(share: ShareRecord) -> Self {
        let role = Role::from_level(share.role).unwrap_or(Role::None);
        Share { group_id: share.group_id, role, expires_at: share.expires_at }
    }
}

impl From<Share> for ShareRecord {
    fn from(share: Share) -> Self {
        ShareRecord { group_id: share.group_id, role: share.role.level(), expires_at: share.expires_at }
    }
}

/// Every membership of one user, by the id of the group or project.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MembershipsRecord {
    #[serde(default)]
    groups: BTreeMap<u64, MembershipRecord>,
    #[serde(default)]
    projects: BTreeMap<u64, MembershipRecord>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct MembershipRecord {
    role: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    expires_at: Option<Timestamp>,
}

impl From<MembershipsRecord> for Memberships {
    fn from(record: MembershipsRecord) -> Self {
        let groups = record.groups.into_iter().map(|(id, member)| (Source::Group(id), member));
        let projects = record.projects.into_iter().map(|(id, member)| (Source::Project(id), member));
        let membership = |member: MembershipRecord| Membership {
            role: Role::from_level(member.role).unwrap_or(Role::None),
            expires_at: member.expires_at,
        };
        Memberships(groups.chain(projects).map(|(source, member)| (source, membership(member))).collect())
    }
}

impl From<&Memberships> for MembershipsRecord {
    fn from(memberships: &Memberships) -> Self {
        let mut record = MembershipsRecord::default();
        for (source, membership) in &memberships.0 {
            let member = MembershipRecord { role: membership.role.level(), expires_at: membership.expires_at };
            match *source {
                Source::Group(id) => record.groups.insert(id, member),
                Source::Project(id) => record.projects.insert(id, member),
            };
        }
        record
    }
}
