//! The listings for searches, and for group and instance level: which projects have packages, and which packages.

use super::key::{Key, RootKey};
use super::package_names;
use super::packages;
use super::record::{ClaimRecord, ProjectsRecord};
use crate::name::PackageName;
use crate::version::Version;
use directory::project::ProjectKey;
use kit::Env;
use kit::list::{self, Change, FormerList, List};
use kit::reachability::Tracer;
use kit::root::{self, Decision};
use kit::store::StoreError;
use lru::LruCache;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::time::Duration;

/// The list of the projects that may have packages: ids with incarnations. Earlier builds had one record.
fn all_projects() -> List<ProjectsRecord> {
    List::new(Key::Projects.text(), Key::project_pages())
}

/// An id as a key, after a letter for the number of its digits, so that ids sort by number: `a7`, `b42`.
fn id_key(id: u64) -> String {
    let digits = id.to_string();
    let letter = digits.bytes().skip(1).fold(b'a', |letter, _| letter + 1);
    format!("{}{digits}", char::from(letter))
}

impl FormerList for ProjectsRecord {
    fn into_entries(self, _: &Env, _: &str) -> Result<Vec<(String, String)>, StoreError> {
        Ok(self.projects.iter().map(|id| (id_key(*id), self.key(*id).incarnation.to_string())).collect())
    }
}

/// The projects that may have packages, by id. 1 read, and 1 for each page of about 1,000 that is not cached.
pub fn projects(env: &Env) -> Result<Vec<u64>, StoreError> {
    let listed = all_projects().after(env, "", usize::MAX)?;
    Ok(listed.iter().filter_map(|(id, _)| id.get(1..)?.parse().ok()).collect())
}

/// Marks the pages of the list of projects, and checks them in a check.
pub fn trace_projects(env: &Env, tracer: &mut Tracer) -> Result<(), StoreError> {
    all_projects().trace(env, tracer)
}

fn change_projects(env: &Env, project: &ProjectKey, change: fn(String) -> Change) -> Result<(), StoreError> {
    list::mark_format(env, Key::FORMAT_3)?;
    all_projects().apply(env, &[(id_key(project.id), change(project.incarnation.to_string()))].into())
}

/// The projects that may have a package of this name; the last publisher at the end ([`ProjectsByName`]). An incomplete
/// publication leaves a project without such a package.
fn projects_with_name(env: &Env, name: &PackageName) -> Result<Vec<u64>, StoreError> {
    members(env, &Key::ProjectsByName(name))
}

/// The projects that may have a package of a name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ProjectsByName {
    pub projects: Vec<u64>,
    /// Whether `projects` is in the order of last publications.
    pub by_publication: bool,
    /// The projects that have versions without a list in [`projects_by_version`]; `None` means all projects.
    without_version_lists: Option<BTreeSet<u64>>,
}

impl ProjectsByName {
    /// The list with these projects only.
    pub fn with_projects(&self, projects: Vec<u64>) -> Self {
        let ProjectsByName { by_publication, without_version_lists, .. } = self;
        ProjectsByName {
            projects,
            by_publication: *by_publication,
            without_version_lists: without_version_lists.clone(),
        }
    }

    /// The projects that have versions without a list in [`projects_by_version`].
    pub fn without_version_lists(&self) -> impl Iterator<Item = u64> {
        let is_unlisted = |id: &u64| self.without_version_lists.as_ref().is_none_or(|without| without.contains(id));
        self.projects.iter().copied().filter(is_unlisted)
    }
}

impl From<ProjectsRecord> for ProjectsByName {
    fn from(record: ProjectsRecord) -> Self {
        let by_publication = record.is_by_publication();
        ProjectsByName {
            projects: record.projects,
            by_publication,
            without_version_lists: record.without_version_lists,
        }
    }
}

/// Stored lists above this size, in bytes, are parsed once for all requests of an instance.
const LARGE_LIST: usize = 1024;

/// The large lists that an instance has parsed.
struct ParsedLists(RefCell<LruCache<String, ParsedList>>);

struct ParsedList {
    stored: Vec<u8>,
    by_name: Rc<ProjectsByName>,
}

const MAX_PARSED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(31);

