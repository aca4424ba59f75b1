//! The walk: bounded steps over the graph of roots and blobs.

use super::log::{MAX_BLOB_MARKS, MarkLog, VISITED};
use super::{BlobId, GcSource, KeyLayout, Node, Tracer};
use crate::env::Env;
use crate::reachability::log::{Cursor, Phase, StepError};
use crate::store::{StoreError, list_all};
use std::collections::BTreeSet;

/// The most roots and blobs of one step; [`Tracer::is_full`] bounds its bytes.
const MAX_ROOTS: usize = 200;
const MAX_BLOBS: usize = 20_000;

/// The work that a step has done.
#[derive(Default)]
pub struct Progress {
    /// Roots that were traced completely.
    pub roots: u64,
    /// Blobs that were read, and their bytes.
    pub blobs: u64,
    pub bytes: u64,
    /// The number of blobs of the mark log, once the log has everything that roots reach.
    pub complete: Option<u64>,
}

/// A function that traces a node: [`GcSource::visit`], possibly with more work around it.
pub type Visitor<'a> = dyn FnMut(Node, &mut Tracer) -> Result<bool, StoreError> + 'a;

/// Does one step: visits the next nodes and advances `cursor`. With `check`, it also visits the records.
pub fn step<S: GcSource + ?Sized>(
    env: &Env,
    source: &S,
    cursor: &mut Cursor,
    check: bool,
    visitor: &mut Visitor,
) -> Result<Progress, StepError> {
    let mut layout = source.layout();
    let log = MarkLog::open(env, &layout, &cursor.run);
    if check {
        layout.roots.append(&mut layout.records);
        layout.roots.sort_unstable();
    }
    match cursor.phase {
        Phase::Roots { .. } => visit_roots(env, source, &layout, &log, cursor, visitor),
        Phase::Blobs { written, visited } => visit_blobs(env, &log, cursor, written, visited, visitor),
        Phase::Sort { .. } | Phase::Sweep { .. } | Phase::CleanUp => Err(StepError::Cursor),
    }
}

fn visit_roots<S: GcSource + ?Sized>(
    env: &Env,
    source: &S,
    layout: &KeyLayout,
    log: &MarkLog,
    cursor: &mut Cursor,
    visitor: &mut Visitor,
) -> Result<Progress, StepError> {
    let Phase::Roots { mut written, ref position } = cursor.phase else { return Err(StepError::Cursor) };
    let mut tracer = Tracer { resumed: position.clone(), ..Tracer::default() };
    let prefixes: Vec<&str> = layout.roots.iter().map(String::as_str).collect();
    let keys = list_all(&*env.store, &prefixes, &cursor.after, MAX_ROOTS)?;
    let mut progress = Progress::default();
    let mut remaining = keys.len();
    for key in &keys {
        progress.roots += u64::from(visitor(Node::Root(key), &mut tracer)?);
        if tracer.is_suspended() {
            break;
        }
        remaining -= 1;
        cursor.after.clone_from(key);
        if tracer.marks.len() >= MAX_BLOB_MARKS || tracer.is_full() {
            break;
        }
    }
    (progress.blobs, progress.bytes) = (tracer.blobs, tracer.bytes);
    log.append(env, &mut written, "", tracer.marks.into_iter().collect())?;
    if keys.len() >= MAX_ROOTS || remaining > 0 {
        cursor.phase = Phase::Roots { written, position: tracer.suspended };
    } else if source.follows() {
        (cursor.phase, cursor.after) = (Phase::Blobs { written, visited: 0 }, String::new());
    } else {
        progress.complete = Some(written);
    }
    Ok(progress)
}

fn visit_blobs(
    env: &Env,
    log: &MarkLog,
    cursor: &mut Cursor,
    mut written: u64,
    mut visited: usize,
    visitor: &mut Visitor,
) -> Result<Progress, StepError> {
    let keys = log.keys()?;
    // Fewer log blobs than were counted mean that marks are lost. A repeated step leaves more, perhaps before the
    // cursor.
    if keys.len() as u64 != written {
        return Err(StepError::Cursor);
    }
    let (mut known, knows_all) = log.latest(&keys)?;
    let mut tracer = Tracer::default();
    // A blob is visited as soon as it is found. Otherwise a long chain would take a step per link.
    let (mut queue, mut visited_now) = (Vec::new(), Vec::new());
    let first = keys.partition_point(|key| *key <= cursor.after);
    let mut unvisited = keys.iter().skip(first).filter(|key| !log.is_visited(key));
    let (mut log_blob, mut marks): (Option<&String>, Vec<BlobId>) = (None, Vec::new());
    let mut is_end = false;
    for _ in 0..MAX_BLOBS {
        if tracer.is_full() || queue.len() + visited_now.len() >= MAX_BLOB_MARKS {
            break;
        }
        if let Some(mark) = queue.pop() {
            visitor(Node::Blob(&mark), &mut tracer)?;
            visited_now.push(mark);
        } else {
            while visited >= marks.len() {
                if let Some(key) = log_blob.take() {
                    (visited, cursor.after) = (0, key.clone());
                    marks.clear();
                }
                let Some(key) = unvisited.next() else { break };
                (log_blob, marks) = (Some(key), log.read(key)?);
            }
            let Some(mark) = marks.get(visited) else {
                is_end = true;
                break;
            };
            visitor(Node::Blob(mark), &mut tracer)?;
            visited += 1;
        }
        queue.extend(tracer.marks.drain().filter(|mark| known.insert(*mark)));
    }
    let mut progress = Progress { blobs: tracer.blobs, bytes: tracer.bytes, ..Progress::default() };
    let (mut queue, mut visited_now) = (BTreeSet::from_iter(queue), BTreeSet::from_iter(visited_now));
    if !knows_all {
        log.retain_new(&keys, &mut [&mut queue, &mut visited_now])?;
    }
    let is_complete = is_end && queue.is_empty();
    log.append(env, &mut written, "", queue)?;
    log.append(env, &mut written, VISITED, visited_now)?;
    progress.complete = is_complete.then_some(written);
    cursor.phase = Phase::Blobs { written, visited };
    Ok(progress)
}
