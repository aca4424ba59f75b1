//! The manifest: the list of segments and their tombstones. It is the root; everything else that is
//! stored is an immutable blob.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// A new id with every change.
    #[serde(default)]
    pub revision: String,
    /// Oldest first; a merged segment takes the place of those that it replaces.
    #[serde(default)]
    pub segments: Vec<SegmentInfo>,
    /// The ids of the latest changes (each the id of the segment that it added), by which a writer
    /// whose swap got no reply recognises that the swap was applied.
    #[serde(default, rename = "recent")]
    recent_changes: Vec<String>,
    /// Replaced blobs that are still to be deleted.
    #[serde(default)]
    pub retired: Vec<Retired>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentInfo {
    pub id: String,
    /// Superseded documents included.
    #[serde(rename = "documents")]
    pub document_count: u32,
    /// Token positions of its titles and descriptions together.
    #[serde(default, rename = "places")]
    pub position_count: u64,
    #[serde(default, rename = "dead", skip_serializing_if = "Option::is_none")]
    pub tombstones: Option<TombstonesRef>,
}

/// A stored set of superseded documents of one segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TombstonesRef {
    pub id: String,
    pub count: u32,
}

/// A blob that no segment list names any more, by its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Retired {
    Segment(String),
    #[serde(rename = "dead")]
    Tombstones(String),
}

/// As many changes are remembered as other writers may make between a writer's swap and its check
/// whether the swap was applied.
const RECENT_CHANGES: usize = 32;

impl SegmentInfo {
    /// How many of its documents are not superseded.
    pub fn live_documents(&self) -> u32 {
        let superseded = self.tombstones.as_ref().map_or(0, |tombstones| tombstones.count);
        self.document_count - superseded.min(self.document_count)
    }
}

impl Manifest {
    /// Whether the change with this id was applied.
    pub fn has_change(&self, id: &str) -> bool {
        self.recent_changes.iter().any(|recent| recent == id)
    }

    /// Remembers that the change with this id is applied.
    pub fn record_change(&mut self, id: &str) {
        self.recent_changes.push(id.to_owned());
        let excess = self.recent_changes.len().saturating_sub(RECENT_CHANGES);
        self.recent_changes.drain(..excess);
    }

    /// The index of the first of the segments with these ids, if all are there, one after the other.
    pub fn find_run(&self, ids: &[String]) -> Option<usize> {
        let windows = self.segments.windows(ids.len().max(1));
        windows.enumerate().find(|(_, run)| run.iter().map(|info| &info.id).eq(ids)).map(|(first, _)| first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_in_order() {
        let info = |number: u32| SegmentInfo {
            id: format!("s{number}"),
            document_count: 10,
            position_count: 600,
            tombstones: None,
        };
        let mut manifest = Manifest { segments: (0..3).map(info).collect(), ..Manifest::default() };
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        assert_eq!(manifest.find_run(&ids(&["s1", "s2"])), Some(1));
        assert_eq!(manifest.find_run(&ids(&["s0", "s2"])), None);
        (0..40).for_each(|number| manifest.record_change(&number.to_string()));
        assert!(manifest.has_change("39") && manifest.has_change("8") && !manifest.has_change("7"));
    }
}
