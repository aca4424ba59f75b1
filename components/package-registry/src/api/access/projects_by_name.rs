//! The projects below a namespace that have a package of one name. Any user can publish a name to any number of own
//! projects. So a request reads the list only, and none of the projects elsewhere.

use crate::name::PackageName;
use crate::store::{self, ProjectsByName};
use directory::catalog::{self, Catalog, TreeVersion};
use directory::project;
use kit::Env;
use kit::store::StoreError;
use lru::LruCache;
use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::rc::Rc;

/// Up to this many projects are looked up one by one. For more, the catalog is read, which has the namespaces of all
/// projects.
const MAX_SINGLE_LOOKUPS: usize = 8;

/// The most filtered lists that an instance caches.
const MAX_FILTERED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);

/// Filtered lists by name and namespace.
struct FilteredLists(RefCell<LruCache<(String, u64), Filtered>>);

/// A filtered list, with the whole list and the tree version from which it was computed.
struct Filtered {
    all: Rc<ProjectsByName>,
    tree: TreeVersion,
    below: Rc<ProjectsByName>,
}

/// The projects with this name below the namespace `above`. Reads: the list; then each project of a short list, or the
/// catalog for a long list.
pub fn projects_with_name_below(env: &Env, name: &PackageName, above: u64) -> Result<Rc<ProjectsByName>, StoreError> {
    let all = store::projects_by_name(env, name)?;
    if all.projects.len() <= MAX_SINGLE_LOOKUPS {
        return Ok(Rc::new(all.with_projects(below_by_lookups(env, &all.projects, above)?)));
    }
    let catalog = catalog::read(env)?;
    let tree = catalog.tree_version();
    let known = env.instance_cache.get::<FilteredLists>().unwrap_or_else(|| {
        let known = Rc::new(FilteredLists(RefCell::new(LruCache::new(MAX_FILTERED))));
        env.instance_cache.put(known.clone());
        known
    });
    let mut known = known.0.borrow_mut();
    let key = (name.as_str().to_owned(), above);
    if let Some(found) = known.get(&key).filter(|found| Rc::ptr_eq(&found.all, &all) && found.tree == tree) {
        return Ok(found.below.clone());
    }
    let below = Rc::new(all.with_projects(below_by_catalog(&catalog, &all.projects, above)));
    known.put(key, Filtered { all, tree, below: below.clone() });
    Ok(below)
}

/// The projects of `ids` that are below the namespace `above`. Reads: each of a few projects, or the catalog.
pub fn projects_below(env: &Env, ids: &[u64], above: u64) -> Result<Vec<u64>, StoreError> {
    if ids.len() <= MAX_SINGLE_LOOKUPS {
        return below_by_lookups(env, ids, above);
    }
    Ok(below_by_catalog(&*catalog::read(env)?, ids, above))
}

fn below_by_lookups(env: &Env, ids: &[u64], above: u64) -> Result<Vec<u64>, StoreError> {
    let mut below = Vec::with_capacity(ids.len());
    for id in ids {
        let project = project::by_id(env, *id)?;
        if project.is_some_and(|project| project.namespace.lineage().any(|namespace| namespace.id == above)) {
            below.push(*id);
        }
    }
    Ok(below)
}

fn below_by_catalog(catalog: &Catalog, ids: &[u64], above: u64) -> Vec<u64> {
    let is_below = |id: &u64| {
        catalog.project(*id).is_some_and(|project| project.namespace().lineage().any(|found| found.id() == above))
    };
    ids.iter().copied().filter(is_below).collect()
}
