//! Everything that roots reach, in bounded steps: what removing garbage ([`crate::gc`]) and checking
//! the store ([`crate::fsck`]) have in common.
//!
//! A *run* visits every root, which marks what it names, and then, where blobs name others, every
//! marked blob once, which marks more. The marks are a log in the store: what is appended is what
//! is still to be visited, and what was visited stays as the answer to what is reached. So neither
//! memory nor time of a step grows with the store, and the cursor between two steps is a place in
//! the log.

mod log;

pub use log::Log;

use crate::clock::Timestamp;
use crate::env::Env;
use crate::fsck::{self, CheckReport};
use crate::gc::{self, GcReport, GcRequest};
use crate::id;
use crate::store::{StoreError, list_all};
use std::collections::HashSet;
use std::fmt;

/// How long a run may take, in milliseconds. Its log is garbage some time after that.
pub const LONGEST_RUN: i64 = 24 * 60 * 60 * 1000;

/// Bounds of one step: roots, blobs, marks, and bytes that were read.
const ROOTS: usize = 200;
const BLOBS: usize = 20_000;
const MARKS: usize = 50_000;
const BYTES: u64 = 256 << 20;

/// How many marks of the log a step keeps in memory: with more than these, some blobs are visited
/// again.
const KNOWN: usize = 1_000_000;

/// The end of the name of a blob of the log whose marks were visited when they were found.
const VISITED: &str = "-visited";

/// How many blobs of the log are listed at once.
const PAGE: usize = 1000;

/// Where an area keeps what, below the version of its format. Each list is sorted, and no prefix is
/// one of another.
pub struct KeyLayout {
    /// Prefixes of the roots that reach blobs.
    pub roots: Vec<String>,
    /// Prefixes of those that reach none, which are only checked.
    pub records: Vec<String>,
    /// Prefixes of the blobs.
    pub blobs: Vec<String>,
    /// The prefix of what runs mark.
    pub marks: String,
}

/// A place that is visited.
#[derive(Debug, Clone, Copy)]
pub enum Node<'a> {
    Root(&'a str),
    Blob(&'a BlobId),
}

/// What an area tells about what it stores.
pub trait Roots {
    fn plan(&self) -> KeyLayout;

    /// Reads what is at a place and marks the blobs that it names, all of them or nothing; a fault if
    /// that cannot be told. False means that a root's key is none. With [`Tracer::check`], everything
    /// that no other visit reads is read and checked, too.
    fn visit(&self, place: Node, visit: &mut Tracer) -> Result<bool, StoreError>;

    /// Whether marked blobs name others, so that they have to be visited.
    fn follows(&self) -> bool {
        false
    }

    /// The blob that a key below one of the plan's prefixes is of, without that prefix (`rest`);
    /// `None` is never removed. Blobs that have one id live and die together.
    fn mark(&self, _prefix: &str, rest: &str) -> Option<BlobId> {
        BlobId::of_id(rest.split('/').next()?)
    }

    /// Whether a blob that a run has not marked is garbage. It must be so old that whoever wrote it
    /// has put it into a root by then or never will.
    fn is_garbage(&self, _prefix: &str, mark: &BlobId, run_began: Timestamp) -> bool {
        mark.is_older(run_began, gc::GRACE)
    }

    /// A step of removing garbage.
    fn collect(&self, env: &Env, wanted: &GcRequest) -> Result<GcReport, StepError> {
        gc::step(env, self, wanted)
    }

    /// A step of checking everything.
    fn check(&self, env: &Env, cursor: Option<&str>) -> Result<CheckReport, StepError> {
        fsck::step(env, self, cursor)
    }
}

/// What tells a blob from all others: a time-ordered id, or what an area makes it of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobId(pub [u8; BlobId::LENGTH]);

impl BlobId {
    /// Bytes.
    pub const LENGTH: usize = 32;

    /// That of a time-ordered id; the last half is zeros.
    pub fn of_id(id: &str) -> Option<Self> {
        let mut bytes = [0; BlobId::LENGTH];
        let digits = id::number(id)?.to_be_bytes();
        bytes.iter_mut().zip(digits).for_each(|(byte, digit)| *byte = digit);
        Some(BlobId(bytes))
    }

    /// The id that this is the mark of; `None` if it is of none.
    pub fn id(&self) -> Option<u128> {
        let (id, rest) = self.0.split_first_chunk()?;
        rest.iter().all(|byte| *byte == 0).then(|| u128::from_be_bytes(*id))
    }

    /// Whether this is of an id that was made so many milliseconds before a moment.
    pub fn is_older(&self, moment: Timestamp, millis: i64) -> bool {
        self.id().is_some_and(|id| id::made_at(id).millis() < moment.millis() - millis)
    }
}

/// What a visit comes upon.
#[derive(Default)]
pub struct Tracer {
    marks: HashSet<BlobId>,
    /// Blobs that were read, and their bytes.
    blobs: u64,
    bytes: u64,
    /// Whether everything is read and checked, or only what tells what is reached.
    pub check: bool,
    problems: Vec<(String, String)>,
}

impl Tracer {
    pub fn new(check: bool) -> Self {
        Tracer { check, ..Tracer::default() }
    }

    /// What is visited names the blobs with this id. What is no id is never removed.
    pub fn reach(&mut self, id: &str) {
        self.marks.extend(BlobId::of_id(id));
    }

    pub fn mark(&mut self, mark: BlobId) {
        self.marks.insert(mark);
    }

    /// A blob of so many bytes was read.
    pub fn read(&mut self, bytes: usize) {
        self.blobs += 1;
        self.bytes += bytes as u64;
    }

    /// Something is wrong, and the visit goes on. Only for checks.
    pub fn found(&mut self, key: impl fmt::Display, problem: impl fmt::Display) {
        self.problems.push((key.to_string(), problem.to_string()));
    }

    /// Goes on after what is no more than damage.
    pub fn note<T>(&mut self, outcome: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(StoreError::Corrupt { key, why }) => {
                self.found(key, why);
                Ok(None)
            }
            Err(fault) => Err(fault),
        }
    }

    pub(crate) fn problems(&self) -> &[(String, String)] {
        &self.problems
    }

    /// Adds what another visit came upon.
    pub(crate) fn extend(&mut self, other: Tracer) {
        self.marks.extend(other.marks);
        self.blobs += other.blobs;
        self.bytes += other.bytes;
        self.problems.extend(other.problems);
    }
}