/// The projects that may have a package of this name. 1 read.
pub fn projects_by_name(env: &Env, name: &PackageName) -> Result<Rc<ProjectsByName>, StoreError> {
    let key = Key::ProjectsByName(name).to_string();
    let Some(stored) = env.store.get(&key)? else { return Ok(Rc::default()) };
    let parse = |stored: &[u8]| -> Result<Rc<ProjectsByName>, StoreError> {
        let record: ProjectsRecord = serde_json::from_slice(stored).map_err(|why| StoreError::corrupt(&key, why))?;
        Ok(Rc::new(ProjectsByName::from(record)))
    };
    if stored.len() < LARGE_LIST {
        return parse(&stored);
    }
    let parsed = env.instance_cache.get::<ParsedLists>().unwrap_or_else(|| {
        let parsed = Rc::new(ParsedLists(RefCell::new(LruCache::new(MAX_PARSED))));
        env.instance_cache.put(parsed.clone());
        parsed
    });
    let mut parsed = parsed.0.borrow_mut();
    if let Some(known) = parsed.get(&key).filter(|known| known.stored == stored) {
        return Ok(known.by_name.clone());
    }
    let by_name = parse(&stored)?;
    parsed.put(key.clone(), ParsedList { stored, by_name: by_name.clone() });
    Ok(by_name)
}

/// Moves `project` to the end of the projects by name, because it is about to publish a version. At group and instance
/// level, a name means the last publisher's package. 1 read, and a swap if another project has published the name
/// since.
pub fn record_publication(env: &Env, name: &PackageName, project: &ProjectKey) -> Result<(), StoreError> {
    root::update(env, &Key::ProjectsByName(name).to_string(), |record: Option<ProjectsRecord>| {
        let mut record = record.unwrap_or_default();
        if record.is_by_publication() && record.is_last(project) {
            return Ok(Decision::Keep(()));
        }
        if name.scope().is_some() {
            record.begin_version_lists();
        }
        if !record.is_by_publication() {
            let mut dated = Vec::with_capacity(record.projects.len());
            for id in &record.projects {
                dated.push((packages::package(env, &record.key(*id), name)?.map(|package| package.published), *id));
            }
            // The sort is stable. An absent package sorts before every package.
            dated.sort_by_key(|(published, _)| *published);
            record.projects = dated.into_iter().map(|(_, id)| id).collect();
        }
        record.put_last(project);
        // A list of one project, as most lists are, needs no order.
        record.by_publication = record.projects.len() > 1;
        Ok(Decision::Replace(record, ()))
    })
}

/// The projects that may have a version of a scoped name, except versions that earlier builds published
/// ([`ProjectsByName::without_version_lists`]).
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ProjectsByVersion {
    pub projects: Vec<u64>,
    /// The publication that claimed the version last.
    pub claim: Option<ClaimRecord>,
}

impl From<&ProjectsRecord> for ProjectsByVersion {
    fn from(record: &ProjectsRecord) -> Self {
        ProjectsByVersion { projects: record.projects.clone(), claim: record.claim.clone() }
    }
}

/// The list of the projects that may have a version of a name.
#[derive(Debug)]
pub struct VersionListing<'a> {
    pub name: &'a PackageName,
    pub version: &'a Version,
    /// The top-level namespace, if the list is of this namespace only. Otherwise the name is scoped, and the list is of
    /// all namespaces.
    pub root: Option<RootKey>,
}

impl VersionListing<'_> {
    fn key(&self) -> Key<'_> {
        match &self.root {
            Some(root) => Key::ProjectsByVersionBelow(root, self.name, self.version.as_str()),
            None => Key::ProjectsByVersion(self.name, self.version.as_str()),
        }
    }
}

/// The projects in a list. 1 read.
pub fn projects_by_version(env: &Env, list: &VersionListing) -> Result<ProjectsByVersion, StoreError> {
    let record = root::read::<ProjectsRecord>(&*env.store, &list.key().text())?.unwrap_or_default();
    Ok(ProjectsByVersion::from(&record))
}

/// Adds a project to a list, before its package has the version.
pub fn add_project_with_version(env: &Env, list: &VersionListing, project: &ProjectKey) -> Result<(), StoreError> {
    add(env, &list.key(), project)
}

/// Adds a project to the list of a version, with a claim of this id in place of an earlier claim. If `conflict` finds a
/// reason against it, returns the reason and writes nothing.
pub fn claim_version<T, E: From<StoreError>>(
    env: &Env,
    list: &VersionListing,
    project: &ProjectKey,
    id: &str,
    mut conflict: impl FnMut(&ProjectsByVersion) -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    root::update(env, &list.key().text(), |record: Option<ProjectsRecord>| {
        let mut record = record.unwrap_or_default();
        let claim = ClaimRecord { project: project.id, id: id.to_owned() };
        // An earlier attempt was stored, but its reply was lost.
        if record.claim.as_ref() == Some(&claim) {
            return Ok(Decision::Keep(None));
        }
        if let Some(reason) = conflict(&ProjectsByVersion::from(&record))? {
            return Ok(Decision::Keep(Some(reason)));
        }
        record.add(project);
        record.claim = Some(claim);
        Ok(Decision::Replace(record, None))
    })
}

