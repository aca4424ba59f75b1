//! The audit log: a JSON line for each attempt to change a component, on disk before the change takes
//! effect.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::private_files;

/// An attempted action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Swap,
    Canary,
    Promote,
    Rollback,
    /// At a start, the manifest's source had changed and replaced the swapped-in component.
    Supersede,
    /// A component was loaded at a start.
    Start,
    /// The manifest was read again.
    Reload,
}

/// The outcome of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Done,
    Refused,
    /// The store of the hosts was lost before it had replied.
    Unknown,
}

/// An entry of the log.
#[derive(Debug, Serialize)]
pub struct AuditEntry<'a> {
    pub by: &'a str,
    pub action: Action,
    /// `None` for what concerns the whole manifest.
    pub component: Option<&'a str>,
    pub digest: Option<Digest>,
    pub previous: Option<Digest>,
    pub outcome: Outcome,
    /// The reason for trusting the component, if there is a policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
}

#[derive(Serialize)]
struct Stamped<'a> {
    at: String,
    #[serde(flatten)]
    line: &'a AuditEntry<'a>,
}

impl AuditEntry<'_> {
    /// The line of the log, with the present time.
    pub fn to_json(&self) -> String {
        // Nothing in it is a map, of which a key could be no string.
        serde_json::to_string(&Stamped { at: Timestamp::now().to_string(), line: self }).unwrap_or_default()
    }
}

/// The open log.
pub struct Audit(File);

impl Audit {
    pub fn open(path: &Path) -> io::Result<Self> {
        private_files::open(OpenOptions::new().create(true).append(true), path).map(Self)
    }

    pub fn append(&mut self, line: &AuditEntry<'_>) -> io::Result<()> {
        // In one write, so that a crash can cut only the last line.
        self.0.write_all((line.to_json() + "\n").as_bytes())?;
        self.0.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_appended_and_name_who_what_and_why() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.ndjson");
        for reason in [None, Some("it traps\nat once")] {
            let outcome = if reason.is_some() { Outcome::Refused } else { Outcome::Done };
            let digest = Some(Digest::of(b"x"));
            let (by, action, component, trust) = ("mia", Action::Swap, Some("a"), None);
            let line = AuditEntry { by, action, component, digest, previous: None, outcome, trust, reason };
            Audit::open(&path).unwrap().append(&line).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(
            (&lines[0]["by"], &lines[0]["action"], &lines[0]["outcome"]),
            (&"mia".into(), &"swap".into(), &"done".into())
        );
        assert!(lines[0].get("reason").is_none() && lines[0]["at"].as_str().unwrap().ends_with('Z'));
        assert_eq!(lines[1]["reason"], "it traps\nat once");
    }
}
