//! Refs: the branches and tags of a repository.
//!
//! A commit of suggestions and the fact that they are applied must become visible together. Only one root can be
//! swapped at once, so the ref of the branch names the suggestions that its last commit applied. The next request that
//! moves the ref first writes a record for each of them. At every moment and after every crash, a suggestion is applied
//! if it has a record, or if the head of its branch names it.

use super::applied::{self, AppliedCommit};
use super::json_blob;
use super::key::Key;
use super::record::{RefRecord, ReflogRecord};
use super::ref_value;
use crate::git::{MAX_REF_NAME, ObjectId};
use crate::repository_id::RepositoryId;
use kit::Env;
use kit::gc;
use kit::root::{self, Decision};
use kit::store::StoreError;

pub use super::ref_value::RefValue;

/// The value of a branch (`heads/main`) or tag (`tags/v1`); `None` if there is no such ref. 1 read.
pub fn read(env: &Env, project: RepositoryId, name: &str) -> Result<Option<RefValue>, StoreError> {
    // A longer name, of a branch that a client or an import names, could be too long for a key.
    if name.len() > MAX_REF_NAME {
        return Ok(None);
    }
    let key = Key::Ref(project, name).to_string();
    let record = root::read::<Option<RefRecord>>(&*env.store, &key)?.flatten();
    ref_value::read_value(env, record)
}

/// Updates a ref as [`root::update`] does; writing `None` deletes it. The name of a new ref must have been reserved
/// before ([`super::ref_names`]). A transaction that has locked the ref is aborted only if the ref is written.
pub fn update<T, E: From<StoreError>>(
    env: &Env,
    project: RepositoryId,
    name: &str,
    mut decide: impl FnMut(Option<RefValue>) -> Result<Decision<Option<RefValue>, T>, E>,
) -> Result<T, E> {
    let key = Key::Ref(project, name).to_string();
    root::update(env, &key, |record: Option<Option<RefRecord>>| {
        let record = record.flatten();
        let mut current = ref_value::read_value(env, record.clone())?;
        loop {
            let (new, answer) = match decide(current.clone())? {
                Decision::Keep(answer) => return Ok::<_, E>(Decision::Keep(answer)),
                Decision::Replace(new, answer) => (new, answer),
            };
            let resolved = ref_value::resolve_value(env, record.clone())?;
            if resolved != current {
                // The transaction was committed meanwhile.
                current = resolved;
                continue;
            }
            // The name may not be reserved any more.
            if new.is_some() && gc::is_too_late(env) {
                return Err(StoreError::TooLate.into());
            }
            current.map_or(Ok(()), |old| record_applied_suggestions(env, &old))?;
            return Ok(Decision::Replace(new.map(RefRecord::from), answer));
        }
    })
}

/// Writes the records of the suggestions that a ref names, where they are missing: the request that
/// made the commit may have died before it wrote them.
pub fn record_applied_suggestions(env: &Env, value: &RefValue) -> Result<(), StoreError> {
    let commit = AppliedCommit { commit: value.commit, operation: value.operation.clone() };
    for id in &value.applied {
        if applied::read(env, *id)?.is_none() {
            applied::save(env, &[*id], &commit)?;
        }
    }
    Ok(())
}

/// Records the value of a ref before it is moved to a commit whose history may not contain that value. Garbage
/// collection keeps objects that reflog entries reach. So it misses no commit that moves from one ref to another
/// meanwhile, and removes nothing below a commit that a concurrent request builds on.
pub fn save_reflog_entry(env: &Env, project: RepositoryId, commit: ObjectId) -> Result<(), StoreError> {
    json_blob::write(env, &Key::ReflogEntry(&env.with_current_time().id()), &ReflogRecord::new(project, commit))
}
