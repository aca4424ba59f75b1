//! Garbage: blobs that no root reaches, removed in bounded steps.
//!
//! A writer puts its blobs into the store and then swaps a root. What a crash, a lost race or a
//! later rewrite leaves behind is reached by no root. A *run* first marks what every root reaches
//! ([`crate::reachability`]), then sweeps through all blobs and removes those that are old and not marked.
//! Each [`step`] is a request of its own, so neither memory nor time grows with the store.
//!
//! # Why nothing is removed that somebody needs
//!
//! - *A write under way*: its blobs have ids of the moment when its request (or, in an import, its
//!   batch) began, and what took longer than [`LONGEST_WRITE`] does not swap ([`is_too_late`]). So a
//!   blob that was made more than [`GRACE`] before the run began is in a root by then, or never will
//!   be. What a root comes to reach during the run is either as young, or was reached, and marked,
//!   before.
//! - *A read under way*: a root that was read just before it was replaced names blobs that the run
//!   does not mark. So the sweep begins [`SETTLE`] after the marking ended, which is longer than a
//!   request may take to its response.
//! - *Clocks*: hosts on one store may differ by [`GRACE`] − [`LONGEST_WRITE`]. A clock that jumps
//!   while a request is under way makes that request too late.
//! - *Damage*: a root that cannot be read ends the run, because nobody knows what it reaches.
//!
//! An area whose blobs have names of other kinds says itself which of them are old
//! ([`Roots::is_garbage`]).

use crate::clock::Timestamp;
use crate::env::Env;
use crate::id;
use crate::reachability::{self, BlobId, Cursor, KeyLayout, LONGEST_RUN, Log, Phase, Roots, StepError};
use crate::store::{StoreError, list_all};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// The age, in milliseconds, that a blob has when a run begins that may remove it.
pub const GRACE: i64 = 2 * 60 * 60 * 1000;

/// How long a request may take, in milliseconds, from where it is taken up to its last swap.
pub const LONGEST_WRITE: i64 = 90 * 60 * 1000;

/// How long the sweep waits after the marking, in milliseconds: twice the time that a host gives
/// to a request by default.
pub const SETTLE: i64 = 2 * 60 * 1000;

/// Bounds of one step of the sweep: keys, and bytes of what is removed.
const KEYS: usize = 5000;
const BYTES: u64 = 64 << 20;

/// What an administrator asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct GcRequest {
    /// That of the last step; none begins a run.
    pub cursor: Option<String>,
    /// Count, and remove nothing.
    pub dry_run: bool,
    /// Do not wait for reads under way: there are none.
    pub no_wait: bool,
}

/// What became of a step. The numbers are this step's.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct GcReport {
    /// For the next step; none after the last one.
    pub cursor: Option<String>,
    /// The next step is for then.
    pub wait_seconds: u64,
    /// Roots whose blobs were marked.
    pub roots: u64,
    /// Keys of blobs that were looked at.
    pub keys: u64,
    /// Keys that were removed, or would have been, and the bytes of their values.
    pub removed: u64,
    pub removed_bytes: u64,
}

/// Whether a request has taken so long that its blobs may have been removed. It must not put them
/// into a root any more.
pub fn is_too_late(env: &Env) -> bool {
    (env.clock.now().millis() - env.now.millis()).abs() > LONGEST_WRITE
}

/// When the run began that a step belongs to; `None` before its first step.
pub fn began(wanted: &GcRequest) -> Option<Timestamp> {
    let (run, _) = wanted.cursor.as_ref()?.split_once(':')?;
    id::number(run).map(id::made_at)
}

/// One step of a run.
pub fn step<K: Roots + ?Sized>(env: &Env, keeper: &K, wanted: &GcRequest) -> Result<GcReport, StepError> {
    let cursor = Cursor::of(env, wanted.cursor.as_deref())?;
    match cursor.phase {
        Phase::Roots { .. } | Phase::Blobs { .. } => mark_some(env, keeper, cursor, wanted.no_wait),
        Phase::Sweep => sweep_some(env, keeper, cursor, wanted),
    }
}

