//! The repository over git's "dumb" HTTP protocol: `git clone` and `git fetch` work, `git push` does not.
//! Objects are served as they are stored.

use super::access;
use crate::git::ObjectId;
use crate::route::RepositoryFile;
use crate::store::objects::{self, LooseObject};
use crate::store::refs;
use directory::project::Project;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use kit::body::{Body, BodyError};
use kit::store::StoreError;
use kit::{Env, Error, Request, Response};

/// Serves a file of the protocol.
pub fn answer(env: Env, request: &Request, project: &str, file: RepositoryFile) -> Result<Response, Error> {
    let project = access::readable_repository(&env, request, project).map_err(|error| match error.status {
        // git sends credentials only after a challenge.
        StatusCode::UNAUTHORIZED => {
            error.with_header(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"hexad\""))
        }
        _ => error,
    })?;
    match file {
        RepositoryFile::Head => Ok(text_response(format!("ref: refs/{}\n", head(&env, &project)?))),
        RepositoryFile::Refs => list_refs(&env, &project),
        RepositoryFile::Packs => Ok(text_response(String::new())),
        RepositoryFile::Object(id) => serve_object(&env, &project, &id),
        RepositoryFile::Other => Err(Error::unrouted()),
    }
}

/// The ref that a clone checks out: the project's default branch, or the one that the imported repository
/// had checked out, or any.
fn head(env: &Env, project: &Project) -> Result<String, StoreError> {
    let names = refs::read_names(env, project.id)?;
    let configured = project.default_branch.as_ref().map(|branch| format!("heads/{branch}"));
    let branches = names.names.into_iter().filter(|name| name.starts_with("heads/"));
    for name in [configured, names.default].into_iter().flatten().chain(branches) {
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
