//! Changes of the index: a batch becomes a segment, segments are merged, replaced blobs are deleted.
//! Each change writes its blobs first and then swaps the manifest once.

use crate::manifest::{Manifest, Retired, SegmentInfo, TombstonesRef};
use crate::merge_policy;
use crate::segment::builder::SegmentBuilder;
use crate::segment::merge::{self, MergeInput};
use crate::segment::{PageStore, TableName, id_index};
use crate::store::IndexStore;
use kit::store::StoreError;
use roaring::RoaringBitmap;

/// Adds a batch as a whole or not at all.
pub fn commit(store: &IndexStore, batch: SegmentBuilder) -> Result<(), StoreError> {
    let document_count = batch.document_count();
    let id = store.env.id();
    let built = batch.finish(store, &id)?;
    if document_count > 0 {
        store.save_header(&id, &built.header)?;
    }
    let superseded: RoaringBitmap = built.superseded.iter().collect();
    store.update_manifest(|manifest| {
        if manifest.has_change(&id) {
            return Ok((false, ()));
        }
        let mut changed = false;
        for index in 0..manifest.segments.len() {
            changed |= supersede(store, manifest, index, &built.issue_ids)?;
        }
        if document_count > 0 {
            let tombstones = (!superseded.is_empty()).then(|| save_tombstones(store, &superseded)).transpose()?;
            let position_count = built.header.position_count;
            manifest.segments.push(SegmentInfo { id: id.clone(), document_count, position_count, tombstones });
            changed = true;
        }
        manifest.record_change(&id);
        Ok((changed, ()))
    })
}

fn save_tombstones(store: &IndexStore, tombstones: &RoaringBitmap) -> Result<TombstonesRef, StoreError> {
    let id = store.env.id();
    store.save_tombstones(&id, tombstones)?;
    Ok(TombstonesRef { id, count: tombstones.len() as u32 })
}

fn tombstones_of(store: &IndexStore, info: &SegmentInfo) -> Result<RoaringBitmap, StoreError> {
    match &info.tombstones {
        None => Ok(RoaringBitmap::new()),
        Some(tombstones) => Ok((*store.tombstones(&tombstones.id)?).clone()),
    }
}

/// Adds tombstones for these issues (ids ascending) to the segment at `index`. True if the segment
/// has any of them that was not superseded yet.
fn supersede(store: &IndexStore, manifest: &mut Manifest, index: usize, ids: &[u64]) -> Result<bool, StoreError> {
    let Some(info) = manifest.segments.get_mut(index) else { return Ok(false) };
    let segment = store.segment(&info.id)?;
    let (lowest, highest) = segment.header.issue_ids;
    let ids = ids.get(ids.partition_point(|id| *id < lowest)..ids.partition_point(|id| *id <= highest));
    let Some(ids) = ids.filter(|ids| !ids.is_empty()) else { return Ok(false) };
    let found = id_index::documents(&segment.table(TableName::Ids), ids)?;
    let before = tombstones_of(store, info)?;
    let mut tombstones = before.clone();
    tombstones.extend(found);
    if tombstones.len() == before.len() {
        return Ok(false);
    }
    let replaced = info.tombstones.replace(save_tombstones(store, &tombstones)?);
    manifest.retired.extend(replaced.map(|replaced| Retired::Tombstones(replaced.id)));
    Ok(true)
}

/// Merges until the merge policy selects nothing, and deletes replaced blobs. Each merge is bounded
/// by the policy, and each leaves fewer or smaller segments, so this ends.
pub fn compact(store: &IndexStore) -> Result<(), StoreError> {
    delete_retired(store)?;
    while merge_once(store)? {
        delete_retired(store)?;
    }
    Ok(())
}

/// One merge; false if there is nothing to merge.
fn merge_once(store: &IndexStore) -> Result<bool, StoreError> {
    let manifest = store.manifest()?;
    let Some(selected) = merge_policy::select(&manifest.segments) else { return Ok(false) };
    let uncached = store.without_page_cache();
    let mut inputs = Vec::new();
    let (mut document_count, mut position_count) = (0, 0);
    for info in selected.iter().filter(|info| info.live_documents() > 0) {
        inputs.push(MergeInput::new(uncached.segment(&info.id)?, tombstones_of(store, info)?, document_count));
        document_count += info.live_documents();
    }
    let id = store.env.id();
    if document_count > 0 {
        let page_store: &dyn PageStore = store;
        let header = merge::merge(&inputs, document_count, page_store, &id)?;
        position_count = header.position_count;
        store.save_header(&id, &header)?;
    }
    let ids: Vec<String> = selected.iter().map(|info| info.id.clone()).collect();
    let is_used = store.update_manifest(|manifest| {
        if manifest.has_change(&id) {
            return Ok((false, true));
        }
        let Some(first) = manifest.find_run(&ids) else { return Ok((false, false)) };
        let mut tombstones = RoaringBitmap::new();
        for info in manifest.segments.iter().skip(first).take(ids.len()) {
            // Imports may have superseded more documents during the merge.
            if let Some(input) = inputs.iter().find(|input| input.segment.id == info.id) {
                tombstones.extend(tombstones_of(store, info)?.iter().filter_map(|document| input.new_number(document)));
            }
        }
        let tombstones = (!tombstones.is_empty()).then(|| save_tombstones(store, &tombstones)).transpose()?;
        let merged =
            (document_count > 0).then(|| SegmentInfo { id: id.clone(), document_count, position_count, tombstones });
        let replaced: Vec<SegmentInfo> = manifest.segments.splice(first..first + ids.len(), merged).collect();
        for info in replaced {
            manifest.retired.push(Retired::Segment(info.id));
            manifest.retired.extend(info.tombstones.map(|tombstones| Retired::Tombstones(tombstones.id)));
        }
        manifest.record_change(&id);
        Ok((true, true))
    })?;
    if !is_used {
        // Another writer merged these segments first.
        store.delete(&Retired::Segment(id))?;
    }
    Ok(true)
}

fn delete_retired(store: &IndexStore) -> Result<(), StoreError> {
    let manifest = store.manifest()?;
    if manifest.retired.is_empty() {
        return Ok(());
    }
    manifest.retired.iter().try_for_each(|retired| store.delete(retired))?;
    store.update_manifest(|current| {
        let before = current.retired.len();
        current.retired.retain(|retired| !manifest.retired.contains(retired));
        Ok((current.retired.len() < before, ()))
    })
}
