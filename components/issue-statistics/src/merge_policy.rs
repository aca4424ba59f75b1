//! The merge policy: selects the segments to merge next. It is tiered: sizes in one tier differ by less than the factor
//! [`MERGE_FACTOR`]. As many adjacent segments of one tier are merged into one.

use crate::manifest::SegmentInfo;

const MERGE_FACTOR: usize = 4;

/// Bounds the memory of a merge, which keeps a page of each table of each segment.
const MAX_MERGED: usize = 16;

/// The most documents of a merged segment. Such a merge takes seconds at most, within the request of an import. Each
/// further million issues adds a segment.
const MAX_DOCUMENTS: u32 = 1 << 20;

/// The most positions of a merged segment. A phrase search takes two bits of memory for each position.
const MAX_POSITIONS: u64 = 1 << 28;

/// The most memory of a merge, in bytes, by the estimates of its segments. Larger segments are not merged.
const MAX_MEMORY: u64 = 64 << 20;

/// A segment that the policy decides on.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    pub info: &'a SegmentInfo,
    /// The memory that a merge takes for this segment, in bytes.
    pub memory: u64,
    /// Whether another writer has a lease on it.
    pub is_leased: bool,
}

/// The segments to merge next: adjacent segments of similar or smaller size, or one segment with more than half of its
/// documents superseded.
pub fn select<'a>(segments: &'a [Candidate<'a>]) -> Option<&'a [Candidate<'a>]> {
    let is_mostly_superseded = |candidate: &&Candidate| {
        let Candidate { info, memory, is_leased } = candidate;
        let may_be_merged = !is_leased && *memory <= MAX_MEMORY;
        may_be_merged && info.live_documents() < info.document_count.div_ceil(2)
    };
    if let Some(candidate) = segments.iter().find(is_mostly_superseded) {
        return Some(std::slice::from_ref(candidate));
    }
    let highest = segments.iter().map(tier).max()?;
    let are_mergeable = |one: &Candidate, other: &Candidate| {
        one.info.analyzer == other.info.analyzer && !one.is_leased && !other.is_leased
    };
    (0..=highest).find_map(|highest| {
        segments
            .chunk_by(|one, next| tier(next) <= highest && are_mergeable(one, next))
            .find_map(|neighbours| mergeable_part(neighbours, highest))
    })
}

fn tier(candidate: &Candidate) -> u32 {
    (candidate.info.live_documents() / 16).max(1).ilog(MERGE_FACTOR as u32)
}

/// The first adjacent segments of a tier that may be merged, if they are enough.
fn mergeable_part<'a>(neighbours: &'a [Candidate<'a>], highest: u32) -> Option<&'a [Candidate<'a>]> {
    let neighbours = match neighbours.split_first() {
        Some((first, rest)) if tier(first) > highest => rest,
        _ => neighbours,
    };
    if neighbours.iter().filter(|candidate| tier(candidate) == highest).count() < MERGE_FACTOR {
        return None;
    }
    // Segments are skipped if they are too large together.
    (0..neighbours.len()).find_map(|first| {
        let rest = neighbours.get(first..)?;
        let (mut documents, mut positions, mut memory) = (0_u32, 0_u64, 0_u64);
        let fits = |candidate: &&Candidate| {
            documents = documents.saturating_add(candidate.info.live_documents());
            positions = positions.saturating_add(candidate.info.position_count);
            memory = memory.saturating_add(candidate.memory);
            documents <= MAX_DOCUMENTS && positions <= MAX_POSITIONS && memory <= MAX_MEMORY
        };
        let count = rest.iter().take(MAX_MERGED).take_while(fits).count();
        if count >= 2 { rest.get(..count) } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Manifest, TombstonesRef};
    use crate::text::Analyzer;

    fn info(number: u32, documents: u32) -> SegmentInfo {
        SegmentInfo {
            id: format!("s{number}"),
            document_count: documents,
            position_count: 60 * u64::from(documents),
            tombstones: None,
            analyzer: Analyzer::Runs,
            merge_memory: None,
            checksum: None,
        }
    }

    fn candidates(segments: &[SegmentInfo]) -> Vec<Candidate<'_>> {
        segments.iter().map(|info| Candidate { info, memory: 1 << 20, is_leased: false }).collect()
    }

    /// The document counts of the selected segments.
    fn selected_of(candidates: &[Candidate]) -> Option<Vec<u32>> {
        select(candidates).map(|neighbours| neighbours.iter().map(|candidate| candidate.info.document_count).collect())
    }

    fn segments(sizes: &[u32]) -> Vec<SegmentInfo> {
        (0..).zip(sizes).map(|(number, size)| info(number, *size)).collect()
    }

    fn selected(sizes: &[u32]) -> Option<Vec<u32>> {
        selected_of(&candidates(&segments(sizes)))
    }

    #[test]
    fn neighbours_of_one_size_are_merged() {
        assert_eq!(selected(&[]), None);
        assert_eq!(selected(&[1, 1, 1]), None);
        assert_eq!(selected(&[1, 1, 1, 1]), Some(vec![1; 4]));
        assert_eq!(selected(&[70_000, 1, 1, 1]), None);
        assert_eq!(selected(&[70_000, 1, 1, 1, 2]), Some(vec![1, 1, 1, 2]));
        assert_eq!(selected(&[70_000, 70_000, 1, 70_000]), None);
        assert_eq!(selected(&[70_000, 70_000, 1, 70_000, 70_000]), Some(vec![70_000, 70_000, 1, 70_000, 70_000]));
        assert_eq!(selected(&[1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20]), None);
        let mut long = segments(&[1000; 5]);
        long.iter_mut().for_each(|info| info.position_count = MAX_POSITIONS / 3);
        assert_eq!(selected_of(&candidates(&long)), Some(vec![1000; 3]));
        long.iter_mut().for_each(|info| info.position_count = MAX_POSITIONS);
        assert_eq!(selected_of(&candidates(&long)), None);
    }

    #[test]
    fn one_by_one_there_are_few_segments_and_little_is_rewritten() {
        let mut manifest = Manifest::default();
        let (mut rewritten, mut most) = (0_u64, 0);
        for number in 0..20_000 {
            manifest.segments.push(info(number, 1));
            while let Some(neighbours) = select(&candidates(&manifest.segments)) {
                let ids: Vec<String> = neighbours.iter().map(|candidate| candidate.info.id.clone()).collect();
                let document_count: u32 = neighbours.iter().map(|candidate| candidate.info.document_count).sum();
                rewritten += u64::from(document_count);
                let first = manifest.find_adjacent(&ids).unwrap();
                let merged = SegmentInfo { document_count, ..manifest.segments[first].clone() };
                manifest.segments.splice(first..first + ids.len(), [merged]);
            }
            most = most.max(manifest.segments.len());
        }
        assert!(most < 40, "{most} segments");
        assert!(rewritten < 20_000 * 20, "{rewritten} documents");
    }

    #[test]
    fn a_mostly_superseded_segment_is_rewritten() {
        let mut segments = segments(&[100, 1000]);
        segments[0].tombstones = Some(TombstonesRef { id: "d".into(), count: 50, checksum: None });
        assert_eq!(selected_of(&candidates(&segments)), None);
        segments[0].tombstones = Some(TombstonesRef { id: "d".into(), count: 51, checksum: None });
        assert_eq!(selected_of(&candidates(&segments)), Some(vec![100]));
        let mut large = candidates(&segments);
        large[0].memory = MAX_MEMORY + 1;
        assert_eq!(selected_of(&large), None);
    }

    #[test]
    fn a_merge_is_bounded_in_memory() {
        let segments = segments(&[1000; 6]);
        let mut some = candidates(&segments);
        some.iter_mut().for_each(|candidate| candidate.memory = MAX_MEMORY / 3);
        assert_eq!(selected_of(&some), Some(vec![1000; 3]));
        some.iter_mut().for_each(|candidate| candidate.memory = MAX_MEMORY);
        assert_eq!(selected_of(&some), None);
        // Large segments do not prevent a merge of their neighbours.
        some[4..].iter_mut().for_each(|candidate| candidate.memory = 1);
        assert_eq!(select(&some).map(|neighbours| (neighbours.len(), neighbours[0].info.id.as_str())), Some((2, "s4")));
    }

    #[test]
    fn segments_of_other_analyzers_and_claimed_ones_are_left_alone() {
        let mut all = segments(&[100; 7]);
        all[..3].iter_mut().for_each(|info| info.analyzer = Analyzer::Words);
        let found = select(&candidates(&all)).map(|neighbours| (neighbours.len(), neighbours[0].info.id.clone()));
        assert_eq!(found, Some((4, "s3".into())));
        let mut some = candidates(&all);
        some[5].is_leased = true;
        assert_eq!(selected_of(&some), None);
    }
}
