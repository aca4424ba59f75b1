//! The repository over git's "smart" HTTP protocol (gitprotocol-http): `git clone`, `git fetch` and `git push`.

mod fetch;
mod fetch_request;
mod pack_stream;
mod push;
mod push_request;
mod ref_list;
mod request_body;
mod selection;

use super::access;
use crate::api::repository::request_body::{git_response, refusal_text};
use crate::git::pktline;
use crate::repository_id::RepositoryId;
use crate::route::GitService;
use directory::record_cache;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, WWW_AUTHENTICATE};
use kit::error::{BASIC, BEARER};
use kit::{Env, Error, Request, Response};
use ref_list::RefList;
use request_body::RequestBody;

const GIT_PROTOCOL: HeaderName = HeaderName::from_static("git-protocol");

/// The largest body of a request to fetch or to list refs, in decompressed bytes: room for 160,000 haves. git sends a
/// few thousand.
const MAX_FETCH_BODY: u64 = 8 << 20;

/// Answers a request of git.
pub async fn answer(env: Env, request: Request, project: &str, service: GitService) -> Result<Response, Error> {
    // Programs other than git read the list of refs without a service: they get errors as everywhere.
    let is_git = service != GitService::Refs || request.params().last("service").is_some();
    let outcome = match service {
        GitService::Refs => advertise(&env, &request, project),
        GitService::Head => head(&env, &request, project),
        GitService::Fetch => fetch(env, request, project).await,
        GitService::Push => push::answer(&env, request, project).await,
        GitService::RefsWithoutSuffix => return redirect(&env, &request),
        GitService::LargeFiles => {
            let text = "Git LFS is not supported by this server: push large files as ordinary ones.";
            return Err(Error::message(StatusCode::NOT_IMPLEMENTED, text));
        }
    };
    outcome.or_else(|error| match error.status {
        // git sends credentials only after a challenge, and other clients may know only the first challenge.
        StatusCode::UNAUTHORIZED => {
            Err(error.with_header(WWW_AUTHENTICATE, BASIC).with_header(WWW_AUTHENTICATE, BEARER))
        }
        StatusCode::FORBIDDEN | StatusCode::NOT_FOUND if is_git => Ok(plain_text(error)),
        _ => Err(error),
    })
}

/// Redirects to the address with `.git`, whether the project exists or not. git sends all further requests below the
/// new address. The address is absolute, because JGit follows no other.
fn redirect(env: &Env, request: &Request) -> Result<Response, Error> {
    let params = request.params();
    let is_git = params.last("service").is_some_and(|service| service.starts_with("git-"));
    let repository = request.path.strip_suffix("/info/refs").filter(|_| is_git).ok_or_else(Error::route_not_found)?;
    let location = format!("{}{repository}.git/info/refs?{}", env.external_url(request), request.query);
    Ok(Response::new(StatusCode::MOVED_PERMANENTLY).with_text(LOCATION, &location))
}

/// The response to a refused request as text, which git prints.
fn plain_text(error: Error) -> Response {
    let mut response = Response::new(error.status);
    response.body = format!("{}\n", refusal_text(&error)).into();
    response
        .with_header(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"))
        .with_header(CACHE_CONTROL, HeaderValue::from_static("no-store"))
}

/// `GET info/refs`. Without a service, the list of branches and tags, a line each.
fn advertise(env: &Env, request: &Request, project: &str) -> Result<Response, Error> {
    let service = request.params().last("service").map(str::to_owned);
    match service.as_deref() {
        Some("git-upload-pack") => {
            let body = match version(request) {
                2 => {
                    access::readable_repository(env, request, project)?;
                    ref_list::capabilities_v2()
                }
                version => {
                    let project = access::repository_with_refs(env, request, project)?;
                    let list = RefList::read(env, &project)?;
                    ref_list::advertise_v0(env, RepositoryId::of(&project), &list, "git-upload-pack", version)?
                }
            };
            Ok(git_response("application/x-git-upload-pack-advertisement", body.into()))
        }
        Some("git-receive-pack") => {
            let repository = access::pushable_repository(env, request, project)?;
            let list = RefList::read(env, &repository.project)?;
            let body =
                ref_list::advertise_v0(env, RepositoryId::of(&repository.project), &list, "git-receive-pack", 0)?;
            Ok(git_response("application/x-git-receive-pack-advertisement", body.into()))
        }
        Some(_) => Err(Error::message(StatusCode::FORBIDDEN, "Unsupported service")),
        None => {
            let project = access::repository_with_refs(env, request, project)?;
            let list = RefList::read(env, &project)?;
            let lines: String = list.refs.iter().map(|(name, id)| format!("{id}\trefs/{name}\n")).collect();
            Ok(git_response("text/plain; charset=utf-8", lines.into()))
        }
    }
}

/// `GET HEAD`: the branch that a clone checks out.
fn head(env: &Env, request: &Request, project: &str) -> Result<Response, Error> {
    let project = access::repository_with_refs(env, request, project)?;
    let list = RefList::read(env, &project)?;
    Ok(git_response("text/plain; charset=utf-8", format!("ref: refs/{}\n", list.head).into()))
}

/// The protocol version that a client asks for.
fn version(request: &Request) -> u8 {
    let header = request.headers.get(GIT_PROTOCOL).and_then(|value| value.to_str().ok()).unwrap_or_default();
    header.split(':').filter_map(|part| part.strip_prefix("version=")?.parse().ok()).max().unwrap_or(0)
}

/// `POST git-upload-pack`.
async fn fetch(env: Env, mut request: Request, project: &str) -> Result<Response, Error> {
    access::readable_repository(&env, &request, project)?;
    let version = version(&request);
    let body = RequestBody::of(&mut request, MAX_FETCH_BODY)?.collect(MAX_FETCH_BODY).await?;
    let env = record_cache::renew(&env)?;
    let project = match version == 2 && !fetch::lists_refs(&body) {
        true => access::readable_repository(&env, &request, project)?,
        false => access::repository_with_refs(&env, &request, project)?,
    };
    let outcome = match version {
        2 => fetch::answer_v2(&env, &project, &body)?,
        _ => fetch::answer_v0(&env, &project, &body)?,
    };
    let body = outcome.unwrap_or_else(|refusal| {
        let mut out = Vec::new();
        pktline::write_text(&mut out, &format!("ERR {refusal}"));
        out.into()
    });
    Ok(git_response("application/x-git-upload-pack-result", body))
}
