//! Handles one request. Only this module and its children know HTTP status codes.

mod groups;
mod members;
mod projects;
mod request;
mod users;

use crate::api::groups::Depth;
use crate::api::request::DirectoryRequest;
use crate::entity::{self, Entity, NamespaceFacts, Permissions, Service};
use crate::member_list;
use crate::query::Query;
use crate::route::{self, Route};
use crate::text::TextIndex;
use directory::access::Role;
use directory::caller::{self, AcceptedTokens, BOOTSTRAP_ADMIN_TOKEN, Caller, INVALID_TOKENS};
use directory::catalog::{self, AccessSnapshot, Catalog, NamespaceView, TreeVersion};
use directory::feature::{self, Actor, Features};
use directory::member::{Memberships, Source};
use directory::namespace;
use directory::path::Identifier;
use directory::request_limits::ANONYMOUS_RECORDS;
use directory::setting::{self, License, Settings};
use directory::token::LAST_USE_MINUTES;
use jiff::tz::Offset;
use kit::env::EXTERNAL_URL;
use kit::page::Pagination;
use kit::params::{Params, Validation};
use kit::rate_limit::{self, RateLimit};
use kit::{Env, Error, Request, Response, Timestamp};
use serde::Serialize;
use serde_json::json;
use std::cell::RefCell;
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
            let found = all(env, &catalog, &filter, offset, limit);
            (found.page, found.total)
        }
        Some(session) => {
            let role = if owned_only == Some(true) { Role::Owner } else { Role::Guest };
            let memberships = session.memberships(env)?;
            let own = of_member(env, &catalog, session.user.id, memberships, role, &filter);
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
            true => Some(member_list::counts(self.env, self.catalog, namespace)?),
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
    let base = clean(path);
    for candidate in candidates(&base, env.now) {
        let named = || index.is_named(&catalog, parent_id, &candidate);
        if !is_path(&candidate)? && !named() && !is_pages_domain(&candidate) {
            return Ok(Response::ok(&Existence { exists: true, suggests: vec![candidate] }));
        }
    }
    Err(Error::internal("no candidate path is free"))
}

/// The path for a text that has no character allowed in paths.
const BLANK: &str = "blank";

/// How many small numbers are tried as suffixes before large ones.
const SMALL_NUMBERS: u64 = 4;

/// Suffixes that are forbidden in paths.
const FORBIDDEN_SUFFIXES: [&str; 3] = [".git", ".atom", "."];

/// Makes a path of `text`. Removes `@` and all text after it, every character except ASCII letters, digits, `_`, `-`
/// and `.`, the [`FORBIDDEN_SUFFIXES`], and leading dashes.
pub fn clean(text: &str) -> String {
    let before = text.split('@').next().unwrap_or_default();
    let kept = |character: &char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.');
    let kept: String = before.chars().filter(kept).collect();
    let mut path = kept.as_str();
    while let Some(shorter) = FORBIDDEN_SUFFIXES.iter().find_map(|suffix| path.strip_suffix(suffix)) {
        path = shorter;
    }
    let path = path.trim_start_matches('-');
    if path.is_empty() { BLANK.to_owned() } else { path.to_owned() }
}

/// The candidates for a base, in order: the base alone, then the base with a number. The numbers are 1 to 4, then one
/// derived from the time, then the following numbers.
pub fn candidates(base: &str, now: Timestamp) -> impl Iterator<Item = String> {
    let small = (1..=SMALL_NUMBERS).map(|number| number.to_string());
    let first = time_suffix(now);
    let large = (0..).map(move |more: u64| first.saturating_add(more).to_string());
    std::iter::once(String::new()).chain(small).chain(large).map(move |suffix| format!("{base}{suffix}"))
}

/// Milliseconds (3 digits), minute (2) and ISO week (2), as one number.
fn time_suffix(now: Timestamp) -> u64 {
    let moment = jiff::Timestamp::from_millisecond(now.millis()).unwrap_or_default();
    let civil = Offset::UTC.to_datetime(moment);
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    let week = part(civil.date().iso_week_date().week().into());
    (part(civil.millisecond().into()) * 100 + part(civil.minute().into())) * 100 + week
}

/// The filters of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub query: Option<Query>,
    /// Whether the query applies to full paths and full names.
    pub full: bool,
    pub top_level_only: bool,
}

impl Filter {
    fn is_empty(&self) -> bool {
        self.query.is_none() && !self.top_level_only
    }
}

/// A page, and the number of rows on all pages.
pub struct ListPage<'a> {
    pub page: Vec<NamespaceView<'a>>,
    pub total: usize,
}

