//! Projects that the caller may read.

use super::groups;
use super::request::DirectoryRequest;
use crate::group;
use crate::project::{self as view, ProjectFilter, ProjectReader};
use directory::catalog::{self, AccessSnapshot, Catalog, NamespaceView, ProjectView};
use directory::project::{self, ProjectLookup};
use directory::redirect::Redirect;
use directory::user::{self, UserKey};
use directory::{access, record_cache};
use kit::page::Pagination;
use kit::params::Validation;
use kit::store::StoreError;
use kit::{Env, Error, Response, keyset};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// The most projects whose records a list reads.
const MAX_RECORDS: usize = 20_000;

/// `GET /projects`.
pub fn list(request: &DirectoryRequest) -> Result<Response, Error> {
    let filter = Filter::check(request)?;
    let catalog = catalog::read(request.env)?;
    respond(request, &catalog, &filter, catalog.projects().collect())
}

/// `GET /groups/:id/projects`.
pub fn of_group(request: &DirectoryRequest, id: &str) -> Result<Response, Error> {
    let filter = Filter::check(request)?;
    let catalog = catalog::read(request.env)?;
    let (group, _) = groups::find(request, &catalog, id)?;
    let below: Vec<ProjectView> = match filter.projects.include_subgroups {
        true => group.projects_below().collect(),
        false => group.projects().collect(),
    };
    let above: Vec<ProjectView> = match filter.projects.include_ancestor_groups {
        true => group.lineage().skip(1).flat_map(NamespaceView::projects).collect(),
        false => Vec::new(),
    };
    let own: Vec<ProjectView> = below.into_iter().chain(above).collect();
    let known: BTreeSet<u64> = own.iter().map(|project| project.id()).collect();
    let is_shared = |project: &ProjectView| {
        let current = |share: &directory::member::Share| share.expires_at.is_none_or(|end| request.env.now < end);
        project.shares().iter().any(|share| share.group_id == group.id() && current(share))
    };
    let shared: Vec<ProjectView> = match filter.projects.with_shared {
        true => {
            request.check_rows(catalog.projects().count())?;
            catalog.projects().filter(|project| !known.contains(&project.id()) && is_shared(project)).collect()
        }
        false => Vec::new(),
    };
    respond(request, &catalog, &filter, own.into_iter().chain(shared).collect())
}

/// `GET /users/:id/projects`: the projects in the user's personal namespace.
pub fn of_user(request: &DirectoryRequest, id: &str) -> Result<Response, Error> {
    let filter = Filter::check(request)?;
    let user = user::find(request.env, id)?.ok_or_else(|| Error::not_found("User"))?;
    let catalog = catalog::read(request.env)?;
    let namespace = catalog.namespace_of_user(user.id);
    let projects = namespace.map(|namespace| namespace.projects().collect()).unwrap_or_default();
    respond(request, &catalog, &filter, projects)
}

/// `GET /projects/:id`.
pub fn show(request: &DirectoryRequest, id: &str) -> Result<Response, Error> {
    let checks = Validation::new(request.params);
    let is_simple = checks.boolean("simple") == Some(true);
    checks.finish()?;
    let catalog = catalog::read(request.env)?;
    let reader = reader(request, &catalog)?;
    let (project, record) = find(request, &catalog, &reader.snapshot, id)?;
    let shows_details = view::shows_details(&reader, is_simple);
    let creator_id = if shows_details { Creators::default().id_of(request.env, &record)? } else { None };
    let default_branch = default_branch(request, &record)?;
    let mut json = view::to_json(project, &record, creator_id, default_branch, &reader, is_simple, &request.url());
    if let Value::Object(fields) = &mut json
        && shows_details
    {
        fields.insert("shared_with_groups".to_owned(), shares_to_json(request, &catalog, project)?);
    }
    Ok(Response::ok(&json))
}

/// The project with this id or path, if the caller may read it; 404 otherwise, and 301 from a former path.
pub fn find<'c>(
    request: &DirectoryRequest,
    catalog: &'c Catalog,
    access: &AccessSnapshot,
    id: &str,
) -> Result<(ProjectView<'c>, project::Project), Error> {
    let not_found = || Error::not_found("Project");
    let (record, moved) = match project::find(request.env, id)? {
        ProjectLookup::Found(record) => (record, false),
        ProjectLookup::Moved(record) => (record, true),
        ProjectLookup::Missing => return Err(not_found()),
    };
    let project = catalog.project(record.id).filter(|project| access.may_read(*project));
    let project = project.ok_or_else(not_found)?;
    if moved {
        let (path, query) = (&request.http.path, &request.http.query);
        return Err(Redirect::to_project(record.id, &request.url(), path, query).into_error(&request.http.method));
    }
    Ok((project, record))
}

