//! The documents of a segment that a caller may see. The key of a cached result contains the ids of all inputs.
//!
//! Decides whose issues a caller may count. The decision is made once, before the index is read, and carried on as an
//! [`AuthorizedCount`].

use crate::facet::{self, Facet, FacetUser, PROJECT_KIND, ProjectKey, REUSED_ID_AUTHOR_KIND, REUSED_ID_PROJECT_KIND};
use crate::manifest::TombstonesRef;
use crate::query_cost::{LOOKUP_COST, PROJECT_COST, QueryCost, SearchError};
use crate::route::Level;
use crate::segment::{Segment, TableName};
use crate::set::{self, Bitset};
use crate::store::{IndexStore, SEARCH_RATE_KEYS};
use crate::text::Analyzer;
use directory::access::{self, Role};
use directory::caller::Caller;
use directory::catalog::{AccessSnapshot, Catalog, ProjectView};
use directory::namespace;
use directory::project::{self, Project, ProjectLookup};
use directory::user::UserKey;
use kit::rate_limit::{self, RateLimit};
use kit::store::StoreError;
use kit::{Env, Error};
use roaring::RoaringBitmap;
use std::borrow::Cow;
use std::rc::Rc;

/// The documents of the target without tombstone that the caller may see. They belong to projects whose issues the
/// caller may read, with two restrictions:
///
/// - Only the author, the assignees and planners of the project see a confidential issue.
/// - Only administrators see an issue of a banned author.
///
/// Decides about each project of the target once for each segment, user and catalog revision.
pub fn visible_documents(
    store: &IndexStore,
    segment: &Segment,
    tombstones: Option<&TombstonesRef>,
    authorized: &AuthorizedCount,
    cost: &QueryCost,
) -> Result<Rc<RoaringBitmap>, SearchError> {
    let AuthorizedCount { user, target, catalog, snapshot } = authorized;
    let until = snapshot.valid_until().map_or(0, |end| end.millis());
    let revision = catalog.revision();
    let (user_id, incarnation) = (user.id, &user.incarnation);
    let superseded = tombstones.map_or("", |tombstones| &tombstones.id);
    let key = format!("visible {} {superseded} {user_id}{incarnation} {target:?} {revision} {until}", segment.id);
    store.cache.get_or_compute(key.as_bytes(), cost, || {
        let mut readable = Bitset::new(segment.document_count());
        let mut planned = Bitset::new(segment.document_count());
        for_each_project(segment, *target, catalog, cost, |project, documents| {
            if !snapshot.may_read_issues(project) {
                return Some(());
            }
            readable.union_encoded(documents)?;
            if snapshot.project_role(project) >= Role::Planner { planned.union_encoded(documents) } else { Some(()) }
        })?;
        let mut visible = readable.to_bitmap();
        if !snapshot.is_admin() {
            // The intersections cost as much as the target has documents, however many the segment has.
            let mut hidden = &visible & &*documents_with_facet(store, segment, &Facet::Confidential.key())?;
            hidden -= planned.to_bitmap();
            hidden -= &*documents_with_facet(store, segment, &FacetUser::from(user).author().key())?;
            hidden -= &*documents_with_facet(store, segment, &FacetUser::from(user).assignee().key())?;
            hidden |= &visible & &*documents_with_facet(store, segment, &Facet::Hidden.key())?;
            hidden |= &visible & &*documents_of_banned_authors(store, segment, catalog, cost)?;
            visible -= hidden;
        }
        if let Some(tombstones) = tombstones {
            visible -= &*store.tombstones(tombstones)?;
        }
        Ok(visible)
    })
}

/// The documents of authors who are banned now. Authors who were banned at the time of the import have
/// [`Facet::Hidden`].
fn documents_of_banned_authors(
    store: &IndexStore,
    segment: &Segment,
    catalog: &Catalog,
    cost: &QueryCost,
) -> Result<Rc<RoaringBitmap>, SearchError> {
    let users = catalog.banned_users();
    let key = format!("banned {} {}", segment.id, store.cache.banned_version(users));
    store.cache.get_or_compute(key.as_bytes(), cost, || {
        let mut found = RoaringBitmap::new();
        for user in users.iter() {
            cost.add(LOOKUP_COST)?;
            found |= read_facet(segment, &stored_key(segment, &FacetUser::from(user).author().key()))?;
        }
        // The catalog of an earlier build records a banned user as the first one with the id, even if the id was
        // reused. No issue belongs to a later user while the first one has the id.
        let first: Vec<u64> = users.iter().filter(|user| user.incarnation.is_first()).map(|user| user.id).collect();
        if !first.is_empty() {
            for_each_facet(segment, REUSED_ID_AUTHOR_KIND, cost, |key, documents| {
                let author = FacetUser::parse_reused_id_author(key)?;
                if first.binary_search(&author.id).is_ok() {
                    found |= set::decode(documents)?;
                }
                Some(())
            })?;
        }
        Ok(found)
    })
}

