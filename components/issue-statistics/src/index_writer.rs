//! Changes of the index: a batch becomes a segment, segments are merged, what was replaced is
//! deleted. Each is one swap of the root, after all blobs are written.

use crate::manifest::{Dead, Entry, Index, Retired};
use crate::segment::builder::Batch;
use crate::segment::merge::{self, Input};
use crate::segment::{Part, Shelf, id_index};
use crate::store::Store;
use kit::store::StoreError;
use roaring::RoaringBitmap;

/// Adds a batch as a whole or not at all.
pub fn commit(store: &Store, batch: Batch) -> Result<(), StoreError> {
    let documents = batch.documents();
    let id = store.env.id();
    let built = batch.finish(store, &id)?;
    if documents > 0 {
        store.save_head(&id, &built.head)?;
    }
    let superseded: RoaringBitmap = built.superseded.iter().collect();
    store.update_index(|index| {
        if index.has(&id) {
            return Ok((false, ()));
        }
        let mut changed = false;
        for at in 0..index.segments.len() {
            changed |= supersede(store, index, at, &built.ids)?;
        }
        if documents > 0 {
            let dead = (!superseded.is_empty()).then(|| save_dead(store, &superseded)).transpose()?;
            index.segments.push(Entry { id: id.clone(), documents, places: built.head.places, dead });
            changed = true;
        }
        index.note(&id);
        Ok((changed, ()))
    })
}

fn save_dead(store: &Store, dead: &RoaringBitmap) -> Result<Dead, StoreError> {
    let id = store.env.id();
    store.save_dead(&id, dead)?;
    Ok(Dead { id, count: dead.len() as u32 })
}

fn dead_of(store: &Store, entry: &Entry) -> Result<RoaringBitmap, StoreError> {
    entry.dead.as_ref().map_or(Ok(RoaringBitmap::new()), |dead| Ok((*store.dead(&dead.id)?).clone()))
}

/// Marks the documents of these issues in one segment; whether there were any.
fn supersede(store: &Store, index: &mut Index, at: usize, ids: &[u64]) -> Result<bool, StoreError> {
    let Some(entry) = index.segments.get_mut(at) else { return Ok(false) };
    let segment = store.segment(&entry.id)?;
    let (lowest, highest) = segment.head.ids;
    let ids = ids.get(ids.partition_point(|id| *id < lowest)..ids.partition_point(|id| *id <= highest));
    let Some(ids) = ids.filter(|ids| !ids.is_empty()) else { return Ok(false) };
    let found = id_index::documents(&segment.table(Part::Ids), ids)?;
    let before = dead_of(store, entry)?;
    let mut dead = before.clone();
    dead.extend(found);
    if dead.len() == before.len() {
        return Ok(false);
    }
    let former = entry.dead.replace(save_dead(store, &dead)?);
    index.retired.extend(former.map(|former| Retired::Dead(former.id)));
    Ok(true)
}

/// Merges what should be merged, and deletes what was replaced. Each step is bounded, and so is
/// their number: what is there is merged into fewer and larger segments.
pub fn tidy(store: &Store) -> Result<(), StoreError> {
    delete_retired(store)?;
    while merge_once(store)? {
        delete_retired(store)?;
    }
    Ok(())
}

/// One merge; false if there is nothing to merge.
fn merge_once(store: &Store) -> Result<bool, StoreError> {
    let index = store.index()?;
    let Some(run) = index.run_to_merge() else { return Ok(false) };
    let reading = store.for_merging();
    let mut inputs = Vec::new();
    let (mut documents, mut places) = (0, 0);
    for entry in run.iter().filter(|entry| entry.living() > 0) {
        inputs.push(Input::new(reading.segment(&entry.id)?, dead_of(store, entry)?, documents));
        documents += entry.living();
    }
    let id = store.env.id();
    if documents > 0 {
        let shelf: &dyn Shelf = store;
        let head = merge::merge(&inputs, documents, shelf, &id)?;
        places = head.places;
        store.save_head(&id, &head)?;
    }
    let ids: Vec<String> = run.iter().map(|entry| entry.id.clone()).collect();
    let replaced = store.update_index(|index| {
        if index.has(&id) {
            return Ok((false, true));
        }
        let Some(at) = index.find_run(&ids) else { return Ok((false, false)) };
        let mut dead = RoaringBitmap::new();
        for entry in index.segments.iter().skip(at).take(ids.len()) {
            // Some may have been superseded while this was merging.
            if let Some(input) = inputs.iter().find(|input| input.segment.id == entry.id) {
                dead.extend(dead_of(store, entry)?.iter().filter_map(|document| input.renumbered(document)));
            }
        }
        let dead = (!dead.is_empty()).then(|| save_dead(store, &dead)).transpose()?;
        let merged = (documents > 0).then(|| Entry { id: id.clone(), documents, places, dead });
        let replaced: Vec<Entry> = index.segments.splice(at..at + ids.len(), merged).collect();
        for entry in replaced {
            index.retired.push(Retired::Segment(entry.id));
            index.retired.extend(entry.dead.map(|dead| Retired::Dead(dead.id)));
        }
        index.note(&id);
        Ok((true, true))
    })?;
    if !replaced {
        // Somebody else was quicker.
        store.delete(&Retired::Segment(id))?;
    }
    Ok(true)
}

fn delete_retired(store: &Store) -> Result<(), StoreError> {
    let index = store.index()?;
    if index.retired.is_empty() {
        return Ok(());
    }
    index.retired.iter().try_for_each(|retired| store.delete(retired))?;
    store.update_index(|now| {
        let before = now.retired.len();
        now.retired.retain(|retired| !index.retired.contains(retired));
        Ok((now.retired.len() < before, ()))
    })
}
