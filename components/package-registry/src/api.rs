//! One request after the other: load, decide, save, respond. The only file, with its rooms, that
//! knows a status.

mod access;
mod attestation;
mod deprecate;
mod download;
mod forward;
mod maintenance;
mod metadata;
mod owner;
mod publish;
mod rate_limit;
mod search;
mod tag;
mod unpublish;

use crate::route::{self, Endpoint, Level, Route};
use directory::caller::{self, AcceptedTokens, BOOTSTRAP_ADMIN_TOKEN, Caller};
use http::StatusCode;
use kit::env::EXTERNAL_URL;
use kit::{Env, Error, Request, Response};
use serde_json::json;

/// The variables that this component reads.
pub const VARIABLES: &[&str] = &[
    BOOTSTRAP_ADMIN_TOKEN,
    EXTERNAL_URL,
    forward::FORWARD_URL,
    publish::MAX_FILE,
    publish::MAX_UNPACKED,
    rate_limit::AUTHENTICATED,
    rate_limit::UNAUTHENTICATED,
];

/// Everything about one request except what it asks for.
struct Call {
    env: Env,
    caller: Caller,
    request: Request,
    level: Level,
    /// The registry's address as the request used it, without a trailing slash.
    url: String,
}

/// Answers a request.
pub async fn handle(env: Env, request: Request) -> Response {
    if let Some(task) = route::task(&request.method, &request.path) {
        let answer = match task {
            Ok(task) => maintenance::run(env, request, task).await,
            Err(error) => Err(error),
        };
        return answer.unwrap_or_else(Response::from);
    }
    match route::route(&request.method, &request.path) {
        Ok(route) => answer(env, request, route).await.unwrap_or_else(|error| error.paired().into()),
        Err(error) => error.into(),
    }
}

async fn answer(env: Env, request: Request, route: Route) -> Result<Response, Error> {
    let caller = caller::authenticate(&env, &request, AcceptedTokens::Registry)?;
    rate_limit::check(&env, &request, &caller)?;
    let url = format!("{}{}", env.external_url(&request), route.prefix);
    let call = Call { env, caller, request, level: route.level, url };
    match route.endpoint {
        Endpoint::Metadata { name } => metadata::package(&call, &name),
        Endpoint::Version { name, version } => metadata::version(&call, &name, &version),
        Endpoint::Publish { name } => owner::submit(call, &name).await,
        Endpoint::Download { name, file } => download::file(&call, &name, &file),
        Endpoint::Unpublish { name, revision } => unpublish::versions(call, &name, &revision).await,
        Endpoint::UnpublishAll { name, revision } => unpublish::package(&call, &name, &revision),
        Endpoint::RemoveFile { name, file } => unpublish::file(&call, &name, &file),
        Endpoint::ListTags { name } => tag::list(&call, &name),
        Endpoint::SetTag { name, tag } => tag::set(call, &name, &tag).await,
        Endpoint::RemoveTag { name, tag } => tag::remove(&call, &name, &tag),
        Endpoint::Attestations { name, version } => attestation::list(&call, &name, &version),
        Endpoint::Ping => Ok(Response::ok(&json!({}))),
        Endpoint::WhoAmI => who_am_i(&call),
        Endpoint::User { name } => owner::user(&call, &name),
        Endpoint::Search => search::search(&call),
        Endpoint::Audit { report } => Ok(forward::audit(&call, report)),
    }
}

fn who_am_i(call: &Call) -> Result<Response, Error> {
    let username = match &call.caller {
        Caller::Anonymous => return Err(Error::unauthorized()),
        Caller::DeployToken(_) => "deploy-token",
        Caller::User(session) => &session.user.username,
        Caller::Job(job) => &job.session.user.username,
    };
    Ok(Response::ok(&json!({"username": username})))
}

/// 400 with both keys, in the words of the endpoint.
fn bad_request(reason: &str) -> Error {
    Error::pair(StatusCode::BAD_REQUEST, format!("400 Bad request - {reason}"), reason)
}

/// A refusal in the words of the reference service, the same under both keys.
fn refused(status: StatusCode, text: impl Into<String>) -> Error {
    let text = text.into();
    Error::pair(status, text.clone(), text)
}

fn no_package() -> Error {
    Error::pair(StatusCode::NOT_FOUND, "404 Package Not Found", "Package not found")
}

#[cfg(test)]
mod tests;
