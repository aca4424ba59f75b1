//! What each endpoint answers.

mod people;

use crate::asked;
use crate::count::{self, Counts, Place};
use crate::filter;
use crate::import;
use crate::route::{self, Level, Route};
use crate::store::{self, Store};
use crate::visibility::Viewer;
use directory::caller::{self, AcceptedTokens, BOOTSTRAP_ADMIN_TOKEN, Caller};
use directory::project::{Project, ProjectLookup};
use directory::{access, catalog, namespace, project, setting};
use http::header::LOCATION;
use http::{HeaderValue, StatusCode};
use kit::env::EXTERNAL_URL;
use kit::maintenance;
use kit::ndjson;
use kit::rate_limit::{self, RateLimit};
use kit::{Env, Error, Request, Response};
use people::Directory;
use serde_json::json;

/// The variable with how many questions with a search a user may ask in a minute; empty: any number.
pub const SEARCH_RATE_LIMIT: &str = "issues_search_rate_limit";

/// The variables that this component reads.
pub const VARIABLES: &[&str] = &[BOOTSTRAP_ADMIN_TOKEN, EXTERNAL_URL, SEARCH_RATE_LIMIT];

/// How often a question is asked anew whose segments were merged away meanwhile.
const ATTEMPTS: usize = 4;

/// Answers one request.
pub async fn handle(env: Env, request: Request) -> Response {
    answer(&env, request).await.unwrap_or_else(Response::from)
}

async fn answer(env: &Env, request: Request) -> Result<Response, Error> {
    let route = route::parse(&request.method, &request.path)?;
    let caller = caller::authenticate(env, &request, AcceptedTokens::Api)?;
    caller.user_or_401()?;
    caller.require_scope(caller::api_scopes(&request.method))?;
    match route {
        Route::Import => import_issues(env, &caller, request).await,
        Route::Maintain(task) => maintenance::answer(env, request, caller.is_admin(), task, &Store::new(env)).await,
        Route::Count(level) => statistics(env, &caller, &level, &request),
    }
}

async fn import_issues(env: &Env, caller: &Caller, request: Request) -> Result<Response, Error> {
    ndjson::check_media_type(&request)?;
    if !caller.is_admin() {
        return Err(Error::forbidden());
    }
    Ok(Response::ok(&import::run(env, request.body).await?))
}

fn statistics(env: &Env, caller: &Caller, level: &Level, request: &Request) -> Result<Response, Error> {
    let license = setting::read(env)?.license();
    let asked = asked::read(&request.params(), level, license)?;
    let place = match level {
        Level::Instance => Place::Everywhere,
        Level::Group(id) => Place::Group(group(env, caller, id)?),
        Level::Project(id) => match project(env, caller, id)? {
            Found::Here(id) => Place::Project(id),
            Found::Moved(project) => return Ok(moved(env, request, &project)),
        },
    };
    let user_id = caller.user_or_401()?.id;
    if !asked.search.is_empty() {
        let limit = RateLimit { variable: SEARCH_RATE_LIMIT, seconds: 60, keys: store::SEARCHES };
        rate_limit::check(env, &limit, &user_id.to_string())?;
    }
    let catalog = catalog::read(env)?;
    let store = Store::new(env);
    let snapshot =
        store.warm.access_snapshot(user_id, catalog.revision(), env.now, || catalog.access_snapshot(env, caller))?;
    let viewer = Viewer { user_id, catalog, snapshot };
    let below = place != Place::Everywhere;
    let filters = filter::filters(&asked, user_id, below, &Directory { env, caller, catalog: &viewer.catalog })?;
    let mut attempt = 1;
    let counts = loop {
        let index = store.index()?;
        match count::count(&store, &viewer, place, &filters) {
            Ok(counts) => break counts,
            // What the index named may be gone because there is a newer one.
            Err(_) if attempt < ATTEMPTS && store.index()?.revision != index.revision => attempt += 1,
            Err(fault) => return Err(fault.into()),
        }
    };
    Ok(Response::ok(&shown(counts)))
}

fn shown(Counts { all, opened }: Counts) -> serde_json::Value {
    json!({"statistics": {"counts": {"all": all, "closed": all - opened, "opened": opened}}})
}

/// The id of the group that a request names, which the caller may read.
fn group(env: &Env, caller: &Caller, id: &str) -> Result<u64, Error> {
    match namespace::find_group(env, id)? {
        Some(group) if access::may_read_group(env, caller, &group)? => Ok(group.id),
        _ => Err(Error::not_found("Group")),
    }
}

enum Found {
    Here(u64),
    Moved(Box<Project>),
}

/// The project that a request names, which the caller may read.
fn project(env: &Env, caller: &Caller, id: &str) -> Result<Found, Error> {
    let (project, is_here) = match project::find(env, id)? {
        ProjectLookup::Found(project) => (project, true),
        ProjectLookup::Moved(project) => (project, false),
        ProjectLookup::Missing => return Err(Error::not_found("Project")),
    };
    if !access::may_read_project(env, caller, &project)? {
        return Err(Error::not_found("Project"));
    }
    Ok(if is_here { Found::Here(project.id) } else { Found::Moved(Box::new(project)) })
}

fn moved(env: &Env, request: &Request, project: &Project) -> Response {
    let url = format!("{}{}", env.external_url(request), route::of_project(project.id));
    let text = format!("This resource has been moved permanently to {url}");
    let url = if request.query.is_empty() { url } else { format!("{url}?{}", request.query) };
    let mut response = Response::new(StatusCode::MOVED_PERMANENTLY).with_text(LOCATION, &url);
    response.headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    Response { body: text.into(), ..response }
}

#[cfg(test)]
mod tests;
