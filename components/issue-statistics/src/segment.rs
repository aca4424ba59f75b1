//! A segment: some issues, and all that they can be found by. Immutable; what was superseded since
//! is told by the index's root.
//!
//! The documents of a segment are numbered from 0. It is a handful of sorted tables:
//!
//! | table | key | value |
//! |---|---|---|
//! | `terms` | a [term](crate::facet) | the documents |
//! | `ids` | the first id of a block | [ids](id_index) and documents |
//! | `created`, `updated` | the first moment of a block | [moments](time_index) and documents |
//! | `words` | the first word of a block | [words](dictionary), with what is so rare that it needs no list |
//! | `title-documents`, `description-documents` | a word | the documents with it |
//! | `title-places`, `description-places` | a word | its [places](positions) |
//! | `title-lengths`, `description-lengths` | the first document of a block | how [long](lengths) the texts are |
//! | `title-edges`, `description-edges` | an [edge](affixes) of words and a number | places, for the frequent |
//! | `grams` | `b`, `t` or `d` and a part of a word | blocks of `words`; documents, for the frequent |

pub mod affixes;
pub mod builder;
pub mod dictionary;
pub mod id_index;
pub mod lengths;
pub mod merge;
pub mod ngrams;
pub mod phrase_search;
pub mod positions;
pub mod substring_search;
pub mod time_index;

use crate::table::{Index, Pages, Table};
use bytes::Bytes;
use kit::store::StoreError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a reader of a segment needs to know first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// How many documents it has.
    pub documents: u32,
    /// The lowest and the highest id of an issue.
    #[serde(default)]
    pub ids: (u64, u64),
    /// How many places its texts have together.
    #[serde(default)]
    pub places: u64,
    /// By [`Part::name`].
    pub tables: BTreeMap<String, Index>,
}

impl Head {
    pub fn table(&self, part: Part) -> &Index {
        const NONE: &Index = &Index { pages: Vec::new(), count: 0 };
        self.tables.get(part.name()).unwrap_or(NONE)
    }
}

/// The tables of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    Terms,
    Ids,
    Created,
    Updated,
    Words,
    Documents(Field),
    Places(Field),
    Lengths(Field),
    Edges(Field),
    Grams,
}

/// The texts of an issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    Title,
    Description,
}

pub const FIELDS: [Field; 2] = [Field::Title, Field::Description];

impl Part {
    pub const fn name(self) -> &'static str {
        match self {
            Part::Terms => "terms",
            Part::Ids => "ids",
            Part::Created => "created",
            Part::Updated => "updated",
            Part::Words => "words",
            Part::Documents(Field::Title) => "title-documents",
            Part::Documents(Field::Description) => "description-documents",
            Part::Places(Field::Title) => "title-places",
            Part::Places(Field::Description) => "description-places",
            Part::Lengths(Field::Title) => "title-lengths",
            Part::Lengths(Field::Description) => "description-lengths",
            Part::Edges(Field::Title) => "title-edges",
            Part::Edges(Field::Description) => "description-edges",
            Part::Grams => "grams",
        }
    }
}

/// Where the pages of segments are.
pub trait Shelf {
    fn page(&self, segment: &str, part: Part, number: usize) -> Result<Bytes, StoreError>;

    fn put(&self, segment: &str, part: Part, number: usize, page: &[u8]) -> Result<(), StoreError>;

    /// What is wrong, in words that tell which table it is.
    fn damaged(&self, segment: &str, part: Part) -> StoreError;
}

/// A segment that is read.
#[derive(Clone)]
pub struct Segment<'a> {
    pub id: &'a str,
    pub head: Rc<Head>,
    pub shelf: &'a dyn Shelf,
}

impl<'a> Segment<'a> {
    pub fn table(&self, part: Part) -> Table<'_, PartPages<'_>> {
        Table { index: self.head.table(part), pages: PartPages { id: self.id, shelf: self.shelf, part } }
    }

    pub fn damaged(&self, part: Part) -> StoreError {
        self.shelf.damaged(self.id, part)
    }

    pub fn documents(&self) -> u32 {
        self.head.documents
    }
}

/// The pages of one table of a segment.
pub struct PartPages<'a> {
    id: &'a str,
    shelf: &'a dyn Shelf,
    part: Part,
}

impl Pages for PartPages<'_> {
    fn page(&self, number: usize) -> Result<Bytes, StoreError> {
        self.shelf.page(self.id, self.part, number)
    }

    fn damaged(&self) -> StoreError {
        self.shelf.damaged(self.id, self.part)
    }
}

/// Takes the pages of a table that is written.
pub type Sink<'a> = Box<dyn FnMut(usize, &[u8]) -> Result<(), StoreError> + 'a>;

pub fn sink<'a>(shelf: &'a dyn Shelf, segment: &'a str, part: Part) -> Sink<'a> {
    Box::new(move |number, page| shelf.put(segment, part, number, page))
}
