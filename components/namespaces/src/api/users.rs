//! Users.

use super::request::DirectoryRequest;
use crate::user::{self as view, UserView};
use crate::user_filter::UserFilter;
use directory::catalog::{self, Catalog, Namespace};
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
pub fn current(asked: &DirectoryRequest) -> Result<Response, Error> {
    let user = asked.caller.user_or_401()?;
    let view = if user.is_admin { UserView::Admin } else { UserView::Own };
    let catalog = catalog::read(asked.env)?;
    Ok(Response::ok(&render(asked, &catalog, user, view)))
}

/// The most users whose records a list reads.
const MAX_RECORDS: usize = 20_000;

/// `GET /users/:id`.
pub fn show(asked: &DirectoryRequest, id: u64) -> Result<Response, Error> {
    let caller = asked.caller.user().ok_or_else(|| forbidden("Not authorized!"))?;
    let user = user::by_id(asked.env, id)?.ok_or_else(|| Error::not_found("User"))?;
    let view = if caller.is_admin { UserView::Admin } else { UserView::Profile };
    let catalog = catalog::read(asked.env)?;
    Ok(Response::ok(&render(asked, &catalog, &user, view)))
}

/// `GET /users`. An anonymous caller may ask for one username. Users see active users, administrators
/// all; only the latter choose the order. Without an order, the best matches of a search come first, and of
/// other lists the youngest.
pub fn list(asked: &DirectoryRequest) -> Result<Response, Error> {
    let params = asked.params;
    let checks = Validation::new(params);
    let is_admin = asked.caller.is_admin();
    let filter = UserFilter::check(params, &checks, is_admin);
    let order = checks.one_of("order_by", &["id", "name", "username", "created_at", "updated_at"]);
    let sort = checks.one_of("sort", &["asc", "desc"]);
    let page = Pagination::check(&checks);
    let (order, sort) = if is_admin { (order, sort) } else { (None, None) };
    let by_match = filter.search.as_ref().filter(|_| order.is_none() && sort.is_none());
    let column = match order {
        None if by_match.is_some() => "match",
        Some(column @ ("name" | "username")) => column,
        // Times of users are not known; the highest id is the youngest.
        _ => "id",
    };
    let is_ascending = by_match.is_some() || sort == Some("asc");
    let is_keyset = keyset::is_asked_for(&checks);
    let after = checks.text("cursor").filter(|_| is_keyset).map(|cursor| SortKey::parse_cursor(cursor, column));
    if after == Some(None) {
        checks.reject("cursor is invalid");
    }
    checks.finish()?;
    if asked.caller.is_anonymous() && filter.username.is_none() {
        return Err(forbidden("Not authorized to access /api/v4/users"));
    }
    if filter.is_of_administrators && !is_admin {
        return Err(forbidden("Must be admin to list users by admins"));
    }
    let catalog = catalog::read(asked.env)?;
    let is_listed = |namespace: &Namespace| (is_admin || namespace.has_active_owner()) && filter.covers(*namespace);
    let candidates: Vec<Namespace> = match (&filter.search, &filter.username) {
        (Some(search), _) => {
            asked.check_rows(catalog.namespaces().len())?;
            search.find(asked.env, &catalog, is_admin)?
        }
        (None, Some(name)) => {
            let user = user::by_username(asked.env, name)?;
            user.and_then(|user| catalog.namespace_of_user(user.id)).into_iter().collect()
        }
        (None, None) => catalog.namespaces().collect(),
    };
    let owned = candidates.into_iter().filter_map(|namespace| Some((namespace.owner()?, namespace)));
    let mut found: Vec<(u64, Namespace)> = owned.filter(|(_, namespace)| is_listed(namespace)).collect();
    if filter.is_without_projects {
        let with_projects = catalog.users_with_projects(asked.env)?;
        found.retain(|(id, _)| !with_projects.contains(id));
    }
    if filter.is_of_blocked {
        if found.len() > MAX_RECORDS {
            return Err(Error::bad_request("blocked needs a filter that leaves fewer users"));
        }
        let env = record_cache::attach(asked.env)?;
        let is_blocked =
            |id| Ok::<_, Error>(user::by_id(&env, id)?.is_some_and(|user| user.state == UserState::Blocked));
        let blocked: Result<Vec<_>, Error> = found
            .into_iter()
            .map(|user| Ok(is_blocked(user.0)?.then_some(user)))
            .filter_map(Result::transpose)
            .collect();
        found = blocked?;
    }
    let place = |(id, namespace): &(u64, Namespace)| {
        if let Some(search) = by_match {
            return search.place(*namespace);
        }
        let text = match column {
            "name" => namespace.name().to_lowercase(),
            "username" => namespace.path().to_lowercase(),
            _ => String::new(),
        };
        SortKey { text, id: *id }
    };
    found.sort_by_cached_key(place);
    if !is_ascending {
        found.reverse();
    }
    let view = if is_admin { UserView::Admin } else { UserView::Basic };
    let show = |(id, _): (u64, Namespace)| {
        let user = user::by_id(asked.env, id)?;
        Ok(user.map(|user| render(asked, &catalog, &user, view)))
    };
    if !is_keyset {
        return asked.respond(page, &UserFilter::PARAMETERS, &found, show);
    }
    if let Some(after) = after.flatten() {
        found.retain(|user| if is_ascending { place(user) > after } else { place(user) < after });
    }
    let next = |last, has_more: bool| has_more.then(|| ("cursor", place(&last).to_cursor(column)));
    asked.respond_with_next(page, &UserFilter::PARAMETERS, &found, next, show)
}

fn render(asked: &DirectoryRequest, catalog: &Catalog, user: &User, view: UserView) -> Value {
    let avatar_url = catalog.namespace_of_user(user.id).and_then(|namespace| namespace.details().avatar_url);
    view::to_json(user, avatar_url, view, &asked.url())
}
