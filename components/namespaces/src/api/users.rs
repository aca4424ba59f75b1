//! Users.

use super::request::DirectoryRequest;
use crate::user::{self as view, UserFilter, UserView};
use directory::catalog::{self, Catalog, NamespaceView};
use directory::record_cache;
use directory::user::{self, User, UserState};
use http::StatusCode;
use kit::keyset::{self, SortKey};
use kit::page::Pagination;
use kit::params::Validation;
use kit::{Error, Response};
use serde_json::Value;

fn forbidden(why: &str) -> Error {
    Error::message(StatusCode::FORBIDDEN, format!("403 Forbidden - {why}"))
}

/// `GET /user`.
pub fn current(request: &DirectoryRequest) -> Result<Response, Error> {
    let user = request.caller.user_or_401()?;
    let view = if user.is_admin { UserView::Admin } else { UserView::Own };
    let catalog = catalog::read(request.env)?;
    Ok(Response::ok(&render(request, &catalog, user, view)))
}

/// The most users whose records a list reads.
const MAX_RECORDS: usize = 20_000;

/// `GET /users/:id`.
pub fn show(request: &DirectoryRequest, id: u64) -> Result<Response, Error> {
    let caller = request.caller.user().ok_or_else(|| forbidden("Not authorized!"))?;
    let user = user::by_id(request.env, id)?.ok_or_else(|| Error::not_found("User"))?;
    let view = if caller.is_admin { UserView::Admin } else { UserView::Profile };
    let catalog = catalog::read(request.env)?;
    Ok(Response::ok(&render(request, &catalog, &user, view)))
}

/// `GET /users`. An anonymous caller may ask for one username. Users see active users, and administrators see all. Only
/// administrators may choose the order. By default a search has the best matches first, and other lists have the
/// youngest user first.
pub fn list(request: &DirectoryRequest) -> Result<Response, Error> {
    let params = request.params;
    let checks = Validation::new(params);
    let is_admin = request.caller.is_admin();
    let filter = UserFilter::check(params, &checks, is_admin);
    let order = checks.one_of("order_by", &["id", "name", "username", "created_at", "updated_at"]);
    let sort = checks.one_of("sort", &["asc", "desc"]);
    let page = Pagination::check(&checks);
    let (order, sort) = if is_admin { (order, sort) } else { (None, None) };
    let by_match = filter.search.as_ref().filter(|_| order.is_none() && sort.is_none());
    let column = match order {
        None if by_match.is_some() => "match",
        Some(column @ ("name" | "username")) => column,
        // The times of users are unknown. The highest id is the youngest.
        _ => "id",
    };
    let is_ascending = by_match.is_some() || sort == Some("asc");
    let is_keyset = keyset::is_asked_for(&checks);
    let after = checks.text("cursor").filter(|_| is_keyset).map(|cursor| SortKey::parse_cursor(cursor, column));
    if after == Some(None) {
        checks.reject("cursor is invalid");
    }
    checks.finish()?;
    if request.caller.is_anonymous() && filter.username.is_none() {
        return Err(forbidden("Not authorized to access /api/v4/users"));
    }
    if filter.only_administrators && !is_admin {
        return Err(forbidden("Must be admin to list users by admins"));
    }
    let catalog = catalog::read(request.env)?;
    let mut found = find(request, &catalog, &filter)?;
    if filter.only_without_projects {
        let with_projects = catalog.users_with_projects(request.env)?;
        found.retain(|(id, _)| !with_projects.contains(id));
    }
    if filter.only_blocked {
        found = only_blocked(request, found)?;
    }
    let sort_key = |(id, namespace): &(u64, NamespaceView)| {
        if let Some(search) = by_match {
            return search.sort_key(*namespace);
        }
        let text = match column {
            "name" => namespace.name().to_lowercase(),
            "username" => namespace.path().to_lowercase(),
            _ => String::new(),
        };
        SortKey { text, id: *id }
    };
    found.sort_by_cached_key(sort_key);
    if !is_ascending {
        found.reverse();
    }
    let view = if is_admin { UserView::Admin } else { UserView::Basic };
    let show = |(id, _): (u64, NamespaceView)| {
        let user = user::by_id(request.env, id)?;
        Ok(user.map(|user| render(request, &catalog, &user, view)))
    };
    if !is_keyset {
        return request.respond(page, &UserFilter::PARAMETERS, &found, show);
    }
    if let Some(after) = after.flatten() {
        found.retain(|user| if is_ascending { sort_key(user) > after } else { sort_key(user) < after });
    }
    let next = |last, has_more: bool| has_more.then(|| ("cursor", sort_key(&last).to_cursor(column)));
    request.respond_with_next(page, &UserFilter::PARAMETERS, &found, next, show)
}

/// The users who match the filter, apart from its last two conditions.
fn find<'a>(
    request: &DirectoryRequest,
    catalog: &'a Catalog,
    filter: &UserFilter,
) -> Result<Vec<(u64, NamespaceView<'a>)>, Error> {
    let is_admin = request.caller.is_admin();
    let candidates: Vec<NamespaceView> = match (&filter.search, &filter.username) {
        (Some(search), _) => {
            request.check_rows(catalog.namespaces().len())?;
            search.find(request.env, catalog, is_admin)?
        }
        (None, Some(name)) => {
            let user = user::by_username(request.env, name)?;
            user.and_then(|user| catalog.namespace_of_user(user.id)).into_iter().collect()
        }
        (None, None) => catalog.namespaces().collect(),
    };
    let owned = candidates.into_iter().filter_map(|namespace| Some((namespace.owner()?, namespace)));
    let is_listed = |namespace: NamespaceView| (is_admin || namespace.has_active_owner()) && filter.matches(namespace);
    Ok(owned.filter(|(_, namespace)| is_listed(*namespace)).collect())
}

fn only_blocked<'a>(
    request: &DirectoryRequest,
    users: Vec<(u64, NamespaceView<'a>)>,
) -> Result<Vec<(u64, NamespaceView<'a>)>, Error> {
    if users.len() > MAX_RECORDS {
        return Err(Error::bad_request("blocked needs a filter that leaves fewer users"));
    }
    let env = record_cache::attach(request.env)?;
    let mut blocked = Vec::new();
    for user in users {
        if user::by_id(&env, user.0)?.is_some_and(|user| user.state == UserState::Blocked) {
            blocked.push(user);
        }
    }
    Ok(blocked)
}

fn render(request: &DirectoryRequest, catalog: &Catalog, user: &User, view: UserView) -> Value {
    let avatar_url = catalog.namespace_of_user(user.id).and_then(|namespace| namespace.details().avatar_url);
    view::to_json(user, avatar_url, view, &request.url())
}
