//! Groups that the caller may read.

use super::request::DirectoryRequest;
use crate::group::{self, GroupFilter, GroupReader};
use crate::text::TextIndex;
use directory::catalog::{self, Catalog, NamespaceView};
use directory::namespace;
use directory::path::Identifier;
use directory::user::UserState;
use kit::keyset::{self, SortKey};
use kit::page::Pagination;
use kit::params::Validation;
use kit::{Error, Response};
use serde_json::Value;

/// How deep a list descends below a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    Children,
    All,
}

/// The texts that a search compares, as in the group finder of the reference service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchedTexts {
    /// The own path and name of a group. All groups of the list are below one group, whose path would match for each of
    /// them.
    Own,
    /// Full path and full name. So clients find a group by the path that they know.
    Full,
}

/// `GET /groups`.
pub fn list(request: &DirectoryRequest) -> Result<Response, Error> {
    let catalog = catalog::read(request.env)?;
    respond(request, &catalog, SearchedTexts::Full, |_| true)
}

/// `GET /groups/:id/subgroups`, `/groups/:id/descendant_groups`.
pub fn below(request: &DirectoryRequest, id: &str, depth: Depth) -> Result<Response, Error> {
    let catalog = catalog::read(request.env)?;
    let (group, _) = find(request, &catalog, id)?;
    respond(request, &catalog, SearchedTexts::Own, |namespace: NamespaceView| match depth {
        Depth::Children => namespace.parent().is_some_and(|parent| parent.row() == group.row()),
        Depth::All => namespace.lineage().skip(1).any(|above| above.row() == group.row()),
    })
}

/// `GET /groups/:id`.
pub fn show(request: &DirectoryRequest, id: &str) -> Result<Response, Error> {
    let catalog = catalog::read(request.env)?;
    let (group, reader) = find(request, &catalog, id)?;
    let mut json = group::to_json(group, &request.url());
    if let Value::Object(fields) = &mut json {
        fields.insert("shared_with_groups".to_owned(), group::shares_to_json(&catalog, &group.shares(), &reader));
    }
    Ok(Response::ok(&json))
}

/// The group with this id or path, if the caller may read it; 404 otherwise.
pub fn find<'c>(
    request: &DirectoryRequest,
    catalog: &'c Catalog,
    id: &str,
) -> Result<(NamespaceView<'c>, GroupReader), Error> {
    let id = match Identifier::parse(id) {
        Identifier::Id(id) => Some(id),
        Identifier::Path(path) => namespace::find_group(request.env, path)?.map(|group| group.id),
        Identifier::Invalid => None,
    };
    let reader = reader(request, catalog)?;
    let group = id.and_then(|id| catalog.namespace(id)).filter(|group| reader.may_read(*group));
    Ok((group.ok_or_else(|| Error::not_found("Group"))?, reader))
}

pub fn reader(request: &DirectoryRequest, catalog: &Catalog) -> Result<GroupReader, Error> {
    let snapshot = catalog.access_snapshot(request.env, request.caller)?;
    let user = request.caller.user();
    let sees_internal = user.is_some_and(|user| user.state == UserState::Active && !user.external);
    let memberships = request.memberships()?;
    Ok(GroupReader::new(catalog, snapshot, memberships, sees_internal, user.is_some(), request.env.now))
}

fn respond(
    request: &DirectoryRequest,
    catalog: &Catalog,
    searched: SearchedTexts,
    is_candidate: impl Fn(NamespaceView) -> bool,
) -> Result<Response, Error> {
    let checks = Validation::new(request.params);
    let filter = GroupFilter::check(request.params, &checks);
    let page = Pagination::check(&checks);
    // Authenticated users get numbered pages, as in the reference service.
    let is_keyset = keyset::is_asked_for(&checks) && request.caller.is_anonymous();
    let after = checks.text("cursor").filter(|_| is_keyset).map(|cursor| SortKey::parse_cursor(cursor, "name"));
    if after == Some(None) {
        checks.reject("cursor is invalid");
    }
    checks.finish()?;
    if is_keyset && !filter.is_by_name() {
        return Err(keyset::unavailable());
    }
    request.check_rows(catalog.namespaces().len())?;
    let reader = reader(request, catalog)?;
    let candidates: Vec<NamespaceView> = match &filter.query {
        Some(query) => {
            let rows = TextIndex::of(request.env, catalog).find(catalog, query, searched == SearchedTexts::Full);
            rows.iter().filter_map(|row| catalog.namespace_in_row(row)).collect()
        }
        None => catalog.namespaces().collect(),
    };
    let is_listed =
        |group: &NamespaceView| reader.may_read(*group) && is_candidate(*group) && filter.matches(*group, &reader);
    let mut groups: Vec<NamespaceView> = candidates.into_iter().filter(is_listed).collect();
    filter.sort(&mut groups);
    let url = request.url();
    let render = |group: NamespaceView| Ok(Some(group::to_json(group, &url)));
    if !is_keyset {
        return request.respond(page, &GroupFilter::PARAMETERS, &groups, render);
    }
    if let Some(after) = after.flatten() {
        groups.retain(|group| GroupFilter::name_sort_key(*group) > after);
    }
    let cursor = |last: NamespaceView| GroupFilter::name_sort_key(last).to_cursor("name");
    let next = |last, has_more: bool| has_more.then(|| ("cursor", cursor(last)));
    request.respond_with_next(page, &GroupFilter::PARAMETERS, &groups, next, render)
}
