//! Updates of several refs, all of them or none. Each ref is locked, in the order of the names. One swap decides. Then
//! the locks are replaced by the new values, or the old ones. If an update breaks off in between, the next writer of
//! each ref completes it ([`super::ref_value`]).

use super::key::Key;
use super::record::{RefLockRecord, RefRecord, TransactionRecord};
use super::ref_value::{self, RefValue, read_value, resolve_value};
use super::refs;
use crate::git::ObjectId;
use crate::repository_id::RepositoryId;
use kit::Env;
use kit::root::{self, Decision};
use kit::store::StoreError;

/// A requested change of a ref.
pub struct RefChange<'a> {
    /// Below `refs/`.
    pub name: &'a str,
    /// The value that the ref must have; `None`: it must not exist.
    pub old: Option<ObjectId>,
    /// `None` deletes it.
    pub new: Option<ObjectId>,
}

/// Why none of the refs was updated.
#[derive(Debug, PartialEq, Eq)]
pub enum Conflict {
    /// The ref at this position of the list has another value.
    Moved(usize, Option<ObjectId>),
    /// Another writer of one of the refs aborted this transaction before it was decided.
    Aborted,
}

/// Updates refs, each of which is given once. The names of new refs must have been reserved before. After an error, it
/// is unknown whether they were updated.
pub fn update_all(env: &Env, project: RepositoryId, changes: &[RefChange]) -> Result<Result<(), Conflict>, StoreError> {
    let transaction = ref_value::begin(env)?;
    let mut order: Vec<(usize, &RefChange)> = changes.iter().enumerate().collect();
    order.sort_by_key(|(_, change)| change.name);
    let mut conflict = None;
    for (position, change) in &order {
        match lock(env, project, change, &transaction)? {
            Ok(()) => continue,
            Err(LockError::Moved(current)) => conflict = Some(Conflict::Moved(*position, current)),
            Err(LockError::Aborted) => conflict = Some(Conflict::Aborted),
        }
        break;
    }
    let wanted = if conflict.is_none() { TransactionRecord::Committed } else { TransactionRecord::Aborted };
    let outcome = ref_value::decide(env, &transaction, wanted)?;
    for (_, change) in &order {
        // The transaction is decided, and readers of a locked ref see that. The next writer of the ref replaces the
        // lock.
        if let Err(error) = unlock(env, project, change.name, &transaction) {
            eprintln!("{} of repository {project} stays locked by a decided transaction: {error}", change.name);
        }
    }
    Ok(match (outcome, conflict) {
        (TransactionRecord::Committed, _) => Ok(()),
        (_, conflict) => Err(conflict.unwrap_or(Conflict::Aborted)),
    })
}

/// Why a ref was not locked.
enum LockError {
    /// It has this value instead of the expected one.
    Moved(Option<ObjectId>),
    /// The transaction was aborted.
    Aborted,
}

fn lock(
    env: &Env,
    project: RepositoryId,
    change: &RefChange,
    transaction: &str,
) -> Result<Result<(), LockError>, StoreError> {
    let key = Key::Ref(project, change.name).to_string();
    root::update(env, &key, |record: Option<Option<RefRecord>>| {
        let record = record.flatten();
        if is_locked_by(record.as_ref(), transaction) {
            return Ok(Decision::Keep(Ok(())));
        }
        let refusal = |value: Option<&RefValue>| {
            let commit = value.map(|value| value.commit);
            // The deletion of a missing ref succeeds, as in git.
            let is_done = commit.is_none() && change.new.is_none();
            (commit != change.old).then_some(if is_done { Ok(()) } else { Err(LockError::Moved(commit)) })
        };
        if let Some(refusal) = refusal(read_value(env, record.clone())?.as_ref()) {
            return Ok(Decision::Keep(refusal));
        }
        // A transaction that was aborted aborts no other one. Otherwise both of two that meet could lose.
        let is_locked = record.as_ref().is_some_and(|record| record.lock.is_some());
        if is_locked && ref_value::read_outcome(env, transaction)? != TransactionRecord::Undecided {
            return Ok(Decision::Keep(Err(LockError::Aborted)));
        }
        let current = resolve_value(env, record)?;
        // The other transaction may have been committed meanwhile.
        if let Some(refusal) = refusal(current.as_ref()) {
            return Ok(Decision::Keep(refusal));
        }
        // As before every other write of a ref: once this is decided, its present value is not visible any more.
        if let Some(value) = &current {
            refs::record_applied_suggestions(env, value)?;
            refs::save_reflog_entry(env, project, value.commit)?;
        }
        let lock =
            RefLockRecord { transaction: transaction.to_owned(), new: change.new, is_creation: current.is_none() };
        let record = match (current, change.new) {
            (Some(value), _) => RefRecord { lock: Some(lock), ..value.into() },
            (None, Some(commit)) => {
                RefRecord { commit, applied: Vec::new(), operation: transaction.to_owned(), lock: Some(lock) }
            }
            (None, None) => return Ok(Decision::Keep(Ok(()))),
        };
        Ok(Decision::Replace(Some(record), Ok(())))
    })
}

/// Replaces the lock of a decided transaction by the value that the ref has.
fn unlock(env: &Env, project: RepositoryId, name: &str, transaction: &str) -> Result<(), StoreError> {
    let key = Key::Ref(project, name).to_string();
    root::update(env, &key, |record: Option<Option<RefRecord>>| {
        let record = record.flatten();
        if !is_locked_by(record.as_ref(), transaction) {
            return Ok(Decision::Keep(()));
        }
        Ok::<_, StoreError>(Decision::Replace(read_value(env, record)?.map(RefRecord::from), ()))
    })
}

fn is_locked_by(record: Option<&RefRecord>, transaction: &str) -> bool {
    record.and_then(|record| record.lock.as_ref()).is_some_and(|lock| lock.transaction == transaction)
}
