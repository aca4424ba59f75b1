//! Reachability: which blobs the roots of an area reach, found in bounded steps. Garbage collection
//! ([`crate::gc`]) and checks ([`crate::fsck`]) are both such walks.
//!
//! A *run* visits every root and marks the blobs that it names. Where blobs name other blobs, it
//! then visits each marked blob once, which marks more. The marks are a log in the store, as in
//! Cheney's collector: the part that is not yet visited is the work that is left, and the whole log
//! is the set of reachable blobs. So neither the memory nor the time of a step grows with the store,
//! and the cursor between two steps is a position in that log. To look many blobs up in it, the log is
//! sorted first ([`SortedMarks`]).

mod cursor;
mod log;
mod sorted;
mod walk;

pub use cursor::{Cursor, LONGEST_RUN, Phase, StepError};
pub use log::MarkLog;
pub use sorted::SortedMarks;
pub use walk::{Progress, Visitor, step};

use crate::clock::Timestamp;
use crate::id;
use crate::store::StoreError;
use std::collections::{BTreeSet, HashSet};
use std::fmt;

/// The age, in milliseconds, that an unmarked blob must have when a run begins to be its garbage.
/// [`crate::gc`] says why this is safe.
pub const GRACE: i64 = 2 * 60 * 60 * 1000;

/// The key prefixes of an area, by kind. Each list is sorted, and no prefix starts with another.
pub struct KeyLayout {
    /// Roots that name blobs.
    pub roots: Vec<String>,
    /// Roots that name no blobs; only checks visit them.
    pub records: Vec<String>,
    pub blobs: Vec<String>,
    /// Mark logs of runs.
    pub marks: String,
}

