//! The paths and names of all namespaces in lower case, and which rows of them a query matches.

use crate::query::{Query, lower};
use directory::catalog::{Catalog, Shape, Texts};
use kit::Env;
use memchr::memmem::Finder;
use std::cell::OnceCell;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;
use std::rc::Rc;

/// The texts of a catalog.
pub struct Index {
    shape: Shape,
    paths: Lower,
    names: Lower,
    /// Of every name, ascending; made when it is first asked for.
    names_hashed: OnceCell<Vec<u64>>,
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
            names_hashed: OnceCell::new(),
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
        let hashes = self.names_hashed.get_or_init(|| {
            let mut hashes: Vec<u64> = (0..self.names.rows).map(|row| hash(self.names.get(row))).collect();
            hashes.sort_unstable();
            hashes
        });
        // Mostly nobody has it, and then the names need not be looked through.
        if hashes.binary_search(&hash(&name)).is_err() {
            return false;
        }
        let rows = self.names.rows(&name, |text| text == name);
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
            Query::Whole(whole) => texts.rows(whole, |text| text == whole),
            Query::Words(words) => {
                let mut found: Option<Rows> = None;
                for word in words {
                    let rows = match full {
                        true => self.full_text_has(catalog, texts, word, column),
                        false => texts.rows(word, |_| true),
                    };
                    match &mut found {
                        Some(found) => found.and(&rows),
                        None => found = Some(rows),
                    }
                }
                found.unwrap_or_else(|| Rows::none(texts.rows))
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
        let mut found = texts.rows(word, |_| true);
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
        if !found.is_empty() {
            for (row, parent) in catalog.top_down() {
                if parent.is_some_and(|parent| found.has(parent)) {
                    found.add(row);
                }
            }
        }
        found
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
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
    let mut above = texts.rows(first, |text| text.ends_with(first));
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
}

impl Lower {
    fn of(texts: &Texts, rows: usize) -> Self {
        if texts.all().is_ascii() {
            let ends = (0..rows).map(|row| texts.range(row).end as u32).collect();
            return Lower { rows, text: texts.all().to_ascii_lowercase(), ends };
        }
        let (mut text, mut ends) = (String::with_capacity(texts.all().len()), Vec::with_capacity(rows));
        for row in 0..rows {
            text.extend(texts.get(row).chars().flat_map(char::to_lowercase));
            ends.push(text.len() as u32);
        }
        Lower { rows, text, ends }
    }

    fn range(&self, row: usize) -> Range<usize> {
        let end_of = |row: usize| self.ends.get(row).map_or(0, |end| *end as usize);
        row.checked_sub(1).map_or(0, end_of)..end_of(row)
    }

    fn get(&self, row: usize) -> &str {
        self.text.get(self.range(row)).unwrap_or_default()
    }

    /// The rows that have `word` in their text, if that text is also `good`.
    fn rows(&self, word: &str, good: impl Fn(&str) -> bool) -> Rows {
        let mut found = Rows::none(self.rows);
        if word.is_empty() {
            (0..self.rows).filter(|row| good(self.get(*row))).for_each(|row| found.add(row));
            return found;
        }
        let finder = Finder::new(word);
        let (mut at, mut row) = (0, 0);
        while let Some(hit) = self.text.as_bytes().get(at..).and_then(|rest| finder.find(rest)) {
            let hit = at + hit;
            row = self.row_at(hit, row);
            let range = self.range(row);
            if hit + word.len() <= range.end {
                if good(self.get(row)) {
                    found.add(row);
                }
                at = range.end;
            } else {
                // It lies across two texts.
                at = hit + 1;
            }
        }
        found
    }

    /// The row, from `row` on, that a byte belongs to.
    fn row_at(&self, byte: usize, row: usize) -> usize {
        let rest = self.ends.get(row..).unwrap_or_default();
        // Mostly it is near.
        match rest.iter().take(8).position(|end| *end as usize > byte) {
            Some(near) => row + near,
            None => row + rest.partition_point(|end| *end as usize <= byte),
        }
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
