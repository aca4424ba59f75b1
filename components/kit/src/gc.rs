//! Garbage collection: removing blobs that no root reaches, in bounded steps.
//!
//! A writer puts its blobs into the store and then swaps a root. A crash, a lost race and a later
//! rewrite leave blobs behind that no root reaches. A *run* first marks every blob that a root
//! reaches ([`crate::reachability`]), then sweeps over all blobs and removes those that are old and
//! unmarked. Each [`step`] is a request, so neither its memory nor its time grows with the store.
//!
//! # Why a run never removes a blob that is needed
//!
//! - *Writes under way*: the ids of a request's blobs tell when the request (in an import, its
//!   batch) began, and a request older than [`LONGEST_WRITE`] does not swap ([`is_too_late`]). So a
//!   blob older than [`GRACE`] when the run begins is in a root by then, or never will be. Any other
//!   blob that a root comes to name during the run was reachable, and marked, before.
//! - *Reads under way*: a reader may hold a root that was replaced just before the marking. So the
//!   sweep begins [`SETTLE`] after the marking ended, which is longer than a request may take to
//!   its response.
//! - *Clocks*: the clocks of hosts on one store may differ by [`GRACE`] − [`LONGEST_WRITE`]. A clock
//!   that jumps during a request makes that request fail as too late.
//! - *Deleted things*: what belongs to something that was deleted is not reachable any more
//!   ([`Roots::is_abandoned`]), and its root is removed while its blobs are not marked.
//! - *Damage*: a root that cannot be read ends the run, because its blobs are unknown.
//!
//! An area whose blobs have other names decides itself which are old ([`Roots::is_garbage`]).

use crate::clock::Timestamp;
use crate::env::Env;
use crate::id;
use crate::reachability::{
    self, BlobId, Cursor, KeyLayout, LONGEST_RUN, MarkLog, Node, Phase, Roots, StepError, Tracer,
};

pub use crate::reachability::GRACE;
use crate::store::{StoreError, list_all};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// How long a request may take, in milliseconds, from its beginning to its last swap.
pub const LONGEST_WRITE: i64 = 90 * 60 * 1000;

/// The pause between marking and sweep, in milliseconds: twice a host's default request timeout.
pub const SETTLE: i64 = 2 * 60 * 1000;

/// Bounds of one step of the sweep: keys, and bytes of removed values.
const KEYS: usize = 5000;
const BYTES: u64 = 64 << 20;

/// An administrator's request for one report.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct GcRequest {
    /// The cursor of the previous step; without one, a new run begins.
    pub cursor: Option<String>,
    /// Only count garbage.
    pub dry_run: bool,
    /// Sweep right after the marking, because no reads are under way.
    pub no_wait: bool,
}

/// The outcome of one report. The counts are those of this report.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct GcReport {
    /// For the next step; absent after the last one.
    pub cursor: Option<String>,
    /// How long the client should wait before the next report.
    pub wait_seconds: u64,
    /// Roots whose blobs were marked.
    pub roots: u64,
    /// Keys of blobs that were examined.
    pub keys: u64,
    /// Keys that were removed (or, in a dry run, would be), and the bytes of their values.
    pub removed: u64,
    pub removed_bytes: u64,
}

/// Whether a request has taken so long that its blobs may have been removed, so that it must not put
/// them into a root any more.
pub fn is_too_late(env: &Env) -> bool {
    (env.clock.now().millis() - env.now.millis()).abs() > LONGEST_WRITE
}

/// When the run of a requested step began; `None` for the first report.
pub fn began(request: &GcRequest) -> Option<Timestamp> {
    let (run, _) = request.cursor.as_ref()?.split_once(':')?;
    id::number(run).map(id::made_at)
}

/// Does one step of a run.
pub fn step<K: Roots + ?Sized>(env: &Env, roots: &K, request: &GcRequest) -> Result<GcReport, StepError> {
    let cursor = Cursor::resume(env, request.cursor.as_deref())?;
    match cursor.phase {
        Phase::Roots { .. } | Phase::Blobs { .. } => mark_step(env, roots, cursor, request),
        Phase::Sweep => sweep_step(env, roots, cursor, request),
    }
}

/// Written when everything is marked; without it, nothing is swept.
#[derive(Serialize, Deserialize)]
struct Marked {
    /// The number of blobs of the mark log.
    written: u64,
    at: Timestamp,
}

