//! Search in names, descriptions and keywords.
//!
//! There is no full-text index: a search reads the package names of each project in scope, and then each
//! package that may match. Results are current after every publication, publications pay nothing, and it
//! is fast for the thousands of packages of one organisation. Beyond the bounds below, packages whose
//! names contain a word of the search come first.

use super::access;
use super::request::RegistryRequest;
use crate::name::PackageName;
use crate::route::Level;
use crate::search::{Query, SearchSummary};
use crate::store;
use directory::project::{self, Project, ProjectKey};
use directory::user;
use http::header::{CACHE_CONTROL, HeaderValue};
use kit::params::Validation;
use kit::store::StoreError;
use kit::{Env, Error, Response, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Results of one answer. The default and the bound are those of the public registry
/// (<https://github.com/npm/registry/blob/main/docs/REGISTRY-API.md#get-v1search>).
const DEFAULT_SIZE: i64 = 20;
const MAX_SIZE: i64 = 250;

/// Most projects that a search reads: those that got their first package last.
const MAX_PROJECTS: usize = 1000;

/// Most packages that a search reads.
const MAX_PACKAGES: usize = 2000;

/// A package that matches.
struct Hit {
    score: f64,
    version: String,
    published: Timestamp,
    /// The upload of the latest version.
    upload: Option<String>,
    summary: SearchSummary,
}

/// `GET <prefix>/-/v1/search?text=&size=&from=`. Parameters that weigh the score are
/// ignored.
///
/// Reads: at project level the list of its packages, and each package that may match, and its
/// latest fields if they are not cached; at group and instance level also the list of projects, and each of those
/// with its namespaces; for each result that is shown, its upload and its publisher.
pub fn search(request: &RegistryRequest) -> Result<Response, Error> {
    let params = request.http.params();
    let checks = Validation::new(&params);
    let (size, from) = (checks.integer("size"), checks.integer("from"));
    checks.finish()?;
    let size = usize::try_from(size.unwrap_or(DEFAULT_SIZE).clamp(0, MAX_SIZE)).unwrap_or_default();
    let from = usize::try_from(from.unwrap_or_default().max(0)).unwrap_or(usize::MAX);
    let query = Query::parse(params.last("text").unwrap_or_default());

    let env = &request.env;
    let mut hits: Vec<(String, Hit)> = hits(env, &candidates(request, &query)?, &query)?.into_iter().collect();
    // The sort is stable: equal scores stay sorted by name.
    hits.sort_by(|(_, one), (_, other)| other.score.total_cmp(&one.score));
    let page = hits.iter().skip(from).take(size);
    let objects: Vec<Value> = page.map(|(name, hit)| object(env, name, hit)).collect::<Result<_, _>>()?;
    let body = json!({"objects": objects, "total": hits.len(), "time": env.now.to_iso()});
    Ok(Response::ok(&body).with_header(CACHE_CONTROL, HeaderValue::from_static("private, no-cache")))
}

/// The packages that may match, in projects that the caller may read.
fn candidates(request: &RegistryRequest, query: &Query) -> Result<Vec<(ProjectKey, PackageName)>, Error> {
    let mut candidates = Vec::new();
    for project in projects(request)? {
        let root = project.root_namespace().path.as_str();
        // At instance level a package is found only by its conventional name.
        let is_in_scope = |name: &PackageName| {
            request.level != Level::Instance || name.scope().is_some_and(|scope| scope.eq_ignore_ascii_case(root))
        };
        let names = store::names(&request.env, &project.key())?;
        let matching = names.into_iter().filter(|name| is_in_scope(name) && query.matches_scope(name));
        candidates.extend(matching.map(|name| (project.key(), name)));
    }
    candidates.sort_by_cached_key(|(_, name)| !query.matches_name(name));
    candidates.truncate(MAX_PACKAGES);
    Ok(candidates)
}

/// The projects in scope that the caller may read.
fn projects(request: &RegistryRequest) -> Result<Vec<Project>, Error> {
    let env = &request.env;
    let group = match &request.level {
        Level::Project(_) => return Ok(vec![access::readable_project(request)?]),
        Level::Group(id) => Some(access::readable_group(request, id)?),
        Level::Instance => None,
    };
    let mut projects = Vec::new();
    for id in store::projects(env)?.into_iter().rev().take(MAX_PROJECTS) {
        let is_in_scope = |project: &Project| {
            group.as_ref().is_none_or(|group| project.namespace.lineage().any(|n| n.id == group.id))
        };
        let Some(project) = project::by_id(env, id)?.filter(is_in_scope) else { continue };
        if access::may_read(request, &project)? {
            projects.push(project);
        }
    }
    Ok(projects)
}

/// The candidates that match, by name. Of several of one name, the one that was published to last.
fn hits(
    env: &Env,
    candidates: &[(ProjectKey, PackageName)],
    query: &Query,
) -> Result<BTreeMap<String, Hit>, StoreError> {
    let mut hits: BTreeMap<String, Hit> = BTreeMap::new();
    for (project, name) in candidates {
        let Some(package) = store::package(env, project, name)?.filter(|package| package.listed() > 0) else {
            continue;
        };
        let summary = match &package.latest_upload {
            Some(upload) => summary(env, upload)?,
            None => SearchSummary::default(),
        };
        let (Some(score), Some(version)) = (query.score(name, &summary), package.latest()) else { continue };
        let version = version.to_owned();
        let hit = Hit { score, version, published: package.published, upload: package.latest_upload, summary };
        if hits.get(name.as_str()).is_none_or(|other| other.published < hit.published) {
            hits.insert(name.as_str().to_owned(), hit);
        }
    }
    Ok(hits)
}

/// The summary of a version, which the instance caches without the readme beside it.
fn summary(env: &Env, upload: &str) -> Result<SearchSummary, StoreError> {
    let key = format!("search/{upload}");
    if let Some(summary) = env.blobs.peek(&key).and_then(|summary| serde_json::from_slice(&summary).ok()) {
        return Ok(summary);
    }
    let summary = SearchSummary::read(&store::latest_fields(env, upload)?).unwrap_or_default();
    if let Ok(bytes) = serde_json::to_vec(&summary) {
        env.blobs.put(&key, bytes.into());
    }
    Ok(summary)
}

fn object(env: &Env, name: &str, hit: &Hit) -> Result<Value, StoreError> {
    let people: Vec<Value> =
        publisher(env, hit)?.iter().map(|username| json!({"username": username, "email": ""})).collect();
    let package = json!({
        "name": name,
        "version": hit.version,
        "description": hit.summary.description,
        "keywords": hit.summary.keywords,
        "date": hit.published.to_iso(),
        "links": hit.summary.links,
        "publisher": people.first(),
        "maintainers": people,
    });
    // Nothing of this is measured, but clients read the members.
    let detail = json!({"quality": 0.0, "popularity": 0.0, "maintenance": 0.0});
    let score = json!({"final": hit.score, "detail": detail});
    Ok(json!({"package": package, "score": score, "searchScore": hit.score}))
}

/// The user who published the latest version, if that user exists.
fn publisher(env: &Env, hit: &Hit) -> Result<Option<String>, StoreError> {
    let Some(upload) = &hit.upload else { return Ok(None) };
    let upload = store::upload(env, upload)?;
    let id = upload.publisher.strip_prefix("user:").and_then(|id| id.parse().ok());
    let user = id.map(|id| user::by_id(env, id)).transpose()?.flatten();
    Ok(user.map(|user| user.username))
}
