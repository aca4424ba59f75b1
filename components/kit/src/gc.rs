//! Garbage: blobs that no root reaches, removed in bounded steps.
//!
//! A writer puts its blobs into the store and then swaps a root. What a crash, a lost race or a
//! later rewrite leaves behind is reached by no root. A *run* first marks what every root reaches,
//! then sweeps through all blobs and removes those that are old and not marked. Each [`step`] is a
//! request of its own, so neither memory nor time grows with the store: what is marked is kept in
//! blobs of the run, and the cursor between two steps tells how far it got.
//!
//! # Why nothing is removed that somebody needs
//!
//! - *A write under way*: its blobs have ids of the moment when its request began, and a request
//!   that took longer than [`LONGEST_WRITE`] does not swap ([`is_too_late`]). So a blob that was
//!   made more than [`GRACE`] before the run began is in a root by then, or never will be. What a
//!   root comes to reach during the run is either as young, or was reached, and marked, before.
//! - *A read under way*: a root that was read just before it was replaced names blobs that the run
//!   does not mark. So the sweep begins [`SETTLE`] after the marking ended, which is longer than a
//!   request may take to its response.
//! - *Clocks*: hosts on one store may differ by [`GRACE`] − [`LONGEST_WRITE`]. A clock that jumps
//!   while a request is under way makes that request too late.
//! - *Damage*: a root that cannot be read ends the run, because nobody knows what it reaches.
//!
//! # Using it
//!
//! An area gives its prefixes as a [`Plan`] and a function that reads a root and marks what it
//! reaches, and answers an administrator's request with [`step`]. The id of a blob is the segment
//! after its prefix; blobs that have one id live and die together.

use crate::clock::Timestamp;
use crate::env::Env;
use crate::id;
use crate::store::{Fault, Store, list_all};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;

/// The age, in milliseconds, that a blob has when a run begins that may remove it.
pub const GRACE: i64 = 2 * 60 * 60 * 1000;

/// How long a request may take, in milliseconds, from where it is taken up to its last swap.
pub const LONGEST_WRITE: i64 = 90 * 60 * 1000;

/// How long the sweep waits after the marking, in milliseconds: twice the time that a host gives
/// to a request by default.
pub const SETTLE: i64 = 2 * 60 * 1000;

/// How long a run may take, in milliseconds. What it marked is garbage after another [`GRACE`].
const LONGEST_RUN: i64 = 24 * 60 * 60 * 1000;

/// Bounds of one step: roots, marks, keys, and bytes of what is removed.
const ROOTS: usize = 200;
const MARKS: usize = 50_000;
const KEYS: usize = 5000;
const BYTES: u64 = 64 << 20;

/// The bytes of an id among the marks of a run.
const ID: usize = 16;

/// Where an area keeps what.
pub struct Plan<'a> {
    /// Prefixes of the roots that reach blobs, sorted.
    pub roots: &'a [&'a str],
    /// Prefixes of the blobs, sorted.
    pub blobs: &'a [&'a str],
    /// The prefix of what runs mark.
    pub marks: &'a str,
}

/// What an administrator asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Wanted {
    /// That of the last step; none begins a run.
    pub cursor: Option<String>,
    /// Count, and remove nothing.
    pub dry_run: bool,
    /// Do not wait for reads under way: there are none.
    pub no_wait: bool,
}

/// What became of a step. The numbers are this step's.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Step {
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

/// Why there is no step.
#[derive(Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Not a cursor of a run that goes on.
    Cursor,
    Fault(Fault),
}

impl From<Fault> for Stopped {
    fn from(fault: Fault) -> Self {
        Stopped::Fault(fault)
    }
}

/// What roots reach.
#[derive(Default)]
pub struct Marks(HashSet<u128>);

impl Marks {
    /// A root reaches the blobs with this id. What is no id is never removed.
    pub fn reach(&mut self, id: &str) {
        self.0.extend(id::number(id));
    }
}

