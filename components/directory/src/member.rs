//! Direct memberships of users.

pub(crate) use crate::model::membership::is_current;
pub use crate::model::membership::{Membership, MembershipChanges, Memberships, Share, Source};

use crate::store::{self, Key, MembershipsRecord};
use kit::Env;
use kit::store::StoreError;
use std::rc::Rc;

/// Every direct membership of a user. 1 read.
pub fn of_user(env: &Env, user_id: u64) -> Result<Memberships, StoreError> {
    let record = store::read::<MembershipsRecord>(env, &Key::Memberships(user_id))?;
    Ok(record.map(Memberships::from).unwrap_or_default())
}

/// Like [`of_user`]; an instance decodes the memberships once.
pub(crate) fn shared_of_user(env: &Env, user_id: u64) -> Result<Rc<Memberships>, StoreError> {
    let memberships = store::read_cached(env, &Key::Memberships(user_id), MembershipsRecord::into)?;
    Ok(memberships.unwrap_or_default())
}

/// Changes memberships of a user. The user and the sources may be unknown: a membership of a group or project without a
/// record gives no rights.
pub fn save(env: &Env, user_id: u64, changes: &MembershipChanges) -> Result<(), StoreError> {
    store::update(env, &Key::Memberships(user_id), |current: Option<MembershipsRecord>| {
        let mut memberships = current.map(Memberships::from).unwrap_or_default();
        for (source, membership) in changes {
            match membership {
                Some(membership) => memberships.0.insert(*source, *membership),
                None => memberships.0.remove(source),
            };
        }
        MembershipsRecord::from(&memberships)
    })
}
