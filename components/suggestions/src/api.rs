//! Requests and their responses. Only this module, with the modules below, knows a status.

mod access;
mod applicability;
mod apply;
mod context;
mod create_discussion;
mod file_cache;
mod import;
mod input;
mod render;
mod repository;
mod show;
mod source_branch;
mod text_budget;

use crate::route::{self, Route};
use crate::store::reachability::Repositories;
use context::RequestContext;
use directory::caller::{self, AcceptedTokens, BOOTSTRAP_ADMIN_TOKEN};
use directory::token::LAST_USE_MINUTES;
use kit::env::EXTERNAL_URL;
use kit::maintenance;
use kit::{Env, Error, Request, Response};

/// The variables that this component reads.
pub const VARIABLES: &[&str] = &[BOOTSTRAP_ADMIN_TOKEN, EXTERNAL_URL, LAST_USE_MINUTES];

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
        Route::ListDiscussions { project, merge_request } => {
            show::discussions(&context, &project, &merge_request, &request)
        }
        Route::GetDiscussion { project, merge_request, discussion } => {
            show::discussion(&context, &project, &merge_request, &discussion)
        }
        Route::CreateDiscussion { project, merge_request } => {
            create_discussion::create(&context, &project, &merge_request, request).await
        }
        Route::ImportMergeRequests => import::merge_requests(&context, request).await,
        Route::ImportObjects { project } => import::objects(&context, &project, request).await,
        Route::ImportRefs { project } => import::refs(&context, &project, request).await,
        Route::Maintenance(task) => {
            let is_admin = context.caller.user_or_401().map(|_| context.caller.is_admin())?;
            maintenance::answer(&context.env, request, is_admin, task, &Repositories::new(&context.env)?).await
        }
        Route::Repository { .. } => Err(Error::unrouted()),
    }
}

#[cfg(test)]
mod tests;
