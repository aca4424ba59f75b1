//! What each endpoint answers: the only room that knows a status.

use crate::entity::{self, Entity, Facts, Right, Service};
use crate::list::{self, Filter};
use crate::query::Query;
use crate::route::{self, Route};
use crate::text::Index;
use crate::{alternative, member};
use directory::access::Role;
use directory::caller::{self, AcceptedTokens, BOOTSTRAP_ADMIN_TOKEN, Caller};
use directory::catalog::access_snapshot::AccessSnapshot;
use directory::catalog::{self, Catalog, Namespace};
use directory::feature::{self, Actor, FeatureGates};
use directory::namespace;
use directory::path::Identifier;
use directory::setting::{self, License, Settings};
use kit::env::EXTERNAL_URL;
use kit::page::Pagination;
use kit::params::{Params, Validation};
use kit::rate_limit::{self, RateLimit};
use kit::{Env, Error, Request, Response};
use serde::Serialize;
use std::collections::BTreeMap;

/// The variables that this component reads.
pub const VARIABLES: &[&str] = &[BOOTSTRAP_ADMIN_TOKEN, EXTERNAL_URL, EXISTS_RATE_LIMIT];

/// The variable with how often a user may ask in a minute whether a path is taken; empty: any number.
const EXISTS_RATE_LIMIT: &str = "namespaces_exists_rate_limit";

/// Below this are the counts of that limit.
const EXISTS_ASKED: &str = "namespaces/v1/rate/exists/";

/// Restricts what a namespace costs to those who own it.
const RESTRICTED: &str = "restrict_namespace_api_billing_fields";

/// Answers one request.
pub async fn handle(env: Env, request: Request) -> Response {
    answer(&env, &request).unwrap_or_else(Response::from)
}

fn answer(env: &Env, request: &Request) -> Result<Response, Error> {
    let route = route::parse(&request.method, &request.path)?;
    let caller = caller::authenticate(env, request, AcceptedTokens::Api)?;
    let user_id = caller.user_or_401()?.id;
    caller.require_scope(caller::api_scopes(&request.method))?;
    let params = request.params();
    match route {
        Route::List => show_list(env, request, &caller, &params),
        Route::Show(id) => show(env, request, &caller, &params, &id),
        Route::Exists(path) => exists(env, user_id, &params, &path),
    }
}

fn show_list(env: &Env, request: &Request, caller: &Caller, params: &Params) -> Result<Response, Error> {
    let checks = Validation::new(params);
    let owned_only = checks.boolean("owned_only");
    let top_level_only = checks.boolean("top_level_only").unwrap_or(false);
    let full = checks.boolean("full_path_search").unwrap_or(false);
    let page = Pagination::check(&checks);
    checks.finish()?;
    let catalog = catalog::read(env)?;
    let scene = Scene::of(env, request, caller, params, &catalog)?;
    let filter = Filter { query: params.text("search").and_then(Query::parse), full, top_level_only };
    let (offset, limit) = (usize::try_from(page.offset()).unwrap_or(usize::MAX), page.per_page as usize);
    let (namespaces, total) = match caller.session().filter(|session| !session.user.is_admin) {
        None => {
            let found = list::of_all(env, &catalog, &filter, offset, limit);
            (found.page, found.total)
        }
        Some(session) => {
            let role = if owned_only == Some(true) { Role::Owner } else { Role::Guest };
            let memberships = session.memberships(env)?;
            let mine = list::of_member(env, &catalog, session.user.id, memberships, role, &filter);
            let total = mine.len();
            (mine.into_iter().skip(offset).take(limit).collect(), total)
        }
    };
    let entities: Result<Vec<Entity>, Error> =
        namespaces.into_iter().map(|namespace| scene.entity(namespace)).collect();
    let flag = |value: bool| if value { "true" } else { "false" };
    let mut effective = vec![("full_path_search", flag(full)), ("top_level_only", flag(top_level_only))];
    effective.extend(owned_only.map(|value| ("owned_only", flag(value))));
    for name in ["requested_hosted_plan", "search"] {
        effective.extend(params.text(name).map(|value| (name, value)));
    }
    let url = format!("{}{}", scene.url, route::LIST);
    Ok(page.describe(Response::ok(&entities?), &url, &effective, total as u64))
}

