//! The record of active components, so that a restart serves the swapped-in ones.
//!
//! The file also has the audit line of its last change, until the log has that line. So, after a crash or with a full
//! disk, each change has its line, and each line is about a change that took place.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use hexad_support::bounded_file;
use hexad_support::digest::Digest;
use hexad_support::private_files;
use serde::{Deserialize, Serialize};

/// The version of the file format.
const FORMAT: u32 = 1;

/// The largest file that is read, in bytes.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// The entry of a service. This is a stored format: unknown fields are ignored, new ones are optional.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordEntry {
    /// The active component.
    pub digest: Digest,
    /// The previous component.
    #[serde(default)]
    pub previous: Option<Digest>,
    /// The digest of the manifest's source at that time.
    #[serde(default)]
    pub source: Option<Digest>,
}

/// The component that a service starts with.
#[derive(Debug, PartialEq)]
pub enum Choice {
    /// The manifest's source.
    Source,
    /// The swapped-in component.
    Recorded(RecordEntry),
    /// The manifest's source, because it has changed since the swap.
    Superseded(RecordEntry),
}

/// The content of the file.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordFile {
    format: u32,
    components: BTreeMap<String, RecordEntry>,
    /// The components of a copied store that no host has started with since, see [`Records::adopt_source`].
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    copied: BTreeSet<String>,
    /// The line of the last change, until the audit log certainly has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unlogged: Option<String>,
}

/// All entries.
pub struct Records {
    path: PathBuf,
    /// If true, changes are not written.
    is_read_only: bool,
    content: RecordFile,
}

impl Records {
    /// Reads the file, if there is one.
    pub fn open(path: PathBuf) -> io::Result<Self> {
        let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
        let content = match bounded_file::read(&path, MAX_BYTES) {
            Ok(bytes) => {
                let content: RecordFile = serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
                if content.format != FORMAT {
                    return Err(invalid(format!("it has format {}, and this program reads {FORMAT}", content.format)));
                }
                content
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (components, copied) = (BTreeMap::new(), BTreeSet::new());
                RecordFile { format: FORMAT, components, copied, unlogged: None }
            }
            Err(error) => return Err(error),
        };
        Ok(Self { path, is_read_only: false, content })
    }

    /// Writes changes only if not `is_read_only`.
    pub fn read_only(self, is_read_only: bool) -> Self {
        Self { is_read_only, ..self }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn get(&self, component: &str) -> Option<&RecordEntry> {
        self.content.components.get(component)
    }

    /// Decides between the entry and the manifest's source, whose present digest is `source`; `None` if it cannot be
    /// read.
    pub fn choose(&self, component: &str, source: Option<Digest>) -> Choice {
        match self.get(component) {
            None => Choice::Source,
            Some(entry) if source == Some(entry.digest) => Choice::Source,
            Some(entry) if source.is_none() || source == entry.source => Choice::Recorded(entry.clone()),
            Some(entry) => Choice::Superseded(entry.clone()),
        }
    }

    /// Sets or removes the entry of a component. The entry is on disk when this returns; on an error, nothing has
    /// changed.
    pub fn set(&mut self, component: &str, entry: Option<RecordEntry>) -> io::Result<()> {
        self.write(self.changed(component, entry))
    }

    /// Sets the entry of a component, as [`set`](Self::set) does, with its line for the audit log.
    pub fn set_with_line(&mut self, component: &str, entry: RecordEntry, line: String) -> io::Result<()> {
        self.write(RecordFile { unlogged: Some(line), ..self.changed(component, Some(entry)) })
    }

    fn changed(&self, component: &str, entry: Option<RecordEntry>) -> RecordFile {
        let mut content = self.content.clone();
        match entry {
            Some(entry) => content.components.insert(component.to_owned(), entry),
            None => content.components.remove(component),
        };
        content.copied.remove(component);
        content
    }

    /// The line of the last change, if the audit log may not have it.
    pub fn unlogged(&self) -> Option<&str> {
        self.content.unlogged.as_deref()
    }

    /// Removes the unlogged line. On an error, nothing has changed.
    pub fn remove_line(&mut self) -> io::Result<()> {
        self.write(RecordFile { unlogged: None, ..self.content.clone() })
    }

    /// The present content, for [`restore`](Self::restore).
    pub fn content(&self) -> &RecordFile {
        &self.content
    }

    /// Undoes the changes since `content` was taken. On an error, nothing has changed.
    pub fn restore(&mut self, content: RecordFile) -> io::Result<()> {
        self.write(content)
    }

    /// Replaces all entries by the entries of another store, whose sources are unknown.
    pub fn set_copied(&mut self, entries: BTreeMap<String, RecordEntry>) -> io::Result<()> {
        let copied = entries.keys().cloned().collect();
        self.write(RecordFile { components: entries, copied, ..self.content.clone() })
    }

    /// At the first start with a copied store, records the present source as the one that the swap replaced. So the
    /// same component is active before and after the copy.
    pub fn adopt_source(&mut self, component: &str, source: Option<Digest>) -> io::Result<()> {
        match self.get(component) {
            Some(entry) if source.is_some() && self.content.copied.contains(component) => {
                let entry = RecordEntry { source, ..entry.clone() };
                self.set(component, Some(entry))
            }
            _ => Ok(()),
        }
    }

    /// The components that have entries.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RecordEntry)> {
        self.content.components.iter().map(|(component, entry)| (component.as_str(), entry))
    }

