//! The projects with packages of one name that are below a namespace. Any user can publish a name to any
//! number of projects of their own, so projects elsewhere must not cost a request more than the list itself.

use crate::name::PackageName;
use crate::store::{self, Holders};
use directory::catalog::{self, Catalog, TreeVersion};
use directory::project;
use kit::Env;
use kit::store::StoreError;
use lru::LruCache;
use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::rc::Rc;

/// Up to this many projects are looked up one by one; for more, the catalog is loaded, which knows the
/// namespaces of all projects.
const FEW: usize = 8;

/// The filtered lists that an instance keeps.
const MAX_FILTERED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);

/// Filtered lists by name and namespace.
struct FilteredHolders(RefCell<LruCache<(String, u64), Filtered>>);

/// A filtered list, with the whole list and the tree version that it was made of.
struct Filtered {
    all: Rc<Holders>,
    tree: TreeVersion,
    below: Rc<Holders>,
}

/// The projects with this name below the namespace `above`. Reads: the list; and for a short one each
/// project, for a long one the catalog.
pub fn projects_with_name_below(env: &Env, name: &PackageName, above: u64) -> Result<Rc<Holders>, StoreError> {
    let all = store::holders(env, name)?;
    if all.projects.len() <= FEW {
        return Ok(Rc::new(all.with_projects(few_below(env, &all.projects, above)?)));
    }
    let catalog = catalog::read(env)?;
    let tree = catalog.tree_version();
    let known = env.instance_cache.get::<FilteredHolders>().unwrap_or_else(|| {
        let known = Rc::new(FilteredHolders(RefCell::new(LruCache::new(MAX_FILTERED))));
        env.instance_cache.put(known.clone());
        known
    });
    let mut known = known.0.borrow_mut();
    let key = (name.as_str().to_owned(), above);
    if let Some(found) = known.get(&key).filter(|found| Rc::ptr_eq(&found.all, &all) && found.tree == tree) {
        return Ok(found.below.clone());
    }
    let below = Rc::new(all.with_projects(many_below(&catalog, &all.projects, above)));
    known.put(key, Filtered { all, tree, below: below.clone() });
    Ok(below)
}

/// The projects of `ids` that are below the namespace `above`. Reads: each project of a few, or the catalog.
pub fn projects_below(env: &Env, ids: &[u64], above: u64) -> Result<Vec<u64>, StoreError> {
    if ids.len() <= FEW {
        return few_below(env, ids, above);
    }
    Ok(many_below(&*catalog::read(env)?, ids, above))
}

fn few_below(env: &Env, ids: &[u64], above: u64) -> Result<Vec<u64>, StoreError> {
    let mut below = Vec::with_capacity(ids.len());
    for id in ids {
        let project = project::by_id(env, *id)?;
        if project.is_some_and(|project| project.namespace.lineage().any(|namespace| namespace.id == above)) {
            below.push(*id);
        }
    }
    Ok(below)
}

fn many_below(catalog: &Catalog, ids: &[u64], above: u64) -> Vec<u64> {
    let is_below = |id: &u64| {
        catalog.project(*id).is_some_and(|project| project.namespace().lineage().any(|found| found.id() == above))
    };
    ids.iter().copied().filter(is_below).collect()
}