/// Why there is no step.
#[derive(Debug, PartialEq, Eq)]
pub enum StepError {
    /// Not a cursor of a run that goes on.
    Cursor,
    Store(StoreError),
}

impl From<StoreError> for StepError {
    fn from(fault: StoreError) -> Self {
        StepError::Store(fault)
    }
}

/// How far a run got.
pub struct Cursor {
    pub run: String,
    pub phase: Phase,
    /// The last key that was looked at.
    pub after: String,
}

/// `written`: blobs of the log.
pub enum Phase {
    Roots {
        written: u64,
    },
    /// `visited`: marks of the blob of the log after `after`.
    Blobs {
        written: u64,
        visited: usize,
    },
    /// What comes after the walk.
    Sweep,
}

impl Cursor {
    /// That of a run, or a new one; refused if the run took too long.
    pub fn of(env: &Env, text: Option<&str>) -> Result<Self, StepError> {
        let cursor = match text {
            None => Cursor { run: env.id(), phase: Phase::Roots { written: 0 }, after: String::new() },
            Some(text) => Cursor::parse(text).ok_or(StepError::Cursor)?,
        };
        let age = env.now.millis() - cursor.began()?.millis();
        if age.abs() > LONGEST_RUN { Err(StepError::Cursor) } else { Ok(cursor) }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.splitn(3, ':');
        let (run, phase, after) = (fields.next()?, fields.next()?, fields.next()?);
        let phase = match phase.split_at_checked(1)? {
            ("r", written) => Phase::Roots { written: written.parse().ok()? },
            ("b", places) => {
                let (written, visited) = places.split_once('.')?;
                Phase::Blobs { written: written.parse().ok()?, visited: visited.parse().ok()? }
            }
            _ if phase == "sweep" => Phase::Sweep,
            _ => return None,
        };
        Some(Cursor { run: run.to_owned(), phase, after: after.to_owned() })
    }

    pub fn began(&self) -> Result<Timestamp, StepError> {
        id::number(&self.run).map(id::made_at).ok_or(StepError::Cursor)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Cursor { run, phase, after } = self;
        match phase {
            Phase::Roots { written } => write!(f, "{run}:r{written}:{after}"),
            Phase::Blobs { written, visited } => write!(f, "{run}:b{written}.{visited}:{after}"),
            Phase::Sweep => write!(f, "{run}:sweep:{after}"),
        }
    }
}

/// What a step of the walk did.
#[derive(Default)]
pub struct Progress {
    pub roots: u64,
    pub blobs: u64,
    pub bytes: u64,
    /// How many blobs the log has, once everything that roots reach is in it.
    pub complete: Option<u64>,
}

/// A function that does a visit.
pub type Visitor<'a> = dyn FnMut(Node, &mut Tracer) -> Result<bool, StoreError> + 'a;

