//! The documents that contain a phrase: tokens at consecutive positions. The first token may be the end of a longer
//! term, the last one its beginning.
//!
//! For each token, a bitset marks the positions at which the phrase would end. The intersection of all bitsets is the
//! matches. The search passes once over the stored positions of the matching terms, however common these are. It takes
//! two bits of memory for each position of the segment.
//!
//! The tokens of a search text. The text may begin and end inside a run, so its first and its last token are parts of
//! terms. The length of these runs is unknown; a [long](crate::text::Run::is_long) run has other tokens. So a text may
//! have several tokenizations.

use crate::query_cost::{LOOKUP_COST, QueryCost, SearchError};
use crate::segment::affixes::{self, Affix};
use crate::segment::postings::PostingsRef;
use crate::segment::term_search::{MatchKind, for_each_match};
use crate::segment::{Field, Segment, TableName, lengths, ngrams};
use crate::set::{self, Bitset};
use crate::text::{self, Analyzer, BIGRAM_PREFIX, Run, RunKind};
use bytes::Bytes;
use kit::store::StoreError;
use roaring::RoaringBitmap;

/// The positions of a bitset that are made and intersected for one unit of cost.
const POSITIONS_PER_UNIT: u32 = 64;

struct PhraseToken {
    text: String,
    /// How many tokens follow in the phrase.
    distance_to_end: u32,
    kind: MatchKind,
    /// The matching terms. Empty if the positions of the affix are stored.
    terms: Vec<(Bytes, PostingsRef)>,
}

/// The documents that contain the tokens consecutively in one of `fields`.
pub fn documents(
    segment: &Segment,
    tokenization: Tokenization,
    fields: &[Field],
    cost: &QueryCost,
) -> Result<RoaringBitmap, SearchError> {
    let mut tokens = Vec::new();
    for (distance_to_end, QueryToken { text, kind }) in (0..).zip(tokenization.into_iter().rev()) {
        tokens.push(PhraseToken { text, distance_to_end, kind, terms: Vec::new() });
    }
    for token in &mut tokens {
        if !token.is_stored(segment, fields)? {
            let terms = &mut token.terms;
            for_each_match(segment, &token.text, token.kind, cost, |term, reference| {
                terms.push((term, reference));
                Ok(())
            })?;
            if terms.is_empty() {
                return Ok(RoaringBitmap::new());
            }
        }
    }
    let mut all = RoaringBitmap::new();
    for field in fields {
        all |= documents_in_field(segment, &mut tokens, *field, cost)?;
    }
    Ok(all)
}

fn documents_in_field(
    segment: &Segment,
    tokens: &mut [PhraseToken],
    field: Field,
    cost: &QueryCost,
) -> Result<RoaringBitmap, SearchError> {
    // The rarest token comes first, because it may be in no document.
    tokens.sort_by_cached_key(|token| token.document_frequency(field));
    if tokens.first().is_none_or(|rarest| rarest.document_frequency(field) == 0) {
        return Ok(RoaringBitmap::new());
    }
    let starts = lengths::document_starts(segment, field)?;
    let end = starts.last().copied().unwrap_or_default();
    let mut matches: Option<Bitset> = None;
    for token in tokens {
        cost.add(u64::from(end / POSITIONS_PER_UNIT))?;
        let mut found = Bitset::new(end);
        token.insert_phrase_ends(segment, field, &mut found, cost)?;
        if let Some(before) = &matches {
            found.intersect(before);
        }
        if found.is_empty() {
            return Ok(RoaringBitmap::new());
        }
        matches = Some(found);
    }
    Ok(matches.map(|matches| documents_with(&matches, &starts)).unwrap_or_default())
}

impl PhraseToken {
    /// The kind of affix that the token is, if the token is short enough.
    fn affix(&self) -> Option<Affix> {
        let affix = match self.kind {
            MatchKind::StartsWith => Affix::Prefix,
            MatchKind::EndsWith => Affix::Suffix,
            MatchKind::Equals | MatchKind::Contains => return None,
        };
        (self.text.chars().count() <= text::MAX_NGRAM).then_some(affix)
    }

