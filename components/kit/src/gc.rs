//! Garbage collection: removes blobs that no root reaches, in bounded steps.
//!
//! A writer puts its blobs into the store and then swaps a root. A crash, a lost race or a later rewrite leaves blobs
//! that no root reaches. A *run* first marks every blob that a root reaches ([`crate::reachability`]). It then sorts
//! the marks, so that each is read about once. It then sweeps over all blobs and removes old unmarked ones. Each
//! [`step`] is one request, so neither its memory nor its time grows with the store.
//!
//! # Why a run never removes a blob that is needed
//!
//! - *Writes under way*: the ids of a request's blobs contain the time at which the request, or its batch of an import,
//!   began. A request older than [`LONGEST_WRITE`] does not swap ([`is_too_late`]). So a blob that is older than
//!   [`GRACE`] when the run begins is already in a root, or never will be. A root that names another blob during the
//!   run names one that was reachable, and marked, before.
//! - *Reads under way*: a reader may hold a root that was replaced just before the marking. So the sweep begins
//!   [`SETTLE`] after the marking, which is longer than a request may take to its response.
//! - *Clocks*: hosts that share a store give their guests one time. If each host has its own clock, the clocks may
//!   differ by [`GRACE`] − [`LONGEST_WRITE`]. If a clock jumps during a request, the request fails as too late.
//! - *Deleted owners*: a root whose owner was deleted is orphaned ([`GcSource::is_orphaned`]). The run removes it and
//!   does not mark its blobs. A removal in several steps removes the root last, so the next run can repeat an
//!   interrupted one.
//! - *Damage*: a root that cannot be read ends the run, because its blobs are unknown, unless it has a failure domain
//!   ([`GcSource::failure_domain`]). Then the run removes nothing in that domain, reports the damage, and continues.
//! - *Damage of a root's owner*: the record that says whether the owner was deleted may be unreadable. Then the run
//!   keeps the root, marks its blobs, reports the record, and continues.
//!
//! An area whose blobs have other names decides which of them are old ([`GcSource::is_garbage`]).

use crate::clock::Timestamp;
use crate::env::Env;
use crate::fsck::{MAX_PROBLEMS, Problem};
use crate::id;
use crate::reachability::{
    self, BlobId, Cursor, GcSource, KeyLayout, LONGEST_RUN, MarkLog, Node, Phase, SortedMarks, StepError, Tracer,
};

pub use crate::reachability::GRACE;
use crate::store::{StoreError, list_all};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The longest time of a request, in milliseconds, from its beginning to its last swap.
pub const LONGEST_WRITE: i64 = 90 * 60 * 1000;

/// The pause between marking and sweep, in milliseconds: twice a host's default request timeout.
pub const SETTLE: i64 = 2 * 60 * 1000;

/// The most keys and the most bytes of removed values in one step of the sweep.
const MAX_KEYS: usize = 5000;
const MAX_BYTES: u64 = 64 << 20;

/// An administrator's request for one step.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct GcRequest {
    /// The cursor of the previous step. Without one, a new run begins.
    pub cursor: Option<String>,
    /// Only count garbage; remove nothing.
    pub dry_run: bool,
    /// Sweep right after the marking. Only for a store without reads under way.
    pub no_wait: bool,
}

/// The report of one step. It counts this step only.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct GcReport {
    /// The cursor of the next step; absent after the last step.
    pub cursor: Option<String>,
    /// The time that the client should wait before the next step.
    pub wait_seconds: u64,
    /// Roots whose blobs were marked.
    pub roots: u64,
    /// Keys of blobs that were examined.
    pub keys: u64,
    /// Keys that were removed, or would be without `dry_run`, and the bytes of their values.
    pub removed: u64,
    pub removed_bytes: u64,
    /// The number of damaged failure domains, and the first problem of each, at most 100. Nothing in them is removed.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Whether a request has taken so long that its blobs may have been removed. Then it must not put them into a root.
pub fn is_too_late(env: &Env) -> bool {
    (env.clock.now().millis() - env.now.millis()).abs() > LONGEST_WRITE
}

/// The time at which the run of a request began; `None` for the first step.
pub fn began(request: &GcRequest) -> Option<Timestamp> {
    let (run, _) = request.cursor.as_ref()?.split_once(':')?;
    id::number(run).map(id::made_at)
}

/// Does one step of a run. [`StepError::Cursor`] for an invalid or expired cursor.
pub fn step<S: GcSource + ?Sized>(env: &Env, source: &S, request: &GcRequest) -> Result<GcReport, StepError> {
    let cursor = Cursor::resume(env, request.cursor.as_deref())?;
    match cursor.phase {
        Phase::Roots { .. } | Phase::Blobs { .. } => mark_step(env, source, cursor, request),
        Phase::Sort { .. } => sort_step(env, &source.layout(), cursor, request),
        Phase::Sweep { .. } => sweep_step(env, source, cursor, request),
        Phase::CleanUp => Ok(GcReport { cursor: clean_up(env, &source.layout(), cursor)?, ..GcReport::default() }),
    }
}

