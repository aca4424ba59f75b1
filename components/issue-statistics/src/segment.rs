//! A segment: an immutable part of the inverted index, with some of the issues. Later imports supersede its documents
//! by tombstones in the manifest.
//!
//! The documents of a segment are numbered from 0. A segment consists of sorted [tables](Table). Some stored names are
//! older than the names in the code:
//!
//! | stored table | in code | key | value |
//! |---|---|---|---|
//! | `terms` | facets | a [facet](crate::facet) | its documents |
//! | `ids` | ids | the first id of a block | [ids](id_index) and documents |
//! | `created`, `updated` | created, updated | the first timestamp of a block | [timestamps](time_index) and documents |
//! | `words` | dictionary | the first term of a block | a block of the [dictionary] |
//! | `title-documents`, `description-documents` | postings | a term | the documents with it |
//! | `title-places`, `description-places` | positions | a term | its [positions] |
//! | `title-lengths`, `description-lengths` | lengths | the first document of a block | [lengths] of the texts |
//! | `title-edges`, `description-edges` | affixes | a frequent [affix](affixes) and a number | positions |
//! | `grams` | n-grams | `b`, `t` or `d` and an [n-gram](ngrams) | blocks of the dictionary; documents, for frequent n-grams |
//!
//! Likewise the stored field `places` is a count of positions, and `dead` in keys and fields means tombstones.

pub mod affixes;
pub mod builder;
pub mod consistency;
pub mod dictionary;
pub mod id_index;
pub mod lengths;
pub mod merge;
pub mod ngrams;
pub mod phrase_search;
pub mod positions;
pub mod postings;
pub mod term_search;
pub mod time_index;

pub use ngrams::{FIELDS, Field};

use crate::table::{PageIndex, PageSource, Table};
use crate::text::Analyzer;
use bytes::Bytes;
use kit::store::StoreError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The header, which a reader of the segment reads first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentHeader {
    #[serde(rename = "documents")]
    pub document_count: u32,
    /// The lowest and the highest issue id.
    #[serde(default, rename = "ids")]
    pub issue_ids: (u64, u64),
    /// The number of positions of titles and descriptions together.
    #[serde(default, rename = "places")]
    pub position_count: u64,
    /// The analyzer that made its tokens.
    #[serde(default)]
    pub analyzer: Analyzer,
    /// The approximate bytes of memory that a merge keeps for it; 0 in segments of earlier builds.
    #[serde(default, rename = "memory")]
    pub merge_memory: u64,
    /// By [`TableName::as_str`].
    pub tables: BTreeMap<String, PageIndex>,
}

impl SegmentHeader {
    pub fn table(&self, table: TableName) -> &PageIndex {
        self.tables.get(table.as_str()).unwrap_or(PageIndex::EMPTY)
    }

    /// Whether the checksum of every page is known.
    pub fn has_checksums(&self) -> bool {
        self.tables.values().all(PageIndex::has_checksums)
    }

    /// The approximate bytes of memory that a merge keeps for this segment.
    pub fn memory_in_merge(&self) -> u64 {
        match self.merge_memory {
            0 => {
                let ngrams = self.table(TableName::Ngrams);
                u64::from(ngrams.entry_count) * ngrams::ENTRY_MEMORY + ngrams.bytes_at_most()
            }
            known => known,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableName {
    Facets,
    Ids,
    Created,
    Updated,
    Dictionary,
    Postings(Field),
    Positions(Field),
    Lengths(Field),
    Affixes(Field),
    Ngrams,
}

impl TableName {
    /// The name in stored keys and headers.
    pub const fn as_str(self) -> &'static str {
        match self {
            TableName::Facets => "terms",
            TableName::Ids => "ids",
            TableName::Created => "created",
            TableName::Updated => "updated",
            TableName::Dictionary => "words",
            TableName::Postings(Field::Title) => "title-documents",
            TableName::Postings(Field::Description) => "description-documents",
            TableName::Positions(Field::Title) => "title-places",
            TableName::Positions(Field::Description) => "description-places",
            TableName::Lengths(Field::Title) => "title-lengths",
            TableName::Lengths(Field::Description) => "description-lengths",
            TableName::Affixes(Field::Title) => "title-edges",
            TableName::Affixes(Field::Description) => "description-edges",
            TableName::Ngrams => "grams",
        }
    }
}

/// Stores the pages of all segments.
pub trait PageStore {
    /// `checksum` is the checksum of the page, if it is known.
    fn page(&self, segment: &str, table: TableName, number: usize, checksum: Option<u64>) -> Result<Bytes, StoreError>;

    fn put(&self, segment: &str, table: TableName, number: usize, page: &[u8]) -> Result<(), StoreError>;

    /// The error for damaged bytes; it names the table.
    fn corrupt(&self, segment: &str, table: TableName) -> StoreError;
}

/// Reads a segment.
#[derive(Clone)]
pub struct Segment<'a> {
    pub id: &'a str,
    pub header: Rc<SegmentHeader>,
    pub page_store: &'a dyn PageStore,
}

impl<'a> Segment<'a> {
    pub fn table(&self, table: TableName) -> Table<'_, SegmentPages<'_>> {
        let pages = SegmentPages { segment: self.id, page_store: self.page_store, table };
        Table { index: self.header.table(table), pages }
    }

    pub fn corrupt(&self, table: TableName) -> StoreError {
        self.page_store.corrupt(self.id, table)
    }

    pub fn document_count(&self) -> u32 {
        self.header.document_count
    }
}

/// The pages of one table of a segment.
pub struct SegmentPages<'a> {
    segment: &'a str,
    page_store: &'a dyn PageStore,
    table: TableName,
}

impl PageSource for SegmentPages<'_> {
    fn page(&self, number: usize, checksum: Option<u64>) -> Result<Bytes, StoreError> {
        self.page_store.page(self.segment, self.table, number, checksum)
    }

    fn corrupt(&self) -> StoreError {
        self.page_store.corrupt(self.segment, self.table)
    }
}

/// Takes each page of a table under construction, with its number.
pub type PageSink<'a> = Box<dyn FnMut(usize, &[u8]) -> Result<(), StoreError> + 'a>;

pub fn page_sink<'a>(page_store: &'a dyn PageStore, segment: &'a str, table: TableName) -> PageSink<'a> {
    Box::new(move |number, page| page_store.put(segment, table, number, page))
}