/// How long the store takes for a write, measured by a write that changes nothing.
pub fn time_version_write(env: &Env, list: &VersionListing) -> Result<Duration, StoreError> {
    root::time_write(env, &list.key().text())
}

/// Removes a deleted project from the list of a version.
pub fn remove_project_with_version(
    env: &Env,
    name: &PackageName,
    version: &str,
    project: &ProjectKey,
) -> Result<(), StoreError> {
    remove(env, &Key::ProjectsByVersion(name, version), project)
}

/// Lists a package before it is written.
pub fn add_project_with_name(env: &Env, name: &PackageName, project: &ProjectKey) -> Result<(), StoreError> {
    change_projects(env, project, Change::Put)?;
    package_names::add(env, project, name)?;
    record_publication(env, name, project)
}

/// Removes a deleted project from the list of the projects with a name. A later project with the same id stays.
pub fn remove_project_with_name(env: &Env, name: &PackageName, project: &ProjectKey) -> Result<(), StoreError> {
    remove(env, &Key::ProjectsByName(name), project)
}

/// Removes a deleted project from the list of all projects with packages. A later project with the same id stays.
pub fn remove_project(env: &Env, project: &ProjectKey) -> Result<(), StoreError> {
    unless_damaged(change_projects(env, project, Change::Remove))
}

/// Whether the listings have a project's package.
fn is_listed(env: &Env, project: &ProjectKey, name: &PackageName) -> Result<bool, StoreError> {
    Ok(all_projects().get(env, &id_key(project.id))?.is_some()
        && package_names::names(env, project)?.contains(name)
        && projects_with_name(env, name)?.contains(&project.id))
}

/// Looks up many packages in the listings. It reads a project's lists once for all its packages, one project at a time.
#[derive(Default)]
pub struct ListingLookup {
    projects: Option<HashSet<u64>>,
    names: Option<(ProjectKey, HashSet<PackageName>)>,
}

impl ListingLookup {
    /// Whether the listings have a project's package now. 1 read for a listed package, besides the lists.
    pub fn finds(&mut self, env: &Env, project: &ProjectKey, name: &PackageName) -> Result<bool, StoreError> {
        // A package that was published after the lists were read is in the current lists.
        Ok(self.found_before(env, project, name)? || is_listed(env, project, name)?)
    }

    fn found_before(&mut self, env: &Env, project: &ProjectKey, name: &PackageName) -> Result<bool, StoreError> {
        let projects = match &mut self.projects {
            Some(projects) => projects,
            none => none.insert(projects(env)?.into_iter().collect()),
        };
        let names = match &mut self.names {
            Some((known, names)) if known == project => names,
            other => &mut other.insert((project.clone(), package_names::names(env, project)?.into_iter().collect())).1,
        };
        Ok(projects.contains(&project.id)
            && names.contains(name)
            && projects_with_name(env, name)?.contains(&project.id))
    }
}

fn members(env: &Env, key: &Key) -> Result<Vec<u64>, StoreError> {
    let record = root::read::<ProjectsRecord>(&*env.store, &key.to_string())?;
    Ok(record.map(|record| record.projects).unwrap_or_default())
}

fn add(env: &Env, key: &Key, project: &ProjectKey) -> Result<(), StoreError> {
    root::update(env, &key.to_string(), |record: Option<ProjectsRecord>| {
        let mut record = record.unwrap_or_default();
        Ok(if record.add(project) { Decision::Replace(record, ()) } else { Decision::Keep(()) })
    })
}

/// Removes a deleted project from a list. A damaged list stays: it names no blobs, so garbage collection does not
/// depend on it.
fn remove(env: &Env, key: &Key, project: &ProjectKey) -> Result<(), StoreError> {
    let removed = root::update(env, &key.to_string(), |record: Option<ProjectsRecord>| {
        let mut record = record.unwrap_or_default();
        Ok(if record.remove(project) { Decision::Replace(record, ()) } else { Decision::Keep(()) })
    });
    unless_damaged(removed)
}

fn unless_damaged(removed: Result<(), StoreError>) -> Result<(), StoreError> {
    match removed {
        Err(StoreError::Corrupt { .. }) => Ok(()),
        removed => removed,
    }
}