/// All namespaces that match the filter. The results of recent requests are cached.
pub fn all<'a>(env: &Env, catalog: &'a Catalog, filter: &Filter, offset: usize, limit: usize) -> ListPage<'a> {
    if filter.is_empty() {
        let all = catalog.namespaces();
        return ListPage {
            total: all.len(),
            page: (offset..all.len()).take(limit).filter_map(|n| catalog.nth_namespace(n)).collect(),
        };
    }
    let rows = cached_search(env, catalog, filter);
    let page = rows.iter().skip(offset).take(limit).filter_map(|row| catalog.namespace_in_row(*row as usize));
    ListPage { page: page.collect(), total: rows.len() }
}

/// The personal namespace of a user, and the groups in which the user has at least `role` directly.
pub fn of_member<'a>(
    env: &Env,
    catalog: &'a Catalog,
    user_id: u64,
    memberships: &Memberships,
    role: Role,
    filter: &Filter,
) -> Vec<NamespaceView<'a>> {
    let has_role = |source: &Source| memberships.role(*source, env.now) >= role;
    let groups = memberships.0.keys().filter(|source| has_role(source)).filter_map(|source| match source {
        Source::Group(id) => catalog.namespace(*id).filter(|group| group.is_group()),
        Source::Project(_) => None,
    });
    let mut own: Vec<NamespaceView> = groups.chain(catalog.namespace_of_user(user_id)).collect();
    own.sort_unstable_by_key(|namespace| namespace.row());
    own.retain(|namespace| !filter.top_level_only || namespace.parent().is_none());
    if let Some(query) = &filter.query {
        let index = TextIndex::of(env, catalog);
        own.retain(|namespace| index.matches(catalog, query, filter.full, namespace.row()));
    }
    own
}

fn search(env: &Env, catalog: &Catalog, filter: &Filter) -> Vec<u32> {
    let is_listed = |row: &usize| {
        let namespace = catalog.namespace_in_row(*row);
        namespace.is_some_and(|namespace| !filter.top_level_only || namespace.parent().is_none())
    };
    let number = |row: usize| u32::try_from(row).unwrap_or(u32::MAX);
    match &filter.query {
        Some(query) => {
            let found = TextIndex::of(env, catalog).find(catalog, query, filter.full);
            found.iter().filter(is_listed).map(number).collect()
        }
        None => (0..catalog.columns().rows).filter(is_listed).map(number).collect(),
    }
}

/// The results of recent searches, so that further pages need no search.
struct RecentLists {
    tree_version: TreeVersion,
    /// Row numbers by filter; the most recent filter is last.
    lists: RefCell<Vec<(Filter, Rc<Vec<u32>>)>>,
}

/// The most cached lists. A list takes 4 bytes per row.
const MAX_RECENT: usize = 16;

fn cached_search(env: &Env, catalog: &Catalog, filter: &Filter) -> Rc<Vec<u32>> {
    let tree_version = catalog.tree_version();
    let is_current = |recent: &RecentLists| recent.tree_version == tree_version;
    let make = || RecentLists { tree_version: tree_version.clone(), lists: RefCell::default() };
    let recent = env.instance_cache.get_current_or_insert_with(is_current, make);
    let known = recent.lists.borrow().iter().find(|(known, _)| known == filter).map(|(_, rows)| rows.clone());
    known.unwrap_or_else(|| {
        let rows = Rc::new(search(env, catalog, filter));
        let mut lists = recent.lists.borrow_mut();
        if lists.len() >= MAX_RECENT {
            lists.remove(0);
        }
        lists.push((filter.clone(), rows.clone()));
        rows
    })
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod path_suggestion_tests {
    use super::*;

    #[test]
    fn a_text_becomes_a_path() {
        for (text, path) in [
            ("acme", "acme"),
            ("NAMESPACE-1", "NAMESPACE-1"),
            ("mia@example.com", "mia"),
            ("a b/ä!c", "abc"),
            ("--a-", "a-"),
            ("a.git", "a"),
            ("a.atom.git..", "a"),
            ("a.GIT", "a.GIT"),
            (".git", "blank"),
            ("@", "blank"),
            ("---", "blank"),
            ("", "blank"),
            ("_.x_", "_.x_"),
            (".a", ".a"),
        ] {
            assert_eq!(clean(text), path, "{text}");
        }
    }

    #[test]
    fn candidates_count_to_four_and_go_on_from_the_time() {
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let after = |now, base: &str| candidates(base, now).take(7).collect::<Vec<_>>();
        assert_eq!(
            after(at("2026-09-17T10:00:00.000Z"), "x"),
            ["x", "x1", "x2", "x3", "x4", "x38", "x39"],
            "leading zeros are no part of it"
        );
        assert_eq!(after(at("2026-09-17T10:07:03.021Z"), "y").get(5).unwrap(), "y210738");
        assert_eq!(
            after(at("2027-01-01T00:59:59.999Z"), "z").get(5).unwrap(),
            "z9995953",
            "week 53 of the year before"
        );
        assert_eq!(after(at("2026-01-05T00:00:00Z"), "w").get(5).unwrap(), "w2");
    }
}
