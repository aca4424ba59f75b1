//! The documents that contain a text, in any of its [readings](super::query_tokens).
//!
//! One token is a part of terms: the result is the union of the documents of all
//! [matching terms](super::term_search). The documents with a frequent [n-gram](super::ngrams) are
//! stored. Several tokens are a [phrase](super::phrase_search).

use super::postings::PostingsRef;
use super::query_tokens::{QueryToken, readings};
use super::term_search::{MatchKind, for_each_match};
use super::{Field, Segment, TableName, ngrams, phrase_search};
use crate::set::{self, Bitset};
use crate::text;
use crate::work::{LOOK_UP, SearchError, WorkBudget};
use roaring::RoaringBitmap;

/// The documents that have the folded `text`, which has no white space around, in one of `fields`.
pub fn documents(
    segment: &Segment,
    text: &str,
    fields: &[Field],
    work: &WorkBudget,
) -> Result<RoaringBitmap, SearchError> {
    let mut found = RoaringBitmap::new();
    for reading in readings(text, segment.header.analyzer) {
        found |= match reading.as_slice() {
            [token] => documents_with_token(segment, token, fields, work)?,
            _ => phrase_search::documents(segment, reading, fields, work)?,
        };
    }
    Ok(found)
}

/// The documents that have a term with this part in one of `fields`.
pub fn documents_with_part(
    segment: &Segment,
    part: &str,
    fields: &[Field],
    work: &WorkBudget,
) -> Result<RoaringBitmap, SearchError> {
    let token = QueryToken { text: part.to_owned(), kind: MatchKind::Contains };
    documents_with_token(segment, &token, fields, work)
}

fn documents_with_token(
    segment: &Segment,
    token: &QueryToken,
    fields: &[Field],
    work: &WorkBudget,
) -> Result<RoaringBitmap, SearchError> {
    let mut found = RoaringBitmap::new();
    let mut remaining = fields.to_vec();
    if token.kind == MatchKind::Contains && token.text.chars().count() <= text::MAX_NGRAM {
        let table = segment.table(TableName::Ngrams);
        for field in fields {
            if let Some(encoded) = table.get(&ngrams::documents_key(*field, &token.text))? {
                found |= set::decode(&encoded).ok_or_else(|| segment.corrupt(TableName::Ngrams))?;
                remaining.retain(|other| other != field);
            }
        }
    }
    if !remaining.is_empty() {
        found |= union_of_matches(segment, token, &remaining, work)?;
    }
    Ok(found)
}

/// The documents of all terms that match.
fn union_of_matches(
    segment: &Segment,
    token: &QueryToken,
    fields: &[Field],
    work: &WorkBudget,
) -> Result<RoaringBitmap, SearchError> {
    let mut found = DocumentCollector::new(segment.document_count());
    let tables = fields.iter().map(|field| (*field, segment.table(TableName::Postings(*field)))).collect::<Vec<_>>();
    for_each_match(segment, &token.text, token.kind, work, |term, reference| match reference {
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
                work.spend(LOOK_UP + encoded.len() as u64)?;
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