/// The record that marking is complete. Without it, nothing is swept.
#[derive(Serialize, Deserialize)]
struct MarkingDone {
    /// The number of blobs of the mark log.
    written: u64,
    at: Timestamp,
    /// The damaged failure domains.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    damaged: BTreeSet<String>,
}

fn marked_key(layout: &KeyLayout, run: &str) -> String {
    format!("{}{run}/marked", layout.marks)
}

/// The prefix of the keys that name the damaged failure domains of a run.
fn damaged_prefix(layout: &KeyLayout, run: &str) -> String {
    format!("{}{run}/damaged/", layout.marks)
}

/// The prefix of the keys that name the unreadable owner records of a run.
fn owners_prefix(layout: &KeyLayout, run: &str) -> String {
    format!("{}{run}/owner/", layout.marks)
}

/// Records damaged failure domains for the sweep, and reports each domain only once in a run.
fn record_damage(
    env: &Env,
    prefix: &str,
    found: BTreeMap<String, Problem>,
    report: &mut GcReport,
) -> Result<(), StoreError> {
    for (part, problem) in found {
        let key = format!("{prefix}{part}");
        if env.store.exists(&key)? {
            continue;
        }
        env.store.set(&key, &[])?;
        eprintln!("nothing of {part} is removed, because it is damaged: `{}`: {}", problem.key, problem.problem);
        report.failed += 1;
        if report.problems.len() < MAX_PROBLEMS {
            report.problems.push(problem);
        }
    }
    Ok(())
}

fn read_damaged(env: &Env, prefix: &str) -> Result<BTreeSet<String>, StoreError> {
    let (mut parts, mut after) = (BTreeSet::new(), String::new());
    loop {
        let keys = env.store.list(prefix, &after, MAX_KEYS)?;
        parts.extend(keys.iter().filter_map(|key| key.strip_prefix(prefix)).map(str::to_owned));
        match keys.last() {
            Some(last) if keys.len() >= MAX_KEYS => after.clone_from(last),
            _ => return Ok(parts),
        }
    }
}

fn mark_step<S: GcSource + ?Sized>(
    env: &Env,
    source: &S,
    mut cursor: Cursor,
    request: &GcRequest,
) -> Result<GcReport, StepError> {
    let mut report = GcReport::default();
    let (mut damaged, mut owners) = (BTreeMap::new(), BTreeMap::new());
    let mut is_orphaned = |key: &str| match source.is_orphaned(key) {
        Err(StoreError::Corrupt { key, why }) => {
            owners.entry(key.clone()).or_insert(Problem { key, problem: why });
            Ok(false)
        }
        known => known,
    };
    let mut visit = |node: Node, tracer: &mut Tracer| match node {
        Node::Root(key) if is_orphaned(key)? => {
            let bytes = env.store.get(key)?.map_or(0, |value| value.len() as u64);
            if !request.dry_run {
                source.remove_orphaned(key, tracer)?;
            }
            if !tracer.is_suspended() {
                report.keys += 1;
                report.removed += 1;
                report.removed_bytes += bytes;
            }
            Ok(false)
        }
        node => source.visit(node, tracer).or_else(|error| {
            let StoreError::Corrupt { key, why } = error else { return Err(error) };
            let Some(part) = source.failure_domain(node)? else { return Err(StoreError::Corrupt { key, why }) };
            damaged.entry(part).or_insert(Problem { key, problem: why });
            Ok(true)
        }),
    };
    let progress = reachability::step(env, source, &mut cursor, false, &mut visit)?;
    report.roots = progress.roots;
    record_damage(env, &owners_prefix(&source.layout(), &cursor.run), owners, &mut report)?;
    let prefix = damaged_prefix(&source.layout(), &cursor.run);
    record_damage(env, &prefix, damaged, &mut report)?;
    if let Some(written) = progress.complete {
        let key = marked_key(&source.layout(), &cursor.run);
        let marked = MarkingDone { written, at: env.now, damaged: read_damaged(env, &prefix)? };
        let marked = serde_json::to_vec(&marked).map_err(|why| StoreError::corrupt(&key, why))?;
        env.store.set(&key, &marked)?;
        cursor = Cursor { phase: Phase::Sort { read: 0, last: None }, after: String::new(), ..cursor };
        let GcReport { cursor, wait_seconds, .. } = sort_step(env, &source.layout(), cursor, request)?;
        return Ok(GcReport { cursor, wait_seconds, ..report });
    }
    report.cursor = Some(cursor.to_string());
    Ok(report)
}

fn read_marked(env: &Env, layout: &KeyLayout, run: &str) -> Result<MarkingDone, StepError> {
    let key = marked_key(layout, run);
    let marked = env.store.get(&key)?.ok_or(StepError::Cursor)?;
    Ok(serde_json::from_slice(&marked).map_err(|why| StoreError::corrupt(&key, why))?)
}