/// One step: visits the next places, and moves `cursor` on. A check visits the records, too.
pub fn step<K: Roots + ?Sized>(
    env: &Env,
    keeper: &K,
    cursor: &mut Cursor,
    check: bool,
    visitor: &mut Visitor,
) -> Result<Progress, StepError> {
    let mut plan = keeper.plan();
    let log = Log::of(env, &plan, &cursor.run);
    if check {
        plan.roots.append(&mut plan.records);
        plan.roots.sort_unstable();
    }
    match cursor.phase {
        Phase::Roots { written } => visit_roots(env, keeper, &plan, &log, cursor, written, visitor),
        Phase::Blobs { written, visited } => visit_blobs(env, &log, cursor, written, visited, visitor),
        Phase::Sweep => Err(StepError::Cursor),
    }
}

fn visit_roots<K: Roots + ?Sized>(
    env: &Env,
    keeper: &K,
    plan: &KeyLayout,
    log: &Log,
    cursor: &mut Cursor,
    mut written: u64,
    visitor: &mut Visitor,
) -> Result<Progress, StepError> {
    let prefixes: Vec<&str> = plan.roots.iter().map(String::as_str).collect();
    let keys = list_all(&*env.store, &prefixes, &cursor.after, ROOTS)?;
    let mut walked = Progress::default();
    let mut visit = Tracer::default();
    let mut left = keys.len();
    for key in &keys {
        walked.roots += u64::from(visitor(Node::Root(key), &mut visit)?);
        left -= 1;
        cursor.after.clone_from(key);
        if visit.marks.len() >= MARKS || visit.bytes >= BYTES {
            break;
        }
    }
    (walked.blobs, walked.bytes) = (visit.blobs, visit.bytes);
    log.append(env, &mut written, "", visit.marks)?;
    if keys.len() >= ROOTS || left > 0 {
        cursor.phase = Phase::Roots { written };
    } else if keeper.follows() {
        (cursor.phase, cursor.after) = (Phase::Blobs { written, visited: 0 }, String::new());
    } else {
        walked.complete = Some(written);
    }
    Ok(walked)
}

fn visit_blobs(
    env: &Env,
    log: &Log,
    cursor: &mut Cursor,
    mut written: u64,
    mut visited: usize,
    visitor: &mut Visitor,
) -> Result<Progress, StepError> {
    let keys = log.keys()?;
    // Fewer than were counted mean that marks are gone. More were left by a step that was repeated,
    // and may lie before the place that the walk has come to.
    if keys.len() as u64 != written {
        return Err(StepError::Cursor);
    }
    let (mut known, knows_all) = log.latest(&keys)?;
    let mut visit = Tracer::default();
    // What is found is visited at once, or else a long chain would take a step for each link.
    let (mut queue, mut visited_now) = (Vec::new(), Vec::new());
    let first = keys.partition_point(|key| *key <= cursor.after);
    let mut todo = keys.iter().skip(first).filter(|key| !log.is_visited(key));
    let (mut page, mut at): (Option<&String>, Vec<BlobId>) = (None, Vec::new());
    let mut is_end = false;
    for _ in 0..BLOBS {
        if visit.bytes >= BYTES || queue.len() + visited_now.len() >= MARKS {
            break;
        }
        if let Some(mark) = queue.pop() {
            visitor(Node::Blob(&mark), &mut visit)?;
            visited_now.push(mark);
        } else {
            while visited >= at.len() {
                if let Some(key) = page.take() {
                    (visited, cursor.after) = (0, key.clone());
                    at.clear();
                }
                let Some(key) = todo.next() else { break };
                (page, at) = (Some(key), log.read(key)?);
            }
            let Some(mark) = at.get(visited) else {
                is_end = true;
                break;
            };
            visitor(Node::Blob(mark), &mut visit)?;
            visited += 1;
        }
        queue.extend(visit.marks.drain().filter(|mark| known.insert(*mark)));
    }
    let mut walked = Progress { blobs: visit.blobs, bytes: visit.bytes, ..Progress::default() };
    let (mut queue, mut visited_now) = (HashSet::from_iter(queue), HashSet::from_iter(visited_now));
    if !knows_all {
        log.retain_new(&mut queue)?;
        log.retain_new(&mut visited_now)?;
    }
    let is_complete = is_end && queue.is_empty();
    log.append(env, &mut written, "", queue)?;
    log.append(env, &mut written, VISITED, visited_now)?;
    walked.complete = is_complete.then_some(written);
    cursor.phase = Phase::Blobs { written, visited };
    Ok(walked)
}

#[cfg(test)]
mod tests;