/// Written when everything is marked: without it nothing is swept.
#[derive(Serialize, Deserialize)]
struct Marked {
    /// Blobs of the run's log.
    written: u64,
    at: Timestamp,
}

fn marked_key(plan: &KeyLayout, run: &str) -> String {
    format!("{}{run}/marked", plan.marks)
}

fn mark_some<K: Roots + ?Sized>(
    env: &Env,
    keeper: &K,
    mut cursor: Cursor,
    no_wait: bool,
) -> Result<GcReport, StepError> {
    let walked = reachability::step(env, keeper, &mut cursor, false, &mut |place, visit| keeper.visit(place, visit))?;
    let mut step = GcReport { roots: walked.roots, ..GcReport::default() };
    if let Some(written) = walked.complete {
        let key = marked_key(&keeper.plan(), &cursor.run);
        let marked =
            serde_json::to_vec(&Marked { written, at: env.now }).map_err(|why| StoreError::corrupt(&key, why))?;
        env.store.set(&key, &marked)?;
        cursor = Cursor { phase: Phase::Sweep, after: String::new(), ..cursor };
        step.wait_seconds = if no_wait { 0 } else { SETTLE.unsigned_abs() / 1000 };
    }
    step.cursor = Some(cursor.to_string());
    Ok(step)
}

fn sweep_some<K: Roots + ?Sized>(
    env: &Env,
    keeper: &K,
    mut cursor: Cursor,
    wanted: &GcRequest,
) -> Result<GcReport, StepError> {
    let plan = keeper.plan();
    let key = marked_key(&plan, &cursor.run);
    let marked = env.store.get(&key)?.ok_or(StepError::Cursor)?;
    let marked: Marked = serde_json::from_slice(&marked).map_err(|why| StoreError::corrupt(&key, why))?;
    let since = env.now.millis() - marked.at.millis();
    if !wanted.no_wait && since < SETTLE {
        let wait_seconds = (SETTLE - since).unsigned_abs().div_ceil(1000);
        return Ok(GcReport { cursor: Some(cursor.to_string()), wait_seconds, ..GcReport::default() });
    }

    let mut prefixes: Vec<&str> = plan.blobs.iter().chain([&plan.marks]).map(String::as_str).collect();
    prefixes.sort_unstable();
    let keys = list_all(&*env.store, &prefixes, &cursor.after, KEYS)?;
    let began = cursor.began()?;
    // What garbage a key is of if the run has not marked it.
    let candidate = |key: &str| {
        let prefix = prefixes.iter().find(|prefix| key.starts_with(**prefix))?;
        let rest = key.strip_prefix(prefix)?;
        if *prefix == plan.marks {
            let run = BlobId::of_id(rest.split('/').next()?)?;
            return run.is_older(began, GRACE + LONGEST_RUN).then_some(run);
        }
        keeper.mark(prefix, rest).filter(|mark| keeper.is_garbage(prefix, mark, began))
    };
    let mut dead: HashSet<BlobId> = keys.iter().filter_map(|key| candidate(key)).collect();
    let log = Log::of(env, &plan, &cursor.run);
    // Repeated steps leave more than were counted; fewer mean that marks are gone.
    if !dead.is_empty() && log.retain_new(&mut dead)? < marked.written {
        return Err(StepError::Cursor);
    }

    let mut step = GcReport::default();
    for key in &keys {
        step.keys += 1;
        cursor.after.clone_from(key);
        if candidate(key).is_none_or(|mark| !dead.contains(&mark)) {
            continue;
        }
        step.removed += 1;
        step.removed_bytes += env.store.get(key)?.map_or(0, |value| value.len() as u64);
        if !wanted.dry_run {
            env.store.delete(key)?;
        }
        if step.removed_bytes >= BYTES {
            break;
        }
    }
    if keys.len() < KEYS && step.keys == keys.len() as u64 {
        env.store.delete(&key)?;
        log.forget()?;
    } else {
        step.cursor = Some(cursor.to_string());
    }
    Ok(step)
}

#[cfg(test)]
mod tests;
