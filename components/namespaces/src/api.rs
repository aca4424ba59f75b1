//! Handles one request. Only this module and its children know HTTP status codes.

mod groups;
mod members;
mod projects;
mod request;
mod users;

use crate::entity::{self, Entity, NamespaceFacts, Permissions, Service};
use crate::list::{self, Filter};
use crate::query::Query;
use crate::route::{self, Route};
use crate::text::TextIndex;
use crate::{member, path_suggestion};
use directory::access::Role;
use directory::caller::{self, AcceptedTokens, BOOTSTRAP_ADMIN_TOKEN, Caller, INVALID_TOKENS};
use directory::catalog::access_snapshot::AccessSnapshot;
use directory::catalog::{self, Catalog, NamespaceView};
use directory::feature::{self, Actor, Features};
use directory::namespace;
use directory::path::Identifier;
use directory::request_limits::ANONYMOUS_RECORDS;
use directory::setting::{self, License, Settings};
use directory::token::LAST_USE_MINUTES;
use groups::Depth;
use kit::env::EXTERNAL_URL;
use kit::page::Pagination;
use kit::params::{Params, Validation};
use kit::rate_limit::{self, RateLimit};
use kit::{Env, Error, Request, Response};
use request::DirectoryRequest;
use serde::Serialize;
use serde_json::json;
use std::rc::Rc;

/// The variables that this component reads.
pub const VARIABLES: &[&str] =
    &[BOOTSTRAP_ADMIN_TOKEN, EXTERNAL_URL, INVALID_TOKENS, LAST_USE_MINUTES, EXISTS_RATE_LIMIT, ANONYMOUS_RECORDS];

/// The variable for the number of `exists` requests that a user may send in a minute; empty means no limit.
const EXISTS_RATE_LIMIT: &str = "namespaces_exists_rate_limit";

/// The key prefix of the counters for this limit.
const EXISTS_COUNTS: &str = "namespaces/v1/rate/exists/";

/// The feature flag that shows billing fields only to owners.
const RESTRICTED_BILLING: &str = "restrict_namespace_api_billing_fields";

/// Handles one request.
pub async fn handle(env: Env, request: Request) -> Response {
    respond(&env, &request).unwrap_or_else(Response::from)
}

fn respond(env: &Env, request: &Request) -> Result<Response, Error> {
    let route = route::parse(&request.method, &request.path)?;
    let caller = caller::authenticate(env, request, AcceptedTokens::Api)?;
    if !is_for_anonymous_callers(&route) {
        caller.user_or_401()?;
    }
    let read = caller::api_scopes(&request.method);
    caller.require_scope(if is_about_users(&route) { USER_SCOPES } else { read })?;
    let params = request.params();
    let directory_request = DirectoryRequest { env, http: request, caller: &caller, params: &params };
    match route {
        Route::List => show_list(env, request, &caller, &params),
        Route::Show(id) => show(env, request, &caller, &params, &id),
        Route::Exists(path) => exists(env, caller.user_or_401()?.id, &params, &path),
        Route::CurrentUser => users::current(&directory_request),
        Route::ListUsers => users::list(&directory_request),
        Route::ShowUser(id) => users::show(&directory_request, id),
        Route::UserProjects(user) => projects::of_user(&directory_request, &user),
        Route::ListProjects => projects::list(&directory_request),
        Route::ShowProject(id) => projects::show(&directory_request, &id),
        Route::ListGroups => groups::list(&directory_request),
        Route::ShowGroup(id) => groups::show(&directory_request, &id),
        Route::GroupProjects(id) => projects::of_group(&directory_request, &id),
        Route::Subgroups(id) => groups::below(&directory_request, &id, Depth::Children),
        Route::DescendantGroups(id) => groups::below(&directory_request, &id, Depth::All),
        Route::ListMembers(source) => members::list(&directory_request, &source),
        Route::ShowMember(source, user_id) => members::show(&directory_request, &source, user_id),
        Route::Version => Ok(version()),
    }
}

/// A token needs one of these scopes to read users.
const USER_SCOPES: &[&str] = &["api", "read_api", "read_user"];

