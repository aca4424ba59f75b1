//! The values of refs. Refs that are updated together are locked by a transaction ([`super::ref_transaction`]). One
//! swap of the transaction's own root decides about all of them, so a reader of a locked ref reads that root.
//!
//! A writer that finds a ref locked by an undecided transaction aborts it, so that no request that died holds up others.

use super::key::Key;
use super::record::{RefLockRecord, RefRecord, TransactionRecord};
use crate::git::ObjectId;
use kit::Env;
use kit::gc;
use kit::root::{self, Decision};
use kit::store::StoreError;

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
