//! The repository over git's "dumb" HTTP protocol: `git clone` and `git fetch` work, `git push` does not.
//! Objects are served as they are stored.

use crate::git::ObjectId;
use crate::route::RepositoryFile;
use crate::store::objects::{self, LooseObject};
use crate::store::refs;
use directory::access::{self, Role};
use directory::caller::{self, AcceptedTokens, Caller};
use directory::namespace::Visibility;
use directory::project::{self, Project, ProjectLookup};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use kit::body::{Body, BodyError};
use kit::store::StoreError;
use kit::{Env, Error, Request, Response};

/// The scopes of which a token needs one.
const SCOPES: &[&str] = &["api", "read_api", "read_repository", "write_repository"];

/// Serves a file of the protocol.
pub fn answer(env: Env, request: &Request, project: &str, file: RepositoryFile) -> Result<Response, Error> {
    let project = authorize(&env, request, project).map_err(|error| match error.status {
        // git sends credentials only after a challenge.
        StatusCode::UNAUTHORIZED => {
            error.with_header(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"hexad\""))
        }
        _ => error,
    })?;
    match file {
        RepositoryFile::Head => Ok(text_response(format!("ref: refs/{}\n", default_branch(&env, &project)?))),
        RepositoryFile::Refs => list_refs(&env, &project),
        RepositoryFile::Packs => Ok(text_response(String::new())),
        RepositoryFile::Object(id) => serve_object(&env, &project, &id),
        RepositoryFile::Other => Err(Error::unrouted()),
    }
}

/// The project, if the caller may read its code. If the caller may not see that the project exists: 401 for
/// an anonymous one, 404 for one with credentials.
fn authorize(env: &Env, request: &Request, id: &str) -> Result<Project, Error> {
    let caller = caller::authenticate(env, request, AcceptedTokens::Repository)?;
    caller.require_scope(SCOPES)?;
    let hidden = || if caller.is_anonymous() { Error::unauthorized() } else { Error::not_found("Project") };
    let project = match project::find(env, id)? {
        // git sends all requests to the address that it was given, so an old path is served, not redirected.
        ProjectLookup::Found(project) | ProjectLookup::Moved(project) => project,
        ProjectLookup::Missing => return Err(hidden()),
    };
    if !access::may_read_project(env, &caller, &project)? {
        return Err(hidden());
    }
    let by_role = !matches!(caller, Caller::DeployToken(_)) && project.visibility == Visibility::Private;
    // A guest may see a private project, but not its code.
    if by_role && access::project_role(env, &caller, &project)? < Role::Reporter {
        return Err(Error::forbidden());
    }
    Ok(project)
}

/// The branch that a clone checks out: the project's default, or the one that the imported repository had
/// checked out, or any.
fn default_branch(env: &Env, project: &Project) -> Result<String, StoreError> {
    let names = refs::read_names(env, project.id)?;
    let branch = |name: &String| format!("heads/{name}");
    let candidates = [project.default_branch.as_ref().map(branch), names.default];
    let branches = names.names.into_iter().filter(|name| name.starts_with("heads/"));
    for name in candidates.into_iter().flatten().chain(branches) {
        if refs::read(env, project.id, &name)?.is_some() {
            return Ok(name);
        }
    }
    Ok("heads/main".into())
}

/// Every branch and tag. 1 read, and 1 for each name.
fn list_refs(env: &Env, project: &Project) -> Result<Response, Error> {
    let mut lines = String::new();
    for name in refs::read_names(env, project.id)?.names {
        if let Some(head) = refs::read(env, project.id, &name)? {
            lines.push_str(&format!("{}\trefs/{name}\n", head.commit));
        }
    }
    Ok(text_response(lines))
}

fn serve_object(env: &Env, project: &Project, id: &str) -> Result<Response, Error> {
    let id = ObjectId::parse(id).ok_or_else(Error::unrouted)?;
    let body = match objects::read_loose(env, project.id, id)?.ok_or_else(Error::unrouted)? {
        LooseObject::Whole(bytes) => Body::Full(bytes),
        LooseObject::Chunks(keys) => {
            let env = env.clone();
            Body::pull(keys.into_iter().map(move |key| match env.store.get(&key) {
                Ok(Some(bytes)) => Ok(bytes.into()),
                Ok(None) => Err(BodyError::Storage(format!("`{key}` is missing"))),
                Err(error) => Err(BodyError::Storage(error.to_string())),
            }))
        }
    };
    let mut response = Response::new(StatusCode::OK);
    response.body = body;
    Ok(response
        .with_header(CONTENT_TYPE, HeaderValue::from_static("application/x-git-loose-object"))
        .with_header(CACHE_CONTROL, HeaderValue::from_static("private, max-age=31536000, immutable")))
}

fn text_response(text: String) -> Response {
    let mut response = Response::new(StatusCode::OK);
    response.body = text.into();
    response
        .with_header(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"))
        .with_header(CACHE_CONTROL, HeaderValue::from_static("no-cache"))
}
