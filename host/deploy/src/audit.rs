//! The audit log: a JSON line for each attempt to change a component. The line is on disk before the change takes
//! effect. If the change outlasts the host, the record of active components has the line first.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use hexad_support::digest::Digest;
use hexad_support::private_files;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// An attempted action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Swap,
    Canary,
    Promote,
    Rollback,
    /// At a start, the manifest's changed source replaced the swapped-in component.
    Supersede,
    /// A component was loaded at a start.
    Start,
    /// The manifest was read again.
    Reload,
}

/// The outcome of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditOutcome {
    Done,
    Refused,
    /// The connection to the shared store was lost before the store replied.
    Unknown,
}

/// An entry of the log.
#[derive(Debug, Serialize)]
pub struct AuditEntry<'a> {
    pub by: &'a str,
    pub action: Action,
    /// `None` for an entry about the whole manifest.
    pub component: Option<&'a str>,
    pub digest: Option<Digest>,
    pub previous: Option<Digest>,
    pub outcome: AuditOutcome,
    /// The reason for trusting the component, if a policy exists.
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

impl<'a> AuditEntry<'a> {
    /// A completed action on the manifest as a whole.
    pub fn done(by: &'a str, action: Action) -> Self {
        let (component, digest, previous, trust, reason) = (None, None, None, None, None);
        Self { by, action, component, digest, previous, outcome: AuditOutcome::Done, trust, reason }
    }

    /// The line of the log, with the present time.
    pub fn to_json(&self) -> String {
        let by = bounded(self.by);
        let [component, trust, reason] = [self.component, self.trust, self.reason].map(|text| text.map(bounded));
        let line = AuditEntry {
            by: &by,
            component: component.as_deref(),
            trust: trust.as_deref(),
            reason: reason.as_deref(),
            ..*self
        };
        // Serialization fails only for maps whose keys are not strings, and an entry has no map.
        serde_json::to_string(&Stamped { at: Timestamp::now().to_string(), line: &line }).unwrap_or_default()
    }
}

/// The text, or its beginning and `…` if it is too long.
fn bounded(text: &str) -> Cow<'_, str> {
    match text.len() <= MAX_TEXT {
        true => text.into(),
        false => format!("{}…", text.split_at(text.floor_char_boundary(MAX_TEXT)).0).into(),
    }
}

/// A line of the log, as the host reads it back.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AuditRecord {
    /// In UTC, as RFC 3339.
    pub at: String,
    pub by: String,
    pub action: String,
    pub component: Option<String>,
    pub digest: Option<String>,
    pub outcome: String,
    pub reason: Option<String>,
}

impl AuditRecord {
    pub fn is(&self, action: Action) -> bool {
        serde_json::to_value(action).is_ok_and(|name| name == self.action.as_str())
    }

    pub fn is_done(&self) -> bool {
        serde_json::to_value(AuditOutcome::Done).is_ok_and(|name| name == self.outcome.as_str())
    }
}

/// How many bytes at the end of the log the host reads back.
const MAX_READ: u64 = 128 * 1024;

/// Bytes of a text in a line, such as a reason. A line has at most four texts, and JSON needs up to six bytes for one
/// of their bytes. So `MAX_READ` always covers the last line.
const MAX_TEXT: usize = 4 * 1024;

/// The open log.
pub struct Audit {
    file: File,
    path: PathBuf,
    /// Whether the file may end with a part of a line, after a full disk or a crash.
    is_torn: bool,
}

