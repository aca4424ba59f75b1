//! Projects that the caller may read.

use super::groups;
use super::request::DirectoryRequest;
use crate::group;
use crate::project::{self as view, ProjectFilter, ProjectReader};
use directory::access;
use directory::catalog::access_snapshot::AccessSnapshot;
use directory::catalog::{self, Catalog, Namespace, Project};
use directory::project::{self, ProjectLookup};
use directory::record_cache;
use directory::redirect::Redirect;
use directory::user::{self, UserKey};
use kit::keyset;
use kit::page::Pagination;
use kit::params::Validation;
use kit::store::StoreError;
use kit::{Env, Error, Response};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// The most projects whose records a list reads.
const MAX_RECORDS: usize = 20_000;

/// `GET /projects`.
pub fn list(asked: &DirectoryRequest) -> Result<Response, Error> {
    let filter = Filter::check(asked)?;
    let catalog = catalog::read(asked.env)?;
    respond(asked, &catalog, &filter, catalog.projects().collect())
}

/// `GET /groups/:id/projects`.
pub fn of_group(asked: &DirectoryRequest, id: &str) -> Result<Response, Error> {
    let filter = Filter::check(asked)?;
    let catalog = catalog::read(asked.env)?;
    let (group, _) = groups::find(asked, &catalog, id)?;
    let below: Vec<Project> = match filter.projects.include_subgroups {
        true => group.projects_below().collect(),
        false => group.projects().collect(),
    };
    let above: Vec<Project> = match filter.projects.include_ancestor_groups {
        true => group.lineage().skip(1).flat_map(Namespace::projects).collect(),
        false => Vec::new(),
    };
    let own: Vec<Project> = below.into_iter().chain(above).collect();
    let known: BTreeSet<u64> = own.iter().map(|project| project.id()).collect();
    let is_shared = |project: &Project| {
        let current = |share: &directory::member::Share| share.expires_at.is_none_or(|end| asked.env.now < end);
        project.shares().iter().any(|share| share.group_id == group.id() && current(share))
    };
    let shared: Vec<Project> = match filter.projects.with_shared {
        true => {
            asked.check_rows(catalog.projects().count())?;
            catalog.projects().filter(|project| !known.contains(&project.id()) && is_shared(project)).collect()
        }
        false => Vec::new(),
    };
    respond(asked, &catalog, &filter, own.into_iter().chain(shared).collect())
}

/// `GET /users/:id/projects`: the projects in the user's personal namespace.
pub fn of_user(asked: &DirectoryRequest, id: &str) -> Result<Response, Error> {
    let filter = Filter::check(asked)?;
    let user = user::find(asked.env, id)?.ok_or_else(|| Error::not_found("User"))?;
    let catalog = catalog::read(asked.env)?;
    let namespace = catalog.namespace_of_user(user.id);
    let projects = namespace.map(|namespace| namespace.projects().collect()).unwrap_or_default();
    respond(asked, &catalog, &filter, projects)
}

/// `GET /projects/:id`.
pub fn show(asked: &DirectoryRequest, id: &str) -> Result<Response, Error> {
    let checks = Validation::new(asked.params);
    let is_simple = checks.boolean("simple") == Some(true);
    checks.finish()?;
    let catalog = catalog::read(asked.env)?;
    let reader = reader(asked, &catalog)?;
    let (project, record) = find(asked, &catalog, &reader.snapshot, id)?;
    let shows_details = view::shows_details(&reader, is_simple);
    let creator_id = if shows_details { Creators::default().id_of(asked.env, &record)? } else { None };
    let default_branch = default_branch(asked, &record)?;
    let mut json = view::to_json(project, &record, creator_id, default_branch, &reader, is_simple, &asked.url());
    if let Value::Object(fields) = &mut json
        && shows_details
    {
        fields.insert("shared_with_groups".to_owned(), shares_to_json(asked, &catalog, project)?);
    }
    Ok(Response::ok(&json))
}

/// The project that `id` names, if the caller may read it; 404, and 301 from a former path.
pub fn find<'c>(
    asked: &DirectoryRequest,
    catalog: &'c Catalog,
    access: &AccessSnapshot,
    id: &str,
) -> Result<(Project<'c>, project::Project), Error> {
    let not_found = || Error::not_found("Project");
    let (record, moved) = match project::find(asked.env, id)? {
        ProjectLookup::Found(record) => (record, false),
        ProjectLookup::Moved(record) => (record, true),
        ProjectLookup::Missing => return Err(not_found()),
    };
    let project = catalog.project(record.id).filter(|project| access.may_read(*project));
    let project = project.ok_or_else(not_found)?;
    if moved {
        let (path, query) = (&asked.request.path, &asked.request.query);
        return Err(Redirect::to_project(record.id, &asked.url(), path, query).into_error(&asked.request.method));
    }
    Ok((project, record))
}

fn shares_to_json(asked: &DirectoryRequest, catalog: &Catalog, project: Project) -> Result<Value, Error> {
    let shares = project.shares();
    // Few projects invite a group, and finding the groups that the caller may read costs reads.
    if shares.is_empty() {
        return Ok(Value::Array(Vec::new()));
    }
    Ok(group::shares_to_json(catalog, &shares, &groups::reader(asked, catalog)?))
}

