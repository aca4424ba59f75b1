//! The record of active components, so that a restart serves the swapped-in ones.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::artifacts::replace_file;
use crate::digest::Digest;

/// The version of the file format.
const FORMAT: u32 = 1;

/// The entry of a slot. This is a stored format: unknown fields are ignored, new ones are optional.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The active component.
    pub digest: Digest,
    /// The previous component.
    #[serde(default)]
    pub previous: Option<Digest>,
    /// The digest of the manifest's source at that time.
    #[serde(default)]
    pub source: Option<Digest>,
}

/// What a slot starts with.
#[derive(Debug, PartialEq)]
pub enum Choice {
    /// The manifest's source.
    Source,
    /// The swapped-in component.
    Recorded(Entry),
    /// The manifest's source, because it was changed after the swap.
    Superseded(Entry),
}

#[derive(Default, Serialize, Deserialize)]
struct RecordFile {
    format: u32,
    components: BTreeMap<String, Entry>,
}

/// All entries.
pub struct Records {
    path: PathBuf,
    entries: BTreeMap<String, Entry>,
}

impl Records {
    /// Reads the file, if there is one.
    pub fn open(path: PathBuf) -> io::Result<Self> {
        let invalid = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
        let entries = match fs::read(&path) {
            Ok(bytes) => {
                let form: RecordFile = serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
                if form.format != FORMAT {
                    return Err(invalid(format!("it has format {}, and this program reads {FORMAT}", form.format)));
                }
                form.components
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        Ok(Self { path, entries })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn get(&self, component: &str) -> Option<&Entry> {
        self.entries.get(component)
    }

    /// Decides between the entry and the manifest's source, whose present digest is `source`; `None`
    /// if it cannot be read.
    pub fn choose(&self, component: &str, source: Option<Digest>) -> Choice {
        match self.entries.get(component) {
            None => Choice::Source,
            Some(entry) if source == Some(entry.digest) => Choice::Source,
            Some(entry) if source.is_none() || source == entry.source => Choice::Recorded(entry.clone()),
            Some(entry) => Choice::Superseded(entry.clone()),
        }
    }

    /// Sets or removes the entry of a component. It is on disk when this returns; on an error nothing
    /// has changed.
    pub fn set(&mut self, component: &str, entry: Option<Entry>) -> io::Result<()> {
        let mut entries = self.entries.clone();
        match entry {
            Some(entry) => entries.insert(component.to_owned(), entry),
            None => entries.remove(component),
        };
        let form = RecordFile { format: FORMAT, components: entries };
        let bytes = serde_json::to_vec_pretty(&form)?;
        replace_file(&self.path, &bytes)?;
        self.entries = form.components;
        Ok(())
    }

    /// Whether a restart serves this component.
    pub fn is_active(&self, digest: &Digest) -> bool {
        self.entries.values().any(|entry| entry.digest == *digest)
    }

    /// Every digest that a restart or a rollback may need.
    pub fn digests(&self) -> Vec<Digest> {
        self.entries.values().flat_map(|entry| [Some(entry.digest), entry.previous]).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(text: &str) -> Digest {
        Digest::of(text.as_bytes())
    }

    fn records(folder: &Path) -> Records {
        Records::open(folder.join("active.json")).unwrap()
    }

    fn entry() -> Entry {
        Entry { digest: digest("new"), previous: Some(digest("old")), source: Some(digest("old")) }
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
        assert_eq!(records.get("a"), Some(&Entry { digest: digest("x"), previous: None, source: None }));
    }
}
