//! Who is a member of which group or project, and which groups are invited into others.

use crate::access::Role;
use crate::store::{self, Key};
use kit::store::StoreError;
use kit::{Env, Timestamp};
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

/// Every direct membership of a user. 1 read.
pub fn of_user(env: &Env, user_id: u64) -> Result<Memberships, StoreError> {
    let record = store::read::<store::Access>(env, &Key::Access(user_id))?;
    Ok(record.map(Memberships::from).unwrap_or_default())
}

/// What becomes of some of a user's memberships; `None` ends one.
pub type Changes = BTreeMap<Source, Option<Membership>>;

/// Changes memberships of a user. Neither the user nor the sources need be known yet: a membership
/// of something that does not exist gives no rights.
pub fn save(env: &Env, user_id: u64, changes: &Changes) -> Result<(), StoreError> {
    store::update(env, &Key::Access(user_id), |current: Option<store::Access>| {
        let mut memberships = current.map(Memberships::from).unwrap_or_default();
        for (source, membership) in changes {
            match membership {
                Some(membership) => memberships.0.insert(*source, *membership),
                None => memberships.0.remove(source),
            };
        }
        store::Access::from(&memberships)
    })
}
