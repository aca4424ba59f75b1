//! The text index: the paths and names of all namespaces in lower case, each with a trigram index. An instance builds
//! it at its first search. This takes some tens of milliseconds for 200,000 namespaces.
//!
//! The index saves a pass with `memmem` over 200,000 paths and names. For a common word this pass takes 1 to 3.5 ms. A
//! whole request with the index takes 0.2 to 0.4 ms.

mod lowercase_column;

use crate::query::{Query, lower};
use crate::text::lowercase_column::Rows;
use directory::catalog::{Catalog, TreeVersion};
use kit::Env;
use lowercase_column::LowercaseColumn;
use std::rc::Rc;

/// The text index of a catalog.
pub struct TextIndex {
    tree_version: TreeVersion,
    paths: LowercaseColumn,
    names: LowercaseColumn,
}

/// A column. Searches of full texts also use the values of the ancestors.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Paths,
    Names,
}

impl TextIndex {
    /// The index of this catalog, from the cache of the instance if the version agrees.
    pub fn of(env: &Env, catalog: &Catalog) -> Rc<TextIndex> {
        let tree_version = catalog.tree_version();
        let columns = catalog.columns();
        let make = || TextIndex {
            tree_version: tree_version.clone(),
            paths: LowercaseColumn::of(columns.paths, columns.rows),
            names: LowercaseColumn::of(columns.names, columns.rows),
        };
        env.instance_cache.get_current_or_insert_with(|index: &TextIndex| index.tree_version == tree_version, make)
    }

    /// The rows whose path or name matches the query. With `full`, full paths and full names are compared.
    pub fn find(&self, catalog: &Catalog, query: &Query, full: bool) -> Rows {
        let mut found = self.search_column(catalog, query, full, Column::Paths);
        found.union(&self.search_column(catalog, query, full, Column::Names));
        found
    }

    /// Whether one row matches the query.
    pub fn matches(&self, catalog: &Catalog, query: &Query, full: bool, row: usize) -> bool {
        if !full {
            return query.matches(self.paths.get(row)) || query.matches(self.names.get(row));
        }
        let Some(namespace) = catalog.namespace_in_row(row) else { return false };
        query.matches(&lower(&namespace.full_path())) || query.matches(&lower(&namespace.full_name()))
    }

    /// Whether a child of `parent_id` has this name, in any letter case.
    pub fn is_named(&self, catalog: &Catalog, parent_id: Option<u64>, name: &str) -> bool {
        let name = lower(name);
        let rows = self.names.rows_where(&name, |text| text == name);
        let mut siblings = rows.iter().filter_map(|row| catalog.namespace_in_row(row));
        siblings.any(|sibling| sibling.parent().map(|parent| parent.id()) == parent_id)
    }

    fn search_column(&self, catalog: &Catalog, query: &Query, full: bool, column: Column) -> Rows {
        let texts = match column {
            Column::Paths => &self.paths,
            Column::Names => &self.names,
        };
        match query {
            Query::Whole(whole) if full => self.full_text_equals(catalog, texts, whole, column),
            Query::Whole(whole) => texts.rows_where(whole, |text| text == whole),
            Query::Words(words) if !full => texts.rows_with(words),
            Query::Words(words) => {
                let mut words = words.iter().map(|word| self.full_text_contains(catalog, texts, word, column));
                let mut found = words.next().unwrap_or_else(|| Rows::empty(texts.rows()));
                words.for_each(|rows| found.intersect(&rows));
                found
            }
        }
    }

    fn full_text_equals(&self, catalog: &Catalog, texts: &LowercaseColumn, whole: &str, column: Column) -> Rows {
        let mut found = Rows::empty(texts.rows());
        let ends = (0..texts.rows()).filter(|row| whole.ends_with(texts.get(*row)));
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

    /// The rows whose full text contains `word`. Either the own text or the text of an ancestor contains it, or the
    /// word spans a separator between consecutive texts.
    fn full_text_contains(&self, catalog: &Catalog, texts: &LowercaseColumn, word: &str, column: Column) -> Rows {
        let mut found = texts.rows_with(&[word]);
        match column {
            Column::Paths if word.contains('/') => add_spanning(catalog, texts, word, &mut found),
            // Only a quoted word contains spaces. It may begin or end inside a separator.
            Column::Names if word.contains('/') && word.contains(' ') => {
                let rows = (0..texts.rows()).filter_map(|row| catalog.namespace_in_row(row));
                let has = |name: &str| lower(name).contains(word);
                rows.filter(|row| row.parent().is_some() && has(&row.full_name())).for_each(|row| found.add(row.row()));
            }
            Column::Paths | Column::Names => {}
        }
        let mut all = found.clone();
        for namespace in found.iter().filter_map(|row| catalog.namespace_in_row(row)) {
            // Descendants of a found parent are added with this parent.
            if namespace.parent().is_none_or(|parent| !found.contains(parent.row())) {
                namespace.descendants().for_each(|below| all.add(below.row()));
            }
        }
        all
    }
}

/// Adds the rows in whose full path a word with slashes ends. The path of an ancestor ends with the first segment of
/// the word. The middle segments are the paths in between. The path of the row begins with the last segment.
fn add_spanning(catalog: &Catalog, texts: &LowercaseColumn, word: &str, found: &mut Rows) {
    let mut segments = word.split('/');
    let (Some(first), Some(last)) = (segments.next(), segments.next_back()) else { return };
    let mut above = texts.rows_where(first, |text| text.ends_with(first));
    for segment in segments {
        let mut next = Rows::empty(texts.rows());
        add_children(catalog, &above, |row| texts.get(row) == segment, &mut next);
        above = next;
    }
    add_children(catalog, &above, |row| texts.get(row).starts_with(last), found);
}

/// Adds the children of `parents` that satisfy `is_match`.
fn add_children(catalog: &Catalog, parents: &Rows, is_match: impl Fn(usize) -> bool, found: &mut Rows) {
    let each = || parents.iter().filter_map(|row| catalog.namespace_in_row(row));
    // Iterates over the descendants of each parent, or over the whole tree if the tree has fewer rows.
    if each().map(|parent| parent.descendants().len()).sum::<usize>() < catalog.namespaces().len() {
        let children = each().flat_map(|parent| parent.children());
        children.map(|child| child.row()).filter(|row| is_match(*row)).for_each(|row| found.add(row));
        return;
    }
    let all = catalog.top_down().filter(|(_, parent)| parent.is_some_and(|parent| parents.contains(parent)));
    all.map(|(row, _)| row).filter(|row| is_match(*row)).for_each(|row| found.add(row));
}
