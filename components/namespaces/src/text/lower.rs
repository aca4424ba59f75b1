//! One column of texts in lower case, and which of its rows have a word.

use super::rows::Rows;
use super::trigrams::{Candidates, Trigrams};
use directory::catalog::Texts;
use memchr::memmem::Finder;
use std::cell::OnceCell;
use std::ops::Range;

/// A column in lower case.
pub(super) struct Lower {
    rows: usize,
    text: String,
    /// Where each row's text ends.
    ends: Vec<u32>,
    trigrams: OnceCell<Trigrams>,
}

impl Lower {
    pub(super) fn of(texts: &Texts, rows: usize) -> Self {
        if texts.all().is_ascii() {
            let ends = (0..rows).map(|row| texts.range(row).end as u32).collect();
            return Lower { rows, text: texts.all().to_ascii_lowercase(), ends, trigrams: OnceCell::new() };
        }
        let (mut text, mut ends) = (String::with_capacity(texts.all().len()), Vec::with_capacity(rows));
        for row in 0..rows {
            text.extend(texts.get(row).chars().flat_map(char::to_lowercase));
            ends.push(text.len() as u32);
        }
        Lower { rows, text, ends, trigrams: OnceCell::new() }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    fn range(&self, row: usize) -> Range<usize> {
        let end_of = |row: usize| self.ends.get(row).map_or(0, |end| *end as usize);
        row.checked_sub(1).map_or(0, end_of)..end_of(row)
    }

    pub(super) fn get(&self, row: usize) -> &str {
        self.text.get(self.range(row)).unwrap_or_default()
    }

    /// The rows that have all of these words in their text.
    pub(super) fn having<W: AsRef<str>>(&self, words: &[W]) -> Rows {
        let mut found = Rows::none(self.rows);
        match self.candidates(words) {
            Candidates::Exactly(rows) => rows.iter().for_each(|row| found.add(*row as usize)),
            candidates => {
                let finders: Vec<Finder> = words.iter().map(|word| Finder::new(word.as_ref())).collect();
                let has_all = |text: &str| finders.iter().all(|finder| finder.find(text.as_bytes()).is_some());
                self.choose(candidates, has_all, &mut found);
            }
        }
        found
    }

    /// The rows whose text, which has `word`, is `good`.
    pub(super) fn having_where(&self, word: &str, good: impl Fn(&str) -> bool) -> Rows {
        let mut found = Rows::none(self.rows);
        self.choose(self.candidates(&[word]), good, &mut found);
        found
    }

    fn choose(&self, candidates: Candidates, good: impl Fn(&str) -> bool, found: &mut Rows) {
        let mut look = |row: usize| {
            if good(self.get(row)) {
                found.add(row);
            }
        };
        match candidates {
            Candidates::All => (0..self.rows).for_each(look),
            Candidates::Exactly(rows) => rows.iter().for_each(|row| look(*row as usize)),
            Candidates::Among(rows) => rows.iter().for_each(|row| look(*row as usize)),
        }
    }

    fn candidates<W: AsRef<str>>(&self, words: &[W]) -> Candidates<'_> {
        let trigrams = self.trigrams.get_or_init(|| {
            Trigrams::of(
                &self.text,
                self.ends.iter().scan(0, |start, end| {
                    let range = *start as usize..*end as usize;
                    *start = *end;
                    Some(range)
                }),
            )
        });
        trigrams.candidates(words)
    }
}