struct Filter {
    projects: ProjectFilter,
    page: Pagination,
    is_keyset: bool,
}

impl Filter {
    fn check(asked: &DirectoryRequest) -> Result<Self, Error> {
        let checks = Validation::new(asked.params);
        let filter = Filter {
            projects: ProjectFilter::check(asked.params, &checks),
            page: Pagination::check(&checks),
            is_keyset: keyset::is_asked_for(&checks),
        };
        checks.finish()?;
        if filter.is_keyset && !filter.projects.is_by_id {
            return Err(keyset::unavailable());
        }
        Ok(filter)
    }
}

fn reader(asked: &DirectoryRequest, catalog: &Catalog) -> Result<ProjectReader, Error> {
    Ok(ProjectReader {
        snapshot: catalog.access_snapshot(asked.env, asked.caller)?,
        memberships: asked.memberships()?,
        user_id: asked.caller.user().map(|user| user.id),
        is_anonymous: asked.caller.is_anonymous(),
        now: asked.env.now,
    })
}

/// The creators of the projects that a request shows, with the id that is shown of each.
#[derive(Default)]
struct Creators(RefCell<BTreeMap<UserKey, Option<u64>>>);

impl Creators {
    /// The id of a project's creator, unless they were deleted. One whose record cannot be read is not shown: whether
    /// the id is theirs is not known, and the project is. 1 read for each user.
    fn id_of(&self, env: &Env, record: &project::Project) -> Result<Option<u64>, StoreError> {
        let Some(creator) = &record.creator else { return Ok(None) };
        if let Some(shown) = self.0.borrow().get(creator) {
            return Ok(*shown);
        }
        let is_deleted = match user::is_deleted(env, creator) {
            Err(StoreError::Corrupt { .. }) => true,
            outcome => outcome?,
        };
        let shown = (!is_deleted).then_some(creator.id);
        self.0.borrow_mut().insert(creator.clone(), shown);
        Ok(shown)
    }
}

/// The default branch of a project's repository, for a caller who may read its code; for others what the record says.
fn default_branch(asked: &DirectoryRequest, record: &project::Project) -> Result<Option<String>, StoreError> {
    match access::may_read_code(asked.env, asked.caller, record)? {
        true => match directory::default_branch::find(asked.env, record) {
            // `fsck` tells of a damaged repository; lists of projects go on.
            Err(StoreError::Corrupt { .. }) => Ok(record.default_branch.clone()),
            found => found,
        },
        false => Ok(record.default_branch.clone()),
    }
}

/// The projects of a list whose merge requests the caller may read. 1 read for each and for each namespace above them,
/// unless this instance has read their records since the catalog's root changed.
fn with_merge_requests<'c>(asked: &DirectoryRequest, projects: Vec<Project<'c>>) -> Result<Vec<Project<'c>>, Error> {
    if projects.len() > MAX_RECORDS {
        return Err(Error::bad_request("with_merge_requests_enabled needs a filter that leaves fewer projects"));
    }
    asked.check_records(projects.len())?;
    let env = record_cache::attach(asked.env)?;
    let mut found = Vec::new();
    for project in projects {
        if let Some(record) = project::by_id(&env, project.id())?
            && access::may_read_merge_requests(&env, asked.caller, &record)?
        {
            found.push(project);
        }
    }
    Ok(found)
}

fn respond(
    asked: &DirectoryRequest,
    catalog: &Catalog,
    filter: &Filter,
    candidates: Vec<Project>,
) -> Result<Response, Error> {
    asked.check_rows(candidates.len())?;
    let reader = reader(asked, catalog)?;
    let is_listed = |project: &Project| reader.snapshot.may_read(*project) && filter.projects.covers(*project, &reader);
    let mut projects: Vec<Project> = candidates.into_iter().filter(is_listed).collect();
    if filter.projects.with_merge_requests {
        projects = with_merge_requests(asked, projects)?;
    }
    filter.projects.sort(&mut projects);
    let url = asked.url();
    let (is_simple, creators) = (filter.projects.is_simple, Creators::default());
    let shows_details = view::shows_details(&reader, is_simple);
    let render = |project: Project| {
        let Some(record) = project::by_id(asked.env, project.id())? else { return Ok(None) };
        let creator_id = if shows_details { creators.id_of(asked.env, &record)? } else { None };
        let default_branch = default_branch(asked, &record)?;
        Ok(Some(view::to_json(project, &record, creator_id, default_branch, &reader, is_simple, &url)))
    };
    if filter.is_keyset {
        // As in the reference service, a page that is empty has no link, and every other one has.
        let next = |last: Project, _| Some((filter.projects.next_page(), last.id().to_string()));
        return asked.respond_with_next(filter.page, &ProjectFilter::PARAMETERS, &projects, next, render);
    }
    asked.respond(filter.page, &ProjectFilter::PARAMETERS, &projects, render)
}