impl Audit {
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = private_files::open(OpenOptions::new().create(true).append(true).read(true), path)?;
        let is_torn = !ends_with_line(&mut file)?;
        Ok(Self { file, path: path.to_owned(), is_torn })
    }

    /// A log that refuses writes.
    #[cfg(test)]
    pub fn open_read_only(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, path: path.to_owned(), is_torn: false })
    }

    /// The last lines, at most `count`, the newest first. Unreadable lines are left out.
    pub fn recent(&self, count: usize) -> io::Result<Vec<AuditRecord>> {
        let bytes = self.read_end()?;
        let lines = bytes.rsplit(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        Ok(lines.take(count).collect())
    }

    /// Whether a line of [`AuditEntry::to_json`] is among the last ones.
    pub fn has(&self, line: &str) -> io::Result<bool> {
        Ok(self.read_end()?.rsplit(|byte| *byte == b'\n').any(|present| present == line.as_bytes()))
    }

    fn read_end(&self) -> io::Result<Vec<u8>> {
        let mut file = private_files::open(OpenOptions::new().read(true), &self.path)?;
        let start = file.metadata()?.len().saturating_sub(MAX_READ);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(MAX_READ).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    pub fn append(&mut self, line: &AuditEntry<'_>) -> io::Result<()> {
        self.append_lines(&[line.to_json()])
    }

    /// Appends lines of [`AuditEntry::to_json`]. On an error, the log has none of them, unless the host cannot shorten
    /// the file either.
    pub fn append_lines(&mut self, lines: &[String]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        // A line feed ends a torn line first: otherwise readers would lose the next line too.
        let end_of_torn = if self.is_torn { "\n" } else { "" };
        let length = self.file.metadata()?.len();
        // One write, so that a crash can cut only the last line.
        let text = format!("{end_of_torn}{}\n", lines.join("\n"));
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        self.is_torn = match &written {
            Ok(()) => false,
            Err(_) => self.file.set_len(length).is_err() || self.is_torn,
        };
        written
    }
}

/// Whether the file is empty or its last line is complete.
fn ends_with_line(file: &mut File) -> io::Result<bool> {
    let length = file.metadata()?.len();
    let Some(last) = length.checked_sub(1) else { return Ok(true) };
    file.seek(SeekFrom::Start(last))?;
    let mut end = [0; 1];
    file.read_exact(&mut end)?;
    Ok(end == *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_appended_and_name_operator_action_and_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.ndjson");
        for reason in [None, Some("it traps\nat once")] {
            let outcome = if reason.is_some() { AuditOutcome::Refused } else { AuditOutcome::Done };
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
        let recent = Audit::open(&path).unwrap().recent(1).unwrap();
        let [refused] = &recent[..] else { panic!("{recent:?}") };
        assert_eq!((refused.outcome.as_str(), refused.reason.as_deref()), ("refused", Some("it traps\nat once")));
    }

    fn reload(by: &str) -> AuditEntry<'_> {
        AuditEntry::done(by, Action::Reload)
    }

    fn actors(audit: &Audit) -> Vec<String> {
        audit.recent(10).unwrap().into_iter().map(|line| line.by).collect()
    }

    #[test]
    fn a_line_that_a_crash_has_cut_takes_no_other_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.ndjson");
        Audit::open(&path).unwrap().append(&reload("a")).unwrap();
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&whole[..], &whole[..20]].concat()).unwrap();
        for by in ["b", "c"] {
            Audit::open(&path).unwrap().append(&reload(by)).unwrap();
        }
        assert_eq!(actors(&Audit::open(&path).unwrap()), ["c", "b", "a"]);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 4, "no line is empty");
    }

    #[test]
    fn a_line_that_could_not_be_written_takes_no_other_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.ndjson");
        let mut audit = Audit::open(&path).unwrap();
        let file = std::mem::replace(&mut audit.file, OpenOptions::new().append(true).open("/dev/full").unwrap());
        audit.append(&reload("lost")).unwrap_err();
        std::fs::write(&path, "{\"at\":\"2026-").unwrap();
        audit.file = file;
        for by in ["a", "b"] {
            audit.append(&reload(by)).unwrap();
        }
        assert_eq!(actors(&audit), ["b", "a"]);
    }

    #[test]
    fn a_long_text_is_cut_so_that_its_line_can_be_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.ndjson");
        // JSON needs six bytes for each of these characters.
        let long = "\u{1}".repeat(1 << 20);
        let line = AuditEntry {
            by: &long,
            action: Action::Reload,
            component: Some(&long),
            digest: None,
            previous: None,
            outcome: AuditOutcome::Refused,
            trust: Some(&long),
            reason: Some(&long),
        };
        let mut audit = Audit::open(&path).unwrap();
        audit.append(&line).unwrap();
        let recent = audit.recent(1).unwrap();
        let [refused] = &recent[..] else { panic!("{} lines", recent.len()) };
        let reason = refused.reason.as_deref().unwrap();
        assert!(reason.starts_with("\u{1}") && reason.ends_with('…'));
    }

    #[test]
    fn the_end_of_a_long_log_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.ndjson");
        let mut audit = Audit::open(&path).unwrap();
        assert_eq!(audit.recent(3).unwrap(), []);
        std::fs::write(&path, "no line\n".repeat(MAX_READ as usize)).unwrap();
        for by in ["a", "b"] {
            audit.append(&reload(by)).unwrap();
        }
        assert_eq!(actors(&audit), ["b", "a"]);
    }
}
