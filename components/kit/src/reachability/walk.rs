//! The walk: bounded steps over the graph of roots and blobs.

use super::cursor::{Cursor, Phase, StepError};
use super::log::{MARKS, MarkLog, VISITED};
use super::{BlobId, KeyLayout, Node, GcSource, Tracer};
use crate::env::Env;
use crate::store::{StoreError, list_all};
use std::collections::BTreeSet;

/// Bounds of one step beside its bytes ([`Tracer::is_full`]): roots, and blobs.
const ROOTS: usize = 200;
const BLOBS: usize = 20_000;

/// The work that a step has done.
#[derive(Default)]
pub struct Progress {
    /// Roots that were traced to their end.
    pub roots: u64,
    /// Blobs that were read, and their bytes.
    pub blobs: u64,
    pub bytes: u64,
    /// The number of blobs of the mark log, once everything that roots reach is in it.
    pub complete: Option<u64>,
}

/// A function that traces a node: [`GcSource::visit`], or more.
pub type Visitor<'a> = dyn FnMut(Node, &mut Tracer) -> Result<bool, StoreError> + 'a;

/// One step: visits the next nodes and advances `cursor`. With `check`, it visits the records too.
pub fn step<K: GcSource + ?Sized>(
    env: &Env,
    roots: &K,
    cursor: &mut Cursor,
    check: bool,
    visitor: &mut Visitor,
) -> Result<Progress, StepError> {
    let mut layout = roots.layout();
    let log = MarkLog::open(env, &layout, &cursor.run);
    if check {
        layout.roots.append(&mut layout.records);
        layout.roots.sort_unstable();
    }
    match cursor.phase {
        Phase::Roots { .. } => visit_roots(env, roots, &layout, &log, cursor, visitor),
        Phase::Blobs { written, visited } => visit_blobs(env, &log, cursor, written, visited, visitor),
        Phase::Sort { .. } | Phase::Sweep { .. } | Phase::CleanUp => Err(StepError::Cursor),
    }
}

fn visit_roots<K: GcSource + ?Sized>(
    env: &Env,
    roots: &K,
    layout: &KeyLayout,
    log: &MarkLog,
    cursor: &mut Cursor,
    visitor: &mut Visitor,
) -> Result<Progress, StepError> {
    let Phase::Roots { mut written, ref position } = cursor.phase else { return Err(StepError::Cursor) };
    let mut tracer = Tracer { resumed: position.clone(), ..Tracer::default() };
    let prefixes: Vec<&str> = layout.roots.iter().map(String::as_str).collect();
    let keys = list_all(&*env.store, &prefixes, &cursor.after, ROOTS)?;
    let mut progress = Progress::default();
    let mut remaining = keys.len();
    for key in &keys {
        progress.roots += u64::from(visitor(Node::Root(key), &mut tracer)?);
        if tracer.is_suspended() {
            break;
        }
        remaining -= 1;
        cursor.after.clone_from(key);
        if tracer.marks.len() >= MARKS || tracer.is_full() {
            break;
        }
    }
    (progress.blobs, progress.bytes) = (tracer.blobs, tracer.bytes);
    log.append(env, &mut written, "", tracer.marks.into_iter().collect())?;
    if keys.len() >= ROOTS || remaining > 0 {
        cursor.phase = Phase::Roots { written, position: tracer.suspended };
    } else if roots.follows() {
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
    // Fewer blobs than were counted mean that marks are lost. A repeated step leaves more, and some
    // of them may sort before the cursor.
    if keys.len() as u64 != written {
        return Err(StepError::Cursor);
    }
    let (mut known, knows_all) = log.latest(&keys)?;
    let mut tracer = Tracer::default();
    // A blob is visited as soon as it is found; otherwise a long chain would take a step per link.
    let (mut queue, mut visited_now) = (Vec::new(), Vec::new());
    let first = keys.partition_point(|key| *key <= cursor.after);
    let mut pending = keys.iter().skip(first).filter(|key| !log.is_visited(key));
    let (mut page, mut at): (Option<&String>, Vec<BlobId>) = (None, Vec::new());
    let mut is_end = false;
    for _ in 0..BLOBS {
        if tracer.is_full() || queue.len() + visited_now.len() >= MARKS {
            break;
        }
        if let Some(mark) = queue.pop() {
            visitor(Node::Blob(&mark), &mut tracer)?;
            visited_now.push(mark);
        } else {
            while visited >= at.len() {
                if let Some(key) = page.take() {
                    (visited, cursor.after) = (0, key.clone());
                    at.clear();
                }
                let Some(key) = pending.next() else { break };
                (page, at) = (Some(key), log.read(key)?);
            }
            let Some(mark) = at.get(visited) else {
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
