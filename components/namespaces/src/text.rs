//! The paths and names of all namespaces in lower case, an index of what is in them, and which rows
//! of them a query matches. An instance makes both when a search first needs them, in some tens of
//! milliseconds for 200,000 namespaces.

mod lower;
mod rows;
mod trigrams;

use crate::query::{Query, lower};
use directory::catalog::{Catalog, TreeVersion};
use kit::Env;
use lower::Lower;
use rows::Rows;
use std::rc::Rc;

/// The texts of a catalog.
pub struct Index {
    tree_version: TreeVersion,
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
        let tree_version = catalog.tree_version();
        if let Some(index) = env.instance_cache.get::<Index>().filter(|index| index.tree_version == tree_version) {
            return index;
        }
        let columns = catalog.columns();
        let index = Rc::new(Index {
            tree_version,
            paths: Lower::of(columns.paths, columns.rows),
            names: Lower::of(columns.names, columns.rows),
        });
        env.instance_cache.put(index.clone());
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
        let rows = self.names.having_where(&name, |text| text == name);
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
            Query::Whole(whole) => texts.having_where(whole, |text| text == whole),
            Query::Words(words) if !full => texts.having(words),
            Query::Words(words) => {
                let mut words = words.iter().map(|word| self.full_text_has(catalog, texts, word, column));
                let mut found = words.next().unwrap_or_else(|| Rows::none(texts.rows()));
                words.for_each(|rows| found.and(&rows));
                found
            }
        }
    }

    fn full_text_is(&self, catalog: &Catalog, texts: &Lower, whole: &str, column: Column) -> Rows {
        let mut found = Rows::none(texts.rows());
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

    /// A full text has a word if the text itself or one above it has, or if the word lies across
    /// the separators of some that follow each other.
    fn full_text_has(&self, catalog: &Catalog, texts: &Lower, word: &str, column: Column) -> Rows {
        let mut found = texts.having(&[word]);
        match column {
            Column::Paths if word.contains('/') => across(catalog, texts, word, &mut found),
            // Only a quoted word has spaces, and it may begin or end within a separator.
            Column::Names if word.contains('/') && word.contains(' ') => {
                let rows = (0..texts.rows()).filter_map(|row| catalog.namespace_in_row(row));
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
    let mut above = texts.having_where(first, |text| text.ends_with(first));
    for piece in pieces {
        let mut next = Rows::none(texts.rows());
        add_children(catalog, &above, |row| texts.get(row) == piece, &mut next);
        above = next;
    }
    add_children(catalog, &above, |row| texts.get(row).starts_with(last), found);
}

/// Adds the rows right below those `above` that are `good`.
fn add_children(catalog: &Catalog, above: &Rows, good: impl Fn(usize) -> bool, found: &mut Rows) {
    let parents = || above.iter().filter_map(|row| catalog.namespace_in_row(row));
    // What is below is walked through once for each parent, everything once for all.
    if parents().map(|parent| parent.descendants().len()).sum::<usize>() < catalog.namespaces().len() {
        let children = parents().flat_map(|parent| parent.children());
        children.map(|child| child.row()).filter(|row| good(*row)).for_each(|row| found.add(row));
        return;
    }
    let all = catalog.top_down().filter(|(_, parent)| parent.is_some_and(|parent| above.has(parent)));
    all.map(|(row, _)| row).filter(|row| good(*row)).for_each(|row| found.add(row));
}
