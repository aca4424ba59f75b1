//! A column of lower-case texts, searched by words.

use super::rows::Rows;
use super::trigrams::{Candidates, Trigrams};
use directory::catalog::Texts;
use memchr::memmem::Finder;
use std::cell::OnceCell;
use std::ops::Range;

/// A column of lower-case texts.
pub(super) struct LowercaseColumn {
    rows: usize,
    text: String,
    /// The end of each row's text, in bytes.
    ends: Vec<u32>,
    trigrams: OnceCell<Trigrams>,
}

impl LowercaseColumn {
    pub(super) fn of(texts: &Texts, rows: usize) -> Self {
        if texts.all().is_ascii() {
            let ends = (0..rows).map(|row| texts.range(row).end as u32).collect();
            return LowercaseColumn { rows, text: texts.all().to_ascii_lowercase(), ends, trigrams: OnceCell::new() };
        }
        let (mut text, mut ends) = (String::with_capacity(texts.all().len()), Vec::with_capacity(rows));
        for row in 0..rows {
            text.extend(texts.get(row).chars().flat_map(char::to_lowercase));
            ends.push(text.len() as u32);
        }
        LowercaseColumn { rows, text, ends, trigrams: OnceCell::new() }
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

    /// The rows whose text contains all of these words.
    pub(super) fn rows_with<W: AsRef<str>>(&self, words: &[W]) -> Rows {
        let mut found = Rows::empty(self.rows);
        match self.candidates(words) {
            Candidates::Exactly(rows) => rows.iter().for_each(|row| found.add(*row as usize)),
            candidates => {
                let finders: Vec<Finder> = words.iter().map(|word| Finder::new(word.as_ref())).collect();
                let contains_all = |text: &str| finders.iter().all(|finder| finder.find(text.as_bytes()).is_some());
                self.filter(candidates, contains_all, &mut found);
            }
        }
        found
    }

    /// The rows whose text contains `word` and satisfies `is_match`.
    pub(super) fn rows_where(&self, word: &str, is_match: impl Fn(&str) -> bool) -> Rows {
        let mut found = Rows::empty(self.rows);
        self.filter(self.candidates(&[word]), is_match, &mut found);
        found
    }

    fn filter(&self, candidates: Candidates, is_match: impl Fn(&str) -> bool, found: &mut Rows) {
        let mut check = |row: usize| {
            if is_match(self.get(row)) {
                found.add(row);
            }
        };
        match candidates {
            Candidates::All => (0..self.rows).for_each(check),
            Candidates::Exactly(rows) => rows.iter().for_each(|row| check(*row as usize)),
            Candidates::Among(rows) => rows.iter().for_each(|row| check(*row as usize)),
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