/// Calls `each` for every present project of the target, with its encoded documents in the segment. `each` returns
/// `None` if these are damaged.
fn for_each_project<'a>(
    segment: &Segment,
    target: Target,
    catalog: &'a Catalog,
    cost: &QueryCost,
    mut each: impl FnMut(ProjectView<'a>, &[u8]) -> Option<()>,
) -> Result<(), SearchError> {
    let projects: Vec<ProjectView> = match target {
        Target::Instance => {
            for kind in [PROJECT_KIND, REUSED_ID_PROJECT_KIND] {
                for_each_facet(segment, kind, cost, |key, documents| {
                    let key = ProjectKey::parse(key)?;
                    let project = catalog.project(key.id);
                    match project.filter(|project| project.issues_incarnation() == key.incarnation) {
                        Some(project) => each(project, documents),
                        None => Some(()),
                    }
                })?;
            }
            return Ok(());
        }
        Target::Group(id) => catalog.namespace(id).into_iter().flat_map(|group| group.projects_below()).collect(),
        Target::Project(id) => catalog.project(id).into_iter().collect(),
    };
    let key = |project: &ProjectView| {
        let key = ProjectKey { id: project.id(), incarnation: project.issues_incarnation() }.facet().key();
        stored_key(segment, &key).into_owned()
    };
    let mut keys: Vec<_> = projects.into_iter().map(|project| (key(&project), project)).collect();
    keys.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    let Some((first, _)) = keys.first() else { return Ok(()) };
    let mut cursor = segment.table(TableName::Facets).cursor_from(first)?;
    for (key, project) in keys {
        let documents = cursor.seek(&key)?.unwrap_or_default();
        cost.add(PROJECT_COST + documents.len() as u64)?;
        if !documents.is_empty() {
            each(project, &documents).ok_or_else(|| segment.corrupt(TableName::Facets))?;
        }
    }
    Ok(())
}

/// Calls `each` for every facet of a kind, with its key and its encoded documents.
fn for_each_facet(
    segment: &Segment,
    kind: u8,
    cost: &QueryCost,
    mut each: impl FnMut(&[u8], &[u8]) -> Option<()>,
) -> Result<(), SearchError> {
    let mut cursor = segment.table(TableName::Facets).cursor_from(&[kind])?;
    while let Some(entry) = cursor.next()?.filter(|entry| entry.key.first() == Some(&kind)) {
        cost.add(PROJECT_COST + entry.value.len() as u64)?;
        each(&entry.key, &entry.value).ok_or_else(|| segment.corrupt(TableName::Facets))?;
    }
    Ok(())
}

/// `key` is a [`Facet::key`].
pub fn documents_with_facet(
    store: &IndexStore,
    segment: &Segment,
    key: &[u8],
) -> Result<Rc<RoaringBitmap>, StoreError> {
    let key = stored_key(segment, key);
    let cache_key = [b"facet ", segment.id.as_bytes(), b" ", &*key].concat();
    store.cache.get_or_insert_with(&cache_key, || read_facet(segment, &key))
}

fn stored_key<'a>(segment: &Segment, key: &'a [u8]) -> Cow<'a, [u8]> {
    match segment.header.analyzer {
        // Earlier builds stored keys of any length.
        Analyzer::Words => Cow::Borrowed(key),
        Analyzer::Runs => facet::stored_key(key),
    }
}

fn read_facet(segment: &Segment, stored_key: &[u8]) -> Result<RoaringBitmap, StoreError> {
    let encoded = segment.table(TableName::Facets).get(stored_key)?;
    let set = encoded.map(|encoded| set::decode(&encoded).ok_or_else(|| segment.corrupt(TableName::Facets)));
    set.unwrap_or_else(|| Ok(RoaringBitmap::new()))
}

/// The variable for the number of searches that a user may make in a minute; empty means no limit.
pub const SEARCH_RATE_LIMIT: &str = "issues_search_rate_limit";

/// The scope of a count: all issues, those of a group and everything below it, or those of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Instance,
    Group(u64),
    Project(u64),
}

/// A caller, the access of the caller, and the target to count.
pub struct AuthorizedCount {
    pub user: UserKey,
    pub target: Target,
    pub catalog: Rc<Catalog>,
    pub snapshot: Rc<AccessSnapshot>,
}

pub enum Decision {
    Authorized(AuthorizedCount),
    /// The request names a former path of this project, which the caller may read.
    Moved(Box<Project>),
}

/// The caller of this function reads `catalog` before it authenticates `caller`. 404 if the caller may not read the
/// group or project; 429 after too many searches.
pub fn authorize(
    env: &Env,
    store: &IndexStore,
    catalog: Rc<Catalog>,
    caller: &Caller,
    level: &Level,
    is_search: bool,
) -> Result<Decision, Error> {
    let target = match level {
        Level::Instance => Target::Instance,
        Level::Group(name) => match namespace::find_group(env, name)? {
            Some(group) if access::may_read_group(env, caller, &group)? => Target::Group(group.id),
            _ => return Err(Error::not_found("Group")),
        },
        Level::Project(name) => {
            let (project, is_moved) = match project::find(env, name)? {
                ProjectLookup::Found(project) => (project, false),
                ProjectLookup::Moved(project) => (project, true),
                ProjectLookup::Missing => return Err(Error::not_found("Project")),
            };
            if !access::may_read_project(env, caller, &project)? {
                return Err(Error::not_found("Project"));
            }
            if is_moved {
                return Ok(Decision::Moved(Box::new(project)));
            }
            Target::Project(project.id)
        }
    };
    let user = caller.user_or_401()?.key();
    if is_search {
        let limit = RateLimit { variable: SEARCH_RATE_LIMIT, seconds: 60, keys: SEARCH_RATE_KEYS };
        rate_limit::check(env, &limit, &user.id.to_string())?;
    }
    let snapshot =
        store.cache.access_snapshot(user.id, catalog.revision(), env.now, || catalog.access_snapshot(env, caller))?;
    Ok(Decision::Authorized(AuthorizedCount { user, target, catalog, snapshot }))
}