fn is_about_users(route: &Route) -> bool {
    matches!(route, Route::CurrentUser | Route::ListUsers | Route::ShowUser(_) | Route::Version)
}

/// Whether callers without a token may use the route. They see public projects and groups. For users they get 403 and
/// not 401.
fn is_for_anonymous_callers(route: &Route) -> bool {
    !matches!(route, Route::List | Route::Show(_) | Route::Exists(_) | Route::CurrentUser | Route::Version)
}

/// The API version of the reference service that this API implements. Clients compare it with the version that they
/// need.
const API_VERSION: &str = "18.5.0";

fn version() -> Response {
    let revision = concat!("hexad-", env!("CARGO_PKG_VERSION"));
    Response::ok(&json!({
        "version": API_VERSION,
        "revision": revision,
        "kas": {"enabled": false, "externalUrl": null, "version": null},
        "enterprise": true,
    }))
}

fn show_list(env: &Env, request: &Request, caller: &Caller, params: &Params) -> Result<Response, Error> {
    let checks = Validation::new(params);
    let owned_only = checks.boolean("owned_only");
    let top_level_only = checks.boolean("top_level_only").unwrap_or(false);
    let full = checks.boolean("full_path_search").unwrap_or(false);
    let (search, requested_plan) = (checks.text("search"), checks.text("requested_hosted_plan"));
    let page = Pagination::check(&checks);
    checks.finish()?;
    let catalog = catalog::read(env)?;
    let context = RenderContext::new(env, request, caller, requested_plan, &catalog)?;
    let filter = Filter { query: search.and_then(Query::parse), full, top_level_only };
    let (offset, limit) = (usize::try_from(page.offset()).unwrap_or(usize::MAX), page.per_page as usize);
    let (namespaces, total) = match caller.session().filter(|session| !session.user.is_admin) {
        None => {
            let found = list::all(env, &catalog, &filter, offset, limit);
            (found.page, found.total)
        }
        Some(session) => {
            let role = if owned_only == Some(true) { Role::Owner } else { Role::Guest };
            let memberships = session.memberships(env)?;
            let own = list::of_member(env, &catalog, session.user.id, memberships, role, &filter);
            let total = own.len();
            (own.into_iter().skip(offset).take(limit).collect(), total)
        }
    };
    let entities: Result<Vec<Entity>, Error> =
        namespaces.into_iter().map(|namespace| context.entity(namespace)).collect();
    let flag = |value: bool| if value { "true" } else { "false" };
    let mut effective = vec![("full_path_search", flag(full)), ("top_level_only", flag(top_level_only))];
    effective.extend(owned_only.map(|value| ("owned_only", flag(value))));
    effective.extend(requested_plan.map(|value| ("requested_hosted_plan", value)));
    effective.extend(search.map(|value| ("search", value)));
    let url = format!("{}{}", context.url, route::LIST);
    Ok(page.describe(Response::ok(&entities?), &url, &effective, total as u64))
}

fn show(env: &Env, request: &Request, caller: &Caller, params: &Params, id: &str) -> Result<Response, Error> {
    let not_found = || Error::not_found("Namespace");
    let checks = Validation::new(params);
    let requested_plan = checks.text("requested_hosted_plan");
    checks.finish()?;
    let id = match Identifier::parse(id) {
        Identifier::Id(id) => Some(id),
        Identifier::Path(path) => namespace::find(env, path)?.map(|found| found.id),
        Identifier::Invalid => None,
    };
    let catalog = catalog::read(env)?;
    let namespace = id.and_then(|id| catalog.namespace(id)).ok_or_else(not_found)?;
    let context = RenderContext::new(env, request, caller, requested_plan, &catalog)?;
    // Membership in a project of the namespace is not enough. Public visibility is not enough either.
    if context.snapshot.namespace_role(namespace) == Role::None {
        return Err(not_found());
    }
    Ok(Response::ok(&context.entity(namespace)?))
}

