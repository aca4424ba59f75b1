//! One segment out of several neighbours, without the documents that were superseded. Everything is
//! read and written in order, a page of each table at a time, so that memory does not grow with the
//! segments; what is kept whole is which blocks of words each gram is in.

use super::affixes::{self, Side};
use super::dictionary::{Posting, Word, WordSinks, Words, WordsWriter};
use super::id_index::{self, IdsWriter};
use super::lengths::{self, LengthsWriter};
use super::ngrams::{self, Frequent};
use super::substring_search::Fit;
use super::time_index::{self, TimesWriter};
use super::{FIELDS, Field, Head, Part, PartPages, Segment, Shelf, positions, sink, substring_search};
use crate::set::{self, Bits};
use crate::table::{Cursor, Entry, Index, Writer};
use crate::text;
use kit::store::StoreError;
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
pub fn merge(inputs: &[Input], documents: u32, shelf: &dyn Shelf, id: &str) -> Result<Head, StoreError> {
    let put = |part| sink(shelf, id, part);
    let mut tables = BTreeMap::new();
    let mut keep = |part: Part, index: Index| tables.insert(part.name().to_owned(), index);

    keep(Part::Terms, merge_terms(inputs, Writer::new(put(Part::Terms)))?);
    let (index, span) = merge_ids(inputs, IdsWriter::new(put(Part::Ids)))?;
    keep(Part::Ids, index);
    for part in [Part::Created, Part::Updated] {
        keep(part, merge_times(inputs, part, TimesWriter::new(put(part), documents))?);
    }
    let mut moves = [Vec::new(), Vec::new()];
    let mut ends = [0; 2];
    for ((field, moves), end) in FIELDS.into_iter().zip(&mut moves).zip(&mut ends) {
        let (index, next) = merge_lengths(inputs, field, LengthsWriter::new(put(Part::Lengths(field))), moves)?;
        keep(Part::Lengths(field), index);
        *end = next;
    }
    let table = WordsWriter::new(WordSinks {
        words: put(Part::Words),
        documents: FIELDS.map(|field| put(Part::Documents(field))),
        places: FIELDS.map(|field| put(Part::Places(field))),
    });
    let written = merge_words(inputs, &moves, table)?.finish()?;
    keep(Part::Words, written.words);
    for (field, (documents, places)) in FIELDS.into_iter().zip(written.documents.into_iter().zip(written.places)) {
        keep(Part::Documents(field), documents);
        keep(Part::Places(field), places);
    }
    for ((field, moves), end) in FIELDS.into_iter().zip(&moves).zip(ends) {
        let places = |side, edge: &str| merge_edge(inputs, moves, end, field, (side, edge));
        let index = written.edges.write(field, put(Part::Edges(field)), places)?;
        keep(Part::Edges(field), index);
    }
    let frequent = merge_frequent(inputs, written.grams.frequent(documents.into()), documents)?;
    keep(Part::Grams, written.grams.finish(&frequent, put(Part::Grams))?);
    let places = ends.into_iter().map(u64::from).sum();
    Ok(Head { documents, ids: span, places, tables })
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

    fn cursor(&self, part: Part) -> Result<Cursor<'_, PartPages<'_>>, StoreError> {
        self.segment.table(part).from(&[])
    }
}

