//! One request after the other: load, decide, save, respond. The only file, with its rooms, that
//! knows a status.

mod apply;
mod discuss;
mod import;
mod input;
mod repository;
mod show;
mod view;

use crate::route::{self, Route};
use crate::store;
use directory::caller::{self, AcceptedTokens, BOOTSTRAP_ADMIN_TOKEN, Caller};
use directory::project::{self, Project, ProjectLookup};
use directory::{access, user};
use http::header::{HeaderValue, LOCATION};
use http::{Method, StatusCode};
use kit::env::EXTERNAL_URL;
use kit::maintenance;
use kit::{Env, Error, Request, Response};

/// The variables that this component reads.
pub const VARIABLES: &[&str] = &[BOOTSTRAP_ADMIN_TOKEN, EXTERNAL_URL];

/// How much text of files one answer shows at most, in bytes.
const MAX_SHOWN: usize = 24 << 20;

/// Who asks, and where.
struct Call {
    env: Env,
    caller: Caller,
    method: Method,
    path: String,
    query: String,
    /// The service's address.
    url: String,
}

/// Answers a request.
pub async fn handle(env: Env, request: Request) -> Response {
    answer(env, request).await.unwrap_or_else(Response::from)
}

async fn answer(env: Env, request: Request) -> Result<Response, Error> {
    let route = route::route(&request.method, &request.path)?;
    if let Route::Repository { project, file } = route {
        return repository::answer(env, &request, &project, file);
    }
    let caller = caller::authenticate(&env, &request, AcceptedTokens::Api)?;
    caller.require_scope(caller::api_scopes(&request.method))?;
    let call = Call {
        url: env.external_url(&request),
        env,
        caller,
        method: request.method.clone(),
        path: request.path.clone(),
        query: request.query.clone(),
    };
    match route {
        Route::Show { suggestion } => show::suggestion(&call, &suggestion),
        Route::Apply { suggestion } => apply::one(&call, &suggestion, request).await,
        Route::ApplyBatch => apply::batch(&call, request).await,
        Route::Discussions { project, merge_request } => show::discussions(&call, &project, &merge_request, &request),
        Route::Discussion { project, merge_request, discussion } => {
            show::discussion(&call, &project, &merge_request, &discussion)
        }
        Route::Discuss { project, merge_request } => discuss::create(&call, &project, &merge_request, request).await,
        Route::ImportMergeRequests => import::merge_requests(&call, request).await,
        Route::ImportObjects { project } => import::objects(&call, &project, request).await,
        Route::ImportRefs { project } => import::refs(&call, &project, request).await,
        Route::Maintain(task) => {
            let admin = call.caller.user_or_401().map(|_| call.caller.is_admin())?;
            maintenance::answer(&call.env, request, admin, task, &store::Repositories::new(&call.env)?).await
        }
        Route::Repository { .. } => Err(Error::unrouted()),
    }
}

/// The project that a request names, which the caller may read; 404 or, for an old path, 301 else.
fn readable_project(call: &Call, id: &str) -> Result<Project, Error> {
    let not_found = || Error::not_found("Project");
    let (project, moved) = match project::find(&call.env, id)? {
        ProjectLookup::Found(project) => (project, false),
        ProjectLookup::Moved(project) => (project, true),
        ProjectLookup::Missing => return Err(not_found()),
    };
    if !access::may_read_project(&call.env, &call.caller, &project)? {
        return Err(not_found());
    }
    if moved {
        return Err(call.moved(&project));
    }
    Ok(project)
}

impl Call {
    /// The answer to a request that named this project by an old path.
    fn moved(&self, project: &Project) -> Error {
        if !matches!(self.method, Method::GET | Method::HEAD) {
            let text = "Non GET methods are not allowed for moved projects";
            return Error::message(StatusCode::METHOD_NOT_ALLOWED, text);
        }
        let url = format!("{}{}", self.url, route::in_project(project.id, &self.path));
        let text = format!("This resource has been moved permanently to {url}");
        let url = if self.query.is_empty() { url } else { format!("{url}?{}", self.query) };
        let moved = Error::message(StatusCode::MOVED_PERMANENTLY, text);
        match HeaderValue::from_str(&url) {
            Ok(location) => moved.with_header(LOCATION, location),
            Err(_) => moved,
        }
    }

    /// The address in commits that are made in a user's name: their own, or one that leads nowhere.
    fn commit_email(&self, user: &user::User) -> String {
        let authority = self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest);
        let authority = authority.split('/').next().unwrap_or_default();
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => authority,
        };
        let made_up = || format!("{}-{}@users.noreply.{host}", user.id, user.username);
        user.commit_email.clone().unwrap_or_else(made_up)
    }
}

/// Something that is not there, seen from the database.
fn no_record() -> Error {
    Error::message(StatusCode::NOT_FOUND, "404 Not found")
}

#[cfg(test)]
mod tests;
