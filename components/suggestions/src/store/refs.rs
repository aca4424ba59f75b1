//! Branches: where each one stands, and which there are.
//!
//! A commit of suggestions and the fact that they are applied have to appear together. The root of
//! the branch is the one thing that is swapped, so it names the suggestions of its last commit; and
//! whoever moves it on first writes a record for each of them. A suggestion is therefore applied if
//! it has a record or if the head of its branch names it, at every moment and after every crash.

use super::record::{HeadRecord, LeftRecord, NamesRecord};
use super::{Applied, Key, put, save_applied};
use crate::git::Id;
use kit::Env;
use kit::root::{self, Decision};
use kit::store::StoreError;
use std::collections::BTreeSet;

/// Where a branch stands, and how it came there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub commit: Id,
    /// The suggestions that the commit applied.
    pub applied: Vec<u64>,
    /// Of the request that moved it, by which that one knows its own work.
    pub operation: String,
}

/// A branch as it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tip {
    At(Head),
    Gone,
}

/// Where a branch (`heads/main`) or tag (`tags/v1`) stands; `None` if there is none. 1 read.
pub fn head(env: &Env, project: u64, name: &str) -> Result<Option<Head>, StoreError> {
    let key = Key::Branch(project, name).to_string();
    let record = root::read::<Option<HeadRecord>>(&*env.store, &key)?.flatten();
    Ok(record.map(Head::from))
}

/// Moves a branch as [`root::update`] does. A new one must have been announced with
/// [`save_names`].
pub fn update_head<T, E: From<StoreError>>(
    env: &Env,
    project: u64,
    name: &str,
    mut decide: impl FnMut(Option<Head>) -> Result<Decision<Tip, T>, E>,
) -> Result<T, E> {
    let key = Key::Branch(project, name).to_string();
    root::update(&*env.store, &key, |record: Option<Option<HeadRecord>>| {
        let current = record.flatten().map(Head::from);
        Ok(match decide(current.clone())? {
            Decision::Done(answer) => Decision::Done(answer),
            Decision::Write(tip, answer) => {
                current.map_or(Ok(()), |left| settle(env, &left))?;
                let record = match tip {
                    Tip::At(head) => Some(HeadRecord::from(head)),
                    Tip::Gone => None,
                };
                Decision::Write(record, answer)
            }
        })
    })
}

/// Notes where a branch stood, before it is moved to where that may not be in its history, so that
/// the removal of garbage does not miss what goes from one branch to another meanwhile, and what is
/// built on it in this moment is whole.
pub fn save_left(env: &Env, project: u64, commit: Id) -> Result<(), StoreError> {
    put(env, &Key::Left(&env.later().id()), &LeftRecord { project_id: project, commit })
}

/// Writes the records of the suggestions that a head names, where they are missing: whoever made
/// that commit may have died before.
fn settle(env: &Env, head: &Head) -> Result<(), StoreError> {
    let applied = Applied { commit: head.commit, operation: head.operation.clone() };
    for id in &head.applied {
        if super::applied(env, *id)?.is_none() {
            save_applied(env, &[*id], &applied)?;
        }
    }
    Ok(())
}

/// The branches and tags that a project may have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    pub names: BTreeSet<String>,
    /// The branch that the imported repository had checked out.
    pub default: Option<String>,
}

/// 1 read.
pub fn names(env: &Env, project: u64) -> Result<Names, StoreError> {
    let key = Key::Branches(project).to_string();
    let record = root::read::<NamesRecord>(&*env.store, &key)?.unwrap_or_default();
    Ok(Names { names: record.names, default: record.default })
}

/// Adds names, and replaces the default if there is a new one.
pub fn save_names(env: &Env, project: u64, new: &Names) -> Result<(), StoreError> {
    let key = Key::Branches(project).to_string();
    root::update(&*env.store, &key, |current: Option<NamesRecord>| {
        let mut record = current.clone().unwrap_or_default();
        record.names.extend(new.names.iter().cloned());
        record.default = new.default.clone().or(record.default);
        Ok(if current.as_ref() == Some(&record) { Decision::Done(()) } else { Decision::Write(record, ()) })
    })
}
