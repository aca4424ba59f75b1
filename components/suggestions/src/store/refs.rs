//! Refs: the branches and tags of a repository.
//!
//! A commit of suggestions and the fact that they are applied must become visible together. Only one root can be
//! swapped at once, so the ref of the branch names the suggestions that its last commit applied. The next request that
//! moves the ref first writes a record for each of them. At every moment and after every crash, a suggestion is applied
//! if it has a record, or if the head of its branch names it.
//!
//! The values of refs. Refs that are updated together are locked by a transaction. One
//! swap of the transaction's own root decides about all of them, so a reader of a locked ref reads that root.
//!
//! A writer that finds a ref locked by an undecided transaction aborts it, so that no request that died holds up others.
//!
//! Updates of several refs, all of them or none. Each ref is locked, in the order of the names. One swap decides. Then
//! the locks are replaced by the new values, or the old ones. If an update breaks off in between, the next writer of
//! each ref completes it.

use crate::git::{MAX_REF_NAME, ObjectId};
use crate::repository_id::RepositoryId;
use crate::store::counter;
use crate::store::key::Key;
use crate::store::record::{AppliedRecord, RefLockRecord, RefRecord, ReflogRecord, TransactionRecord};
use kit::root::{self, Decision};
use kit::store::StoreError;
use kit::{Env, gc};

/// The value of a branch (`heads/main`) or tag (`tags/v1`); `None` if there is no such ref. 1 read.
pub fn read(env: &Env, project: RepositoryId, name: &str) -> Result<Option<RefValue>, StoreError> {
    // A longer name, of a branch that a client or an import names, could be too long for a key.
    if name.len() > MAX_REF_NAME {
        return Ok(None);
    }
    let key = Key::Ref(project, name).to_string();
    let record = root::read::<Option<RefRecord>>(&*env.store, &key)?.flatten();
    read_value(env, record)
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
        let mut current = read_value(env, record.clone())?;
        loop {
            let (new, answer) = match decide(current.clone())? {
                Decision::Keep(answer) => return Ok::<_, E>(Decision::Keep(answer)),
                Decision::Replace(new, answer) => (new, answer),
            };
            let resolved = resolve_value(env, record.clone())?;
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
        if read_applied(env, *id)?.is_none() {
            save_applied(env, &[*id], &commit)?;
        }
    }
    Ok(())
}

/// Records the value of a ref before it is moved to a commit whose history may not contain that value. Garbage
/// collection keeps objects that reflog entries reach. So it misses no commit that moves from one ref to another
/// meanwhile, and removes nothing below a commit that a concurrent request builds on.
pub fn save_reflog_entry(env: &Env, project: RepositoryId, commit: ObjectId) -> Result<(), StoreError> {
    counter::write(env, &Key::ReflogEntry(&env.with_current_time().id()), &ReflogRecord::new(project, commit))
}

/// Where a ref points, and how it got there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefValue {
    pub commit: ObjectId,
    /// The suggestions that the commit applied.
    pub applied: Vec<u64>,
    /// The id of the request that moved the ref, by which that request recognises its own write.
    pub operation: String,
}

impl From<RefRecord> for RefValue {
    fn from(record: RefRecord) -> Self {
        RefValue { commit: record.commit, applied: record.applied, operation: record.operation }
    }
}

impl From<RefValue> for RefRecord {
    fn from(value: RefValue) -> Self {
        RefRecord { commit: value.commit, applied: value.applied, operation: value.operation, lock: None }
    }
}

/// The value of a ref that is locked, before and after the transaction.
fn values(record: &RefRecord, lock: &RefLockRecord) -> [Option<RefValue>; 2] {
    let old = RefValue { commit: record.commit, applied: record.applied.clone(), operation: record.operation.clone() };
    let new = |commit| RefValue { commit, applied: Vec::new(), operation: lock.transaction.clone() };
    [(!lock.is_creation).then_some(old), lock.new.map(new)]
}

fn value_by(record: &RefRecord, lock: &RefLockRecord, outcome: TransactionRecord) -> Option<RefValue> {
    let [old, new] = values(record, lock);
    if outcome == TransactionRecord::Committed { new } else { old }
}

