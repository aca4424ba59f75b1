//! The blobs that the manifest reaches, for the garbage collector and for checks.

use super::{IndexStore, MANIFEST, header_key, page_key, tombstones_key};
use crate::manifest::{Manifest, SegmentInfo};
use crate::segment::SegmentHeader;
use crate::set;
use crate::table::{PageSource, Table};
use bytes::Bytes;
use kit::maintenance::Maintain;
use kit::reachability::{BlobId, KeyLayout, Node, Roots, Tracer};
use kit::root;
use kit::store::StoreError;
use std::cell::Cell;

impl Maintain for IndexStore {}

impl Roots for IndexStore {
    fn plan(&self) -> KeyLayout {
        let below = |kinds: &[&str]| kinds.iter().map(|kind| format!("issue-statistics/v1/{kind}/")).collect();
        KeyLayout {
            roots: vec![MANIFEST.to_owned()],
            records: Vec::new(),
            blobs: below(&["dead", "segment"]),
            marks: "issue-statistics/v1/gc/".to_owned(),
        }
    }

    /// The manifest names every blob in use. Retired blobs are garbage.
    fn visit(&self, node: Node, tracer: &mut Tracer) -> Result<bool, StoreError> {
        match node {
            Node::Root(MANIFEST) => self.read_manifest()?.segments.iter().for_each(|info| {
                tracer.reach(&info.id);
                info.tombstones.iter().for_each(|tombstones| tracer.reach(&tombstones.id));
            }),
            // The counter that the swap keeps beside the manifest.
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
    /// Reads past the cache.
    fn read_manifest(&self) -> Result<Manifest, StoreError> {
        Ok(root::read(&*self.env.store, MANIFEST)?.unwrap_or_default())
    }

    /// Checks a segment or a set of tombstones.
    fn check_blob(&self, blob: &BlobId, tracer: &mut Tracer) -> Result<(), StoreError> {
        let outcome = self.check_if_named(blob, tracer);
        match outcome {
            // A writer may have replaced and deleted the blob during the check.
            Err(StoreError::Corrupt { .. }) if !self.is_named(blob)? => Ok(()),
            outcome => outcome,
        }
    }

    fn is_named(&self, blob: &BlobId) -> Result<bool, StoreError> {
        let is = |id: &str| BlobId::of_id(id).as_ref() == Some(blob);
        let is_of = |info: &SegmentInfo| is(&info.id) || info.tombstones.as_ref().is_some_and(|set| is(&set.id));
        Ok(self.read_manifest()?.segments.iter().any(is_of))
    }

    fn check_if_named(&self, blob: &BlobId, tracer: &mut Tracer) -> Result<(), StoreError> {
        let is = |id: &str| BlobId::of_id(id).as_ref() == Some(blob);
        for info in &self.read_manifest()?.segments {
            if is(&info.id) {
                return self.check_segment(&info.id, info.document_count, tracer);
            }
            if let Some(tombstones) = info.tombstones.as_ref().filter(|tombstones| is(&tombstones.id)) {
                let key = tombstones_key(&tombstones.id);
                let bytes = self.blob(&key)?;
                tracer.read(bytes.len());
                let set = set::decode(&bytes).ok_or_else(|| StoreError::corrupt(&key, "no set"))?;
                let is_inside = set.max().is_none_or(|last| last < info.document_count);
                if set.len() != u64::from(tombstones.count) || !is_inside {
                    return Err(StoreError::corrupt(&key, "not documents of its segment, as many as the index says"));
                }
            }
        }
        Ok(())
    }

    /// Reads every entry of every table.
    fn check_segment(&self, id: &str, document_count: u32, tracer: &mut Tracer) -> Result<(), StoreError> {
        let key = header_key(id);
        let bytes = self.blob(&key)?;
        tracer.read(bytes.len());
        let header: SegmentHeader = serde_json::from_slice(&bytes).map_err(|error| StoreError::corrupt(&key, error))?;
        if header.document_count != document_count {
            return Err(StoreError::corrupt(&key, "it has not as many documents as the index says"));
        }
        for (name, index) in &header.tables {
            let bytes_read = Cell::default();
            let pages = StoredPages { store: self, id, name, bytes_read: &bytes_read };
            let corrupt = |problem| StoreError::corrupt(&format!("issue-statistics/v1/segment/{id}/{name}"), problem);
            let mut entries = Table { index, pages }.cursor_from(&[])?;
            let (mut count, mut last) = (0, None);
            while let Some(entry) = entries.next()? {
                if last.is_some_and(|last| last >= entry.key) {
                    return Err(corrupt("its entries are not in order"));
                }
                count += 1;
                last = Some(entry.key);
            }
            if count != index.entry_count {
                return Err(corrupt("it has not as many entries as its head says"));
            }
            tracer.read(bytes_read.get());
        }
        Ok(())
    }

    fn blob(&self, key: &str) -> Result<Bytes, StoreError> {
        let bytes = self.env.store.get(key)?.ok_or_else(|| StoreError::corrupt(key, "the blob is missing"))?;
        Ok(bytes.into())
    }
}

/// The pages of a table, read past the cache.
#[derive(Clone, Copy)]
struct StoredPages<'a> {
    store: &'a IndexStore,
    id: &'a str,
    name: &'a str,
    bytes_read: &'a Cell<usize>,
}

impl PageSource for StoredPages<'_> {
    fn page(&self, number: usize) -> Result<Bytes, StoreError> {
        let page = self.store.blob(&page_key(self.id, self.name, number))?;
        self.bytes_read.set(self.bytes_read.get() + page.len());
        Ok(page)
    }

    fn corrupt(&self) -> StoreError {
        StoreError::corrupt(&format!("issue-statistics/v1/segment/{}/{}", self.id, self.name), "a page is damaged")
    }
}