/// Whether a request has taken so long that its blobs may have been removed. It must not put them
/// into a root any more.
pub fn is_too_late(env: &Env) -> bool {
    (env.clock.now().millis() - env.now.millis()).abs() > LONGEST_WRITE
}

/// One step of a run. `mark` reads the root under a key and tells what it reaches; false means that
/// the key is none.
pub fn step(
    env: &Env,
    plan: &Plan,
    wanted: &Wanted,
    mark: impl FnMut(&str, &mut Marks) -> Result<bool, Fault>,
) -> Result<Step, Stopped> {
    let cursor = match &wanted.cursor {
        None => Cursor { run: env.id(), phase: Phase::Mark { written: 0 }, after: String::new() },
        Some(text) => Cursor::parse(text).ok_or(Stopped::Cursor)?,
    };
    let began = cursor.began();
    if began.is_none_or(|began| (env.now.millis() - began.millis()).abs() > LONGEST_RUN) {
        return Err(Stopped::Cursor);
    }
    match cursor.phase {
        Phase::Mark { written } => mark_some(env, plan, cursor, written, wanted.no_wait, mark),
        Phase::Sweep => sweep_some(env, plan, cursor, wanted),
    }
}

/// How far a run got.
struct Cursor {
    run: String,
    phase: Phase,
    /// The last key that was looked at.
    after: String,
}

enum Phase {
    /// `written`: blobs of marks.
    Mark {
        written: u64,
    },
    Sweep,
}

impl Cursor {
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.splitn(3, ':');
        let (run, phase, after) = (fields.next()?, fields.next()?, fields.next()?);
        let phase = match phase {
            "sweep" => Phase::Sweep,
            written => Phase::Mark { written: written.parse().ok()? },
        };
        Some(Cursor { run: run.to_owned(), phase, after: after.to_owned() })
    }

    fn began(&self) -> Option<Timestamp> {
        id::number(&self.run).map(id::made_at)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.phase {
            Phase::Mark { written } => write!(f, "{}:{written}:{}", self.run, self.after),
            Phase::Sweep => write!(f, "{}:sweep:{}", self.run, self.after),
        }
    }
}

/// Written when everything is marked: without it nothing is swept.
#[derive(Serialize, Deserialize)]
struct Marked {
    /// Blobs of marks.
    written: u64,
    at: Timestamp,
}

fn marked_key(plan: &Plan, run: &str) -> String {
    format!("{}{run}/marked", plan.marks)
}

fn marks_prefix(plan: &Plan, run: &str) -> String {
    format!("{}{run}/ids/", plan.marks)
}

fn mark_some(
    env: &Env,
    plan: &Plan,
    mut cursor: Cursor,
    mut written: u64,
    no_wait: bool,
    mut mark: impl FnMut(&str, &mut Marks) -> Result<bool, Fault>,
) -> Result<Step, Stopped> {
    let roots = list_all(&*env.store, plan.roots, &cursor.after, ROOTS)?;
    let mut step = Step::default();
    let mut marks = Marks::default();
    let mut left = roots.len();
    for key in &roots {
        step.roots += u64::from(mark(key, &mut marks)?);
        left -= 1;
        cursor.after.clone_from(key);
        if marks.0.len() >= MARKS {
            break;
        }
    }
    if !marks.0.is_empty() {
        let ids: Vec<u8> = marks.0.iter().flat_map(|id| id.to_be_bytes()).collect();
        // A step that is repeated writes beside what it wrote before, which marks nothing else.
        env.store.set(&format!("{}{}", marks_prefix(plan, &cursor.run), env.id()), &ids)?;
        written += 1;
    }
    cursor.phase = Phase::Mark { written };
    if roots.len() < ROOTS && left == 0 {
        let key = marked_key(plan, &cursor.run);
        let marked = serde_json::to_vec(&Marked { written, at: env.now }).map_err(|why| Fault::corrupt(&key, why))?;
        env.store.set(&key, &marked)?;
        cursor = Cursor { phase: Phase::Sweep, after: String::new(), ..cursor };
        step.wait_seconds = if no_wait { 0 } else { SETTLE.unsigned_abs() / 1000 };
    }
    step.cursor = Some(cursor.to_string());
    Ok(step)
}