    fn write(&mut self, content: RecordFile) -> io::Result<()> {
        // A host without disk space can start with its earlier record.
        let is_change = content != self.content;
        if is_change && !self.is_read_only {
            private_files::replace(&self.path, &[&serde_json::to_vec_pretty(&content)?])?;
        }
        self.content = content;
        Ok(())
    }

    /// Whether a restart serves this component.
    pub fn is_active(&self, digest: &Digest) -> bool {
        self.content.components.values().any(|entry| entry.digest == *digest)
    }

    /// Every digest that a restart or a rollback may need.
    pub fn digests(&self) -> Vec<Digest> {
        self.content.components.values().flat_map(|entry| [Some(entry.digest), entry.previous]).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    fn records(folder: &Path) -> Records {
        Records::open(folder.join("active.json")).unwrap()
    }

    fn entry() -> RecordEntry {
        RecordEntry { digest: digest("new"), previous: Some(digest("old")), source: Some(digest("old")) }
    }

    #[test]
    fn an_entry_survives_and_can_be_removed() {
        let folder = tempfile::tempdir().unwrap();
        records(folder.path()).set("a", Some(entry())).unwrap();
        let mut again = records(folder.path());
        assert_eq!(again.get("a"), Some(&entry()));
        again.set("a", None).unwrap();
        assert_eq!(records(folder.path()).get("a"), None);
    }

    #[test]
    fn what_does_not_change_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut records = records(folder.path());
        records.set("a", Some(entry())).unwrap();
        // From here on, writes fail.
        fs::remove_file(folder.path().join("active.json")).unwrap();
        fs::create_dir(folder.path().join("active.json")).unwrap();
        records.set("a", Some(entry())).unwrap();
        records.set("b", None).unwrap();
        records.set("b", Some(entry())).unwrap_err();
        assert_eq!((records.get("a"), records.get("b")), (Some(&entry()), None));
    }

    #[test]
    fn a_source_that_was_changed_since_wins() {
        let folder = tempfile::tempdir().unwrap();
        let mut records = records(folder.path());
        assert_eq!(records.choose("a", Some(digest("old"))), Choice::Source);
        records.set("a", Some(entry())).unwrap();
        assert_eq!(records.choose("a", Some(digest("old"))), Choice::Recorded(entry()));
        assert_eq!(records.choose("a", None), Choice::Recorded(entry()), "the source is gone");
        assert_eq!(records.choose("a", Some(digest("new"))), Choice::Source, "the source caught up");
        assert_eq!(records.choose("a", Some(digest("newer"))), Choice::Superseded(entry()));
    }

    #[test]
    fn a_copied_entry_serves_until_its_source_changes() {
        let folder = tempfile::tempdir().unwrap();
        let copied = RecordEntry { source: None, ..entry() };
        let start = |source: Option<&str>| {
            let (mut records, source) = (records(folder.path()), source.map(digest));
            records.adopt_source("a", source).unwrap();
            records.choose("a", source)
        };
        records(folder.path()).set_copied(BTreeMap::from([("a".to_owned(), copied.clone())])).unwrap();
        assert_eq!(start(None), Choice::Recorded(copied.clone()), "the source is not known yet");
        for _ in 0..2 {
            assert_eq!(
                start(Some("any")),
                Choice::Recorded(RecordEntry { source: Some(digest("any")), ..copied.clone() })
            );
        }
        assert!(matches!(start(Some("changed")), Choice::Superseded(_)));
    }

    #[test]
    fn a_file_of_another_form_is_refused_and_an_unknown_field_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("active.json");
        fs::write(&path, r#"{"format":2,"components":{}}"#).unwrap();
        assert!(Records::open(path.clone()).err().unwrap().to_string().contains("format 2"));
        fs::write(&path, "{").unwrap();
        assert!(Records::open(path.clone()).is_err());
        let golden = format!(r#"{{"format":1,"components":{{"a":{{"digest":"{}","new":1}}}},"new":2}}"#, digest("x"));
        fs::write(&path, golden).unwrap();
        let records = Records::open(path).unwrap();
        assert_eq!(records.get("a"), Some(&RecordEntry { digest: digest("x"), previous: None, source: None }));
    }
}
