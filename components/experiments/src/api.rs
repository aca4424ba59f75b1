//! What each endpoint answers: the only room that knows a status.

use crate::definition::{self, Definition, Entity};
use crate::import;
use crate::route::{self, Route};
use crate::store::{self, SaveError};
use directory::access::Role;
use directory::caller::{self, AcceptedTokens, BOOTSTRAP_ADMIN_TOKEN, Caller};
use directory::feature::{self, FeatureGates};
use directory::member::Source;
use directory::{namespace, setting};
use http::StatusCode;
use http::header::{CACHE_CONTROL, ETAG, HeaderValue, IF_NONE_MATCH};
use kit::env::EXTERNAL_URL;
use kit::{Env, Error, Request, Response};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The variables that this component reads.
pub const VARIABLES: &[&str] = &[BOOTSTRAP_ADMIN_TOKEN, EXTERNAL_URL];

/// The largest import, in bytes: a few times what can be kept.
const MAX_IMPORT: u64 = 8 << 20;

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
        Route::List => list(env, &request, &caller),
        Route::Import => import(env, &caller, request).await,
    }
}

fn list(env: &Env, request: &Request, caller: &Caller) -> Result<Response, Error> {
    if !is_of_the_team(env, caller)? {
        return Err(Error::forbidden());
    }
    let listed = Listed::of(env)?;
    let known = request.header(IF_NONE_MATCH.as_str()).is_some_and(|known| {
        known.split(',').any(|tag| matches!(tag.trim(), "*") || tag.trim().trim_start_matches("W/") == listed.tag)
    });
    let mut response = match known {
        true => Response::new(StatusCode::NOT_MODIFIED),
        false => {
            let mut response = Response::ok(&());
            response.body = listed.body.clone().into();
            response
        }
    };
    response.headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=0, private, must-revalidate"));
    Ok(response.with_text(ETAG, &format!("W/{}", listed.tag)))
}

/// Whether the caller is a human and a direct member of the operator's group, on the hosted site.
/// Administrators are not excepted.
fn is_of_the_team(env: &Env, caller: &Caller) -> Result<bool, Error> {
    let settings = setting::read(env)?;
    let Some(session) = caller.session().filter(|session| settings.hosted() && !session.user.bot) else {
        return Ok(false);
    };
    let Some(path) = settings.operator_group().filter(|path| !path.contains('/')) else {
        return Ok(false);
    };
    let Some(group) = namespace::find_group(env, path)?.filter(|group| group.parent.is_none()) else {
        return Ok(false);
    };
    Ok(session.memberships(env)?.role(Source::Group(group.id), env.now) > Role::None)
}

/// The answer, and what it was made of.
struct Listed {
    definitions: Vec<Definition>,
    features: BTreeMap<String, FeatureGates>,
    body: Vec<u8>,
    /// In quotes.
    tag: String,
}

impl Listed {
    /// As it was made for an earlier request, if it would be the same.
    fn of(env: &Env) -> Result<Rc<Listed>, Error> {
        let (definitions, features) = (store::read(env)?, feature::all(env)?);
        let is_same = |listed: &Rc<Listed>| (&listed.definitions, &listed.features) == (&definitions, &features);
        if let Some(listed) = env.instance_cache.get::<Listed>().filter(is_same) {
            return Ok(listed);
        }
        let entity = |definition| definition::entity(definition, features.get(&definition.name));
        let entities: Vec<Entity> = definitions.iter().map(entity).collect();
        let body = serde_json::to_vec(&entities).map_err(|why| Error::internal(why.to_string()))?;
        let digest = Sha256::digest(&body);
        let tag: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let listed = Rc::new(Listed { definitions, features, body, tag: format!("\"{tag}\"") });
        env.instance_cache.put(listed.clone());
        Ok(listed)
    }
}

async fn import(env: &Env, caller: &Caller, request: Request) -> Result<Response, Error> {
    if !caller.is_admin() {
        return Err(Error::forbidden());
    }
    let (changes, report) = import::read(&request.body.collect(MAX_IMPORT).await?);
    match store::change(env, &changes) {
        Ok(()) => Ok(Response::ok(&report)),
        Err(SaveError::Store(fault)) => Err(fault.into()),
        Err(SaveError::TooMany(limit)) => {
            Err(Error::bad_request(&format!("all experiments together may take {limit} bytes at most")))
        }
    }
}

#[cfg(test)]
mod tests;
