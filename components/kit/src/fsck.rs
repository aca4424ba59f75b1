//! Checks: reading everything that an area stores, in bounded steps, and reporting damage. A run
//! visits each root and, where blobs name other blobs, each blob that a root reaches
//! ([`crate::reachability`]). Damage is reported and does not end the run.

use crate::env::Env;
use crate::reachability::{self, Cursor, MarkLog, Node, GcSource, StepError, Tracer};
use crate::store::StoreError;
use serde::Serialize;

/// How many problems a report lists.
pub(crate) const MAX_PROBLEMS: usize = 100;

/// The outcome of one step. The counts are those of this step.
#[derive(Debug, Default, Serialize)]
pub struct CheckReport {
    /// For the next step; absent after the last one.
    pub cursor: Option<String>,
    /// Roots that were checked to their end.
    pub roots: u64,
    /// Blobs, or files of them, that were read, and their bytes.
    pub blobs: u64,
    pub bytes: u64,
    /// How many problems there are; `problems` lists the first of them.
    pub failed: u64,
    pub problems: Vec<Problem>,
    /// How many sound values an operator should know of; `remarks` lists the first of them.
    pub remarked: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<Problem>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The key of the damaged value, or of the root that leads to it.
    pub key: String,
    pub problem: String,
}

impl CheckReport {
    /// Adds a problem.
    pub fn add_problem(&mut self, key: &str, problem: String) {
        self.failed += 1;
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem { key: key.to_owned(), problem });
        }
    }

    fn remark(&mut self, key: &str, problem: &str) {
        self.remarked += 1;
        if self.remarks.len() < MAX_PROBLEMS {
            self.remarks.push(Problem { key: key.to_owned(), problem: problem.to_owned() });
        }
    }

    /// Adds another report.
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

/// Does one step of a run.
pub fn step<K: GcSource + ?Sized>(env: &Env, roots: &K, cursor: Option<&str>) -> Result<CheckReport, StepError> {
    let mut cursor = Cursor::resume(env, cursor)?;
    let mut report = CheckReport::default();
    let progress = reachability::step(env, roots, &mut cursor, true, &mut |node, tracer| {
        let (is_there, found) = check(env, roots, node)?;
        found.problems().iter().for_each(|(key, problem)| report.add_problem(key, problem.clone()));
        found.remarks.iter().for_each(|(key, remark)| report.remark(key, remark));
        tracer.extend(found);
        Ok(is_there)
    })?;
    (report.roots, report.blobs, report.bytes) = (progress.roots, progress.blobs, progress.bytes);
    if progress.complete.is_some() {
        MarkLog::open(env, &roots.layout(), &cursor.run).delete()?;
    } else {
        report.cursor = Some(cursor.to_string());
    }
    Ok(report)
}

/// Visits a node. The blobs that a root names may have been replaced and removed since the root was
/// read, so a problem counts only if it is found twice with the same root.
fn check<K: GcSource + ?Sized>(env: &Env, roots: &K, node: Node) -> Result<(bool, Tracer), StoreError> {
    let mut seen = None;
    loop {
        let mut tracer = Tracer::new(true);
        let outcome = roots.visit(node, &mut tracer);
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
