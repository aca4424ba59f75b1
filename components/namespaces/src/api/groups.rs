//! Groups that the caller may read.

use super::request::DirectoryRequest;
use crate::group::{self, GroupFilter, GroupReader};
use crate::text::TextIndex;
use directory::catalog::{self, Catalog, Namespace};
use directory::namespace;
use directory::path::Identifier;
use directory::user::UserState;
use kit::keyset::{self, SortKey};
use kit::page::Pagination;
use kit::params::Validation;
use kit::{Error, Response};
use serde_json::Value;

/// How far below a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    Children,
    All,
}

/// What a search looks at, as the reference service's finder of groups does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchedTexts {
    /// A group's own path and name: all groups of the list are below one group, whose path would match for each.
    Own,
    /// Full path and full name, so that a group is found by the path that clients know.
    Full,
}

/// `GET /groups`.
pub fn list(asked: &DirectoryRequest) -> Result<Response, Error> {
    let catalog = catalog::read(asked.env)?;
    respond(asked, &catalog, SearchedTexts::Full, |_| true)
}

/// `GET /groups/:id/subgroups`, `/groups/:id/descendant_groups`.
pub fn below(asked: &DirectoryRequest, id: &str, depth: Depth) -> Result<Response, Error> {
    let catalog = catalog::read(asked.env)?;
    let (group, _) = find(asked, &catalog, id)?;
    respond(asked, &catalog, SearchedTexts::Own, |namespace: Namespace| match depth {
        Depth::Children => namespace.parent().is_some_and(|parent| parent.row() == group.row()),
        Depth::All => namespace.lineage().skip(1).any(|above| above.row() == group.row()),
    })
}

/// `GET /groups/:id`.
pub fn show(asked: &DirectoryRequest, id: &str) -> Result<Response, Error> {
    let catalog = catalog::read(asked.env)?;
    let (group, reader) = find(asked, &catalog, id)?;
    let mut json = group::to_json(group, &asked.url());
    if let Value::Object(fields) = &mut json {
        fields.insert("shared_with_groups".to_owned(), group::shares_to_json(&catalog, &group.shares(), &reader));
    }
    Ok(Response::ok(&json))
}

/// The group that `id` names, if the caller may read it; 404.
pub fn find<'c>(
    asked: &DirectoryRequest,
    catalog: &'c Catalog,
    id: &str,
) -> Result<(Namespace<'c>, GroupReader), Error> {
    let id = match Identifier::parse(id) {
        Identifier::Id(id) => Some(id),
        Identifier::Path(path) => namespace::find_group(asked.env, path)?.map(|group| group.id),
        Identifier::Invalid => None,
    };
    let reader = reader(asked, catalog)?;
    let group = id.and_then(|id| catalog.namespace(id)).filter(|group| reader.may_read(*group));
    Ok((group.ok_or_else(|| Error::not_found("Group"))?, reader))
}

pub fn reader(asked: &DirectoryRequest, catalog: &Catalog) -> Result<GroupReader, Error> {
    let snapshot = catalog.access_snapshot(asked.env, asked.caller)?;
    let user = asked.caller.user();
    let sees_internal = user.is_some_and(|user| user.state == UserState::Active && !user.external);
    let memberships = asked.memberships()?;
    Ok(GroupReader::new(catalog, snapshot, memberships, sees_internal, user.is_some(), asked.env.now))
}

fn respond(
    asked: &DirectoryRequest,
    catalog: &Catalog,
    searched: SearchedTexts,
    is_in_question: impl Fn(Namespace) -> bool,
) -> Result<Response, Error> {
    let checks = Validation::new(asked.params);
    let filter = GroupFilter::check(asked.params, &checks);
    let page = Pagination::check(&checks);
    // As in the reference service, users get pages by number.
    let is_keyset = keyset::is_asked_for(&checks) && asked.caller.is_anonymous();
    let after = checks.text("cursor").filter(|_| is_keyset).map(|cursor| SortKey::parse_cursor(cursor, "name"));
    if after == Some(None) {
        checks.reject("cursor is invalid");
    }
    checks.finish()?;
    if is_keyset && !filter.is_by_name() {
        return Err(keyset::unavailable());
    }
    asked.check_rows(catalog.namespaces().len())?;
    let reader = reader(asked, catalog)?;
    let candidates: Vec<Namespace> = match &filter.query {
        Some(query) => {
            let rows = TextIndex::of(asked.env, catalog).find(catalog, query, searched == SearchedTexts::Full);
            rows.iter().filter_map(|row| catalog.namespace_in_row(row)).collect()
        }
        None => catalog.namespaces().collect(),
    };
    let is_listed =
        |group: &Namespace| reader.may_read(*group) && is_in_question(*group) && filter.covers(*group, &reader);
    let mut groups: Vec<Namespace> = candidates.into_iter().filter(is_listed).collect();
    filter.sort(&mut groups);
    let url = asked.url();
    let render = |group: Namespace| Ok(Some(group::to_json(group, &url)));
    if !is_keyset {
        return asked.respond(page, &GroupFilter::PARAMETERS, &groups, render);
    }
    if let Some(after) = after.flatten() {
        groups.retain(|group| GroupFilter::place_by_name(*group) > after);
    }
    let cursor = |last: Namespace| GroupFilter::place_by_name(last).to_cursor("name");
    let next = |last, has_more: bool| has_more.then(|| ("cursor", cursor(last)));
    asked.respond_with_next(page, &GroupFilter::PARAMETERS, &groups, next, render)
}
