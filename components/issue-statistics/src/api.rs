//! The endpoints.

mod user_resolver;

use crate::authorization::{self, Decision, SEARCH_RATE_LIMIT, Target};
use crate::count::{self, Counts};
use crate::filter;
use crate::import;
use crate::parameters;
use crate::route::{self, Level, Route};
use crate::store::IndexStore;
use directory::caller::{self, AcceptedTokens, BOOTSTRAP_ADMIN_TOKEN, Caller};
use directory::project::Project;
use directory::redirect::Redirect;
use directory::setting;
use directory::token::LAST_USE_MINUTES;
use http::header::LOCATION;
use http::{HeaderValue, StatusCode};
use kit::env::EXTERNAL_URL;
use kit::maintenance;
use kit::ndjson;
use kit::{Env, Error, Request, Response};
use serde_json::json;
use user_resolver::DirectoryUsers;

/// The variables that this component reads.
pub const VARIABLES: &[&str] = &[BOOTSTRAP_ADMIN_TOKEN, EXTERNAL_URL, LAST_USE_MINUTES, SEARCH_RATE_LIMIT];

/// How often a count is tried while merges delete the segments that it reads.
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
        Route::Maintain(task) => {
            maintenance::answer(env, request, caller.is_admin(), task, &IndexStore::new(env)).await
        }
        Route::Count(level) => count_issues(env, &caller, &level, &request),
    }
}

async fn import_issues(env: &Env, caller: &Caller, request: Request) -> Result<Response, Error> {
    ndjson::check_media_type(&request)?;
    if !caller.is_admin() {
        return Err(Error::forbidden());
    }
    Ok(Response::ok(&import::run(env, request.body).await?))
}

fn count_issues(env: &Env, caller: &Caller, level: &Level, request: &Request) -> Result<Response, Error> {
    let license = setting::read(env)?.license();
    let parameters = parameters::read(&request.params(), level, license)?;
    let store = IndexStore::new(env);
    let is_search = !parameters.search.is_empty();
    let authorized = match authorization::authorize(env, &store, caller, level, is_search)? {
        Decision::Authorized(authorized) => authorized,
        Decision::Moved(project) => return Ok(moved_permanently(env, request, &project)),
    };
    let in_namespace = authorized.target != Target::Instance;
    let users = DirectoryUsers { env, caller, catalog: &authorized.catalog };
    let filters = filter::resolve(&parameters, authorized.user_id, in_namespace, &users)?;
    let mut attempt = 1;
    let counts = loop {
        let manifest = store.manifest()?;
        match count::count(&store, &authorized, &filters) {
            Ok(counts) => break counts,
            // A merge may have deleted segments of this manifest.
            Err(_) if attempt < ATTEMPTS && store.manifest()?.revision != manifest.revision => attempt += 1,
            Err(error) => return Err(error.into()),
        }
    };
    Ok(Response::ok(&to_json(counts)))
}

fn to_json(Counts { all, opened }: Counts) -> serde_json::Value {
    json!({"statistics": {"counts": {"all": all, "closed": all - opened, "opened": opened}}})
}

fn moved_permanently(env: &Env, request: &Request, project: &Project) -> Response {
    let redirect = Redirect::to_project(project.id, &env.external_url(request), &request.path, &request.query);
    let mut response = Response::new(StatusCode::MOVED_PERMANENTLY).with_text(LOCATION, redirect.location());
    response.headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    Response { body: redirect.text().into(), ..response }
}

#[cfg(test)]
mod tests;
