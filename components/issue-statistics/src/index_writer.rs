//! Changes of the index: adds batches as segments, merges segments, and deletes replaced blobs. Each change writes its
//! blobs first and then swaps the manifest once. Replaced blobs are kept for a while, for requests that still read
//! them.

use crate::manifest::{Manifest, Retired, SegmentInfo};
use crate::merge_policy::{self, Candidate};
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
    let merged = merge(store, &selected, &id, &ids);
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
    Ok(merge_policy::select(&candidates).map(|selected| Selected {
        segments: selected.iter().map(|candidate| candidate.info.clone()).collect(),
        memory: selected.iter().map(|candidate| candidate.memory).sum(),
    }))
}

/// Replaces the segments `ids` by the segment `id`, unless another writer has replaced them.
fn merge(store: &IndexStore, selected: &[SegmentInfo], id: &str, ids: &[String]) -> Result<bool, StoreError> {
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
