//! Checks: a run reads everything that an area stores, in bounded steps, and reports damage. It visits each root, and
//! each blob that a root reaches if blobs name other blobs ([`crate::reachability`]). Damage does not end the run.

use crate::env::Env;
use crate::reachability::{self, Cursor, GcSource, MarkLog, Node, StepError, Tracer};
use crate::store::StoreError;
use serde::Serialize;

/// The most problems, and the most remarks, in a report.
pub(crate) const MAX_PROBLEMS: usize = 100;

/// The report of one step. It counts this step only.
#[derive(Debug, Default, Serialize)]
pub struct CheckReport {
    /// The cursor of the next step; absent after the last step.
    pub cursor: Option<String>,
    /// Roots that were checked completely.
    pub roots: u64,
    /// Blobs, or files within blobs, that were read, and their bytes.
    pub blobs: u64,
    pub bytes: u64,
    /// The number of problems; `problems` lists the first ones.
    pub failed: u64,
    pub problems: Vec<Problem>,
    /// The number of sound values that an operator should know of; `remarks` lists the first ones.
    pub remarked: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<Problem>,
}

/// A damaged value, or a value that an operator should know of.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The key of the damaged value, or of the root that leads to it.
    pub key: String,
    pub problem: String,
}

impl CheckReport {
    /// Counts a problem, and lists it if it is among the first 100.
    pub fn add_problem(&mut self, key: &str, problem: String) {
        self.failed += 1;
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem { key: key.to_owned(), problem });
        }
    }

    /// Counts a remark, and lists it if it is among the first 100.
    pub fn remark(&mut self, key: &str, problem: &str) {
        self.remarked += 1;
        if self.remarks.len() < MAX_PROBLEMS {
            self.remarks.push(Problem { key: key.to_owned(), problem: problem.to_owned() });
        }
    }

    /// Adds the counts and the problems of another report.
    pub fn extend(&mut self, other: CheckReport) {
        self.roots += other.roots;
        self.blobs += other.blobs;
        self.bytes += other.bytes;
        self.failed += other.failed;
        self.problems.extend(other.problems);
        self.problems.truncate(MAX_PROBLEMS);
        self.remarked += other.remarked;
        self.remarks.extend(other.remarks);
        self.remarks.truncate(MAX_PROBLEMS);
    }
}

/// Does one step of a run. [`StepError::Cursor`] for a cursor that no step returned.
pub fn step<S: GcSource + ?Sized>(env: &Env, source: &S, cursor: Option<&str>) -> Result<CheckReport, StepError> {
    let mut cursor = Cursor::resume(env, cursor)?;
    let mut report = CheckReport::default();
    let progress = reachability::step(env, source, &mut cursor, true, &mut |node, tracer| {
        let (is_there, found) = check(env, source, node)?;
        found.problems().iter().for_each(|(key, problem)| report.add_problem(key, problem.clone()));
        found.remarks.iter().for_each(|(key, remark)| report.remark(key, remark));
        tracer.extend(found);
        Ok(is_there)
    })?;
    (report.roots, report.blobs, report.bytes) = (progress.roots, progress.blobs, progress.bytes);
    if progress.complete.is_some() {
        MarkLog::open(env, &source.layout(), &cursor.run).delete()?;
    } else {
        report.cursor = Some(cursor.to_string());
    }
    Ok(report)
}

/// Visits a node. A writer may have replaced a root since it was read, and a garbage collection may have removed its
/// blobs. So a problem counts only if two visits find it with the same root.
fn check<S: GcSource + ?Sized>(env: &Env, source: &S, node: Node) -> Result<(bool, Tracer), StoreError> {
    let mut seen = None;
    loop {
        let mut tracer = Tracer::new(true);
        let outcome = source.visit(node, &mut tracer);
        let is_there = tracer.tolerate(outcome)?.unwrap_or(true);
        let state = match node {
            Node::Root(key) if !tracer.problems().is_empty() => env.store.get(key)?,
            _ => return Ok((is_there, tracer)),
        };
        if seen.as_ref() == Some(&state) {
            return Ok((is_there, tracer));
        }
        seen = Some(state);
    }
}
