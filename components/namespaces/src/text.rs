//! The paths and names of all namespaces in lower case, an index of what is in them, and which rows
//! of them a query matches. An instance makes both when a search first needs them, in some tens of
//! milliseconds for 200,000 namespaces.

use crate::query::{Query, lower};
use directory::catalog::{Catalog, Shape, Texts};
use kit::Env;
use memchr::memmem::Finder;
use std::cell::OnceCell;
use std::ops::Range;
use std::rc::Rc;

/// The texts of a catalog.
pub struct Index {
    shape: Shape,
    paths: Lower,
    names: Lower,
}

/// Which column, for a full text also the columns of what is above.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Paths,
    Names,
}

impl Index {
    /// The texts of this catalog, as they were made for an earlier request if they are the same.
    pub fn of(env: &Env, catalog: &Catalog) -> Rc<Index> {
        let shape = catalog.shape();
        if let Some(index) = env.memory.get::<Index>().filter(|index| index.shape == shape) {
            return index;
        }
        let columns = catalog.columns();
        let index = Rc::new(Index {
            shape,
            paths: Lower::of(columns.paths, columns.rows),
            names: Lower::of(columns.names, columns.rows),
        });
        env.memory.put(index.clone());
        index
    }

    /// The rows whose path or name, or full path or full name, is what is asked for.
    pub fn find(&self, catalog: &Catalog, query: &Query, full: bool) -> Rows {
        let mut found = self.in_column(catalog, query, full, Column::Paths);
        found.or(&self.in_column(catalog, query, full, Column::Names));
        found
    }

    /// Whether one row is what is asked for.
    pub fn matches(&self, catalog: &Catalog, query: &Query, full: bool, row: usize) -> bool {
        if !full {
            return query.matches(self.paths.get(row)) || query.matches(self.names.get(row));
        }
        let Some(namespace) = catalog.namespace_in_row(row) else { return false };
        query.matches(&lower(&namespace.full_path())) || query.matches(&lower(&namespace.full_name()))
    }

    /// Whether a namespace right below `parent_id` has this name, in any letter case.
    pub fn is_named(&self, catalog: &Catalog, parent_id: Option<u64>, name: &str) -> bool {
        let name = lower(name);
        let rows = self.names.rows_where(&name, |text| text == name);
        let mut siblings = rows.iter().filter_map(|row| catalog.namespace_in_row(row));
        siblings.any(|sibling| sibling.parent().map(|parent| parent.id()) == parent_id)
    }

    fn in_column(&self, catalog: &Catalog, query: &Query, full: bool, column: Column) -> Rows {
        let texts = match column {
            Column::Paths => &self.paths,
            Column::Names => &self.names,
        };
        match query {
            Query::Whole(whole) if full => self.full_text_is(catalog, texts, whole, column),
            Query::Whole(whole) => texts.rows_where(whole, |text| text == whole),
            Query::Words(words) if !full => texts.rows(words),
            Query::Words(words) => {
                let mut words = words.iter().map(|word| self.full_text_has(catalog, texts, word, column));
                let mut found = words.next().unwrap_or_else(|| Rows::none(texts.rows));
                words.for_each(|rows| found.and(&rows));
                found
            }
        }
    }

    fn full_text_is(&self, catalog: &Catalog, texts: &Lower, whole: &str, column: Column) -> Rows {
        let mut found = Rows::none(texts.rows);
        let ends = (0..texts.rows).filter(|row| whole.ends_with(texts.get(*row)));
        for row in ends {
            let namespace = catalog.namespace_in_row(row);
            let full = namespace.map(|namespace| match column {
                Column::Paths => namespace.full_path(),
                Column::Names => namespace.full_name(),
            });
            if full.is_some_and(|full| lower(&full) == whole) {
                found.add(row);
            }
        }
        found
    }

    /// A full text has a word if the text itself or one above it has, or if the word lies across
    /// the separators of some that follow each other.
    fn full_text_has(&self, catalog: &Catalog, texts: &Lower, word: &str, column: Column) -> Rows {
        let mut found = texts.rows(&[word]);
        match column {
            Column::Paths if word.contains('/') => across(catalog, texts, word, &mut found),
            // Only a quoted word has spaces, and it may begin or end within a separator.
            Column::Names if word.contains('/') && word.contains(' ') => {
                let rows = (0..texts.rows).filter_map(|row| catalog.namespace_in_row(row));
                let has = |name: &str| lower(name).contains(word);
                rows.filter(|row| row.parent().is_some() && has(&row.full_name())).for_each(|row| found.add(row.row()));
            }
            Column::Paths | Column::Names => {}
        }
        let mut all = found.clone();
        for namespace in found.iter().filter_map(|row| catalog.namespace_in_row(row)) {
            // What is below one that was found is added with that one.
            if namespace.parent().is_none_or(|parent| !found.has(parent.row())) {
                namespace.descendants().for_each(|below| all.add(below.row()));
            }
        }
        all
    }
}

