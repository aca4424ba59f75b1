//! One request: checks it, calls the engine, and converts the engine's response into ours. Only this file knows
//! statuses.

use crate::engine::{self, Engine};
use crate::gap_filling::{self, Gap};
use crate::pass_through::{self, Additions, Received};
use crate::query::{self, Query};
use crate::response::{self, Outcome, ResponseError};
use crate::route::{self, Endpoint, Target};
use directory::access::{self, Role};
use directory::caller::{self, BOOTSTRAP_ADMIN_TOKEN, Caller, INVALID_TOKENS};
use directory::feature::{self, Actor};
use directory::project::{Project, ProjectLookup};
use directory::redirect::Redirect;
use directory::setting::{self, ANALYTICS_LEVEL, ANALYTICS_TOKEN_LEVEL, Settings};
use directory::token::LAST_USE_MINUTES;
use directory::{reauthorization, record_cache, seal};
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use kit::env::EXTERNAL_URL;
use kit::outbound::{OutboundError, OutboundRequest, OutboundResponse, Timeouts};
use kit::{Body, Env, Error, Request, Response, url};
use std::rc::Rc;
use std::time::Duration;

/// The feature flag of the area, for a project or for all.
const FEATURE: &str = "product_analytics_features";

/// Timeouts in seconds: for connecting to the engine, between two parts of its response, and for the
/// whole response. The engine sends `Continue wait` after 5 seconds, so the idle timeout is longer.
const CONNECT: (&str, u64) = ("analytics_connect_seconds", 10);
const IDLE: (&str, u64) = ("analytics_read_seconds", 20);
const TOTAL: (&str, u64) = ("analytics_total_seconds", 30);

/// The largest response of the engine, in bytes.
const MAX_RESPONSE: (&str, u64) = ("analytics_max_answer_bytes", 20 << 20);

/// The variables that this component reads.
pub const VARIABLES: &[&str] = &[
    BOOTSTRAP_ADMIN_TOKEN,
    EXTERNAL_URL,
    INVALID_TOKENS,
    LAST_USE_MINUTES,
    seal::KEY,
    seal::PREVIOUS_KEY,
    CONNECT.0,
    IDLE.0,
    TOTAL.0,
    MAX_RESPONSE.0,
];

/// Handles a request.
pub async fn handle(env: Env, request: Request) -> Response {
    respond(&env, request).await.unwrap_or_else(|error| Response::from(with_error_text(error)))
}

/// Adds the error's text as `error`, which the engine's client shows instead of `message`.
fn with_error_text(error: Error) -> Error {
    let is_complete = error.status.is_redirection() || error.to_json().get("error").is_some();
    if is_complete { error } else { error.paired() }
}

async fn respond(env: &Env, mut request: Request) -> Result<Response, Error> {
    let (id, target) = route::parse(&request.method, &request.path)?;
    let env = record_cache::attach(env)?;
    let endpoint = match target {
        Target::Endpoint(endpoint) => endpoint,
        Target::Unsupported(name) => {
            caller::api_user(&env, &request)?;
            let text = format!("404 The engine's endpoint `{name}` is not supported; `load`, `dry-run` and `meta` are");
            return Err(Error::message(StatusCode::NOT_FOUND, text));
        }
    };
    let (env, caller) = match endpoint {
        Endpoint::Load | Endpoint::DryRun => {
            reauthorization::with_body(&env, &mut request, query::MAX_BODY, caller::api_user).await?
        }
        Endpoint::Meta => {
            let caller = caller::api_user(&env, &request)?;
            (env, caller)
        }
    };
    let env = &env;
    let base_url = env.external_url(&request);
    let (method, path, query_string) = (request.method.clone(), request.path.clone(), request.query.clone());
    let query = match endpoint {
        Endpoint::Load | Endpoint::DryRun => Some(Query::read(request).await?),
        Endpoint::Meta => None,
    };
    let (project, is_moved) = readable_project(env, &caller, &id)?.ok_or_else(|| Error::not_found("Project"))?;
    if is_moved {
        return Err(Redirect::to_project(project.id, &base_url, &path, &query_string).into_error(&method));
    }
    let settings = setting::read(env)?;
    let engine = engine(env, &settings, &project)?
        .ok_or_else(|| Error::message(StatusCode::NOT_FOUND, "Product Analytics is not enabled"))?;
    let wants_token = query.as_ref().is_some_and(|query| query.include_token);
    require_level(env, &caller, &settings, &project, wants_token)?;
    let token = engine::current(env, &engine.key, project.id, url::host(&base_url)).map_err(internal)?;

    let request = engine_request(env, &engine, endpoint, query.as_ref(), &token)?;
    let response = env.outbound.send(request).await.map_err(unreachable)?;
    let additions = Additions { results: query.is_some(), token: wants_token.then_some(token) };
    let gaps = match (endpoint, &query) {
        (Endpoint::Load, Some(query)) => gap_filling::requested(&query.text),
        _ => Vec::new(),
    };
    let limit = env.variables.number(MAX_RESPONSE.0, MAX_RESPONSE.1);
    convert(response, &gaps, additions, limit).await
}

/// The project with this id or path, if the caller may read it, and whether the path is a former path.
fn readable_project(env: &Env, caller: &Caller, id: &str) -> Result<Option<(Rc<Project>, bool)>, Error> {
    let (project, is_moved) = match record_cache::find_project(env, id)? {
        ProjectLookup::Found(project) => (project, false),
        ProjectLookup::Moved(project) => (project, true),
        ProjectLookup::Missing => return Ok(None),
    };
    Ok(access::may_read_project(env, caller, &project)?.then_some((project, is_moved)))
}