    /// Whether the positions of the affix are stored for each of `fields`.
    fn is_stored(&self, segment: &Segment, fields: &[Field]) -> Result<bool, StoreError> {
        let Some(affix) = self.affix() else { return Ok(false) };
        for field in fields {
            if !affixes::is_stored(segment, *field, affix, &self.text)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The sum over its terms, or the maximum if the terms are unknown.
    fn document_frequency(&self, field: Field) -> u64 {
        match self.terms.as_slice() {
            [] => u64::MAX,
            terms => terms.iter().map(|(_, reference)| u64::from(reference.document_frequency(field))).sum(),
        }
    }

    /// Adds the positions at which the phrase would end, by this token.
    fn insert_phrase_ends(
        &self,
        segment: &Segment,
        field: Field,
        found: &mut Bitset,
        cost: &QueryCost,
    ) -> Result<(), SearchError> {
        if let Some(affix) = self.affix()
            && affixes::insert_stored(segment, field, affix, &self.text, found, self.distance_to_end, cost)?
        {
            return Ok(());
        }
        affixes::insert_terms(segment, field, &self.terms, found, self.distance_to_end, cost)
    }
}

/// The documents that contain one of the positions.
fn documents_with(positions: &Bitset, starts: &[u32]) -> RoaringBitmap {
    let mut documents = Vec::new();
    let mut locator = lengths::DocumentLocator::new(starts);
    positions.for_each(|position| {
        let document = locator.document_of(position);
        if documents.last() != Some(&document) {
            documents.push(document);
        }
    });
    RoaringBitmap::from_sorted_iter(documents.iter().copied()).unwrap_or_default()
}

/// The documents with the folded `text` in one of `fields`. `text` has no white space at its ends.
pub fn substring_documents(
    segment: &Segment,
    text: &str,
    fields: &[Field],
    cost: &QueryCost,
) -> Result<RoaringBitmap, SearchError> {
    let mut found = RoaringBitmap::new();
    for tokenization in tokenizations(text, segment.header.analyzer) {
        found |= match tokenization.as_slice() {
            [token] => documents_with_token(segment, token, fields, cost)?,
            _ => documents(segment, tokenization, fields, cost)?,
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

pub struct QueryToken {
    pub text: String,
    pub kind: MatchKind,
}

/// Consecutive tokens.
pub type Tokenization = Vec<QueryToken>;

/// Every sequence of tokens that a document with the folded `text` may have. `text` has no white space at its ends.
pub fn tokenizations(text: &str, analyzer: Analyzer) -> Vec<Tokenization> {
    if analyzer == Analyzer::Words {
        let mut words = Vec::new();
        text::tokens(text, analyzer, |word| words.push(word.to_owned()));
        let last = words.len().saturating_sub(1);
        let token = |(index, text)| QueryToken { text, kind: kind_of(index == 0, index == last) };
        return vec![words.into_iter().enumerate().map(token).collect()];
    }
    let runs: Vec<Run> = text::runs(text).collect();
    let mut all = Vec::new();
    for is_first_long in run_lengths(runs.first()) {
        // The only run is the first and the last.
        let last = if runs.len() > 1 { run_lengths(runs.last()) } else { &[false] };
        all.extend(last.iter().map(|is_last_long| tokenization(&runs, *is_first_long, *is_last_long)));
    }
    all
}

/// The possible values for whether the run around `part` is long.
fn run_lengths(part: Option<&Run>) -> &'static [bool] {
    match part {
        Some(part) if part.is_long() => &[true],
        Some(Run { kind: RunKind::Word, .. }) => &[false, true],
        _ => &[false],
    }
}

fn kind_of(is_first: bool, is_last: bool) -> MatchKind {
    match (is_first, is_last) {
        (true, true) => MatchKind::Contains,
        (true, false) => MatchKind::EndsWith,
        (false, true) => MatchKind::StartsWith,
        (false, false) => MatchKind::Equals,
    }
}

fn tokenization(runs: &[Run], is_first_long: bool, is_last_long: bool) -> Tokenization {
    let last = runs.len().saturating_sub(1);
    let is_long = |index: usize| {
        (index == 0 && is_first_long)
            || (index == last && is_last_long)
            || runs.get(index).is_some_and(|run| run.is_long())
    };
    let is_short_word = |index: usize| runs.get(index).is_none_or(|run| run.kind == RunKind::Word && !is_long(index));
    let mut tokens = Tokenization::new();
    for (index, run) in runs.iter().enumerate() {
        let mut push = |text: &str, kind| tokens.push(QueryToken { text: text.to_owned(), kind });
        if is_long(index) {
            if index == last && run.text.chars().nth(1).is_none() {
                push(&[BIGRAM_PREFIX, run.text].concat(), MatchKind::StartsWith);
            } else {
                text::bigrams(run.text, index != last, |bigram| push(bigram, MatchKind::Equals));
            }
        } else if run.text != " " || !index.checked_sub(1).is_none_or(is_short_word) || !is_short_word(index + 1) {
            let is_word = run.kind == RunKind::Word;
            push(run.text, if is_word { kind_of(index == 0, index == last) } else { MatchKind::Equals });
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let token = |token: &QueryToken| match token.kind {
            MatchKind::Contains => format!("*{}*", token.text),
            MatchKind::StartsWith => format!("{}*", token.text),
            MatchKind::EndsWith => format!("*{}", token.text),
            MatchKind::Equals => token.text.clone(),
        };
        let tokenization = |tokenization: &Tokenization| tokenization.iter().map(token).collect::<Vec<_>>().join("|");
        tokenizations(text, Analyzer::Runs).iter().map(tokenization).collect()
    }

    #[test]
    fn a_text_may_be_in_short_and_in_long_runs() {
        assert_eq!(shown("abc"), ["*abc*", " +ab| +bc"]);
        assert_eq!(shown("a"), ["*a*", " +a*"]);
        assert_eq!(
            shown("ab c"),
            ["*ab|c*", "*ab| | +c*", " +ab| +b| |c*", " +ab| +b| | +c*"],
            "beside bigrams a single space is a token"
        );
        assert_eq!(shown("a  b c").first().unwrap(), "*a|  |b|c*");
        assert_eq!(shown("日本"), ["日|本"]);
        assert_eq!(shown("a日"), ["*a|日", " +a|日"]);
        assert_eq!(shown("日 b"), ["日| |b*", "日| | +b*"]);
        assert_eq!(shown(&"x".repeat(200)).len(), 1);
        assert_eq!(shown("").len(), 1);
    }

    #[test]
    fn words_have_one_tokenization() {
        let all = tokenizations("b 日本 c", Analyzer::Words);
        assert_eq!(all.len(), 1);
        assert_eq!(
            all[0].iter().map(|token| token.kind).collect::<Vec<_>>()[1..],
            [MatchKind::Equals, MatchKind::StartsWith]
        );
    }
}