/// Adds the rows at whose path a word with slashes ends: the first piece ends the path of somebody
/// above, the pieces between are the paths between, and the last one begins this path.
fn across(catalog: &Catalog, texts: &Lower, word: &str, found: &mut Rows) {
    let mut pieces = word.split('/');
    let (Some(first), Some(last)) = (pieces.next(), pieces.next_back()) else { return };
    let below = |above: &Rows, good: &dyn Fn(&str) -> bool, found: &mut Rows| {
        for (row, parent) in catalog.top_down() {
            if parent.is_some_and(|parent| above.has(parent)) && good(texts.get(row)) {
                found.add(row);
            }
        }
    };
    let mut above = texts.rows_where(first, |text| text.ends_with(first));
    for piece in pieces {
        let mut next = Rows::none(texts.rows);
        below(&above, &|text| text == piece, &mut next);
        above = next;
    }
    if !above.is_empty() {
        below(&above, &|text| text.starts_with(last), found);
    }
}

/// A column in lower case.
struct Lower {
    rows: usize,
    text: String,
    /// Where each row's text ends.
    ends: Vec<u32>,
    trigrams: OnceCell<Trigrams>,
}

impl Lower {
    fn of(texts: &Texts, rows: usize) -> Self {
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

    fn range(&self, row: usize) -> Range<usize> {
        let end_of = |row: usize| self.ends.get(row).map_or(0, |end| *end as usize);
        row.checked_sub(1).map_or(0, end_of)..end_of(row)
    }

    fn get(&self, row: usize) -> &str {
        self.text.get(self.range(row)).unwrap_or_default()
    }

    /// The rows that have all of these words in their text.
    fn rows<W: AsRef<str>>(&self, words: &[W]) -> Rows {
        let finders: Vec<Finder> = words.iter().map(|word| Finder::new(word.as_ref())).collect();
        let candidates = |word: &&W| self.candidates(word.as_ref()).map_or(self.rows, <[u32]>::len);
        let rarest = words.iter().min_by_key(candidates).map_or("", |word| word.as_ref());
        self.rows_where(rarest, |text| finders.iter().all(|finder| finder.find(text.as_bytes()).is_some()))
    }

    /// The rows that may have `word` in their text; `None` if all may.
    fn candidates(&self, word: &str) -> Option<&[u32]> {
        self.trigrams.get_or_init(|| Trigrams::of(self)).candidates(word)
    }

    /// The rows whose text, which has `word`, is `good`.
    fn rows_where(&self, word: &str, good: impl Fn(&str) -> bool) -> Rows {
        let mut found = Rows::none(self.rows);
        match self.candidates(word) {
            Some(rows) => {
                let good = rows.iter().map(|row| *row as usize).filter(|row| good(self.get(*row)));
                good.for_each(|row| found.add(row));
            }
            None => (0..self.rows).filter(|row| good(self.get(*row))).for_each(|row| found.add(row)),
        }
        found
    }
}

/// Of every three bytes in a row, the rows that have them: which of them have a word is then to be
/// looked at in few. Different ones may share a place.
struct Trigrams {
    /// Of each place, and of the one after the last: its first row in `rows`.
    starts: Vec<u32>,
    rows: Vec<u32>,
}

/// Of each byte the 6 bits that tell letters, digits and punctuation of a path apart.
fn place(trigram: [u8; 3]) -> usize {
    trigram.into_iter().fold(0, |place, byte| place << 6 | usize::from(byte & 0x3f))
}

const PLACES: usize = 1 << 18;

impl Trigrams {
    fn of(column: &Lower) -> Self {
        let places = |row: usize| {
            let text = column.get(row).as_bytes();
            text.array_windows::<3>().map(|trigram| place(*trigram))
        };
        let mut starts = vec![0_u32; PLACES + 1];
        for place in (0..column.rows).flat_map(places) {
            if let Some(next) = starts.get_mut(place + 1) {
                *next += 1;
            }
        }
        let mut total = 0;
        for start in &mut starts {
            total += *start;
            *start = total;
        }
        let mut next = starts.clone();
        let mut rows = vec![0; total as usize];
        for row in 0..column.rows {
            for place in places(row) {
                let Some(at) = next.get_mut(place) else { continue };
                if let Some(cell) = rows.get_mut(*at as usize) {
                    *cell = row as u32;
                }
                *at += 1;
            }
        }
        Trigrams { starts, rows }
    }

    /// The rows of the word's rarest trigram, some perhaps more than once; `None` if it has none.
    fn candidates(&self, word: &str) -> Option<&[u32]> {
        let rows_of = |trigram: &[u8; 3]| {
            let start = |place: usize| self.starts.get(place).map_or(0, |start| *start as usize);
            let place = place(*trigram);
            self.rows.get(start(place)..start(place + 1)).unwrap_or_default()
        };
        word.as_bytes().array_windows::<3>().map(rows_of).min_by_key(|rows| rows.len())
    }
}

/// A set of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows(Vec<u64>);

impl Rows {
    fn none(rows: usize) -> Self {
        Rows(vec![0; rows.div_ceil(64)])
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    fn add(&mut self, row: usize) {
        if let Some(word) = self.0.get_mut(row / 64) {
            *word |= 1 << (row % 64);
        }
    }

    fn has(&self, row: usize) -> bool {
        self.0.get(row / 64).is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    fn and(&mut self, other: &Rows) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= other);
    }

    fn or(&mut self, other: &Rows) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    /// The rows, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.checked_sub(1)?;
                Some(at * 64 + bit as usize)
            })
        })
    }
}
