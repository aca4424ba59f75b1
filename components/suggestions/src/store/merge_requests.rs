//! Merge requests, by project and iid.

use super::key::Key;
use super::record::MergeRequestRecord;
use crate::merge_request::MergeRequest;
use kit::Env;
use kit::root::{self, Decision};
use kit::store::StoreError;

/// The merge request with this iid in a project. 1 read.
pub fn read(env: &Env, project: u64, iid: u64) -> Result<Option<MergeRequest>, StoreError> {
    let key = Key::MergeRequest(project, iid).to_string();
    let record = root::read::<Option<MergeRequestRecord>>(&*env.store, &key)?.flatten();
    Ok(record.map(MergeRequest::from))
}

/// Creates or replaces a merge request; `None` deletes it.
pub fn save(env: &Env, project: u64, iid: u64, new: Option<&MergeRequest>) -> Result<(), StoreError> {
    let new = new.map(MergeRequestRecord::from);
    let key = Key::MergeRequest(project, iid).to_string();
    root::update(env, &key, |current: Option<Option<MergeRequestRecord>>| {
        let unchanged = current.flatten() == new;
        Ok(if unchanged { Decision::Done(()) } else { Decision::Write(new.clone(), ()) })
    })
}