/// The data that all namespaces of a response share for rendering.
struct RenderContext<'a> {
    env: &'a Env,
    catalog: &'a Catalog,
    snapshot: AccessSnapshot,
    url: String,
    settings: Rc<Settings>,
    features: Rc<Features>,
    requested_plan: Option<&'a str>,
}

impl<'a> RenderContext<'a> {
    fn new(
        env: &'a Env,
        request: &Request,
        caller: &Caller,
        requested_plan: Option<&'a str>,
        catalog: &'a Catalog,
    ) -> Result<Self, Error> {
        Ok(RenderContext {
            env,
            catalog,
            snapshot: catalog.access_snapshot(env, caller)?,
            url: env.external_url(request),
            settings: setting::read(env)?,
            features: feature::all(env)?,
            requested_plan,
        })
    }

    fn entity<'n>(&self, namespace: NamespaceView<'n>) -> Result<Entity<'n>, Error> {
        let service = Service {
            url: &self.url,
            licensed: self.settings.license() != License::Free,
            hosted: self.settings.hosted(),
            requested_plan: self.requested_plan,
        };
        let actor = match namespace.owner() {
            Some(owner) => Actor::User(owner),
            None => Actor::Group(namespace.id()),
        };
        let permissions = Permissions {
            admin: self.snapshot.is_admin(),
            owner: self.snapshot.namespace_role(namespace) == Role::Owner,
            billing_restricted: feature::is_enabled_in(&self.features, self.env, RESTRICTED_BILLING, Some(actor)),
        };
        let details = namespace.details();
        let counts = match entity::needs_counts(service, permissions, namespace.is_group(), &details) {
            true => Some(member::counts(self.env, self.catalog, namespace)?),
            false => None,
        };
        let root = namespace.lineage().last().filter(|root| root.row() != namespace.row());
        let facts = NamespaceFacts {
            id: namespace.id(),
            name: namespace.name(),
            path: namespace.path(),
            full_path: namespace.full_path(),
            parent_id: namespace.parent().map(NamespaceView::id),
            is_group: namespace.is_group(),
            plan: root.map_or_else(|| details.plan.clone(), |root| root.details().plan),
            details,
            projects: namespace.projects_below().len() as u64,
            counts,
        };
        Ok(entity::entity(service, permissions, facts))
    }
}

#[derive(Serialize)]
struct Existence {
    exists: bool,
    /// A free path, if this one is taken.
    suggests: Vec<String>,
}

fn exists(env: &Env, user_id: u64, params: &Params, path: &str) -> Result<Response, Error> {
    let checks = Validation::new(params);
    let parent_id = checks.integer("parent_id");
    checks.finish()?;
    let limit = RateLimit { variable: EXISTS_RATE_LIMIT, seconds: 60, keys: EXISTS_COUNTS };
    rate_limit::check(env, &limit, &user_id.to_string())?;
    // Ids begin at 1, so no namespace has the parent 0.
    let parent_id = parent_id.map(|id| u64::try_from(id).unwrap_or(0));
    let catalog = catalog::read(env)?;
    let is_pages_domain = |text: &str| catalog.pages_domains().any(|(_, domain)| domain.eq_ignore_ascii_case(text));
    let is_path = |text: &str| -> Result<bool, Error> {
        Ok(match parent_id {
            Some(0) => false,
            Some(id) if catalog.namespace(id).is_none() => false,
            parent_id => namespace::child(env, parent_id, text)?.is_some(),
        })
    };
    if !is_path(path)? && !is_pages_domain(path) {
        return Ok(Response::ok(&Existence { exists: false, suggests: Vec::new() }));
    }
    let index = TextIndex::of(env, &catalog);
    let base = path_suggestion::clean(path);
    for candidate in path_suggestion::candidates(&base, env.now) {
        let named = || index.is_named(&catalog, parent_id, &candidate);
        if !is_path(&candidate)? && !named() && !is_pages_domain(&candidate) {
            return Ok(Response::ok(&Existence { exists: true, suggests: vec![candidate] }));
        }
    }
    Err(Error::internal("no candidate path is free"))
}

#[cfg(test)]
mod tests;
