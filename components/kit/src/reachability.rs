//! Reachability: finds the blobs that the roots of an area reach, in bounded steps. Garbage collection ([`crate::gc`])
//! and checks ([`crate::fsck`]) are both such walks.
//!
//! A *run* visits every root and marks the blobs that it names. If blobs name other blobs, the run then visits each
//! marked blob once, which marks more. The marks are a log in the store, as in Cheney's collector. Its unvisited part
//! is the remaining work, and the whole log is the set of reachable blobs. So the memory and the time of a step do not
//! grow with the store. The cursor between two steps is a position in the log. The log is sorted before many blobs are
//! looked up in it ([`SortedMarks`]).

mod log;
mod walk;

pub use log::{Cursor, LONGEST_RUN, MarkLog, Phase, SortedMarks, StepError};
pub use walk::{Progress, Visitor, step};

use crate::clock::Timestamp;
use crate::id;
use crate::store::StoreError;
use std::collections::{BTreeSet, HashSet};
use std::fmt;

/// The least age, in milliseconds, that an unmarked blob must have at the beginning of a run ([`crate::gc`]).
pub const GRACE: i64 = 2 * 60 * 60 * 1000;

/// The key prefixes of an area, by kind. Each list is sorted, and no prefix starts with another.
pub struct KeyLayout {
    /// Roots that name blobs.
    pub roots: Vec<String>,
    /// Roots that name no blobs. Only checks visit them.
    pub records: Vec<String>,
    pub blobs: Vec<String>,
    /// The prefix of the mark logs of runs.
    pub marks: String,
}

/// A node of the graph of roots and blobs. A root is given by its key.
#[derive(Debug, Clone, Copy)]
pub enum Node<'a> {
    Root(&'a str),
    Blob(&'a BlobId),
}

/// An area's roots and blobs, and the blobs that each node names.
pub trait GcSource {
    /// The prefixes of the area's keys.
    fn layout(&self) -> KeyLayout;

    /// Reads a node and marks every blob that it names; an error if they cannot be known. Returns false if the key of a
    /// root holds no root. With [`Tracer::check`], it also checks everything that no other visit reads.
    fn visit(&self, node: Node, tracer: &mut Tracer) -> Result<bool, StoreError>;

    /// Whether a root's owner was deleted. Garbage collection then removes the root, and the blobs that only it names
    /// are garbage. If a damaged record hides the answer, it is an error: the root is kept, and the record is reported.
    fn is_orphaned(&self, _key: &str) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Removes an orphaned root and the records that name it. Must be repeatable. It counts each record that it changes
    /// ([`Tracer::count_change`]), which bounds the step. A removal longer than a step has parts: a call that finds the
    /// step full ([`Tracer::is_full`]) suspends the removal. The root is removed last.
    fn remove_orphaned(&self, _key: &str, _tracer: &mut Tracer) -> Result<(), StoreError> {
        Ok(())
    }

    /// The failure domain of a node: the part of the area that its damage makes uncollectable. `None`: damage ends the
    /// run.
    fn failure_domain(&self, _node: Node) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    /// Whether a blob's key may belong to one of these damaged failure domains.
    fn may_be_in(&self, _prefix: &str, _rest: &str, _damaged: &BTreeSet<String>) -> bool {
        true
    }

    /// Whether blobs name other blobs, so that marked blobs must be visited.
    fn follows(&self) -> bool {
        false
    }

    /// The blob that the key `prefix` + `rest` belongs to. Keys of a blob are kept or removed together. A key without
    /// one is never removed.
    fn blob_id(&self, _prefix: &str, rest: &str) -> Option<BlobId> {
        BlobId::of_id(rest.split('/').next()?)
    }

    /// Whether an unmarked blob is garbage. It must be so old that its writer has put it into a root before the run
    /// began, or never will.
    fn is_garbage(&self, _prefix: &str, blob: &BlobId, run_began: Timestamp) -> bool {
        blob.is_older(run_began, GRACE)
    }

    /// Whether an unmarked key that [`GcSource::is_garbage`] accepts may be removed. It may read the key.
    fn confirms_garbage(&self, _prefix: &str, _rest: &str, _run_began: Timestamp) -> Result<bool, StoreError> {
        Ok(true)
    }
}

/// The identity of a blob in the mark log: a time-ordered id, or bytes that an area derives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobId(pub [u8; BlobId::LENGTH]);

impl BlobId {
    /// The length in bytes.
    pub const LENGTH: usize = 32;

    /// A time-ordered id, followed by zeros; `None` if the text is no id.
    pub fn of_id(id: &str) -> Option<Self> {
        let mut bytes = [0; BlobId::LENGTH];
        let digits = id::number(id)?.to_be_bytes();
        bytes.iter_mut().zip(digits).for_each(|(byte, digit)| *byte = digit);
        Some(BlobId(bytes))
    }

    /// The time-ordered id that this was made from; `None` for bytes that an area derived.
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

/// A change of a record counts as reading this many bytes, because a change of a remote store may take that long.
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
    /// Key and remark: sound values that an operator should know of.
    pub(crate) remarks: Vec<(String, String)>,
    /// The position at which an earlier step suspended the removal of a root.
    resumed: Option<String>,
    /// The position at which this step suspends a removal.
    suspended: Option<String>,
}

impl Tracer {
    /// Counts a record that was changed or removed. A step changes at most about a thousand records.
    pub fn count_change(&mut self) {
        self.bytes += BYTES_OF_A_CHANGE;
    }

    /// Whether the step has reached its bound.
    pub fn is_full(&self) -> bool {
        self.bytes >= BYTES_OF_A_STEP
    }

    /// Ends the step before the visited root is removed. The next step visits that root again with this position, which
    /// must have no colon.
    pub fn suspend(&mut self, position: String) {
        self.suspended = Some(position);
    }

    /// The position at which the previous step suspended a removal. The root may have changed since.
    pub fn resume(&mut self) -> Option<String> {
        self.resumed.take()
    }

    /// Whether the next step must visit this root again.
    pub fn is_suspended(&self) -> bool {
        self.suspended.is_some()
    }

    /// A tracer without findings; see [`Tracer::check`].
    pub fn new(check: bool) -> Self {
        Tracer { check, ..Tracer::default() }
    }

    /// Marks the blobs with this time-ordered id. Other text is ignored: such blobs are never removed.
    pub fn mark_id(&mut self, id: &str) {
        self.marks.extend(BlobId::of_id(id));
    }

    /// Marks a blob.
    pub fn mark(&mut self, blob: BlobId) {
        self.marks.insert(blob);
    }

    /// Counts a blob of `bytes` bytes that was read.
    pub fn read(&mut self, bytes: usize) {
        self.blobs += 1;
        self.bytes += bytes as u64;
    }

    /// Records a problem; the visit continues. Only for checks.
    pub fn report(&mut self, key: impl fmt::Display, problem: impl fmt::Display) {
        self.problems.push((key.to_string(), problem.to_string()));
    }

    /// Records a remark: a fact that is listed but is no problem. Only for checks.
    pub fn remark(&mut self, key: impl fmt::Display, remark: impl fmt::Display) {
        self.remarks.push((key.to_string(), remark.to_string()));
    }

    /// Records damage as a problem, so that the visit can continue; passes other errors through.
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

    /// Key and problem of each problem so far.
    pub fn problems(&self) -> &[(String, String)] {
        &self.problems
    }

    pub(crate) fn extend(&mut self, other: Tracer) {
        self.marks.extend(other.marks);
        self.blobs += other.blobs;
        self.bytes += other.bytes;
        self.problems.extend(other.problems);
    }
}

#[cfg(test)]
mod tests;
