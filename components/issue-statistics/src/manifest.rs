//! The manifest: the list of segments and their tombstones. It is the root. Everything else in the store is an
//! immutable blob.

use crate::segment::SegmentHeader;
use crate::text::Analyzer;
use kit::{Timestamp, id};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Each change gives the manifest a new id.
    #[serde(default)]
    pub revision: String,
    /// Oldest first. A merged segment stands at the position of its inputs.
    #[serde(default)]
    pub segments: Vec<SegmentInfo>,
    /// The ids of the latest changes; a change has the id of the segment that it added. A writer whose swap got no
    /// reply looks here whether the swap was applied.
    #[serde(default, rename = "recent")]
    recent_changes: Vec<String>,
    /// Replaced blobs that an earlier build has not deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retired: Vec<Retired>,
    /// The leases of large merges that are running or broke off.
    #[serde(default, rename = "merging", skip_serializing_if = "Vec::is_empty")]
    leases: Vec<MergeLease>,
}

/// The lease of a writer on the segments that it merges. No other writer merges them meanwhile. After [`MAX_ATTEMPTS`]
/// broken-off merges the segments are never merged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct MergeLease {
    /// The id of the merged segment. The id contains the time when the lease began.
    id: String,
    segments: Vec<String>,
    /// From 1.
    attempt: u32,
}

/// How long a lease holds, in milliseconds: longer than a request may take to merge.
const LEASE_MILLIS: i64 = 60 * 60 * 1000;

/// How often writers try a merge.
const MAX_ATTEMPTS: u32 = 3;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentInfo {
    pub id: String,
    /// Includes superseded documents.
    #[serde(rename = "documents")]
    pub document_count: u32,
    /// The number of token positions of its titles and descriptions together.
    #[serde(default, rename = "places")]
    pub position_count: u64,
    #[serde(default, rename = "dead", skip_serializing_if = "Option::is_none")]
    pub tombstones: Option<TombstonesRef>,
    /// `analyzer` and `merge_memory` repeat the header of the segment. Earlier builds wrote neither.
    #[serde(default)]
    pub analyzer: Analyzer,
    #[serde(default, rename = "memory", skip_serializing_if = "Option::is_none")]
    pub merge_memory: Option<u64>,
    /// The checksum of the stored header. Earlier builds wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<u64>,
}

/// A stored set of superseded documents of one segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TombstonesRef {
    pub id: String,
    pub count: u32,
    /// The checksum of the stored set. Earlier builds wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<u64>,
}

/// The id of a blob that the manifest no longer names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Retired {
    Segment(String),
    #[serde(rename = "dead")]
    Tombstones(String),
}

/// How many changes are remembered. Between a swap and the check whether it was applied, other writers make fewer
/// changes.
const RECENT_CHANGES: usize = 32;

impl SegmentInfo {
    /// The entry of a segment without tombstones. `checksum` is the checksum of the stored header.
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

    /// The number of documents that are not superseded.
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

    /// Records that the change with this id is applied.
    pub fn record_change(&mut self, id: &str) {
        self.recent_changes.push(id.to_owned());
        let excess = self.recent_changes.len().saturating_sub(RECENT_CHANGES);
        self.recent_changes.drain(..excess);
    }

    /// Whether a writer merges this segment, or all attempts to merge it broke off.
    pub fn is_leased(&self, segment: &str, now: Timestamp) -> bool {
        self.leases.iter().any(|lease| {
            let is_held = lease.attempt >= MAX_ATTEMPTS || now.millis() - granted_at(lease) < LEASE_MILLIS;
            is_held && lease.segments.iter().any(|leased| leased == segment)
        })
    }

    /// Acquires a lease on `segments` for the merge into the segment `id`. False if another lease covers one of them.
    pub fn acquire_lease(&mut self, id: &str, segments: &[String], now: Timestamp) -> bool {
        if segments.iter().any(|segment| self.is_leased(segment, now)) {
            return false;
        }
        let is_expired = |lease: &MergeLease| lease.segments.iter().any(|segment| segments.contains(segment));
        let attempts = self.leases.iter().filter(|lease| is_expired(lease)).map(|lease| lease.attempt).max();
        self.leases.retain(|lease| !is_expired(lease));
        let attempt = attempts.unwrap_or(0) + 1;
        self.leases.push(MergeLease { id: id.to_owned(), segments: segments.to_vec(), attempt });
        true
    }

    /// Ends the lease of the merge into the segment `id`. False without such a lease.
    pub fn release(&mut self, id: &str) -> bool {
        let before = self.leases.len();
        self.leases.retain(|lease| lease.id != id);
        self.leases.len() < before
    }

    /// The index of the first of the segments with these ids, if all of them follow each other in this order.
    pub fn find_adjacent(&self, ids: &[String]) -> Option<usize> {
        let windows = self.segments.windows(ids.len().max(1));
        windows.enumerate().find(|(_, run)| run.iter().map(|info| &info.id).eq(ids)).map(|(first, _)| first)
    }
}

fn granted_at(lease: &MergeLease) -> i64 {
    id::number(&lease.id).map_or(0, |number| id::made_at(number).millis())
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
        assert_eq!(manifest.find_adjacent(&ids(&["s1", "s2"])), Some(1));
        assert_eq!(manifest.find_adjacent(&ids(&["s0", "s2"])), None);
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
        assert!(manifest.acquire_lease(&id(now), &segments, now));
        assert!(!manifest.acquire_lease(&id(now), &segments[1..], now), "another writer");
        for attempt in 2..=MAX_ATTEMPTS {
            now = Timestamp::from_millis(now.millis() + LEASE_MILLIS);
            assert!(manifest.acquire_lease(&id(now), &segments, now), "attempt {attempt}");
        }
        now = Timestamp::from_millis(now.millis() + 100 * LEASE_MILLIS);
        assert!(manifest.is_leased("s1", now) && !manifest.is_leased("s2", now));
        assert_eq!(manifest.leases.len(), 1);
        let merged = manifest.leases[0].id.clone();
        assert!(manifest.release(&merged) && !manifest.release(&merged) && !manifest.is_leased("s1", now));
    }
}
