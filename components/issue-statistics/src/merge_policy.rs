//! The merge policy: which segments are merged next. Tiered: segments of one tier differ in size by
//! less than [`MERGE_FACTOR`] times, and as many neighbours of one tier become one segment.

use crate::manifest::SegmentInfo;

const MERGE_FACTOR: usize = 4;

/// Bounds the memory of a merge, which keeps a page of each table of each segment.
const MAX_MERGED: usize = 16;

/// The most documents of a merged segment: a merge of so many takes seconds at most, within the
/// request of an import. Beyond a million issues there is a segment for each further million.
const MAX_DOCUMENTS: u32 = 1 << 20;

/// The most positions of a merged segment: a phrase search takes two bits of memory for each.
const MAX_POSITIONS: u64 = 1 << 28;

/// The segments that should be merged next: neighbours of about the same size or smaller, or one of
/// whose documents more than half are superseded.
pub fn select(segments: &[SegmentInfo]) -> Option<&[SegmentInfo]> {
    let is_mostly_superseded = |info: &&SegmentInfo| info.live_documents() < info.document_count.div_ceil(2);
    if let Some(info) = segments.iter().find(is_mostly_superseded) {
        return Some(std::slice::from_ref(info));
    }
    let highest = segments.iter().map(tier).max()?;
    (0..=highest).find_map(|highest| {
        segments.chunk_by(|_, next| tier(next) <= highest).find_map(|run| mergeable_prefix(run, highest))
    })
}

fn tier(info: &SegmentInfo) -> u32 {
    (info.live_documents() / 16).max(1).ilog(MERGE_FACTOR as u32)
}

/// The first neighbours of a tier that may be merged, if they are enough.
fn mergeable_prefix(run: &[SegmentInfo], highest: u32) -> Option<&[SegmentInfo]> {
    let run = match run.split_first() {
        Some((first, rest)) if tier(first) > highest => rest,
        _ => run,
    };
    if run.iter().filter(|info| tier(info) == highest).count() < MERGE_FACTOR {
        return None;
    }
    let (mut documents, mut positions) = (0_u32, 0_u64);
    let fits = |info: &&SegmentInfo| {
        documents = documents.saturating_add(info.live_documents());
        positions = positions.saturating_add(info.position_count);
        documents <= MAX_DOCUMENTS && positions <= MAX_POSITIONS
    };
    let count = run.iter().take(MAX_MERGED).take_while(fits).count();
    // Segments that are too large together stay as they are.
    if count >= 2 { run.get(..count) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Manifest, TombstonesRef};

    fn info(number: u32, documents: u32) -> SegmentInfo {
        let position_count = 60 * u64::from(documents);
        SegmentInfo { id: format!("s{number}"), document_count: documents, position_count, tombstones: None }
    }

    fn segments(sizes: &[u32]) -> Vec<SegmentInfo> {
        (0..).zip(sizes).map(|(number, size)| info(number, *size)).collect()
    }

    fn selected(sizes: &[u32]) -> Option<Vec<u32>> {
        select(&segments(sizes)).map(|run| run.iter().map(|info| info.document_count).collect())
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
        assert_eq!(select(&long).map(<[SegmentInfo]>::len), Some(3));
        long.iter_mut().for_each(|info| info.position_count = MAX_POSITIONS);
        assert_eq!(select(&long), None);
    }

    #[test]
    fn one_by_one_there_are_few_segments_and_little_is_rewritten() {
        let mut manifest = Manifest::default();
        let (mut rewritten, mut most) = (0_u64, 0);
        for number in 0..20_000 {
            manifest.segments.push(info(number, 1));
            while let Some(run) = select(&manifest.segments) {
                let ids: Vec<String> = run.iter().map(|info| info.id.clone()).collect();
                let document_count: u32 = run.iter().map(|info| info.document_count).sum();
                rewritten += u64::from(document_count);
                let first = manifest.find_run(&ids).unwrap();
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
        segments[0].tombstones = Some(TombstonesRef { id: "d".into(), count: 50 });
        assert_eq!(select(&segments), None);
        segments[0].tombstones = Some(TombstonesRef { id: "d".into(), count: 51 });
        assert_eq!(select(&segments).map(<[SegmentInfo]>::len), Some(1));
    }
}