fn show(env: &Env, request: &Request, caller: &Caller, params: &Params, id: &str) -> Result<Response, Error> {
    let not_found = || Error::not_found("Namespace");
    let id = match Identifier::parse(id) {
        Identifier::Id(id) => Some(id),
        Identifier::Path(path) => namespace::find(env, path)?.map(|found| found.id),
        Identifier::Invalid => None,
    };
    let catalog = catalog::read(env)?;
    let namespace = id.and_then(|id| catalog.namespace(id)).ok_or_else(not_found)?;
    let scene = Scene::of(env, request, caller, params, &catalog)?;
    // A member of a project in it is no member of it, and what is public is not everybody's.
    if scene.snapshot.namespace_role(namespace) == Role::None {
        return Err(not_found());
    }
    Ok(Response::ok(&scene.entity(namespace)?))
}

/// What all namespaces of an answer have in common.
struct Scene<'a> {
    env: &'a Env,
    catalog: &'a Catalog,
    snapshot: AccessSnapshot,
    url: String,
    settings: Settings,
    features: BTreeMap<String, FeatureGates>,
    requested_plan: Option<&'a str>,
}

impl<'a> Scene<'a> {
    fn of(
        env: &'a Env,
        request: &Request,
        caller: &Caller,
        params: &'a Params,
        catalog: &'a Catalog,
    ) -> Result<Self, Error> {
        Ok(Scene {
            env,
            catalog,
            snapshot: catalog.access_snapshot(env, caller)?,
            url: env.external_url(request),
            settings: setting::read(env)?,
            features: feature::all(env)?,
            requested_plan: params.text("requested_hosted_plan"),
        })
    }

    fn entity<'n>(&self, namespace: Namespace<'n>) -> Result<Entity<'n>, Error> {
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
        let right = Right {
            admin: self.snapshot.is_admin(),
            owner: self.snapshot.namespace_role(namespace) == Role::Owner,
            billing_restricted: feature::is_enabled_in(&self.features, self.env, RESTRICTED, Some(actor)),
        };
        let details = namespace.details();
        let counts = match entity::needs_counts(service, right, namespace.is_group(), &details) {
            true => Some(member::counts(self.env, self.catalog, namespace)?),
            false => None,
        };
        let root = namespace.lineage().last().filter(|root| root.row() != namespace.row());
        let facts = Facts {
            id: namespace.id(),
            name: namespace.name(),
            path: namespace.path(),
            full_path: namespace.full_path(),
            parent_id: namespace.parent().map(Namespace::id),
            is_group: namespace.is_group(),
            plan: root.map_or_else(|| details.plan.clone(), |root| root.details().plan),
            details,
            projects: namespace.projects_below().len() as u64,
            counts,
        };
        Ok(entity::entity(service, right, facts))
    }
}

#[derive(Serialize)]
struct Existence {
    exists: bool,
    /// One path that is not taken, if this one is.
    suggests: Vec<String>,
}

fn exists(env: &Env, user_id: u64, params: &Params, path: &str) -> Result<Response, Error> {
    let checks = Validation::new(params);
    let parent_id = checks.integer("parent_id");
    checks.finish()?;
    let limit = RateLimit { variable: EXISTS_RATE_LIMIT, seconds: 60, keys: EXISTS_ASKED };
    rate_limit::check(env, &limit, &user_id.to_string())?;
    // No namespace has an id below 1, so none is below it.
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
    let index = Index::of(env, &catalog);
    let base = alternative::clean(path);
    for candidate in alternative::candidates(&base, env.now) {
        let named = || index.is_named(&catalog, parent_id, &candidate);
        if !is_path(&candidate)? && !named() && !is_pages_domain(&candidate) {
            return Ok(Response::ok(&Existence { exists: true, suggests: vec![candidate] }));
        }
    }
    Err(Error::internal("every path is taken"))
}

#[cfg(test)]
mod tests;
