//! Members of groups and projects.

use super::request::DirectoryRequest;
use super::{groups, projects};
use crate::member_list::{self, GroupOrProject, MemberFilter};
use crate::route::MembersOf;
use crate::user::{self as view, UserView};
use directory::catalog::{self, Catalog};
use directory::member::Membership;
use directory::user;
use http::StatusCode;
use kit::page::Pagination;
use kit::params::Validation;
use kit::{Error, Response, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;

/// `GET /projects/:id/members`, `/groups/:id/members`, and `…/all`. Sorted by user id, or with a `query` by the quality
/// of the match.
pub fn list(request: &DirectoryRequest, source: &MembersOf) -> Result<Response, Error> {
    let checks = Validation::new(request.params);
    let (filter, page) = (MemberFilter::check(&checks), Pagination::check(&checks));
    checks.finish()?;
    let catalog = catalog::read(request.env)?;
    let members = find(request, &catalog, source)?;
    request.check_rows(members.len())?;
    // The record of a user may have been deleted. Their memberships are deleted later.
    let is_listed = |user_id: &u64| catalog.namespace_of_user(*user_id).is_some_and(|user| filter.matches(user));
    let mut members: Vec<(u64, Membership)> = members.into_iter().filter(|(user_id, _)| is_listed(user_id)).collect();
    if let Some(search) = &filter.search {
        members.sort_by_cached_key(|(id, _)| catalog.namespace_of_user(*id).map(|user| search.sort_key(user)));
    }
    request.respond(page, &MemberFilter::PARAMETERS, &members, |member| render(request, &catalog, member))
}

/// `GET …/members/:user_id`, `…/members/all/:user_id`.
pub fn show(request: &DirectoryRequest, source: &MembersOf, user_id: u64) -> Result<Response, Error> {
    let catalog = catalog::read(request.env)?;
    let mut members = find(request, &catalog, source)?;
    request.check_rows(members.len())?;
    let member = members.remove(&user_id).map(|membership| (user_id, membership));
    let member = member.map(|member| render(request, &catalog, member)).transpose()?.flatten();
    let not_found = || Error::message(StatusCode::NOT_FOUND, "404 Not found");
    Ok(Response::ok(&member.ok_or_else(not_found)?))
}

/// The members of a group or project, as far as their roles come from groups that the caller may read. 404 without
/// access, 403 for members of a private group, and 301 from a former path of a project.
fn find(request: &DirectoryRequest, catalog: &Catalog, source: &MembersOf) -> Result<BTreeMap<u64, Membership>, Error> {
    let (resource, reader) = match source.is_group {
        true => {
            let (group, reader) = groups::find(request, catalog, &source.id)?;
            if !reader.may_list_members(group) {
                return Err(Error::forbidden());
            }
            (GroupOrProject::Group(group), reader)
        }
        false => {
            let reader = groups::reader(request, catalog)?;
            let (project, _) = projects::find(request, catalog, &reader.snapshot, &source.id)?;
            (GroupOrProject::Project(project), reader)
        }
    };
    Ok(match source.with_inherited {
        true => member_list::all(request.env, catalog, resource, &reader)?,
        false => member_list::direct(request.env, catalog, resource)?,
    })
}

fn render(
    request: &DirectoryRequest,
    catalog: &Catalog,
    (user_id, membership): (u64, Membership),
) -> Result<Option<Value>, Error> {
    let Some(user) = user::by_id(request.env, user_id)? else { return Ok(None) };
    let avatar_url = catalog.namespace_of_user(user_id).and_then(|namespace| namespace.details().avatar_url);
    let mut json = view::to_json(&user, avatar_url, UserView::Basic, &request.url());
    if let Value::Object(fields) = &mut json {
        fields.insert("access_level".to_owned(), membership.role.level().into());
        fields.insert("expires_at".to_owned(), membership.expires_at.map(Timestamp::to_date).into());
        fields.insert("membership_state".to_owned(), "active".into());
    }
    Ok(Some(json))
}
