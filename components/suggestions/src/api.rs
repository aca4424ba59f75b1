//! Requests and their responses. Only this module, with the modules below, knows a status.

mod access;
mod apply;
mod context;
mod create_discussion;
mod file_cache;
mod history;
mod import;
mod json_page;
mod merge_detection;
mod merge_request_diffs;
mod merge_request_json;
mod merge_request_list;
mod merge_requests;
mod notes;
mod position;
mod render;
mod repository;
mod source_branch;

use crate::route::{self, MergeRequestEndpoint, Route};
use crate::store::reachability::Repositories;
use context::RequestContext;
use directory::caller::{BOOTSTRAP_ADMIN_TOKEN, INVALID_TOKENS};
use directory::request_limits::{self, WriteLimit};
use directory::token::LAST_USE_MINUTES;
use http::StatusCode;
use http::header::LOCATION;
use kit::env::EXTERNAL_URL;
use kit::{Body, Env, Error, Request, Response, maintenance};
use notes::MergeRequestName;

/// The variables that this component reads.
pub const VARIABLES: &[&str] = &[
    BOOTSTRAP_ADMIN_TOKEN,
    EXTERNAL_URL,
    INVALID_TOKENS,
    LAST_USE_MINUTES,
    request_limits::ANONYMOUS_RECORDS,
    request_limits::MERGE_REQUESTS.variable,
    request_limits::NOTES.variable,
    request_limits::PUSHES.variable,
    request_limits::SUGGESTIONS.variable,
];

/// The largest body of a request for maintenance, in bytes: more than `kit` accepts, so that `kit` refuses it in its
/// own words.
const MAX_MAINTENANCE_BODY: u64 = 128 << 10;

/// Answers a request.
pub async fn handle(env: Env, request: Request) -> Response {
    dispatch(env, request).await.unwrap_or_else(Response::from)
}

async fn dispatch(env: Env, mut request: Request) -> Result<Response, Error> {
    let route = route::parse(&request.method, &request.path)?;
    if let Route::Page(page) = route {
        let location = format!("{}{page}", env.external_url(&request));
        return Ok(Response::new(StatusCode::FOUND).with_text(LOCATION, &location));
    }
    if let Route::Repository { project, service } = route {
        return repository::answer(env, request, &project, service).await;
    }
    let body = std::mem::take(&mut request.body);
    let mut context = RequestContext::new(env, request)?;
    if let Some(limit) = write_limit(&route) {
        request_limits::check_write(&context.env, &context.caller, limit)?;
    }
    match route {
        Route::GetSuggestion { suggestion } => render::suggestion(&context, &suggestion),
        Route::ApplySuggestion { suggestion } => {
            let params = context::read(&mut context, body).await?;
            apply::one(&context, &suggestion, &params)
        }
        Route::ApplyBatch => {
            let params = context::read(&mut context, body).await?;
            apply::batch(&context, &params)
        }
        Route::ListAllMergeRequests => merge_request_list::of_all_projects(&context),
        Route::ListMergeRequestsOfGroup { group } => merge_request_list::of_group(&context, &group),
        Route::ListMergeRequests { project } => merge_request_list::of_project(&context, &project),
        Route::CreateMergeRequest { project } => {
            let params = context::read(&mut context, body).await?;
            merge_requests::create(&context, &project, &params)
        }
        Route::MergeRequest { project, iid, endpoint } => {
            let name = MergeRequestName { project: &project, iid: &iid };
            of_merge_request(&mut context, name, endpoint, body).await
        }
        Route::ImportMergeRequests => import::merge_requests(&mut context, body).await,
        Route::ImportObjects { project } => import::objects(&mut context, &project, body).await,
        Route::ImportPack { project } => import::pack(&mut context, &project, body).await,
        Route::ImportKnown { project } => import::known(&mut context, &project, body).await,
        Route::ImportRefs { project } => import::refs(&mut context, &project, body).await,
        Route::Maintenance(task) => {
            context.caller.user_or_401()?;
            context.head.body = body.collect(MAX_MAINTENANCE_BODY).await?.into();
            context.renew()?;
            let RequestContext { env, caller, head, .. } = context;
            maintenance::answer(&env, head, caller.is_admin(), task, &Repositories::new(&env)?).await
        }
        Route::Repository { .. } | Route::Page(_) => Err(Error::route_not_found()),
    }
}

/// The limit of a user's requests that a request counts against.
fn write_limit(route: &Route) -> Option<&'static WriteLimit> {
    use MergeRequestEndpoint as Endpoint;
    match route {
        Route::ApplySuggestion { .. } | Route::ApplyBatch => Some(&request_limits::SUGGESTIONS),
        Route::CreateMergeRequest { .. } => Some(&request_limits::MERGE_REQUESTS),
        Route::MergeRequest { endpoint, .. } => match endpoint {
            Endpoint::Update => Some(&request_limits::MERGE_REQUESTS),
            Endpoint::CreateDiscussion
            | Endpoint::ResolveDiscussion { .. }
            | Endpoint::Reply { .. }
            | Endpoint::CreateNote
            | Endpoint::EditNote { .. }
            | Endpoint::DeleteNote { .. } => Some(&request_limits::NOTES),
            _ => None,
        },
        _ => None,
    }
}

async fn of_merge_request(
    context: &mut RequestContext,
    name: MergeRequestName<'_>,
    endpoint: MergeRequestEndpoint,
    body: Body,
) -> Result<Response, Error> {
    use MergeRequestEndpoint as Endpoint;
    let MergeRequestName { project, iid } = name;
    match endpoint {
        Endpoint::Show => merge_requests::show(context, name),
        Endpoint::Update => {
            let params = context::read(context, body).await?;
            merge_requests::update(context, name, &params)
        }
        Endpoint::ListCommits => merge_request_diffs::list_commits(context, name),
        Endpoint::ListChanges => merge_request_diffs::changes(context, name),
        Endpoint::ListDiffs => merge_request_diffs::diffs(context, name),
        Endpoint::ListDiscussions => render::discussions(context, project, iid),
        Endpoint::CreateDiscussion => {
            let params = context::read(context, body).await?;
            create_discussion::create(context, project, iid, &params)
        }
        Endpoint::GetDiscussion { discussion } => render::discussion(context, project, iid, &discussion),
        Endpoint::ResolveDiscussion { discussion } => {
            let params = context::read(context, body).await?;
            notes::resolve(context, name, &discussion, &params)
        }
        Endpoint::ListDiscussionNotes { discussion } => notes::list_of_discussion(context, name, &discussion),
        Endpoint::Reply { discussion } => {
            let params = context::read(context, body).await?;
            notes::reply(context, name, &discussion, &params)
        }
        Endpoint::ListNotes => notes::list(context, name),
        Endpoint::CreateNote => {
            let params = context::read(context, body).await?;
            create_discussion::create_note(context, project, iid, &params)
        }
        Endpoint::GetNote { discussion, note } => notes::show_note(context, name, discussion.as_deref(), &note),
        Endpoint::EditNote { discussion, note } => {
            let params = context::read(context, body).await?;
            notes::edit(context, name, discussion.as_deref(), &note, &params)
        }
        Endpoint::DeleteNote { discussion, note } => notes::delete(context, name, discussion.as_deref(), &note),
    }
}

#[cfg(test)]
mod tests;
