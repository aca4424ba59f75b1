//! The documents that contain a text, in any of its [tokenizations](super::query_tokens).
//!
//! A single token is a part of terms: the result unites the documents of all [matching terms](super::term_search). For
//! a frequent [n-gram](super::ngrams) the documents are stored. Several tokens are a [phrase](super::phrase_search).

use super::postings::PostingsRef;
use super::query_tokens::{QueryToken, tokenizations};
use super::term_search::{MatchKind, for_each_match};
use super::{Field, Segment, TableName, ngrams, phrase_search};
use crate::query_cost::{LOOKUP_COST, QueryCost, SearchError};
use crate::set::{self, Bitset};
use crate::text;
use roaring::RoaringBitmap;

/// The documents with the folded `text` in one of `fields`. `text` has no white space at its ends.
pub fn documents(
    segment: &Segment,
    text: &str,
    fields: &[Field],
    cost: &QueryCost,
) -> Result<RoaringBitmap, SearchError> {
    let mut found = RoaringBitmap::new();
    for tokenization in tokenizations(text, segment.header.analyzer) {
        found |= match tokenization.as_slice() {
            [token] => documents_with_token(segment, token, fields, cost)?,
            _ => phrase_search::documents(segment, tokenization, fields, cost)?,
        };
    }
    Ok(found)
}

/// The documents with a term that contains `part`, in one of `fields`.
pub fn documents_with_part(
    segment: &Segment,
    part: &str,
    fields: &[Field],
    cost: &QueryCost,
) -> Result<RoaringBitmap, SearchError> {
    let token = QueryToken { text: part.to_owned(), kind: MatchKind::Contains };
    documents_with_token(segment, &token, fields, cost)
}

fn documents_with_token(
    segment: &Segment,
    token: &QueryToken,
    fields: &[Field],
    cost: &QueryCost,
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
        found |= union_of_matches(segment, token, &remaining, cost)?;
    }
    Ok(found)
}

/// The documents of all matching terms.
fn union_of_matches(
    segment: &Segment,
    token: &QueryToken,
    fields: &[Field],
    cost: &QueryCost,
) -> Result<RoaringBitmap, SearchError> {
    let mut found = DocumentCollector::new(segment.document_count());
    let tables = fields.iter().map(|field| (*field, segment.table(TableName::Postings(*field)))).collect::<Vec<_>>();
    for_each_match(segment, &token.text, token.kind, cost, |term, reference| match reference {
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
                cost.add(LOOKUP_COST + encoded.len() as u64)?;
                found.union_encoded(&encoded, reference.document_frequency(*field)).ok_or_else(corrupt)?;
            }
            Ok(())
        }
    })?;
    Ok(found.finish())
}

/// Collects documents: few in a list, many in a bitset.
struct DocumentCollector {
    document_count: u32,
    list: Vec<u32>,
    bitset: Option<Bitset>,
}

impl DocumentCollector {
    fn new(document_count: u32) -> Self {
        DocumentCollector { document_count, list: Vec::new(), bitset: None }
    }

    /// The bitset, if it is smaller than a list with `more` further documents.
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

    /// Adds an encoded set of `count` documents. `None` if its bytes are damaged.
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
