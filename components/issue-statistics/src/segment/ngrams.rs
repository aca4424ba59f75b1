//! Parts of words, of one to three characters: which blocks of words have each, and for those that
//! very many words have, the documents themselves, so that a question for `e` unites nothing.

use super::dictionary::parts;
use super::{FIELDS, Field};
use crate::hash::Map;
use crate::set;
use crate::table::{Index, Writer};
use crate::text::{self, Gram};
use crate::varint;
use kit::store::StoreError;
use std::collections::BTreeMap;

/// A part is frequent if uniting the documents of all words with it would take more than so many
/// steps for each document of the segment, and so many at least.
const FREQUENT: u64 = 4;
const FREQUENT_AT_LEAST: u64 = 4096;

/// The documents of frequent parts, stored, by text and part.
pub type Frequent = BTreeMap<(Field, Gram), Vec<u8>>;

#[derive(Default)]
pub struct GramsWriter {
    blocks: Map<Gram, Blocks>,
}

/// Numbers of blocks.
#[derive(Default)]
struct Blocks {
    /// Each as the difference to the one before.
    list: Vec<u8>,
    /// In how many documents the words are, added up, by title and by description.
    weights: [u64; 2],
    /// One more than the last number; 0 if there is none.
    next: u32,
}

impl GramsWriter {
    /// Words come in the order of their blocks.
    pub fn word(&mut self, word: &str, block: u32, documents: [u32; 2]) {
        parts(word, |gram| {
            let blocks = self.blocks.entry(gram).or_default();
            blocks.weights.iter_mut().zip(documents).for_each(|(weight, more)| *weight += u64::from(more));
            if blocks.next <= block {
                varint::put(&mut blocks.list, u64::from(block - blocks.next.saturating_sub(1)));
                blocks.next = block + 1;
            }
        });
    }

    /// The frequent parts of a segment with this many documents.
    pub fn frequent(&self, documents: u64) -> Vec<(Field, Gram)> {
        let most = (FREQUENT * documents).max(FREQUENT_AT_LEAST);
        let of = |(gram, blocks): (&Gram, &Blocks)| {
            let weights = FIELDS.into_iter().zip(blocks.weights);
            weights.filter(|(_, weight)| *weight > most).map(|(field, _)| (field, *gram)).collect::<Vec<_>>()
        };
        self.blocks.iter().flat_map(of).collect()
    }

    pub fn finish(
        self,
        frequent: &Frequent,
        sink: impl FnMut(usize, &[u8]) -> Result<(), StoreError>,
    ) -> Result<Index, StoreError> {
        let mut table = Writer::new(sink);
        let mut grams: Vec<(String, Blocks)> =
            self.blocks.into_iter().map(|(gram, blocks)| (text::gram_text(gram), blocks)).collect();
        grams.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let mut key = Vec::new();
        let mut value = Vec::new();
        for (gram, blocks) in &grams {
            key.clear();
            key.push(b'b');
            key.extend_from_slice(gram.as_bytes());
            value.clear();
            let mut number = 0;
            let mut numbers = Vec::new();
            let mut rest = varint::Reader(&blocks.list);
            while let Some(difference) = rest.small() {
                number += difference;
                numbers.push(number);
            }
            set::put(&mut value, &numbers);
            table.push(&key, &value)?;
        }
        let mut frequent: Vec<(Vec<u8>, &Vec<u8>)> = frequent
            .iter()
            .map(|((field, gram), documents)| (documents_key(*field, &text::gram_text(*gram)), documents))
            .collect();
        // Their kinds come after that of the blocks.
        frequent.sort_unstable();
        frequent.into_iter().try_for_each(|(key, documents)| table.push(&key, documents))?;
        table.finish()
    }
}

pub fn blocks_key(gram: &str) -> Vec<u8> {
    [b"b", gram.as_bytes()].concat()
}

pub fn documents_key(field: Field, gram: &str) -> Vec<u8> {
    let kind = match field {
        Field::Title => b"t",
        Field::Description => b"d",
    };
    [kind, gram.as_bytes()].concat()
}