/// The present value of a ref whose record was read. 1 read if the ref is locked.
pub fn read_value(env: &Env, record: Option<RefRecord>) -> Result<Option<RefValue>, StoreError> {
    let Some(record) = record else { return Ok(None) };
    let Some(lock) = &record.lock else { return Ok(Some(record.into())) };
    let outcome = read_outcome(env, &lock.transaction)?;
    Ok(value_by(&record, lock, outcome))
}

/// How a transaction ended, or that it is undecided. 1 read.
pub fn read_outcome(env: &Env, transaction: &str) -> Result<TransactionRecord, StoreError> {
    // If garbage collection has removed the transaction, it has no locks.
    Ok(root::read(&*env.store, &transaction_key(transaction))?.unwrap_or(TransactionRecord::Aborted))
}

/// As [`read_value`], for a writer: aborts an undecided transaction.
pub fn resolve_value(env: &Env, record: Option<RefRecord>) -> Result<Option<RefValue>, StoreError> {
    let Some(record) = record else { return Ok(None) };
    let Some(lock) = &record.lock else { return Ok(Some(record.into())) };
    let outcome = decide(env, &lock.transaction, TransactionRecord::Aborted)?;
    Ok(value_by(&record, lock, outcome))
}

fn transaction_key(id: &str) -> String {
    Key::RefTransaction(id).to_string()
}

/// Begins a transaction, before it locks a ref. Returns its id.
pub fn begin(env: &Env) -> Result<String, StoreError> {
    let id = env.id();
    let record = serde_json::to_vec(&TransactionRecord::Undecided).map_err(|why| StoreError::corrupt(&id, why))?;
    // No other request knows the id yet.
    env.store.set(&transaction_key(&id), &record)?;
    Ok(id)
}

/// Decides a transaction, unless it is decided already. Returns the decision.
pub fn decide(env: &Env, transaction: &str, wanted: TransactionRecord) -> Result<TransactionRecord, StoreError> {
    root::update(env, &transaction_key(transaction), |outcome: Option<TransactionRecord>| match outcome {
        Some(TransactionRecord::Undecided) if gc::is_too_late(env) && wanted == TransactionRecord::Committed => {
            Err(StoreError::TooLate)
        }
        Some(TransactionRecord::Undecided) => Ok(Decision::Replace(wanted, wanted)),
        // Garbage collection has removed it, so it has no locks, or they were never written.
        None => Ok(Decision::Keep(TransactionRecord::Aborted)),
        Some(outcome) => Ok(Decision::Keep(outcome)),
    })
}

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
    let transaction = begin(env)?;
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
    let outcome = decide(env, &transaction, wanted)?;
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
        if is_locked && read_outcome(env, transaction)? != TransactionRecord::Undecided {
            return Ok(Decision::Keep(Err(LockError::Aborted)));
        }
        let current = resolve_value(env, record)?;
        // The other transaction may have been committed meanwhile.
        if let Some(refusal) = refusal(current.as_ref()) {
            return Ok(Decision::Keep(refusal));
        }
        // As before every other write of a ref: once this is decided, its present value is not visible any more.
        if let Some(value) = &current {
            record_applied_suggestions(env, value)?;
            save_reflog_entry(env, project, value.commit)?;
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

/// The commit that applied a suggestion. Never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedCommit {
    pub commit: ObjectId,
    /// The id of the request that applied the suggestion.
    pub operation: String,
}

/// The commit that applied a suggestion, if it is recorded. Until a branch moves on, its head may be
/// the only record (see [`crate::store::refs::RefValue::applied`]). 1 read.
pub fn read_applied(env: &Env, suggestion: u64) -> Result<Option<AppliedCommit>, StoreError> {
    let record = counter::read::<AppliedRecord>(env, &Key::Applied(suggestion))?;
    Ok(record.map(|AppliedRecord { commit, operation }| AppliedCommit { commit, operation }))
}

/// Records the commit that applied these suggestions.
pub fn save_applied(env: &Env, suggestions: &[u64], applied: &AppliedCommit) -> Result<(), StoreError> {
    let record = AppliedRecord { commit: applied.commit, operation: applied.operation.clone() };
    suggestions.iter().try_for_each(|id| counter::write(env, &Key::Applied(*id), &record))
}
