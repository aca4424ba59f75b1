//! Requests and their responses. Only this module, with the modules below, knows a status.

mod access;
mod applicability;
mod apply;
mod context;
mod create_discussion;
mod file_cache;
mod history;
mod import;
mod input;
mod merge_detection;
mod merge_request_commits;
mod merge_request_diffs;
mod merge_request_json;
mod merge_request_list;
mod merge_requests;
mod note_suggestions;
mod notes;
mod position;
mod renames;
mod render;
mod repository;
mod show;
mod source_branch;
mod text_budget;
mod tree_diff;
mod users;

use crate::route::{self, MergeRequestEndpoint, Route};
use crate::store::reachability::Repositories;
use context::RequestContext;
use directory::caller::{self, AcceptedTokens, BOOTSTRAP_ADMIN_TOKEN, INVALID_TOKENS};
use directory::token::LAST_USE_MINUTES;
use kit::env::EXTERNAL_URL;
use kit::maintenance;
use kit::{Env, Error, Request, Response};
use notes::MergeRequestName;

/// The variables that this component reads.
pub const VARIABLES: &[&str] = &[BOOTSTRAP_ADMIN_TOKEN, EXTERNAL_URL, INVALID_TOKENS, LAST_USE_MINUTES];

/// Answers a request.
pub async fn handle(env: Env, request: Request) -> Response {
    dispatch(env, request).await.unwrap_or_else(Response::from)
}

async fn dispatch(env: Env, request: Request) -> Result<Response, Error> {
    let route = route::parse(&request.method, &request.path)?;
    if let Route::Repository { project, service } = route {
        return repository::answer(env, request, &project, service).await;
    }
    let caller = caller::authenticate(&env, &request, AcceptedTokens::Api)?;
    caller.require_scope(caller::api_scopes(&request.method))?;
    let context = RequestContext {
        url: env.external_url(&request),
        env,
        caller,
        method: request.method.clone(),
        path: request.path.clone(),
        query: request.query.clone(),
    };
    match route {
        Route::GetSuggestion { suggestion } => show::suggestion(&context, &suggestion),
        Route::ApplySuggestion { suggestion } => apply::one(&context, &suggestion, request).await,
        Route::ApplyBatch => apply::batch(&context, request).await,
        Route::ListAllMergeRequests => merge_request_list::of_all_projects(&context, &request),
        Route::ListMergeRequests { project } => merge_request_list::of_project(&context, &project, &request),
        Route::CreateMergeRequest { project } => merge_requests::create(&context, &project, request).await,
        Route::MergeRequest { project, iid, endpoint } => {
            let name = MergeRequestName { project: &project, iid: &iid };
            of_merge_request(&context, name, endpoint, request).await
        }
        Route::ImportMergeRequests => import::merge_requests(&context, request).await,
        Route::ImportObjects { project } => import::objects(&context, &project, request).await,
        Route::ImportPack { project } => import::pack(&context, &project, request).await,
        Route::ImportKnown { project } => import::known(&context, &project, request).await,
        Route::ImportRefs { project } => import::refs(&context, &project, request).await,
        Route::Maintenance(task) => {
            let is_admin = context.caller.user_or_401().map(|_| context.caller.is_admin())?;
            maintenance::answer(&context.env, request, is_admin, task, &Repositories::new(&context.env)?).await
        }
        Route::Repository { .. } => Err(Error::unrouted()),
    }
}

async fn of_merge_request(
    context: &RequestContext,
    name: MergeRequestName<'_>,
    endpoint: MergeRequestEndpoint,
    request: Request,
) -> Result<Response, Error> {
    use MergeRequestEndpoint as Endpoint;
    let MergeRequestName { project, iid } = name;
    match endpoint {
        Endpoint::Show => merge_requests::show(context, name),
        Endpoint::Update => merge_requests::update(context, name, request).await,
        Endpoint::ListCommits => merge_request_commits::list(context, name, &request),
        Endpoint::ListChanges => merge_request_diffs::changes(context, name),
        Endpoint::ListDiffs => merge_request_diffs::diffs(context, name, &request),
        Endpoint::ListDiscussions => show::discussions(context, project, iid, &request),
        Endpoint::CreateDiscussion => create_discussion::create(context, project, iid, request).await,
        Endpoint::GetDiscussion { discussion } => show::discussion(context, project, iid, &discussion),
        Endpoint::ResolveDiscussion { discussion } => notes::resolve(context, name, &discussion, request).await,
        Endpoint::ListDiscussionNotes { discussion } => notes::list_of_discussion(context, name, &discussion),
        Endpoint::Reply { discussion } => notes::reply(context, name, &discussion, request).await,
        Endpoint::ListNotes => notes::list(context, name, &request),
        Endpoint::CreateNote => create_discussion::create_note(context, project, iid, request).await,
        Endpoint::GetNote { discussion, note } => notes::show_note(context, name, discussion.as_deref(), &note),
        Endpoint::EditNote { discussion, note } => {
            notes::edit(context, name, discussion.as_deref(), &note, request).await
        }
        Endpoint::DeleteNote { discussion, note } => notes::delete(context, name, discussion.as_deref(), &note),
    }
}

#[cfg(test)]
mod tests;