fn sweep_some(env: &Env, plan: &Plan, mut cursor: Cursor, wanted: &Wanted) -> Result<Step, Stopped> {
    let key = marked_key(plan, &cursor.run);
    let marked = env.store.get(&key)?.ok_or(Stopped::Cursor)?;
    let marked: Marked = serde_json::from_slice(&marked).map_err(|why| Fault::corrupt(&key, why))?;
    let since = env.now.millis() - marked.at.millis();
    if !wanted.no_wait && since < SETTLE {
        let wait_seconds = (SETTLE - since).unsigned_abs().div_ceil(1000);
        return Ok(Step { cursor: Some(cursor.to_string()), wait_seconds, ..Step::default() });
    }

    let mut prefixes = plan.blobs.to_vec();
    prefixes.push(plan.marks);
    prefixes.sort_unstable();
    let keys = list_all(&*env.store, &prefixes, &cursor.after, KEYS)?;
    let id_of = |key: &str| {
        let rest = prefixes.iter().find_map(|prefix| key.strip_prefix(prefix))?;
        id::number(rest.split('/').next()?)
    };
    let began = cursor.began().ok_or(Stopped::Cursor)?.millis();
    let is_old = |id: &u128| id::made_at(*id).millis() < began - GRACE;
    let is_old_run = |id: &u128| id::made_at(*id).millis() < began - GRACE - LONGEST_RUN;
    let is_candidate = |key: &str, id: &u128| if key.starts_with(plan.marks) { is_old_run(id) } else { is_old(id) };
    let mut dead: HashSet<u128> = keys.iter().filter_map(|key| id_of(key).filter(|id| is_candidate(key, id))).collect();
    retain_unmarked(&*env.store, plan, &cursor.run, marked.written, &mut dead)?;

    let mut step = Step::default();
    for key in &keys {
        step.keys += 1;
        cursor.after.clone_from(key);
        if id_of(key).is_none_or(|id| !dead.contains(&id)) {
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
        forget(&*env.store, plan, &cursor.run)?;
    } else {
        step.cursor = Some(cursor.to_string());
    }
    Ok(step)
}

/// Takes what the run has marked out of `dead`.
fn retain_unmarked(
    store: &dyn Store,
    plan: &Plan,
    run: &str,
    written: u64,
    dead: &mut HashSet<u128>,
) -> Result<(), Stopped> {
    if dead.is_empty() {
        return Ok(());
    }
    let prefix = marks_prefix(plan, run);
    let (mut after, mut read) = (String::new(), 0);
    loop {
        let page = store.list(&prefix, &after, KEYS)?;
        for key in &page {
            let ids = store.get(key)?.ok_or_else(|| Fault::corrupt(key, "it is missing"))?;
            for id in ids.as_chunks::<ID>().0 {
                dead.remove(&u128::from_be_bytes(*id));
            }
            read += 1;
        }
        after = match page.into_iter().last() {
            Some(last) => last,
            None => break,
        };
    }
    // Repeated steps leave more than were counted; fewer mean that marks are gone.
    if read < written { Err(Stopped::Cursor) } else { Ok(()) }
}

/// Removes what a run has marked.
fn forget(store: &dyn Store, plan: &Plan, run: &str) -> Result<(), Fault> {
    store.delete(&marked_key(plan, run))?;
    let prefix = marks_prefix(plan, run);
    loop {
        let page = store.list(&prefix, "", KEYS)?;
        for key in &page {
            store.delete(key)?;
        }
        if page.len() < KEYS {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests;
