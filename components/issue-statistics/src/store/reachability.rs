//! The blobs that the manifest reaches, for the garbage collector and for checks.

use super::{IndexStore, MANIFEST, header_key, page_key, tombstones_key};
use crate::manifest::{Manifest, SegmentInfo, TombstonesRef};
use crate::segment::{Segment, SegmentHeader, consistency};
use crate::set;
use kit::maintenance::Maintain;
use kit::reachability::{BlobId, GcSource, KeyLayout, Node, Tracer};
use kit::root;
use kit::store::StoreError;
use std::rc::Rc;

impl Maintain for IndexStore {}

impl GcSource for IndexStore {
    fn layout(&self) -> KeyLayout {
        let below = |kinds: &[&str]| kinds.iter().map(|kind| format!("issue-statistics/v1/{kind}/")).collect();
        KeyLayout {
            roots: vec![MANIFEST.to_owned()],
            records: Vec::new(),
            blobs: below(&["dead", "segment"]),
            marks: "issue-statistics/v1/gc/".to_owned(),
        }
    }

    /// The manifest names every blob in use, so retired blobs are garbage.
    fn visit(&self, node: Node, tracer: &mut Tracer) -> Result<bool, StoreError> {
        match node {
            Node::Root(MANIFEST) => self.read_manifest()?.segments.iter().for_each(|info| {
                tracer.mark_id(&info.id);
                info.tombstones.iter().for_each(|tombstones| tracer.mark_id(&tombstones.id));
            }),
            // The swap keeps a counter beside the manifest.
            Node::Root(_) => return Ok(false),
            Node::Blob(blob) if tracer.check => self.check_blob(blob, tracer)?,
            Node::Blob(_) => {}
        }
        Ok(true)
    }

    fn follows(&self) -> bool {
        true
    }
}

impl IndexStore {
    /// Reads the manifest and bypasses the cache.
    fn read_manifest(&self) -> Result<Manifest, StoreError> {
        Ok(root::read(&*self.env.store, MANIFEST)?.unwrap_or_default())
    }

    fn is_named(&self, blob: &BlobId) -> Result<bool, StoreError> {
        let is = |id: &str| BlobId::of_id(id).as_ref() == Some(blob);
        let is_of = |info: &SegmentInfo| is(&info.id) || info.tombstones.as_ref().is_some_and(|set| is(&set.id));
        Ok(self.read_manifest()?.segments.iter().any(is_of))
    }

    /// Checks a segment or a set of tombstones.
    fn check_blob(&self, blob: &BlobId, tracer: &mut Tracer) -> Result<(), StoreError> {
        let is = |id: &str| BlobId::of_id(id).as_ref() == Some(blob);
        for info in &self.read_manifest()?.segments {
            if is(&info.id) {
                return self.check_segment(blob, info, tracer);
            }
            if let Some(tombstones) = info.tombstones.as_ref().filter(|tombstones| is(&tombstones.id)) {
                let outcome = self.check_tombstones(tombstones, info.document_count, tracer);
                self.tolerate_damage(blob, outcome, tracer)?;
            }
        }
        Ok(())
    }

    /// Records damage of a blob, so that the check can continue. Returns other errors. Damage is ignored if the
    /// manifest no longer names the blob: a writer may have replaced and deleted it during the check.
    fn tolerate_damage<T>(
        &self,
        blob: &BlobId,
        outcome: Result<T, StoreError>,
        tracer: &mut Tracer,
    ) -> Result<Option<T>, StoreError> {
        match outcome {
            Err(StoreError::Corrupt { .. }) if !self.is_named(blob)? => Ok(None),
            outcome => tracer.tolerate(outcome),
        }
    }

    fn check_tombstones(
        &self,
        tombstones: &TombstonesRef,
        document_count: u32,
        tracer: &mut Tracer,
    ) -> Result<(), StoreError> {
        let key = tombstones_key(&tombstones.id);
        let bytes = self.blob(&key, tombstones.checksum)?;
        tracer.read(bytes.len());
        let set = set::decode(&bytes).ok_or_else(|| StoreError::corrupt(&key, "no set"))?;
        let is_inside = set.max().is_none_or(|last| last < document_count);
        if set.len() != u64::from(tombstones.count) || !is_inside {
            return Err(StoreError::corrupt(&key, "not documents of its segment, as many as the index says"));
        }
        Ok(())
    }

    /// Compares every page with its checksum. A segment of an earlier build may lack checksums. Then its tables are
    /// compared with each other, which reads each page once or twice more.
    fn check_segment(&self, blob: &BlobId, info: &SegmentInfo, tracer: &mut Tracer) -> Result<(), StoreError> {
        let Some(header) = self.tolerate_damage(blob, self.check_header(info, tracer), tracer)? else { return Ok(()) };
        let mut is_complete = true;
        for (name, index) in &header.tables {
            for number in 0..index.blob_count() {
                let page = self.blob(&page_key(&info.id, name, number), index.checksum(number));
                let page = self.tolerate_damage(blob, page, tracer)?;
                is_complete &= page.is_some();
                match page {
                    Some(page) => tracer.read(page.len()),
                    // A damaged header may list any number of pages.
                    None if !index.has_checksums() => break,
                    None => {}
                }
            }
        }
        if is_complete && !header.has_checksums() {
            let uncached = self.without_page_cache();
            let segment = Segment { id: &info.id, header: Rc::new(header), page_store: &uncached };
            self.tolerate_damage(blob, consistency::check(&segment), tracer)?;
        }
        Ok(())
    }

    fn check_header(&self, info: &SegmentInfo, tracer: &mut Tracer) -> Result<SegmentHeader, StoreError> {
        let (header, size) = self.header(info)?;
        tracer.read(size);
        if header.document_count != info.document_count {
            return Err(StoreError::corrupt(&header_key(&info.id), "it has not as many documents as the index says"));
        }
        Ok(header)
    }
}
