//! The repository as git reads it over plain HTTP: `git clone` and `git fetch` work, `git push`
//! does not. Objects go out as they are stored.

use crate::git::Id;
use crate::route::RepositoryFile;
use crate::store::{self, Loose};
use directory::access::{self, Role};
use directory::caller::{self, AcceptedTokens, Caller};
use directory::namespace::Visibility;
use directory::project::{self, Project, ProjectLookup};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use kit::body::{Body, BodyError};
use kit::store::StoreError;
use kit::{Env, Error, Request, Response};

/// Scopes of which one suffices.
const SCOPES: &[&str] = &["api", "read_api", "read_repository", "write_repository"];

/// Answers for one of the repository's files.
pub fn answer(env: Env, request: &Request, project: &str, file: RepositoryFile) -> Result<Response, Error> {
    let project = authorized(&env, request, project).map_err(|error| match error.status {
        // git asks its user, or takes what the URL has, only when it is told to.
        StatusCode::UNAUTHORIZED => {
            error.with_header(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"hexad\""))
        }
        _ => error,
    })?;
    match file {
        RepositoryFile::Head => Ok(text(format!("ref: refs/{}\n", default_branch(&env, &project)?))),
        RepositoryFile::Refs => refs(&env, &project),
        RepositoryFile::Packs => Ok(text(String::new())),
        RepositoryFile::Object(id) => object(&env, &project, &id),
        RepositoryFile::Other => Err(Error::unrouted()),
    }
}

/// The project, if the caller may read its code. A caller without credentials is asked for some,
/// whether the project is there or not; one with credentials who may not see it is told that it
/// is not there.
fn authorized(env: &Env, request: &Request, id: &str) -> Result<Project, Error> {
    let caller = caller::authenticate(env, request, AcceptedTokens::Repository)?;
    caller.require_scope(SCOPES)?;
    let hidden = || if caller.is_anonymous() { Error::unauthorized() } else { Error::not_found("Project") };
    let project = match project::find(env, id)? {
        // git goes on with the address that it was given, so an old one has to do as well.
        ProjectLookup::Found(project) | ProjectLookup::Moved(project) => project,
        ProjectLookup::Missing => return Err(hidden()),
    };
    if !access::may_read_project(env, &caller, &project)? {
        return Err(hidden());
    }
    let by_role = !matches!(caller, Caller::DeployToken(_)) && project.visibility == Visibility::Private;
    // Guests see that a private project is there, but not its code.
    if by_role && access::project_role(env, &caller, &project)? < Role::Reporter {
        return Err(Error::forbidden());
    }
    Ok(project)
}

/// The branch that a clone checks out: the project's default, else the one that the imported
/// repository had, else any.
fn default_branch(env: &Env, project: &Project) -> Result<String, StoreError> {
    let names = store::names(env, project.id)?;
    let branch = |name: &String| format!("heads/{name}");
    let candidates = [project.default_branch.as_ref().map(branch), names.default];
    let branches = names.names.into_iter().filter(|name| name.starts_with("heads/"));
    for name in candidates.into_iter().flatten().chain(branches) {
        if store::head(env, project.id, &name)?.is_some() {
            return Ok(name);
        }
    }
    Ok("heads/main".into())
}

/// Every branch and tag. 1 read, and 1 for each.
fn refs(env: &Env, project: &Project) -> Result<Response, Error> {
    let mut lines = String::new();
    for name in store::names(env, project.id)?.names {
        if let Some(head) = store::head(env, project.id, &name)? {
            lines.push_str(&format!("{}\trefs/{name}\n", head.commit));
        }
    }
    Ok(text(lines))
}

fn object(env: &Env, project: &Project, id: &str) -> Result<Response, Error> {
    let id = Id::parse(id).ok_or_else(Error::unrouted)?;
    let body = match store::loose(env, project.id, id)?.ok_or_else(Error::unrouted)? {
        Loose::Whole(bytes) => Body::Full(bytes),
        Loose::Chunks(keys) => {
            let env = env.clone();
            Body::pull(keys.into_iter().map(move |key| match env.store.get(&key) {
                Ok(Some(bytes)) => Ok(bytes.into()),
                Ok(None) => Err(BodyError::Storage(format!("`{key}` is missing"))),
                Err(fault) => Err(BodyError::Storage(fault.to_string())),
            }))
        }
    };
    let mut response = Response::new(StatusCode::OK);
    response.body = body;
    Ok(response
        .with_header(CONTENT_TYPE, HeaderValue::from_static("application/x-git-loose-object"))
        .with_header(CACHE_CONTROL, HeaderValue::from_static("private, max-age=31536000, immutable")))
}

fn text(text: String) -> Response {
    let mut response = Response::new(StatusCode::OK);
    response.body = text.into();
    response
        .with_header(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"))
        .with_header(CACHE_CONTROL, HeaderValue::from_static("no-cache"))
}
