//! Lists of namespaces.

use crate::query::Query;
use crate::text::TextIndex;
use directory::access::Role;
use directory::catalog::{Catalog, NamespaceView, TreeVersion};
use directory::member::{Memberships, Source};
use kit::Env;
use std::cell::RefCell;
use std::rc::Rc;

/// The filters of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub query: Option<Query>,
    /// Whether the query applies to full paths and full names.
    pub full: bool,
    pub top_level_only: bool,
}

impl Filter {
    fn is_empty(&self) -> bool {
        self.query.is_none() && !self.top_level_only
    }
}

/// A page, and the number of rows on all pages.
pub struct ListPage<'a> {
    pub page: Vec<NamespaceView<'a>>,
    pub total: usize,
}

/// All namespaces that match the filter. The results of recent requests are cached.
pub fn all<'a>(env: &Env, catalog: &'a Catalog, filter: &Filter, offset: usize, limit: usize) -> ListPage<'a> {
    if filter.is_empty() {
        let all = catalog.namespaces();
        return ListPage {
            total: all.len(),
            page: (offset..all.len()).take(limit).filter_map(|n| catalog.nth_namespace(n)).collect(),
        };
    }
    let rows = cached_search(env, catalog, filter);
    let page = rows.iter().skip(offset).take(limit).filter_map(|row| catalog.namespace_in_row(*row as usize));
    ListPage { page: page.collect(), total: rows.len() }
}

/// The personal namespace of a user, and the groups in which the user has at least `role` directly.
pub fn of_member<'a>(
    env: &Env,
    catalog: &'a Catalog,
    user_id: u64,
    memberships: &Memberships,
    role: Role,
    filter: &Filter,
) -> Vec<NamespaceView<'a>> {
    let has_role = |source: &Source| memberships.role(*source, env.now) >= role;
    let groups = memberships.0.keys().filter(|source| has_role(source)).filter_map(|source| match source {
        Source::Group(id) => catalog.namespace(*id).filter(|group| group.is_group()),
        Source::Project(_) => None,
    });
    let mut own: Vec<NamespaceView> = groups.chain(catalog.namespace_of_user(user_id)).collect();
    own.sort_unstable_by_key(|namespace| namespace.row());
    own.retain(|namespace| !filter.top_level_only || namespace.parent().is_none());
    if let Some(query) = &filter.query {
        let index = TextIndex::of(env, catalog);
        own.retain(|namespace| index.matches(catalog, query, filter.full, namespace.row()));
    }
    own
}

fn search(env: &Env, catalog: &Catalog, filter: &Filter) -> Vec<u32> {
    let is_listed = |row: &usize| {
        let namespace = catalog.namespace_in_row(*row);
        namespace.is_some_and(|namespace| !filter.top_level_only || namespace.parent().is_none())
    };
    let number = |row: usize| u32::try_from(row).unwrap_or(u32::MAX);
    match &filter.query {
        Some(query) => {
            let found = TextIndex::of(env, catalog).find(catalog, query, filter.full);
            found.iter().filter(is_listed).map(number).collect()
        }
        None => (0..catalog.columns().rows).filter(is_listed).map(number).collect(),
    }
}

/// The results of recent searches, so that further pages need no search.
struct RecentLists {
    tree_version: TreeVersion,
    /// Row numbers by filter; the most recent filter is last.
    lists: RefCell<Vec<(Filter, Rc<Vec<u32>>)>>,
}

/// The most cached lists. A list takes 4 bytes per row.
const MAX_RECENT: usize = 16;

fn cached_search(env: &Env, catalog: &Catalog, filter: &Filter) -> Rc<Vec<u32>> {
    let tree_version = catalog.tree_version();
    let recent =
        env.instance_cache.get::<RecentLists>().filter(|recent| recent.tree_version == tree_version).unwrap_or_else(
            || {
                let recent = Rc::new(RecentLists { tree_version, lists: RefCell::default() });
                env.instance_cache.put(recent.clone());
                recent
            },
        );
    let known = recent.lists.borrow().iter().find(|(known, _)| known == filter).map(|(_, rows)| rows.clone());
    known.unwrap_or_else(|| {
        let rows = Rc::new(search(env, catalog, filter));
        let mut lists = recent.lists.borrow_mut();
        if lists.len() >= MAX_RECENT {
            lists.remove(0);
        }
        lists.push((filter.clone(), rows.clone()));
        rows
    })
}
