//! The documents that contain a text.
//!
//! A text without white space is a substring of a term: the result is the union of the documents of
//! all [matching terms](super::term_search). The documents with a frequent [n-gram](super::ngrams) are
//! stored. A text with white space is a [phrase](super::phrase_search).

use super::postings::PostingsRef;
use super::term_search::{MatchKind, for_each_match};
use super::{Field, Segment, TableName, ngrams, phrase_search};
use crate::set::{self, Bitset};
use crate::text;
use kit::store::StoreError;
use roaring::RoaringBitmap;

/// The documents that have the folded `text` in one of `fields`.
pub fn documents(segment: &Segment, text: &str, fields: &[Field]) -> Result<RoaringBitmap, StoreError> {
    if text.chars().any(char::is_whitespace) {
        return phrase_search::documents(segment, text, fields);
    }
    let mut found = RoaringBitmap::new();
    let mut remaining = fields.to_vec();
    if text.chars().count() <= text::MAX_NGRAM {
        let table = segment.table(TableName::Ngrams);
        for field in fields {
            if let Some(encoded) = table.get(&ngrams::documents_key(*field, text))? {
                found |= set::decode(&encoded).ok_or_else(|| segment.corrupt(TableName::Ngrams))?;
                remaining.retain(|other| other != field);
            }
        }
    }
    if !remaining.is_empty() {
        found |= union_of_matches(segment, text, &remaining)?;
    }
    Ok(found)
}

/// The documents of all terms that contain `text`.
fn union_of_matches(segment: &Segment, text: &str, fields: &[Field]) -> Result<RoaringBitmap, StoreError> {
    let mut found = DocumentCollector::new(segment.document_count());
    let tables = fields.iter().map(|field| (*field, segment.table(TableName::Postings(*field)))).collect::<Vec<_>>();
    for_each_match(segment, text, MatchKind::Contains, |term, reference| match reference {
        PostingsRef::Inline { field, document, .. } => {
            if fields.contains(&field) {
                found.insert(document);
            }
            Ok(())
        }
        PostingsRef::Lists(_) => {
            for (field, table) in tables.iter().filter(|(field, _)| reference.document_frequency(*field) > 0) {
                let corrupt = || segment.corrupt(TableName::Postings(*field));
                let encoded = table.get(&term)?.ok_or_else(corrupt)?;
                found.union_encoded(&encoded, reference.document_frequency(*field)).ok_or_else(corrupt)?;
            }
            Ok(())
        }
    })?;
    Ok(found.finish())
}

/// Collects documents in a list while they are few, then in a bitset.
struct DocumentCollector {
    document_count: u32,
    list: Vec<u32>,
    bitset: Option<Bitset>,
}

impl DocumentCollector {
    fn new(document_count: u32) -> Self {
        DocumentCollector { document_count, list: Vec::new(), bitset: None }
    }

    /// The bitset, if a list with `more` documents would be larger.
    fn bitset(&mut self, more: usize) -> Option<&mut Bitset> {
        if self.bitset.is_none() && self.list.len() + more > self.document_count as usize / 32 {
            let mut bitset = Bitset::new(self.document_count);
            self.list.drain(..).for_each(|document| bitset.insert(document));
            self.bitset = Some(bitset);
        }
        self.bitset.as_mut()
    }

    fn insert(&mut self, document: u32) {
        match self.bitset(1) {
            Some(bitset) => bitset.insert(document),
            None => self.list.push(document),
        }
    }

    /// Adds an encoded set of `count` documents; `None` if its bytes are damaged.
    fn union_encoded(&mut self, encoded: &[u8], count: u32) -> Option<()> {
        match self.bitset(count as usize) {
            Some(bitset) => bitset.union_encoded(encoded),
            None => set::for_each(encoded, |document| self.list.push(document)),
        }
    }

    fn finish(mut self) -> RoaringBitmap {
        match self.bitset {
            Some(bitset) => bitset.to_bitmap(),
            None => {
                self.list.sort_unstable();
                self.list.dedup();
                RoaringBitmap::from_sorted_iter(self.list.iter().copied()).unwrap_or_default()
            }
        }
    }
}
