//! The endpoints.

mod npm;
mod tokens;

use crate::features::{self, GateValue, Target};
use crate::route::{self, Route};
use crate::{import, parameters, settings};
use directory::caller::{self, AcceptedTokens, BOOTSTRAP_ADMIN_TOKEN, Caller, INVALID_TOKENS};
use directory::demo::{self, DemoError};
use directory::feature::{self, Actor};
use directory::project::{self, Incarnation, ProjectLookup};
use directory::reauthorization::{self, AdminRequest};
use directory::request_limits::TOKENS;
use directory::token::LAST_USE_MINUTES;
use directory::{DirectoryRoots, SaveError, dependents, namespace, seal, setting, user};
use http::{Method, StatusCode};
use kit::env::EXTERNAL_URL;
use kit::{Env, Error, Request, Response, maintenance, ndjson};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The variables that this component reads.
pub const VARIABLES: &[&str] =
    &[BOOTSTRAP_ADMIN_TOKEN, EXTERNAL_URL, INVALID_TOKENS, LAST_USE_MINUTES, TOKENS.variable, seal::KEY];

/// Answers one request.
pub async fn handle(env: Env, request: Request) -> Response {
    let has_secret_path = route::has_secret(&request.path);
    let response = match route::parse(&request.method, &request.path) {
        // npm prints only the field `error`.
        Ok(Route::Npm(route)) => npm::answer(&env, request, &route).await.map_err(Error::paired),
        Ok(route) => answer(&env, request, route).await,
        Err(error) => Err(error),
    };
    Response { has_secret_path, ..response.unwrap_or_else(Response::from) }
}