/// 403 for external users who are not members, and for roles below a setting's level, which the project may raise.
fn require_level(
    env: &Env,
    caller: &Caller,
    settings: &Settings,
    project: &Project,
    wants_token: bool,
) -> Result<(), Error> {
    let forbidden = |why: String| Err(Error::message(StatusCode::FORBIDDEN, format!("403 Forbidden - {why}")));
    let role = access::project_role(env, caller, project)?;
    if role < Role::Guest && caller.user().is_some_and(|user| user.external) {
        return forbidden("external users may query product analytics of projects only as members".to_owned());
    }
    let query_level = (ANALYTICS_LEVEL, project.analytics.query_level);
    let token_level = (ANALYTICS_TOKEN_LEVEL, project.analytics.token_level);
    for (name, own) in [Some(query_level), wants_token.then_some(token_level)].into_iter().flatten() {
        let least = settings.least_role(name).max(own);
        if let Some(least) = least.filter(|least| role < *least) {
            let what = if name == ANALYTICS_LEVEL { "product analytics" } else { "include_token" };
            let level = least.level();
            return forbidden(format!("{what} needs an access level of {level} in the project ({name})"));
        }
    }
    Ok(())
}

fn engine(env: &Env, settings: &Settings, project: &Project) -> Result<Option<Engine>, Error> {
    let Some(engine) = engine::of(env, settings, project)? else { return Ok(None) };
    Ok(feature::is_enabled(env, FEATURE, Some(Actor::Project(project.id)))?.then_some(engine))
}

fn engine_request(
    env: &Env,
    engine: &Engine,
    endpoint: Endpoint,
    query: Option<&Query>,
    token: &str,
) -> Result<OutboundRequest, Error> {
    let url = engine.address(endpoint).ok_or_else(|| bad_gateway("its address in the settings is none"))?;
    let seconds = |(name, default)| Duration::from_secs(env.variables.number(name, default));
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(AUTHORIZATION, HeaderValue::from_str(token).map_err(internal)?);
    let (method, body) = match query {
        Some(query) => (Method::POST, query.body().map_err(internal)?),
        None => (Method::GET, Vec::new()),
    };
    let timeouts = Timeouts { connect: seconds(CONNECT), idle: seconds(IDLE), total: seconds(TOTAL) };
    Ok(OutboundRequest { method, url, headers, body: body.into(), timeouts })
}

async fn convert(
    response: OutboundResponse,
    gaps: &[Gap],
    additions: Additions,
    limit: u64,
) -> Result<Response, Error> {
    let declared = response.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if declared.is_some_and(|length: u64| length > limit) {
        return Err(unusable(ResponseError::TooLarge(limit)));
    }
    match pass_through::read_head(response.body, limit, !gaps.is_empty()).await.map_err(unusable)? {
        Received::Head(head) => {
            let length = declared.filter(|_| head.is_unchanged(&additions));
            let mut converted = json(match length {
                Some(_) => head.into_unscanned_body(),
                None => head.into_body(additions),
            });
            converted.headers.extend(length.map(|length| (CONTENT_LENGTH, length.into())));
            Ok(converted)
        }
        Received::Whole { body, scan, end } => {
            let whole = String::from_utf8(body).map_err(|_| unusable(ResponseError::NotText))?;
            let outcome = response::outcome(&whole).map_err(unusable)?;
            let end = end.ok_or_else(|| unusable(ResponseError::BrokenOff))?;
            decide(outcome, whole, end, gaps, &additions.members(&scan), limit)
        }
    }
}

/// Our response to a complete response of the engine, whose closing bracket is at `end`. If the query succeeded,
/// `members` are inserted before the bracket.
fn decide(
    outcome: Outcome,
    mut whole: String,
    end: usize,
    gaps: &[Gap],
    members: &str,
    limit: u64,
) -> Result<Response, Error> {
    match outcome {
        Outcome::Waiting => Ok(json(whole.into())),
        Outcome::NoDatabase => Err(Error::not_found("Clickhouse Database")),
        Outcome::Refused(why) => Err(Error::message(StatusCode::BAD_REQUEST, why)),
        Outcome::Success => {
            whole.insert_str(end, members);
            if !gaps.is_empty() {
                whole = gap_filling::fill(whole, gaps, limit).map_err(unusable)?;
            }
            Ok(json(whole.into()))
        }
    }
}

fn json(body: Body) -> Response {
    let response = Response { body, ..Response::new(StatusCode::OK) };
    response
        .with_header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
        .with_header(CACHE_CONTROL, HeaderValue::from_static("no-store"))
}

fn internal(why: impl ToString) -> Error {
    Error::internal(why.to_string())
}

fn unreachable(error: OutboundError) -> Error {
    let mut response = match &error {
        OutboundError::Busy => Error::message(StatusCode::SERVICE_UNAVAILABLE, "503 Service Unavailable")
            .with_header(RETRY_AFTER, HeaderValue::from_static("1")),
        error => bad_gateway(&error.to_string()),
    };
    response.cause = Some(format!("{error:?}"));
    response
}

fn unusable(error: ResponseError) -> Error {
    Error::message(StatusCode::BAD_GATEWAY, format!("the analytics engine's answer cannot be used: {error}"))
}

fn bad_gateway(why: &str) -> Error {
    Error::message(StatusCode::BAD_GATEWAY, format!("the analytics engine cannot be asked: {why}"))
}

#[cfg(test)]
mod tests;
