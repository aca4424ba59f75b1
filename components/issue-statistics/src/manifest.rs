//! The manifest: the list of segments and their tombstones. It is the root; everything else that is
//! stored is an immutable blob.

use crate::segment::SegmentHeader;
use crate::text::Analyzer;
use kit::{Timestamp, id};
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
    /// Replaced blobs that an earlier build left to be deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retired: Vec<Retired>,
    /// The large merges that are going on, or broke off.
    #[serde(default, rename = "merging", skip_serializing_if = "Vec::is_empty")]
    claims: Vec<MergeClaim>,
}

/// A writer's claim of the segments that it merges: no other writer merges them meanwhile, and segments
/// whose merge broke off again and again are left alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct MergeClaim {
    /// The id of the merged segment, which has its time.
    id: String,
    segments: Vec<String>,
    /// From 1.
    attempt: u32,
}

/// How long a claim holds, in milliseconds: longer than a request may take to merge.
const CLAIM_TIME: i64 = 60 * 60 * 1000;

/// How often a merge is tried.
const MAX_ATTEMPTS: u32 = 3;

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
    /// These two are as in the head of the segment; earlier builds wrote neither.
    #[serde(default)]
    pub analyzer: Analyzer,
    #[serde(default, rename = "memory", skip_serializing_if = "Option::is_none")]
    pub merge_memory: Option<u64>,
    /// Of the bytes of the head; earlier builds wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<u64>,
}

/// A stored set of superseded documents of one segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TombstonesRef {
    pub id: String,
    pub count: u32,
    /// Of the bytes of the set; earlier builds wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<u64>,
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
    /// The entry of a segment without tombstones. `checksum` is that of the stored header.
    pub fn new(id: &str, header: &SegmentHeader, checksum: u64) -> Self {
        SegmentInfo {
            id: id.to_owned(),
            document_count: header.document_count,
            position_count: header.position_count,
            tombstones: None,
            analyzer: header.analyzer,
            merge_memory: Some(header.memory_in_merge()),
            checksum: Some(checksum),
        }
    }

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

    /// Whether a writer merges this segment, or all attempts to merge it broke off.
    pub fn is_claimed(&self, segment: &str, now: Timestamp) -> bool {
        self.claims.iter().any(|claim| {
            let is_held = claim.attempt >= MAX_ATTEMPTS || now.millis() - claim_time(claim) < CLAIM_TIME;
            is_held && claim.segments.iter().any(|claimed| claimed == segment)
        })
    }

    /// Claims `segments` for the merge into the segment `id`; false if there is another claim of one of them.
    pub fn claim(&mut self, id: &str, segments: &[String], now: Timestamp) -> bool {
        if segments.iter().any(|segment| self.is_claimed(segment, now)) {
            return false;
        }
        let is_expired = |claim: &MergeClaim| claim.segments.iter().any(|segment| segments.contains(segment));
        let attempts = self.claims.iter().filter(|claim| is_expired(claim)).map(|claim| claim.attempt).max();
        self.claims.retain(|claim| !is_expired(claim));
        let attempt = attempts.unwrap_or(0) + 1;
        self.claims.push(MergeClaim { id: id.to_owned(), segments: segments.to_vec(), attempt });
        true
    }

    /// Ends the claim of the merge into the segment `id`. False if there is none.
    pub fn release(&mut self, id: &str) -> bool {
        let before = self.claims.len();
        self.claims.retain(|claim| claim.id != id);
        self.claims.len() < before
    }

    /// The index of the first of the segments with these ids, if all are there, one after the other.
    pub fn find_run(&self, ids: &[String]) -> Option<usize> {
        let windows = self.segments.windows(ids.len().max(1));
        windows.enumerate().find(|(_, run)| run.iter().map(|info| &info.id).eq(ids)).map(|(first, _)| first)
    }
}

fn claim_time(claim: &MergeClaim) -> i64 {
    id::number(&claim.id).map_or(0, |number| id::made_at(number).millis())
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
            analyzer: Analyzer::Runs,
            merge_memory: None,
            checksum: None,
        };
        let mut manifest = Manifest { segments: (0..3).map(info).collect(), ..Manifest::default() };
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        assert_eq!(manifest.find_run(&ids(&["s1", "s2"])), Some(1));
        assert_eq!(manifest.find_run(&ids(&["s0", "s2"])), None);
        (0..40).for_each(|number| manifest.record_change(&number.to_string()));
        assert!(manifest.has_change("39") && manifest.has_change("8") && !manifest.has_change("7"));
    }

    #[test]
    fn a_merge_that_breaks_off_is_tried_again_later_and_not_for_ever() {
        let entropy = kit::testing::CountingEntropy::default();
        let mut manifest = Manifest::default();
        let segments = ["s0".to_owned(), "s1".to_owned()];
        let mut now = kit::testing::NOW;
        let id = |now| id::new(now, &entropy);
        assert!(manifest.claim(&id(now), &segments, now));
        assert!(!manifest.claim(&id(now), &segments[1..], now), "another writer");
        for attempt in 2..=MAX_ATTEMPTS {
            now = Timestamp::from_millis(now.millis() + CLAIM_TIME);
            assert!(manifest.claim(&id(now), &segments, now), "attempt {attempt}");
        }
        now = Timestamp::from_millis(now.millis() + 100 * CLAIM_TIME);
        assert!(manifest.is_claimed("s1", now) && !manifest.is_claimed("s2", now));
        assert_eq!(manifest.claims.len(), 1);
        let merged = manifest.claims[0].id.clone();
        assert!(manifest.release(&merged) && !manifest.release(&merged) && !manifest.is_claimed("s1", now));
    }
}