async fn answer(env: &Env, mut request: Request, route: Route) -> Result<Response, Error> {
    let authenticate = |env: &Env, request: &Request| authenticate(env, request, &route);
    let (env, caller) = match (&route, &request.method) {
        // The body of an import may have any length.
        (Route::Import, _) => (env.clone(), authenticate(env, &request)?),
        (_, &Method::POST | &Method::PUT) => {
            reauthorization::with_body(env, &mut request, parameters::MAX_BODY, authenticate).await?
        }
        _ => (env.clone(), authenticate(env, &request)?),
    };
    let env = &env;
    match route {
        Route::Import => import_directory(env, &caller, request).await,
        Route::LoadDemo => load_demo(env, &caller, request).await,
        Route::ReadSettings => {
            require_admin(&caller)?;
            let settings = setting::read(env)?;
            Ok(Response::ok(&settings::to_json(&settings)))
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
        Route::ListTokens => tokens::list(env, &caller, &request),
        Route::CreateToken(user) => tokens::create(env, &caller, user, request).await,
        Route::ShowToken(name) => tokens::show(env, &caller, &name, &request),
        Route::RevokeToken(name) => tokens::revoke(env, &caller, &name, &request),
        Route::RotateToken(name) => tokens::rotate(env, &caller, &name, request).await,
        Route::Npm(route) => npm::answer(env, request, &route).await,
        Route::Maintain(task) => {
            maintenance::answer(env, request, caller.is_admin(), task, &DirectoryRoots::new(env)).await
        }
    }
}

/// Returns the caller if the token has a scope for the route.
fn authenticate(env: &Env, request: &Request, route: &Route) -> Result<Caller, Error> {
    let caller = match caller::authenticate(env, request, AcceptedTokens::Api) {
        // Only 401 means that the token is invalid. Other errors say nothing about it.
        Err(refusal) if refusal.status == StatusCode::UNAUTHORIZED && matches!(route, Route::RotateToken(_)) => {
            tokens::revoke_successors(env, request)?;
            return Err(refusal);
        }
        caller => caller?,
    };
    caller.user_or_401()?;
    let scopes = caller::api_scopes(&request.method);
    let scopes = match route {
        Route::ShowToken(name) | Route::RevokeToken(name) => tokens::scopes(name, false, scopes),
        Route::RotateToken(name) => tokens::scopes(name, true, scopes),
        _ => Some(scopes),
    };
    if let Some(scopes) = scopes {
        caller.require_scope(scopes)?;
    }
    Ok(caller)
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

async fn import_directory(env: &Env, caller: &Caller, mut request: Request) -> Result<Response, Error> {
    ndjson::check_media_type(&request)?;
    require_admin(caller)?;
    let body = std::mem::take(&mut request.body);
    Ok(Response::ok(&import::run(env, &AdminRequest::new(request), body).await?))
}

/// The requests of `hexad up --demo` before its first record and after its last one.
#[derive(Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
enum DemoStep {
    Loading { records: BTreeSet<String> },
    Loaded,
}

async fn load_demo(env: &Env, caller: &Caller, request: Request) -> Result<Response, Error> {
    let fields = parameters::read(request).await?;
    require_admin(caller)?;
    let step = serde_json::from_value(fields.into()).map_err(|why| Error::bad_request(&why.to_string()))?;
    let state = match step {
        DemoStep::Loading { records } => demo::begin(env, &records).map_err(|error| match error {
            DemoError::Store(error) => error.into(),
            DemoError::Occupied(record) => {
                let text = format!("The demo is loaded into an empty store only, and this one has {record}");
                Error::message(StatusCode::CONFLICT, text)
            }
        })?,
        DemoStep::Loaded => demo::finish(env)?,
    };
    Ok(Response::ok(&json!({"state": state})))
}

async fn write_settings(env: &Env, caller: &Caller, request: Request) -> Result<Response, Error> {
    let changes = settings::parse_changes(parameters::read_typed(request, settings::from_text).await?)?;
    require_admin(caller)?;
    let settings = setting::save(env, &changes).map_err(save_error)?;
    let mut json = settings::to_json(&settings);
    let warnings = settings::warnings(&changes);
    if let Some(fields) = json.as_object_mut().filter(|_| !warnings.is_empty()) {
        fields.insert("warnings".into(), warnings.into());
    }
    Ok(Response::ok(&json))
}

async fn set_feature(env: &Env, caller: &Caller, name: &str, request: Request) -> Result<Response, Error> {
    let change = features::parse_change(name, &parameters::read(request).await?)?;
    require_admin(caller)?;
    let found: Result<Vec<(Actor, Incarnation)>, Error> =
        change.targets.iter().map(|target| actor(env, target)).collect();
    let found = found?;
    let actors: Vec<Actor> = found.iter().map(|(actor, _)| *actor).collect();
    let gates = feature::save(env, name, |gates| features::apply(gates, change.value, &actors, &change.groups))
        .map_err(save_error)?;
    if change.value == GateValue::On && !actors.is_empty() {
        let deleted =
            dependents::close_gates_of_deleted(env, found.into_iter().map(|(actor, was)| (actor, Some(was))))?;
        if let Some(actor) = deleted.first() {
            return Err(Error::bad_request(&format!("{} is not found!", actor.name())));
        }
    }
    Ok(Response::json(StatusCode::CREATED, &features::to_json(name, &gates)))
}

/// The actor with this name, and its incarnation.
fn actor(env: &Env, target: &Target) -> Result<(Actor, Incarnation), Error> {
    let (name, found) = match target {
        Target::User(name) => {
            (name, user::by_username(env, name)?.map(|user| (Actor::User(user.id), user.incarnation.clone())))
        }
        Target::Group(path) => {
            (path, namespace::find_group(env, path)?.map(|group| (Actor::Group(group.id), group.incarnation.clone())))
        }
        Target::Project(path) => match project::find(env, path)? {
            ProjectLookup::Found(project) => (path, Some((Actor::Project(project.id), project.incarnation.clone()))),
            ProjectLookup::Moved(_) | ProjectLookup::Missing => (path, None),
        },
    };
    found.ok_or_else(|| Error::bad_request(&format!("{name} is not found!")))
}

#[cfg(test)]
mod tests;
