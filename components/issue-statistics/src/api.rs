//! The endpoints.

use crate::count::{self, CostExceeded, CountError, Counts};
use crate::filter::{self, UserResolver};
use crate::query_cost::{DEFAULT_MAX_COST, MAX_COST, QueryCost};
use crate::route::{self, Level, Route};
use crate::store::IndexStore;
use crate::visibility::{self, Decision, SEARCH_RATE_LIMIT, Target};
use crate::{import, parameters};
use directory::caller::{self, BOOTSTRAP_ADMIN_TOKEN, Caller, INVALID_TOKENS};
use directory::catalog::{self, Catalog};
use directory::member::Source;
use directory::reauthorization::{self, AdminRequest};
use directory::redirect::Redirect;
use directory::token::LAST_USE_MINUTES;
use directory::user::{self, UserKey};
use directory::{access, namespace, setting};
use kit::env::EXTERNAL_URL;
use kit::store::StoreError;
use kit::{Env, Error, Request, Response, maintenance, ndjson};
use serde_json::json;
use std::rc::Rc;

/// The variables that this component reads.
pub const VARIABLES: &[&str] =
    &[BOOTSTRAP_ADMIN_TOKEN, EXTERNAL_URL, INVALID_TOKENS, LAST_USE_MINUTES, SEARCH_RATE_LIMIT, MAX_COST];

/// How often a count is tried when a writer deletes segments that it reads.
const ATTEMPTS: usize = 4;

/// Answers one request.
pub async fn handle(env: Env, request: Request) -> Response {
    answer(&env, request).await.unwrap_or_else(Response::from)
}

async fn answer(env: &Env, mut request: Request) -> Result<Response, Error> {
    match route::parse(&request.method, &request.path)? {
        Route::Import => import_issues(env, &caller::api_user(env, &request)?, request).await,
        Route::Maintain(task) => {
            let limit = maintenance::MAX_BODY;
            let (env, caller) = reauthorization::with_body(env, &mut request, limit, caller::api_user).await?;
            maintenance::answer(&env, request, caller.is_admin(), task, &IndexStore::new(&env)).await
        }
        Route::Count(level) => {
            // Read before the caller, whose access is cached for a catalog revision. This revision must not be later
            // than the records of the caller.
            let catalog = catalog::read(env)?;
            count_issues(env, catalog, &caller::api_user(env, &request)?, &level, &request)
        }
    }
}

async fn import_issues(env: &Env, caller: &Caller, mut request: Request) -> Result<Response, Error> {
    ndjson::check_media_type(&request)?;
    if !caller.is_admin() {
        return Err(Error::forbidden());
    }
    let body = std::mem::take(&mut request.body);
    let imported = import::run(env, &AdminRequest::new(request), body).await?;
    let cause = imported.compaction.map(|error| format!("the index was not compacted: {error}"));
    Ok(Response { cause, ..Response::ok(&imported.report) })
}

fn count_issues(
    env: &Env,
    catalog: Rc<Catalog>,
    caller: &Caller,
    level: &Level,
    request: &Request,
) -> Result<Response, Error> {
    let license = setting::read(env)?.license();
    let parameters = parameters::read(&request.params(), level, license)?;
    let store = IndexStore::new(env);
    let is_search = !parameters.search.is_empty();
    let authorized = match visibility::authorize(env, &store, catalog, caller, level, is_search)? {
        Decision::Authorized(authorized) => authorized,
        Decision::Moved(project) => {
            let base_url = env.external_url(request);
            let redirect = Redirect::to_project(project.id, &base_url, &request.path, &request.query);
            return Err(redirect.into_error(&request.method));
        }
    };
    let in_namespace = authorized.target != Target::Instance;
    let users = DirectoryUsers { env, caller, catalog: &authorized.catalog };
    let filters = filter::resolve(&parameters, &authorized.user, in_namespace, &users)?;
    let max_cost = env.variables.number(MAX_COST, DEFAULT_MAX_COST);
    let mut attempt = 1;
    let counts = loop {
        let manifest = store.manifest()?;
        match count::count(&store, &authorized, &filters, &QueryCost::new(max_cost)) {
            Ok(counts) => break counts,
            Err(CountError::CostExceeded(exceeded)) => return Err(cost_exceeded(&exceeded)),
            // The request took so long that a writer deleted the segments that it replaced.
            Err(CountError::Store(StoreError::Corrupt { .. }))
                if attempt < ATTEMPTS && store.manifest()?.revision != manifest.revision =>
            {
                attempt += 1;
            }
            Err(CountError::Store(error)) => return Err(error.into()),
        }
    };
    Ok(Response::ok(&to_json(counts)))
}

/// How much of a text an error quotes, in characters.
const QUOTED: usize = 80;

fn cost_exceeded(exceeded: &CostExceeded) -> Error {
    let text = match exceeded {
        CostExceeded::Search(text) => text,
        CostExceeded::Filters => return Error::bad_request("the filters have too many values; ask with fewer of them"),
        CostExceeded::Projects => {
            let text = format!("there are issues of too many projects; an administrator can raise {MAX_COST}");
            return Error::bad_request(&text);
        }
    };
    let mut quoted: String = text.chars().take(QUOTED).collect();
    if quoted.len() < text.len() {
        quoted.push('…');
    }
    Error::bad_request(&format!("the search for `{quoted}` takes too long; search for fewer or rarer words"))
}

fn to_json(Counts { all, opened }: Counts) -> serde_json::Value {
    json!({"statistics": {"counts": {"all": all, "closed": all - opened, "opened": opened}}})
}

/// A handle stands for at most 100 members of a group, as in the reference service.
const MAX_MEMBERS: usize = 100;

pub struct DirectoryUsers<'a> {
    pub env: &'a Env,
    pub caller: &'a Caller,
    pub catalog: &'a Catalog,
}

impl DirectoryUsers<'_> {
    fn with_username(&self, name: &str) -> Result<Vec<UserKey>, StoreError> {
        Ok(user::by_username(self.env, name)?.map(|user| user.key()).into_iter().collect())
    }
}

impl UserResolver for DirectoryUsers<'_> {
    type Error = StoreError;

    fn user(&self, id: u64) -> Result<UserKey, StoreError> {
        user::key_of(self.env, id)
    }

    fn users(&self, name: &str) -> Result<Vec<UserKey>, StoreError> {
        let Some(handle) = name.strip_prefix('@') else {
            return self.with_username(name);
        };
        match namespace::find_group(self.env, handle)? {
            Some(group) if access::may_read_group(self.env, self.caller, &group)? => {
                let mut ids = Vec::new();
                self.catalog.members(self.env, &[Source::Group(group.id)], |member| {
                    if member.is_current(self.env.now) {
                        ids.push(member.user_id);
                    }
                })?;
                ids.sort_unstable();
                ids.truncate(MAX_MEMBERS);
                ids.into_iter().map(|id| user::key_of(self.env, id)).collect()
            }
            // A username may begin with `@`, too.
            _ => self.with_username(handle),
        }
    }
}

#[cfg(test)]
mod tests;
