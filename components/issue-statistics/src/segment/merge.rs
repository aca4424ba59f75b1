//! One segment out of several neighbours, without the documents that were superseded. Everything is
//! read and written in order, a page of each table at a time, so that memory does not grow with the
//! segments; what is kept whole is which blocks of words each gram is in.

use super::grams::{self, Frequent};
use super::ids::{self, IdsWriter};
use super::times::{self, TimesWriter};
use super::words::{Posting, Word, WordSinks, Words, WordsWriter};
use super::{FIELDS, Field, Head, Part, PartPages, Segment, Shelf, places, search, sink};
use crate::set::{self, Bits};
use crate::table::{Cursor, Entry, Index, Writer};
use crate::text;
use kit::store::Fault;
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, VecDeque};

/// A segment that goes into another.
pub struct Input<'a> {
    pub segment: Segment<'a>,
    /// Of its documents, those that are left out.
    dead: RoaringBitmap,
    /// The number that its first document gets.
    first: u32,
    /// If some are left out: the new number of each, or [`NONE`].
    numbers: Vec<u32>,
}

const NONE: u32 = u32::MAX;

/// Writes the segment `id` out of `inputs`, of which so many documents are left together.
pub fn merge(inputs: &[Input], documents: u32, shelf: &dyn Shelf, id: &str) -> Result<Head, Fault> {
    let put = |part| sink(shelf, id, part);
    let mut tables = BTreeMap::new();
    let mut keep = |part: Part, index: Index| tables.insert(part.name().to_owned(), index);

    keep(Part::Terms, merge_terms(inputs, Writer::new(put(Part::Terms)))?);
    let (index, span) = merge_ids(inputs, IdsWriter::new(put(Part::Ids)))?;
    keep(Part::Ids, index);
    for part in [Part::Created, Part::Updated] {
        keep(part, merge_times(inputs, part, TimesWriter::new(put(part), documents))?);
    }
    let table = WordsWriter::new(WordSinks {
        words: put(Part::Words),
        documents: FIELDS.map(|field| put(Part::Documents(field))),
        places: FIELDS.map(|field| put(Part::Places(field))),
    });
    let written = merge_words(inputs, table)?.finish()?;
    keep(Part::Words, written.words);
    for (field, (documents, places)) in FIELDS.into_iter().zip(written.documents.into_iter().zip(written.places)) {
        keep(Part::Documents(field), documents);
        keep(Part::Places(field), places);
    }
    let frequent = merge_frequent(inputs, written.grams.frequent(documents.into()), documents)?;
    keep(Part::Grams, written.grams.finish(&frequent, put(Part::Grams))?);
    Ok(Head { documents, ids: span, tables })
}

impl<'a> Input<'a> {
    /// A segment of which `dead` is left out, and whose other documents are numbered from `first`.
    pub fn new(segment: Segment<'a>, dead: RoaringBitmap, first: u32) -> Self {
        let mut numbers = Vec::new();
        if !dead.is_empty() {
            let mut next = first;
            numbers.extend((0..segment.documents()).map(|document| {
                if dead.contains(document) {
                    return NONE;
                }
                next += 1;
                next - 1
            }));
        }
        Input { segment, dead, first, numbers }
    }

    /// The new number of a document, unless it is left out.
    #[inline]
    pub fn renumbered(&self, document: u32) -> Option<u32> {
        if self.dead.is_empty() {
            return Some(self.first + document);
        }
        self.numbers.get(document as usize).copied().filter(|number| *number != NONE)
    }

    fn cursor(&self, part: Part) -> Result<Cursor<'_, PartPages<'_>>, Fault> {
        self.segment.table(part).from(&[])
    }
}

fn merge_terms(inputs: &[Input], mut table: Writer<super::Sink>) -> Result<Index, Fault> {
    let mut cursors = inputs.iter().map(|input| input.cursor(Part::Terms)).collect::<Result<Vec<_>, _>>()?;
    let mut heads = cursors.iter_mut().map(Cursor::next).collect::<Result<Vec<Option<Entry>>, _>>()?;
    let mut documents = Vec::new();
    let mut value = Vec::new();
    while let Some(key) = heads.iter().flatten().map(|entry| entry.key.clone()).min() {
        documents.clear();
        for ((head, cursor), input) in heads.iter_mut().zip(&mut cursors).zip(inputs) {
            let Some(entry) = head.take_if(|entry| entry.key == key) else { continue };
            set::for_each(&entry.value, |document| {
                documents.extend(input.renumbered(document));
            })
            .ok_or_else(|| input.segment.damaged(Part::Terms))?;
            *head = cursor.next()?;
        }
        if !documents.is_empty() {
            value.clear();
            set::put(&mut value, &documents);
            table.push(&key, &value)?;
        }
    }
    table.finish()
}

/// Entries of one input that were read and not yet taken.
struct Queue<'a, T> {
    input: &'a Input<'a>,
    part: Part,
    cursor: Cursor<'a, PartPages<'a>>,
    entries: VecDeque<T>,
}

impl<'a, T> Queue<'a, T> {
    fn new(input: &'a Input<'a>, part: Part) -> Result<Self, Fault> {
        Ok(Queue { input, part, cursor: input.cursor(part)?, entries: VecDeque::new() })
    }

    /// Reads on until there is an entry; `read` takes those of a block.
    fn fill(&mut self, read: impl Fn(&Input, &Entry, &mut dyn FnMut(T)) -> Option<()>) -> Result<(), Fault> {
        while self.entries.is_empty() {
            let Some(block) = self.cursor.next()? else { break };
            let entries = &mut self.entries;
            let read = read(self.input, &block, &mut |entry| entries.push_back(entry));
            read.ok_or_else(|| self.input.segment.damaged(self.part))?;
        }
        Ok(())
    }
}

