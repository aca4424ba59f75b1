//! The endpoints.

use crate::features::{self, Target};
use crate::route::{self, Route};
use crate::{import, parameters, settings, tokens};
use directory::DirectoryRoots;
use directory::caller::{self, AcceptedTokens, BOOTSTRAP_ADMIN_TOKEN, Caller};
use directory::feature::Actor;
use directory::project::ProjectLookup;
use directory::token::Fingerprint;
use directory::{SaveError, feature, namespace, project, seal, setting, token, user};
use http::StatusCode;
use kit::env::EXTERNAL_URL;
use kit::maintenance;
use kit::ndjson;
use kit::{Env, Error, Request, Response};
use serde_json::Value;

/// The variables that this component reads.
pub const VARIABLES: &[&str] = &[BOOTSTRAP_ADMIN_TOKEN, EXTERNAL_URL, seal::KEY];

/// Answers one request.
pub async fn handle(env: Env, request: Request) -> Response {
    answer(&env, request).await.unwrap_or_else(Response::from)
}

async fn answer(env: &Env, request: Request) -> Result<Response, Error> {
    let route = route::parse(&request.method, &request.path)?;
    let caller = caller::authenticate(env, &request, AcceptedTokens::Api)?;
    caller.user_or_401()?;
    caller.require_scope(caller::api_scopes(&request.method))?;
    match route {
        Route::Import => import_directory(env, &caller, request).await,
        Route::ReadSettings => {
            require_admin(&caller)?;
            Ok(Response::ok(&settings::to_json(&setting::read(env)?)))
        }
        Route::WriteSettings => write_settings(env, &caller, request).await,
        Route::ListFeatures => {
            require_admin(&caller)?;
            let features = feature::all(env)?;
            let list: Vec<Value> = features.iter().map(|(name, gates)| features::to_json(name, gates)).collect();
            Ok(Response::ok(&list))
        }
        Route::SetFeature(name) => set_feature(env, &caller, &name, request).await,
        Route::DeleteFeature(name) => {
            require_admin(&caller)?;
            feature::delete(env, &name)?;
            Ok(Response::no_content())
        }
        Route::CreateToken => create_token(env, &caller, request).await,
        Route::Maintain(task) => {
            maintenance::answer(env, request, caller.is_admin(), task, &DirectoryRoots::new(env)).await
        }
    }
}

fn require_admin(caller: &Caller) -> Result<(), Error> {
    if caller.is_admin() { Ok(()) } else { Err(Error::forbidden()) }
}

fn save_error(error: SaveError) -> Error {
    match error {
        SaveError::Invalid(invalid) => Error::bad_request(&invalid.to_string()),
        SaveError::Store(error) => error.into(),
    }
}

async fn import_directory(env: &Env, caller: &Caller, request: Request) -> Result<Response, Error> {
    ndjson::check_media_type(&request)?;
    require_admin(caller)?;
    Ok(Response::ok(&import::run(env, request.body).await?))
}

async fn write_settings(env: &Env, caller: &Caller, request: Request) -> Result<Response, Error> {
    let changes = settings::parse_changes(parameters::read(request).await?)?;
    require_admin(caller)?;
    let settings = setting::save(env, &changes).map_err(save_error)?;
    Ok(Response::ok(&settings::to_json(&settings)))
}

async fn set_feature(env: &Env, caller: &Caller, name: &str, request: Request) -> Result<Response, Error> {
    let change = features::parse_change(name, &parameters::read(request).await?)?;
    require_admin(caller)?;
    let actors: Result<Vec<Actor>, Error> = change.targets.iter().map(|target| actor(env, target)).collect();
    let actors = actors?;
    let gates = feature::save(env, name, |gates| features::apply(gates, change.value, &actors, &change.groups))
        .map_err(save_error)?;
    Ok(Response::json(StatusCode::CREATED, &features::to_json(name, &gates)))
}

fn actor(env: &Env, target: &Target) -> Result<Actor, Error> {
    let (name, found) = match target {
        Target::User(name) => (name, user::by_username(env, name)?.map(|user| Actor::User(user.id))),
        Target::Group(path) => (path, namespace::find_group(env, path)?.map(|group| Actor::Group(group.id))),
        Target::Project(path) => match project::find(env, path)? {
            ProjectLookup::Found(project) => (path, Some(Actor::Project(project.id))),
            ProjectLookup::Moved(_) | ProjectLookup::Missing => (path, None),
        },
    };
    found.ok_or_else(|| Error::bad_request(&format!("{name} is not found!")))
}

async fn create_token(env: &Env, caller: &Caller, request: Request) -> Result<Response, Error> {
    let new = tokens::parse(&parameters::read(request).await?, env.now)?;
    require_admin(caller)?;
    let user = user::find(env, &new.user)?.ok_or_else(|| Error::not_found("User"))?;
    let secret = tokens::generate_secret(&*env.entropy);
    token::save(env, &Fingerprint::of(secret.as_bytes()), Some(tokens::to_token(&new, &user)))?;
    Ok(Response::json(StatusCode::CREATED, &tokens::to_json(&new, &user, &secret, env.now)))
}

#[cfg(test)]
mod tests;