fn shares_to_json(request: &DirectoryRequest, catalog: &Catalog, project: ProjectView) -> Result<Value, Error> {
    let shares = project.shares();
    // Few projects invite a group. For other projects this saves the reads that find the readable groups.
    if shares.is_empty() {
        return Ok(Value::Array(Vec::new()));
    }
    Ok(group::shares_to_json(catalog, &shares, &groups::reader(request, catalog)?))
}

struct Filter {
    projects: ProjectFilter,
    page: Pagination,
    is_keyset: bool,
}

impl Filter {
    fn check(request: &DirectoryRequest) -> Result<Self, Error> {
        let checks = Validation::new(request.params);
        let filter = Filter {
            projects: ProjectFilter::check(request.params, &checks),
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

fn reader(request: &DirectoryRequest, catalog: &Catalog) -> Result<ProjectReader, Error> {
    Ok(ProjectReader {
        snapshot: catalog.access_snapshot(request.env, request.caller)?,
        memberships: request.memberships()?,
        user_id: request.caller.user().map(|user| user.id),
        is_anonymous: request.caller.is_anonymous(),
        now: request.env.now,
    })
}

/// The creators of the projects of a response, each with the id that the response shows.
#[derive(Default)]
struct Creators(RefCell<BTreeMap<UserKey, Option<u64>>>);

impl Creators {
    /// The id of the creator of a project, unless the creator was deleted. If the record of the creator cannot be read,
    /// only the id is omitted, because it may belong to another user now. 1 read for each user.
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

/// The default branch of the repository if the caller may read its code; otherwise the default branch in the project
/// record.
fn default_branch(request: &DirectoryRequest, record: &project::Project) -> Result<Option<String>, StoreError> {
    match access::may_read_code(request.env, request.caller, record)? {
        true => match directory::default_branch::find(request.env, record) {
            // `fsck` reports a damaged repository. Lists of projects work without it.
            Err(StoreError::Corrupt { .. }) => Ok(record.default_branch.clone()),
            found => found,
        },
        false => Ok(record.default_branch.clone()),
    }
}

/// The projects of a list whose merge requests the caller may read. 1 read for each project and each namespace above
/// it. No reads if this instance has read their records since the last change of the catalog root.
fn with_merge_requests<'c>(
    request: &DirectoryRequest,
    projects: Vec<ProjectView<'c>>,
) -> Result<Vec<ProjectView<'c>>, Error> {
    if projects.len() > MAX_RECORDS {
        return Err(Error::bad_request("with_merge_requests_enabled needs a filter that leaves fewer projects"));
    }
    request.check_records(projects.len())?;
    let env = record_cache::attach(request.env)?;
    let mut found = Vec::new();
    for project in projects {
        if let Some(record) = project::by_id(&env, project.id())?
            && access::may_read_merge_requests(&env, request.caller, &record)?
        {
            found.push(project);
        }
    }
    Ok(found)
}

fn respond(
    request: &DirectoryRequest,
    catalog: &Catalog,
    filter: &Filter,
    candidates: Vec<ProjectView>,
) -> Result<Response, Error> {
    request.check_rows(candidates.len())?;
    let reader = reader(request, catalog)?;
    let is_listed =
        |project: &ProjectView| reader.snapshot.may_read(*project) && filter.projects.matches(*project, &reader);
    let mut projects: Vec<ProjectView> = candidates.into_iter().filter(is_listed).collect();
    if filter.projects.with_merge_requests {
        projects = with_merge_requests(request, projects)?;
    }
    filter.projects.sort(&mut projects);
    let url = request.url();
    let (is_simple, creators) = (filter.projects.is_simple, Creators::default());
    let shows_details = view::shows_details(&reader, is_simple);
    let render = |project: ProjectView| {
        let Some(record) = project::by_id(request.env, project.id())? else { return Ok(None) };
        let creator_id = if shows_details { creators.id_of(request.env, &record)? } else { None };
        let default_branch = default_branch(request, &record)?;
        Ok(Some(view::to_json(project, &record, creator_id, default_branch, &reader, is_simple, &url)))
    };
    if filter.is_keyset {
        // As in the reference service, an empty page has no link, and every other page has one.
        let next = |last: ProjectView, _| Some((filter.projects.next_page(), last.id().to_string()));
        return request.respond_with_next(filter.page, &ProjectFilter::PARAMETERS, &projects, next, render);
    }
    request.respond(filter.page, &ProjectFilter::PARAMETERS, &projects, render)
}
