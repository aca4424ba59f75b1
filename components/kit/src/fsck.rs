//! Checking everything that is stored, in bounded steps: each root and, where blobs name others,
//! each blob that a root reaches ([`crate::reachability`]). What is damaged is told, and the run goes on.

use crate::env::Env;
use crate::reachability::{self, Cursor, Log, Node, Roots, StepError, Tracer};
use crate::store::StoreError;
use serde::Serialize;

/// How many problems an answer tells about.
const MAX_PROBLEMS: usize = 100;

/// What a step found. The numbers are this step's.
#[derive(Debug, Default, Serialize)]
pub struct CheckReport {
    /// For the next step; none after the last one.
    pub cursor: Option<String>,
    /// Roots that were checked to their end.
    pub roots: u64,
    /// Blobs, or files of them, that were read, and their bytes.
    pub blobs: u64,
    pub bytes: u64,
    pub failed: u64,
    /// The first of what is wrong.
    pub problems: Vec<Problem>,
}

#[derive(Debug, Serialize)]
pub struct Problem {
    /// Where it was found.
    pub key: String,
    pub problem: String,
}

impl CheckReport {
    pub fn found(&mut self, key: &str, problem: String) {
        self.failed += 1;
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem { key: key.to_owned(), problem });
        }
    }

    /// Adds what another attempt found.
    pub fn extend(&mut self, other: CheckReport) {
        self.roots += other.roots;
        self.blobs += other.blobs;
        self.bytes += other.bytes;
        self.failed += other.failed;
        self.problems.extend(other.problems);
        self.problems.truncate(MAX_PROBLEMS);
    }
}

/// One step of a run.
pub fn step<K: Roots + ?Sized>(env: &Env, keeper: &K, cursor: Option<&str>) -> Result<CheckReport, StepError> {
    let mut cursor = Cursor::of(env, cursor)?;
    let mut checked = CheckReport::default();
    let walked = reachability::step(env, keeper, &mut cursor, true, &mut |place, visit| {
        let (is_there, found) = check(env, keeper, place)?;
        found.problems().iter().for_each(|(key, problem)| checked.found(key, problem.clone()));
        visit.extend(found);
        Ok(is_there)
    })?;
    (checked.roots, checked.blobs, checked.bytes) = (walked.roots, walked.blobs, walked.bytes);
    if walked.complete.is_some() {
        Log::of(env, &keeper.plan(), &cursor.run).forget()?;
    } else {
        checked.cursor = Some(cursor.to_string());
    }
    Ok(checked)
}

/// Visits a place. What a root names may have been replaced, and removed, since the root was read:
/// only what is wrong twice with the same root is a problem.
fn check<K: Roots + ?Sized>(env: &Env, keeper: &K, place: Node) -> Result<(bool, Tracer), StoreError> {
    let mut seen = None;
    loop {
        let mut visit = Tracer::new(true);
        let outcome = keeper.visit(place, &mut visit);
        let is_there = visit.note(outcome)?.unwrap_or(true);
        let state = match place {
            Node::Root(key) if !visit.problems().is_empty() => env.store.get(key)?,
            _ => return Ok((is_there, visit)),
        };
        if seen.as_ref() == Some(&state) {
            return Ok((is_there, visit));
        }
        seen = Some(state);
    }
}
