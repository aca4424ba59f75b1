//! What serves each slot, on disk: a restart serves what was swapped in.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::artifacts::replace_file;
use crate::digest::Digest;

/// The version of the file's form.
const FORMAT: u32 = 1;

/// One slot's entry. A wire form: unknown fields are ignored, new ones are optional.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// What serves.
    pub digest: Digest,
    /// What served before.
    #[serde(default)]
    pub previous: Option<Digest>,
    /// What the manifest's source was when this was decided.
    #[serde(default)]
    pub source: Option<Digest>,
}

/// What a start finds to serve.
#[derive(Debug, PartialEq)]
pub enum Choice {
    /// The manifest's source.
    Source,
    /// What was swapped in.
    Recorded(Entry),
    /// The manifest's source: it was changed after the swap, so it is what the operator wants now.
    Superseded(Entry),
}

#[derive(Default, Serialize, Deserialize)]
struct Form {
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
                let form: Form = serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
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

    /// What to serve, where the manifest's source has the digest `source` now; none if it cannot
    /// be read.
    pub fn choose(&self, component: &str, source: Option<Digest>) -> Choice {
        match self.entries.get(component) {
            None => Choice::Source,
            Some(entry) if source == Some(entry.digest) => Choice::Source,
            Some(entry) if source.is_none() || source == entry.source => Choice::Recorded(entry.clone()),
            Some(entry) => Choice::Superseded(entry.clone()),
        }
    }

    /// Makes `entry` the component's, on disk before it returns. If that fails, nothing changed.
    pub fn set(&mut self, component: &str, entry: Option<Entry>) -> io::Result<()> {
        let mut entries = self.entries.clone();
        match entry {
            Some(entry) => entries.insert(component.to_owned(), entry),
            None => entries.remove(component),
        };
        let form = Form { format: FORMAT, components: entries };
        let bytes = serde_json::to_vec_pretty(&form)?;
        replace_file(&self.path, &bytes)?;
        self.entries = form.components;
        Ok(())
    }

    /// Every digest that a restart or a rollback may ask for.
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
