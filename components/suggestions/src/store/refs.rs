//! Refs: the branches and tags of a repository.
//!
//! A commit of suggestions and the fact that they are applied must become visible together. Only one
//! root can be swapped at once, so the ref of the branch names the suggestions that its last commit
//! applied, and the next request that moves the ref first writes a record for each of them. A
//! suggestion is therefore applied if it has a record or if the head of its branch names it, at every
//! moment and after every crash.

use super::applied::{self, AppliedCommit};
use super::json_blob;
use super::key::Key;
use super::record::{RefNamesRecord, RefRecord, ReflogRecord};
use super::ref_value;
use crate::git::ObjectId;
use crate::repository_id::RepositoryId;
use kit::Env;
use kit::root::{self, Decision};
use kit::store::StoreError;
use std::collections::BTreeSet;

pub use super::ref_value::RefValue;

/// The value of a branch (`heads/main`) or tag (`tags/v1`); `None` if there is no such ref. 1 read.
pub fn read(env: &Env, project: RepositoryId, name: &str) -> Result<Option<RefValue>, StoreError> {
    let key = Key::Ref(project, name).to_string();
    let record = root::read::<Option<RefRecord>>(&*env.store, &key)?.flatten();
    ref_value::read_value(env, record)
}

/// Updates a ref as [`root::update`] does; writing `None` deletes it. The name of a new ref must have
/// been added with [`add_names`] before. The name of a deleted one is forgotten.
///
/// One request may create a ref that another one has deleted and not forgotten yet. So the one that creates
/// looks at the names afterwards, and the one that forgets looks at the ref: one of them sees the other.
pub fn update<T, E: From<StoreError>>(
    env: &Env,
    project: RepositoryId,
    name: &str,
    mut decide: impl FnMut(Option<RefValue>) -> Result<Decision<Option<RefValue>, T>, E>,
) -> Result<T, E> {
    let key = Key::Ref(project, name).to_string();
    // Whether the ref existed before the last write, and whether it does after it.
    let mut existence = (false, false);
    let answer = root::update(env, &key, |record: Option<Option<RefRecord>>| {
        let current = ref_value::settle_value(env, record.flatten())?;
        Ok::<_, E>(match decide(current.clone())? {
            Decision::Done(answer) => Decision::Done(answer),
            Decision::Write(new, answer) => {
                existence = (current.is_some(), new.is_some());
                current.map_or(Ok(()), |old| record_applied_suggestions(env, &old))?;
                Decision::Write(new.map(RefRecord::from), answer)
            }
        })
    })?;
    match existence {
        (true, false) => forget_name(env, project, name)?,
        (false, true) => add_name(env, project, name)?,
        _ => {}
    }
    Ok(answer)
}

fn add_name(env: &Env, project: RepositoryId, name: &str) -> Result<(), StoreError> {
    add_names(env, project, &RefNames { names: [name.to_owned()].into(), default: None })
}

/// Forgets the name of a deleted ref.
pub fn forget_name(env: &Env, project: RepositoryId, name: &str) -> Result<(), StoreError> {
    let key = Key::RefNames(project).to_string();
    root::update(env, &key, |current: Option<RefNamesRecord>| {
        let mut record = current.unwrap_or_default();
        let was_known = record.names.remove(name);
        Ok::<_, StoreError>(if was_known { Decision::Write(record, ()) } else { Decision::Done(()) })
    })?;
    if read(env, project, name)?.is_some() { add_name(env, project, name) } else { Ok(()) }
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

/// Records the value of a ref before it is moved to a commit whose history may not contain that value.
/// Garbage collection keeps what reflog entries reach, so it misses no commit that moves from one ref
/// to another meanwhile, and removes nothing below a commit that a concurrent request builds on.
pub fn save_reflog_entry(env: &Env, project: RepositoryId, commit: ObjectId) -> Result<(), StoreError> {
    json_blob::write(env, &Key::ReflogEntry(&env.later().id()), &ReflogRecord::new(project, commit))
}

/// The refs that a project may have: each existing ref has its name here, but a name may have no ref, in
/// stores of builds that did not forget those of deleted refs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefNames {
    pub names: BTreeSet<String>,
    /// The branch that the imported repository had checked out.
    pub default: Option<String>,
}

/// 1 read.
pub fn read_names(env: &Env, project: RepositoryId) -> Result<RefNames, StoreError> {
    let key = Key::RefNames(project).to_string();
    let record = root::read::<RefNamesRecord>(&*env.store, &key)?.unwrap_or_default();
    Ok(RefNames { names: record.names, default: record.default })
}

/// The branch that is protected as the default one: the one that the project names (`configured`), or else
/// `main`, or `master`, or the one that the imported repository had checked out. That one comes last, since
/// in a working copy it may be any. The first of them that is there. 1 read, or 1 for each candidate and for
/// the imported name.
pub fn read_default_branch(
    env: &Env,
    project: RepositoryId,
    configured: Option<&str>,
) -> Result<Option<String>, StoreError> {
    let is_there = |branch: &str| Ok::<_, StoreError>(read(env, project, &format!("heads/{branch}"))?.is_some());
    for branch in configured.into_iter().chain(["main", "master"]) {
        if is_there(branch)? {
            return Ok(Some(branch.to_owned()));
        }
    }
    let imported = read_names(env, project)?.default;
    match imported.as_deref().and_then(|name| name.strip_prefix("heads/")) {
        Some(branch) if is_there(branch)? => Ok(Some(branch.to_owned())),
        _ => Ok(None),
    }
}

/// Adds names, and replaces the default if there is a new one.
pub fn add_names(env: &Env, project: RepositoryId, new: &RefNames) -> Result<(), StoreError> {
    let key = Key::RefNames(project).to_string();
    root::update(env, &key, |current: Option<RefNamesRecord>| {
        let mut record = current.clone().unwrap_or_default();
        record.names.extend(new.names.iter().cloned());
        record.default = new.default.clone().or(record.default);
        Ok(if current.as_ref() == Some(&record) { Decision::Done(()) } else { Decision::Write(record, ()) })
    })
}
