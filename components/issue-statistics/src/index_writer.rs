//! Changes of the index: adds batches as segments, merges segments, and deletes replaced blobs. Each change writes its
//! blobs first and then swaps the manifest once. Replaced blobs are kept for a while, for requests that still read
//! them.
//!
//! The merge policy: selects the segments to merge next. It is tiered: sizes in one tier differ by less than the factor
//! [`MERGE_FACTOR`]. As many adjacent segments of one tier are merged into one.

use crate::manifest::{Manifest, Retired, SegmentInfo};
use crate::segment::builder::SegmentBuilder;
use crate::segment::merge::{self, MergeInput};
use crate::segment::{TableName, id_index};
use crate::store::IndexStore;
use kit::store::StoreError;
use roaring::RoaringBitmap;

/// Adds a batch completely or not at all.
pub fn commit(store: &IndexStore, batch: SegmentBuilder) -> Result<(), StoreError> {
    let document_count = batch.document_count();
    if batch.memory() > LARGE_MEMORY {
        store.cache.pages.clear();
    }
    let id = store.env.id();
    let built = batch.finish(store, &id)?;
    let added = (document_count > 0).then(|| store.save_header(&id, &built.header)).transpose()?;
    let superseded: RoaringBitmap = built.superseded.iter().collect();
    let mut retired = Vec::new();
    store.update_manifest(|manifest| {
        if manifest.has_change(&id) {
            return Ok((false, ()));
        }
        let mut changed = false;
        retired.clear();
        for index in 0..manifest.segments.len() {
            let replaced = supersede(store, manifest, index, &built.issue_ids)?;
            changed |= replaced.is_some();
            retired.extend(replaced.flatten());
        }
        if let Some(added) = &added {
            let tombstones = (!superseded.is_empty()).then(|| store.save_tombstones(&superseded)).transpose()?;
            manifest.segments.push(SegmentInfo { tombstones, ..added.clone() });
            changed = true;
        }
        manifest.record_change(&id);
        Ok((changed, ()))
    })?;
    retire(store, retired);
    Ok(())
}

/// Before a task that takes more memory than this, in bytes, the page cache is emptied.
const LARGE_MEMORY: usize = 8 << 20;

fn retire(store: &IndexStore, blobs: Vec<Retired>) {
    blobs.into_iter().for_each(|blob| store.cache.retire(blob, store.env.now));
}

fn tombstones_of(store: &IndexStore, info: &SegmentInfo) -> Result<RoaringBitmap, StoreError> {
    match &info.tombstones {
        None => Ok(RoaringBitmap::new()),
        Some(tombstones) => Ok((*store.tombstones(tombstones)?).clone()),
    }
}

/// Adds tombstones for these issues (ids ascending) to the segment at `index`, if the segment has live documents of
/// them. Returns the tombstones that were replaced, if there were any.
fn supersede(
    store: &IndexStore,
    manifest: &mut Manifest,
    index: usize,
    ids: &[u64],
) -> Result<Option<Option<Retired>>, StoreError> {
    let Some(info) = manifest.segments.get_mut(index) else { return Ok(None) };
    let segment = store.segment(info)?;
    let (lowest, highest) = segment.header.issue_ids;
    let ids = ids.get(ids.partition_point(|id| *id < lowest)..ids.partition_point(|id| *id <= highest));
    let Some(ids) = ids.filter(|ids| !ids.is_empty()) else { return Ok(None) };
    let found = id_index::documents(&segment.table(TableName::Ids), ids)?;
    let before = tombstones_of(store, info)?;
    let mut tombstones = before.clone();
    tombstones.extend(found);
    if tombstones.len() == before.len() {
        return Ok(None);
    }
    let replaced = info.tombstones.replace(store.save_tombstones(&tombstones)?);
    Ok(Some(replaced.map(|replaced| Retired::Tombstones(replaced.id))))
}

/// Merges until the merge policy selects nothing, and deletes blobs whose retention has ended. The policy bounds each
/// merge. Each merge leaves fewer or smaller segments, so the loop ends.
pub fn compact(store: &IndexStore) -> Result<(), StoreError> {
    delete_retired(store)?;
    while merge_once(store)? {
        delete_retired(store)?;
    }
    Ok(())
}

/// Does one merge; false if the policy selects nothing.
fn merge_once(store: &IndexStore) -> Result<bool, StoreError> {
    let manifest = store.manifest()?;
    let Some(Selected { segments: selected, memory }) = select(store, &manifest)? else { return Ok(false) };
    let ids: Vec<String> = selected.iter().map(|info| info.id.clone()).collect();
    let id = store.env.id();
    let document_count: u32 = selected.iter().map(SegmentInfo::live_documents).sum();
    let is_leased = memory > LARGE_MEMORY as u64 || document_count > MAX_UNLEASED_DOCUMENTS;
    if is_leased {
        let has_lease = store.update_manifest(|manifest| {
            let has_lease = manifest.find_adjacent(&ids).is_some() && manifest.acquire_lease(&id, &ids, store.env.now);
            Ok((has_lease, has_lease))
        })?;
        if !has_lease {
            // Another writer was faster. The next selection sees its lease or its merge.
            return Ok(store.manifest()?.revision != manifest.revision);
        }
        store.cache.pages.clear();
    }
    let merged = merge_segments(store, &selected, &id, &ids);
    if merged.is_err() && is_leased {
        store.update_manifest(|manifest| Ok((manifest.release(&id), ())))?;
    }
    merged
}