fn merge_terms(inputs: &[Input], mut table: Writer<super::Sink>) -> Result<Index, StoreError> {
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
    fn new(input: &'a Input<'a>, part: Part) -> Result<Self, StoreError> {
        Ok(Queue { input, part, cursor: input.cursor(part)?, entries: VecDeque::new() })
    }

    /// Reads on until there is an entry; `read` takes those of a block.
    fn fill(&mut self, read: impl Fn(&Input, &Entry, &mut dyn FnMut(T)) -> Option<()>) -> Result<(), StoreError> {
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
    mut each: impl FnMut(T) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
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

fn merge_ids(inputs: &[Input], mut table: IdsWriter<super::Sink>) -> Result<(Index, (u64, u64)), StoreError> {
    let mut span: Option<(u64, u64)> = None;
    merge_blocks(
        inputs,
        Part::Ids,
        |input, block, take| {
            id_index::entries(&block.key, &block.value, |id, document| {
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

fn merge_times(inputs: &[Input], part: Part, mut table: TimesWriter<super::Sink>) -> Result<Index, StoreError> {
    merge_blocks(
        inputs,
        part,
        |input, block, take| {
            // After the blocks come sets, which are made anew.
            if time_index::is_block(block) {
                let (moments, documents) = time_index::entries(block)?;
                let both = moments.into_iter().zip(documents);
                both.filter_map(|(millis, document)| Some((millis, input.renumbered(document)?))).for_each(take);
            }
            Some(())
        },
        |(millis, document)| table.push(millis, document),
    )?;
    table.finish()
}

/// Where the places of one input's texts go.
enum Moves {
    /// All of them so much higher.
    By(u32),
    /// Those of each document from where they begin, and to where: some documents are left out.
    Each { begins: Vec<u32>, to: Vec<u32> },
}

/// How long the texts are; with it, where their places go, and where they end.
fn merge_lengths(
    inputs: &[Input],
    field: Field,
    mut table: LengthsWriter<super::Sink>,
    moves: &mut Vec<Moves>,
) -> Result<(Index, u32), StoreError> {
    let mut next = 0_u32;
    for input in inputs {
        let begins = lengths::begins(&input.segment, field)?;
        let mut to = Vec::new();
        let first = next;
        for (document, range) in (0..).zip(begins.windows(2)) {
            let &[begin, end] = range else { continue };
            if !input.dead.is_empty() {
                to.push(next);
            }
            if input.renumbered(document).is_some() {
                table.push(end - begin - 1)?;
                let after = next.checked_add(end - begin);
                next = after.ok_or_else(|| StoreError::Other("too many places for one segment".into()))?;
            }
        }
        moves.push(if input.dead.is_empty() { Moves::By(first) } else { Moves::Each { begins, to } });
    }
    Ok((table.finish()?, next))
}

fn merge_words<'s>(
    inputs: &[Input],
    moves: &[Vec<Moves>; 2],
    mut table: WordsWriter<super::Sink<'s>>,
) -> Result<WordsWriter<super::Sink<'s>>, StoreError> {
    let mut all = Vec::new();
    for input in inputs {
        let both = |part: fn(Field) -> Part| -> Result<[Cursor<_>; 2], StoreError> {
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
        let [in_title, in_description] = moves;
        let moves = in_title.iter().zip(in_description);
        for (((head, words), input), moves) in heads.iter_mut().zip(&mut all).zip(inputs).zip(moves) {
            let Some(word) = head.take_if(|word| word.name == name) else { continue };
            for ((to, from), moves) in merged.iter_mut().zip(word.postings).zip([moves.0, moves.1]) {
                append(to, &from, input, moves).ok_or_else(|| input.segment.damaged(Part::Words))?;
            }
            *head = next(words, input)?;
        }
        let [titles, descriptions] = &merged;
        if titles.documents.len() + descriptions.documents.len() > 0 {
            let name = std::str::from_utf8(&name);
            let name = name.map_err(|why| StoreError::Other(format!("a word is not UTF-8: {why}")))?;
            table.push(name, [titles, descriptions])?;
        }
    }
    Ok(table)
}

/// Appends what lives of `from`; `None` if it is damaged.
fn append(to: &mut Posting, from: &Posting, input: &Input, moves: &Moves) -> Option<()> {
    if from.documents.is_empty() {
        return Some(());
    }
    match moves {
        Moves::By(by) => {
            to.documents.extend(from.documents.iter().map(|document| input.first + document));
            to.count += positions::put_shifted(&mut to.places, &from.places, *by, &mut to.last)?;
            Some(())
        }
        Moves::Each { begins, to: new } => {
            let mut documents = from.documents.iter().copied().peekable();
            let begin_of = |document: u32| begins.get(document as usize).copied().unwrap_or(u32::MAX);
            positions::for_each(&from.places, |place| {
                while documents.peek().is_some_and(|document| begin_of(document + 1) <= place) {
                    documents.next();
                }
                let Some(document) = documents.peek().copied() else { return };
                let moved = place.checked_sub(begin_of(document)).zip(new.get(document as usize));
                if let (Some(number), Some((offset, begin))) = (input.renumbered(document), moved) {
                    to.push(number, begin + offset);
                }
            })
        }
    }
}

/// The places of a frequent edge: what the inputs have ready, or find.
fn merge_edge(
    inputs: &[Input],
    moves: &[Moves],
    end: u32,
    field: Field,
    (side, edge): (Side, &str),
) -> Result<Bits, StoreError> {
    let fit = if side == Side::Start { Fit::Starts } else { Fit::Ends };
    let unite = |input: &Input, found: &mut Bits, by: u32| -> Result<(), StoreError> {
        if !affixes::unite(&input.segment, field, side, edge, found, by)? {
            let mut words = Vec::new();
            substring_search::words(&input.segment, edge, fit, |name, reference| {
                words.push((name, reference));
                Ok(())
            })?;
            affixes::unite_words(&input.segment, field, &words, found, by)?;
        }
        Ok(())
    };
    let mut all = Bits::new(end);
    for (input, moves) in inputs.iter().zip(moves) {
        match moves {
            Moves::By(by) => unite(input, &mut all, *by)?,
            Moves::Each { begins, to } => {
                let mut found = Bits::new(begins.last().copied().unwrap_or_default());
                unite(input, &mut found, 0)?;
                let mut document = 0;
                found.for_each(|place| {
                    let rest = begins.get(document + 1..).unwrap_or_default();
                    document += rest.iter().take_while(|begin| **begin <= place).count();
                    let moved = begins.get(document).zip(to.get(document)).map(|(begin, to)| to + (place - begin));
                    if let Some(place) = moved.filter(|_| input.renumbered(document as u32).is_some()) {
                        all.insert(place);
                    }
                });
            }
        }
    }
    Ok(all)
}

/// The documents of the frequent parts: what the inputs have ready, or find.
fn merge_frequent(
    inputs: &[Input],
    frequent: Vec<(Field, text::Gram)>,
    documents: u32,
) -> Result<Frequent, StoreError> {
    let mut merged = Frequent::new();
    for (field, gram) in frequent {
        let part = text::gram_text(gram);
        let mut bits = Bits::new(documents);
        for input in inputs {
            let stored = input.segment.table(Part::Grams).get(&ngrams::documents_key(field, &part))?;
            if let Some(stored) = stored.filter(|_| input.dead.is_empty()) {
                bits.unite_shifted(&stored, input.first).ok_or_else(|| input.segment.damaged(Part::Grams))?;
                continue;
            }
            let found = substring_search::documents(&input.segment, &part, &[field])?;
            found.iter().filter_map(|document| input.renumbered(document)).for_each(|document| bits.insert(document));
        }
        bits.put(merged.entry((field, gram)).or_default());
    }
    Ok(merged)
}