/// Calls `each` for the entries of all inputs, in their order. `read` takes those that are left of a
/// block, with new numbers.
fn merge_blocks<T: Ord + Copy>(
    inputs: &[Input],
    part: Part,
    read: impl Fn(&Input, &Entry, &mut dyn FnMut(T)) -> Option<()>,
    mut each: impl FnMut(T) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut queues = inputs.iter().map(|input| Queue::new(input, part)).collect::<Result<Vec<_>, _>>()?;
    queues.iter_mut().try_for_each(|queue| queue.fill(&read))?;
    loop {
        let next = queues.iter_mut().filter(|queue| !queue.entries.is_empty());
        let Some(queue) = next.min_by_key(|queue| queue.entries.front().copied()) else { return Ok(()) };
        if let Some(entry) = queue.entries.pop_front() {
            each(entry)?;
        }
        if queue.entries.is_empty() {
            queue.fill(&read)?;
        }
    }
}

fn merge_ids(inputs: &[Input], mut table: IdsWriter<super::Sink>) -> Result<(Index, (u64, u64)), Fault> {
    let mut span: Option<(u64, u64)> = None;
    merge_blocks(
        inputs,
        Part::Ids,
        |input, block, take| {
            ids::entries(&block.key, &block.value, |id, document| {
                if let Some(document) = input.renumbered(document) {
                    take((id, document));
                }
            })
        },
        |(id, document)| {
            span = Some((span.map_or(id, |(lowest, _)| lowest), id));
            table.push(id, document)
        },
    )?;
    Ok((table.finish()?, span.unwrap_or_default()))
}

fn merge_times(inputs: &[Input], part: Part, mut table: TimesWriter<super::Sink>) -> Result<Index, Fault> {
    merge_blocks(
        inputs,
        part,
        |input, block, take| {
            // After the blocks come sets, which are made anew.
            if times::is_block(block) {
                let (moments, documents) = times::entries(block)?;
                let both = moments.into_iter().zip(documents);
                both.filter_map(|(millis, document)| Some((millis, input.renumbered(document)?))).for_each(take);
            }
            Some(())
        },
        |(millis, document)| table.push(millis, document),
    )?;
    table.finish()
}

fn merge_words<'s>(
    inputs: &[Input],
    mut table: WordsWriter<super::Sink<'s>>,
) -> Result<WordsWriter<super::Sink<'s>>, Fault> {
    let mut all = Vec::new();
    for input in inputs {
        let both = |part: fn(Field) -> Part| -> Result<[Cursor<_>; 2], Fault> {
            Ok([input.cursor(part(Field::Title))?, input.cursor(part(Field::Description))?])
        };
        all.push(Words::new(input.cursor(Part::Words)?, both(Part::Documents)?, both(Part::Places)?));
    }
    let next = |words: &mut Words<_>, input: &Input| words.next(|| input.segment.damaged(Part::Words));
    let mut heads: Vec<Option<Word>> = Vec::new();
    for (words, input) in all.iter_mut().zip(inputs) {
        heads.push(next(words, input)?);
    }
    while let Some(name) = heads.iter().flatten().map(|word| word.name.clone()).min() {
        let mut merged = [Posting::default(), Posting::default()];
        for ((head, words), input) in heads.iter_mut().zip(&mut all).zip(inputs) {
            let Some(word) = head.take_if(|word| word.name == name) else { continue };
            for (to, from) in merged.iter_mut().zip(word.postings) {
                append(to, from, input).ok_or_else(|| input.segment.damaged(Part::Words))?;
            }
            *head = next(words, input)?;
        }
        let [titles, descriptions] = &merged;
        if titles.documents.len() + descriptions.documents.len() > 0 {
            let name = std::str::from_utf8(&name);
            let name = name.map_err(|why| Fault::Other(format!("a word is not UTF-8: {why}")))?;
            table.push(name, [titles, descriptions])?;
        }
    }
    Ok(table)
}

/// Appends what lives of `from`.
fn append(to: &mut Posting, from: Posting, input: &Input) -> Option<()> {
    if input.dead.is_empty() {
        to.documents.extend(from.documents.iter().map(|document| input.first + document));
        to.places.extend_from_slice(&from.places);
        return Some(());
    }
    let mut before: Option<(u32, u32)> = None;
    places::for_each(&from.documents, &from.places, |document, place| {
        if let Some(document) = input.renumbered(document) {
            let earlier = before.filter(|(its, _)| *its == document).map(|(_, place)| place);
            if earlier.is_none() {
                to.documents.push(document);
            }
            places::put(&mut to.places, place, earlier);
            before = Some((document, place));
        }
    })
}

/// The documents of the frequent parts: what the inputs have ready, or find.
fn merge_frequent(inputs: &[Input], frequent: Vec<(Field, text::Gram)>, documents: u32) -> Result<Frequent, Fault> {
    let mut merged = Frequent::new();
    for (field, gram) in frequent {
        let part = text::gram_text(gram);
        let mut bits = Bits::new(documents);
        for input in inputs {
            let stored = input.segment.table(Part::Grams).get(&grams::documents_key(field, &part))?;
            if let Some(stored) = stored.filter(|_| input.dead.is_empty()) {
                bits.unite_shifted(&stored, input.first).ok_or_else(|| input.segment.damaged(Part::Grams))?;
                continue;
            }
            let found = search::documents(&input.segment, &part, &[field])?;
            found.iter().filter_map(|document| input.renumbered(document)).for_each(|document| bits.insert(document));
        }
        bits.put(merged.entry((field, gram)).or_default());
    }
    Ok(merged)
}