/// A merge of more documents needs a lease. Two writers may do a smaller merge at the same time.
const MAX_UNLEASED_DOCUMENTS: u32 = 4096;

struct Selected {
    segments: Vec<SegmentInfo>,
    /// The memory of the merge, in bytes.
    memory: u64,
}

fn select(store: &IndexStore, manifest: &Manifest) -> Result<Option<Selected>, StoreError> {
    let mut candidates = Vec::new();
    for info in &manifest.segments {
        let memory = match info.merge_memory {
            Some(memory) => memory,
            None => store.segment(info)?.header.memory_in_merge(),
        };
        candidates.push(Candidate { info, memory, is_leased: manifest.is_leased(&info.id, store.env.now) });
    }
    Ok(select_merge(&candidates).map(|selected| Selected {
        segments: selected.iter().map(|candidate| candidate.info.clone()).collect(),
        memory: selected.iter().map(|candidate| candidate.memory).sum(),
    }))
}

/// Replaces the segments `ids` by the segment `id`, unless another writer has replaced them.
fn merge_segments(store: &IndexStore, selected: &[SegmentInfo], id: &str, ids: &[String]) -> Result<bool, StoreError> {
    let uncached = store.without_page_cache();
    let mut inputs = Vec::new();
    let mut document_count = 0;
    for info in selected.iter().filter(|info| info.live_documents() > 0) {
        inputs.push(MergeInput::new(uncached.segment(info)?, tombstones_of(store, info)?, document_count));
        document_count += info.live_documents();
    }
    let mut added = None;
    if document_count > 0 {
        let header = merge::merge(&inputs, document_count, store, id)?;
        added = Some(store.save_header(id, &header)?);
    }
    let mut retired = Vec::new();
    let is_used = store.update_manifest(|manifest| {
        if manifest.has_change(id) {
            return Ok((false, true));
        }
        let Some(first) = manifest.find_adjacent(ids) else { return Ok((manifest.release(id), false)) };
        let mut tombstones = RoaringBitmap::new();
        for info in manifest.segments.iter().skip(first).take(ids.len()) {
            // Imports may have superseded further documents during the merge.
            if let Some(input) = inputs.iter().find(|input| input.segment.id == info.id) {
                tombstones.extend(tombstones_of(store, info)?.iter().filter_map(|document| input.new_number(document)));
            }
        }
        let tombstones = (!tombstones.is_empty()).then(|| store.save_tombstones(&tombstones)).transpose()?;
        let merged = added.clone().map(|added| SegmentInfo { tombstones, ..added });
        let replaced: Vec<SegmentInfo> = manifest.segments.splice(first..first + ids.len(), merged).collect();
        retired.clear();
        for info in replaced {
            retired.push(Retired::Segment(info.id));
            retired.extend(info.tombstones.map(|tombstones| Retired::Tombstones(tombstones.id)));
        }
        manifest.release(id);
        manifest.record_change(id);
        Ok((true, true))
    })?;
    if !is_used {
        // No manifest ever named it.
        store.delete(&Retired::Segment(id.to_owned()))?;
    }
    retire(store, retired);
    Ok(true)
}

/// The most blobs that are deleted at once. An import replaces fewer, so that the backlog after a burst of imports
/// shrinks.
const DELETION_BATCH: usize = 256;

/// Deletes blobs whose retention has ended.
fn delete_retired(store: &IndexStore) -> Result<(), StoreError> {
    if !store.manifest()?.retired.is_empty() {
        let of_earlier_build = store.update_manifest(|manifest| Ok((true, std::mem::take(&mut manifest.retired))))?;
        retire(store, of_earlier_build);
    }
    for _ in 0..DELETION_BATCH {
        let Some(blob) = store.cache.take_retired(store.env.now) else { break };
        if let Err(error) = store.delete(&blob) {
            store.cache.retire(blob, store.env.now);
            return Err(error);
        }
    }
    Ok(())
}

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
pub fn select_merge<'a>(segments: &'a [Candidate<'a>]) -> Option<&'a [Candidate<'a>]> {
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
        select_merge(candidates)
            .map(|neighbours| neighbours.iter().map(|candidate| candidate.info.document_count).collect())
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
            while let Some(neighbours) = select_merge(&candidates(&manifest.segments)) {
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
        assert_eq!(
            select_merge(&some).map(|neighbours| (neighbours.len(), neighbours[0].info.id.as_str())),
            Some((2, "s4"))
        );
    }

    #[test]
    fn segments_of_other_analyzers_and_claimed_ones_are_left_alone() {
        let mut all = segments(&[100; 7]);
        all[..3].iter_mut().for_each(|info| info.analyzer = Analyzer::Words);
        assert_eq!(
            select_merge(&candidates(&all)).map(|neighbours| (neighbours.len(), neighbours[0].info.id.clone())),
            Some((4, "s3".into()))
        );
        let mut some = candidates(&all);
        some[5].is_leased = true;
        assert_eq!(selected_of(&some), None);
    }
}