/// The remaining pause between marking and sweep, in seconds.
fn remaining_pause(env: &Env, marked: &MarkingDone, request: &GcRequest) -> u64 {
    let since = env.now.millis() - marked.at.millis();
    if request.no_wait || since >= SETTLE { 0 } else { (SETTLE - since).unsigned_abs().div_ceil(1000) }
}

fn sort_step(env: &Env, layout: &KeyLayout, mut cursor: Cursor, request: &GcRequest) -> Result<GcReport, StepError> {
    let Phase::Sort { read, last } = cursor.phase else { return Err(StepError::Cursor) };
    let marked = read_marked(env, layout, &cursor.run)?;
    let log = MarkLog::open(env, layout, &cursor.run);
    let part = SortedMarks::open(env, layout, &cursor.run).sort(&log, last, &cursor.after)?;
    let read = read + part.read;
    if !part.is_end {
        (cursor.phase, cursor.after) = (Phase::Sort { read, last: part.last }, part.after);
        return Ok(GcReport { cursor: Some(cursor.to_string()), ..GcReport::default() });
    }
    // Repeated steps leave more log blobs than were counted. Fewer mean that marks are lost.
    if read < marked.written {
        return Err(StepError::Cursor);
    }
    (cursor.phase, cursor.after) = (Phase::Sweep { last: part.last }, String::new());
    let wait_seconds = remaining_pause(env, &marked, request);
    Ok(GcReport { cursor: Some(cursor.to_string()), wait_seconds, ..GcReport::default() })
}

fn sweep_step<S: GcSource + ?Sized>(
    env: &Env,
    source: &S,
    mut cursor: Cursor,
    request: &GcRequest,
) -> Result<GcReport, StepError> {
    let layout = source.layout();
    let marked = read_marked(env, &layout, &cursor.run)?;
    let wait_seconds = remaining_pause(env, &marked, request);
    if wait_seconds > 0 {
        return Ok(GcReport { cursor: Some(cursor.to_string()), wait_seconds, ..GcReport::default() });
    }
    let Phase::Sweep { last } = &cursor.phase else { return Err(StepError::Cursor) };
    // If there are marks, there is a batch.
    if last.is_none() && marked.written > 0 {
        return Err(StepError::Cursor);
    }

    let mut prefixes: Vec<&str> = layout.blobs.iter().chain([&layout.marks]).map(String::as_str).collect();
    prefixes.sort_unstable();
    let keys = list_all(&*env.store, &prefixes, &cursor.after, MAX_KEYS)?;
    let began = cursor.began()?;
    // The blob of a key, if it is garbage unless the run has marked it.
    let candidate = |key: &str| {
        let prefix = prefixes.iter().find(|prefix| key.starts_with(**prefix))?;
        let rest = key.strip_prefix(prefix)?;
        if *prefix == layout.marks {
            let run = BlobId::of_id(rest.split('/').next()?)?;
            return run.is_older(began, GRACE + LONGEST_RUN).then_some(run);
        }
        if !marked.damaged.is_empty() && source.may_be_in(prefix, rest, &marked.damaged) {
            return None;
        }
        source.blob_id(prefix, rest).filter(|blob| source.is_garbage(prefix, blob, began))
    };
    let candidates: Vec<Option<BlobId>> = keys.iter().map(|key| candidate(key)).collect();
    let blobs = candidates.iter().flatten().copied().collect();
    let unmarked = SortedMarks::open(env, &layout, &cursor.run).unmarked(last.as_deref(), blobs)?;

    let mut report = GcReport::default();
    for (key, candidate) in keys.iter().zip(candidates) {
        report.keys += 1;
        cursor.after.clone_from(key);
        if candidate.is_none_or(|blob| unmarked.binary_search(&blob).is_err()) {
            continue;
        }
        let place = layout.blobs.iter().find_map(|prefix| Some((prefix, key.strip_prefix(prefix.as_str())?)));
        if let Some((prefix, rest)) = place
            && !source.confirms_garbage(prefix, rest, began)?
        {
            continue;
        }
        report.removed += 1;
        report.removed_bytes += env.store.get(key)?.map_or(0, |value| value.len() as u64);
        if !request.dry_run {
            env.store.delete(key)?;
        }
        if report.removed_bytes >= MAX_BYTES {
            break;
        }
    }
    let is_end = keys.len() < MAX_KEYS && report.keys == keys.len() as u64;
    report.cursor = if is_end { clean_up(env, &layout, cursor)? } else { Some(cursor.to_string()) };
    Ok(report)
}

/// Removes the run's own records, and returns a cursor if more may exist.
fn clean_up(env: &Env, layout: &KeyLayout, cursor: Cursor) -> Result<Option<String>, StepError> {
    let keys = env.store.list(&format!("{}{}/", layout.marks, cursor.run), "", MAX_KEYS)?;
    for key in &keys {
        env.store.delete(key)?;
    }
    let cursor = Cursor { phase: Phase::CleanUp, after: String::new(), ..cursor };
    Ok((keys.len() >= MAX_KEYS).then(|| cursor.to_string()))
}

#[cfg(test)]
mod tests;