/// A node of the graph of roots and blobs. A root is given by its key.
#[derive(Debug, Clone, Copy)]
pub enum Node<'a> {
    Root(&'a str),
    Blob(&'a BlobId),
}

/// An area's knowledge of its keys: which are roots, and which blobs each node names.
pub trait GcSource {
    fn layout(&self) -> KeyLayout;

    /// Reads a node and marks all the blobs that it names; an error if they cannot be known. Returns
    /// false if the key of a root holds no root. With [`Tracer::check`], also checks everything that
    /// no other visit reads.
    fn visit(&self, node: Node, tracer: &mut Tracer) -> Result<bool, StoreError>;

    /// Whether a root's owner was deleted, so that garbage collection removes the root. The blobs that only it names
    /// are garbage then. If that is not known, because a record is damaged, it is an error: the root is kept, and the
    /// record is reported.
    fn is_orphaned(&self, _key: &str) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Removes an orphaned root, and the records that name it. Must be repeatable. Each record that it changes is
    /// counted ([`Tracer::count_change`]), so that a step ends in time. A root that takes more than a step is removed
    /// in parts: a call that finds the step full ([`Tracer::is_full`]) suspends the removal, with the root last.
    fn remove_orphaned(&self, _key: &str, _tracer: &mut Tracer) -> Result<(), StoreError> {
        Ok(())
    }

    /// The part of the area that a node belongs to, if damage of that node leaves the other parts collectable. `None`:
    /// damage of the node ends a collection.
    fn failure_domain(&self, _node: Node) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    /// Whether a key of a blob may belong to one of these parts, which are damaged.
    fn may_be_in(&self, _prefix: &str, _rest: &str, _damaged: &BTreeSet<String>) -> bool {
        true
    }

    /// Whether blobs name other blobs, so that marked ones must be visited.
    fn follows(&self) -> bool {
        false
    }

    /// The blob that the key `prefix` + `rest` belongs to; keys with the same blob are kept or removed
    /// together. A key without one is never removed.
    fn blob_id(&self, _prefix: &str, rest: &str) -> Option<BlobId> {
        BlobId::of_id(rest.split('/').next()?)
    }

    /// Whether an unmarked blob is garbage. It must be so old that its writer has either put it into a
    /// root before the run began or never will.
    fn is_garbage(&self, _prefix: &str, blob: &BlobId, run_began: Timestamp) -> bool {
        blob.is_older(run_began, GRACE)
    }
}

/// The identity of a blob in the mark log: a time-ordered id, or bytes that an area derives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobId(pub [u8; BlobId::LENGTH]);

impl BlobId {
    /// In bytes.
    pub const LENGTH: usize = 32;

    /// From a time-ordered id; the second half is zeros.
    pub fn of_id(id: &str) -> Option<Self> {
        let mut bytes = [0; BlobId::LENGTH];
        let digits = id::number(id)?.to_be_bytes();
        bytes.iter_mut().zip(digits).for_each(|(byte, digit)| *byte = digit);
        Some(BlobId(bytes))
    }

    /// The time-ordered id that this was made from; `None` if an area derived it otherwise.
    pub fn id(&self) -> Option<u128> {
        let (id, rest) = self.0.split_first_chunk()?;
        rest.iter().all(|byte| *byte == 0).then(|| u128::from_be_bytes(*id))
    }

    /// Whether this is a time-ordered id from more than `millis` milliseconds before `moment`.
    pub fn is_older(&self, moment: Timestamp, millis: i64) -> bool {
        self.id().is_some_and(|id| id::made_at(id).millis() < moment.millis() - millis)
    }
}

/// The most bytes that one step reads.
const BYTES_OF_A_STEP: u64 = 256 << 20;

/// A change of a record, as long as it may take on a store that is elsewhere, counts as reading so many bytes.
const BYTES_OF_A_CHANGE: u64 = 256 << 10;

/// Collects the findings of visits: marks, counts and, in a check, problems.
#[derive(Default)]
pub struct Tracer {
    marks: HashSet<BlobId>,
    /// Blobs that were read, and their bytes.
    blobs: u64,
    bytes: u64,
    /// Whether visits read and check everything, or only records that name blobs.
    pub check: bool,
    /// Key and problem.
    problems: Vec<(String, String)>,
    /// Key and remark: of sound values that an operator should know of.
    pub(crate) remarks: Vec<(String, String)>,
    /// How far an earlier step came with the removal of a root that it suspended.
    resumed: Option<String>,
    /// How far this step came with such a removal.
    suspended: Option<String>,
}

impl Tracer {
    /// A record was changed or removed: a step does not do that more than about a thousand times.
    pub fn count_change(&mut self) {
        self.bytes += BYTES_OF_A_CHANGE;
    }

    /// Whether the step has done as much as one may.
    pub fn is_full(&self) -> bool {
        self.bytes >= BYTES_OF_A_STEP
    }

    /// Ends the step before the root that it visits is removed. The next step visits that root again, with this
    /// position, which has no colon.
    pub fn suspend(&mut self, position: String) {
        self.suspended = Some(position);
    }

    /// The position at which the step before this one suspended a removal. The root may be another one by now, or
    /// have changed.
    pub fn resume(&mut self) -> Option<String> {
        self.resumed.take()
    }

    /// Whether the root that was visited is to be visited again.
    pub fn is_suspended(&self) -> bool {
        self.suspended.is_some()
    }

    pub fn new(check: bool) -> Self {
        Tracer { check, ..Tracer::default() }
    }

    /// Marks the blobs with this time-ordered id. Text that is no id is ignored: no blob of such a
    /// name is ever removed.
    pub fn mark_id(&mut self, id: &str) {
        self.marks.extend(BlobId::of_id(id));
    }

    pub fn mark(&mut self, blob: BlobId) {
        self.marks.insert(blob);
    }

    /// Counts a blob of `bytes` bytes that was read.
    pub fn read(&mut self, bytes: usize) {
        self.blobs += 1;
        self.bytes += bytes as u64;
    }

    /// Records a problem; the visit goes on. Only for checks.
    pub fn report(&mut self, key: impl fmt::Display, problem: impl fmt::Display) {
        self.problems.push((key.to_string(), problem.to_string()));
    }

    /// Records what is no problem, and is to be listed. Only for checks.
    pub fn remark(&mut self, key: impl fmt::Display, remark: impl fmt::Display) {
        self.remarks.push((key.to_string(), remark.to_string()));
    }

    /// Records damage as a problem, so that the visit can go on; passes other errors through.
    pub fn tolerate<T>(&mut self, outcome: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(StoreError::Corrupt { key, why }) => {
                self.report(key, why);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn problems(&self) -> &[(String, String)] {
        &self.problems
    }

    /// Adds the findings of another tracer.
    pub(crate) fn extend(&mut self, other: Tracer) {
        self.marks.extend(other.marks);
        self.blobs += other.blobs;
        self.bytes += other.bytes;
        self.problems.extend(other.problems);
    }
}

#[cfg(test)]
mod tests;