fn marked_key(layout: &KeyLayout, run: &str) -> String {
    format!("{}{run}/marked", layout.marks)
}

fn mark_step<K: Roots + ?Sized>(
    env: &Env,
    roots: &K,
    mut cursor: Cursor,
    request: &GcRequest,
) -> Result<GcReport, StepError> {
    let mut report = GcReport::default();
    let mut visit = |node: Node, tracer: &mut Tracer| match node {
        Node::Root(key) if roots.is_abandoned(key)? => {
            report.removed += 1;
            report.removed_bytes += env.store.get(key)?.map_or(0, |value| value.len() as u64);
            if !request.dry_run {
                roots.remove_abandoned(key)?;
            }
            Ok(false)
        }
        node => roots.visit(node, tracer),
    };
    let progress = reachability::step(env, roots, &mut cursor, false, &mut visit)?;
    report.roots = progress.roots;
    if let Some(written) = progress.complete {
        let key = marked_key(&roots.plan(), &cursor.run);
        let marked =
            serde_json::to_vec(&Marked { written, at: env.now }).map_err(|why| StoreError::corrupt(&key, why))?;
        env.store.set(&key, &marked)?;
        cursor = Cursor { phase: Phase::Sweep, after: String::new(), ..cursor };
        report.wait_seconds = if request.no_wait { 0 } else { SETTLE.unsigned_abs() / 1000 };
    }
    report.cursor = Some(cursor.to_string());
    Ok(report)
}

fn sweep_step<K: Roots + ?Sized>(
    env: &Env,
    roots: &K,
    mut cursor: Cursor,
    request: &GcRequest,
) -> Result<GcReport, StepError> {
    let layout = roots.plan();
    let key = marked_key(&layout, &cursor.run);
    let marked = env.store.get(&key)?.ok_or(StepError::Cursor)?;
    let marked: Marked = serde_json::from_slice(&marked).map_err(|why| StoreError::corrupt(&key, why))?;
    let since = env.now.millis() - marked.at.millis();
    if !request.no_wait && since < SETTLE {
        let wait_seconds = (SETTLE - since).unsigned_abs().div_ceil(1000);
        return Ok(GcReport { cursor: Some(cursor.to_string()), wait_seconds, ..GcReport::default() });
    }

    let mut prefixes: Vec<&str> = layout.blobs.iter().chain([&layout.marks]).map(String::as_str).collect();
    prefixes.sort_unstable();
    let keys = list_all(&*env.store, &prefixes, &cursor.after, KEYS)?;
    let began = cursor.began()?;
    // The blob of a key that is garbage unless the run has marked it.
    let candidate = |key: &str| {
        let prefix = prefixes.iter().find(|prefix| key.starts_with(**prefix))?;
        let rest = key.strip_prefix(prefix)?;
        if *prefix == layout.marks {
            let run = BlobId::of_id(rest.split('/').next()?)?;
            return run.is_older(began, GRACE + LONGEST_RUN).then_some(run);
        }
        roots.mark(prefix, rest).filter(|blob| roots.is_garbage(prefix, blob, began))
    };
    let mut unmarked: HashSet<BlobId> = keys.iter().filter_map(|key| candidate(key)).collect();
    let log = MarkLog::open(env, &layout, &cursor.run);
    // Repeated steps leave more log blobs than were counted; fewer mean that marks are lost.
    if !unmarked.is_empty() && log.retain_new(&mut unmarked)? < marked.written {
        return Err(StepError::Cursor);
    }

    let mut report = GcReport::default();
    for key in &keys {
        report.keys += 1;
        cursor.after.clone_from(key);
        if candidate(key).is_none_or(|blob| !unmarked.contains(&blob)) {
            continue;
        }
        report.removed += 1;
        report.removed_bytes += env.store.get(key)?.map_or(0, |value| value.len() as u64);
        if !request.dry_run {
            env.store.delete(key)?;
        }
        if report.removed_bytes >= BYTES {
            break;
        }
    }
    if keys.len() < KEYS && report.keys == keys.len() as u64 {
        env.store.delete(&key)?;
        log.delete()?;
    } else {
        report.cursor = Some(cursor.to_string());
    }
    Ok(report)
}

#[cfg(test)]
mod tests;
