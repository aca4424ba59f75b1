//! Search in names, descriptions and keywords.
//!
//! There is no full-text index: a search reads the package names of each project in scope, and then each package that
//! may match. So results are always current, and publications cost nothing extra. A search is fast enough for the
//! thousands of packages of one organisation.
//!
//! Packages that match by name alone come first. If more than [`MAX_PACKAGES`] do, only the packages of the requested
//! page are read, so that all of them can be found. For the other packages, descriptions and keywords are compared: at
//! most [`MAX_PACKAGES`] of them are read.

use super::access::ownership;
use super::maintainers;
use super::request::RegistryRequest;
use super::scope::{self, Scope};
use crate::name::PackageName;
use crate::package::Package;
use crate::route::Level;
use crate::search::{Query, SearchSummary};
use crate::store;
use directory::project::Project;
use http::header::{CACHE_CONTROL, HeaderValue};
use kit::params::Validation;
use kit::store::StoreError;
use kit::{Env, Error, Response, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The default and the most results of one answer, as in the public registry
/// (<https://github.com/npm/registry/blob/main/docs/REGISTRY-API.md#get-v1search>).
const DEFAULT_SIZE: i64 = 20;
const MAX_SIZE: i64 = 250;

/// Most packages that a search reads, of the matches by name and of the others each.
const MAX_PACKAGES: usize = 2000;

/// Most package names that a search compares. A search of more names is refused.
const MAX_NAMES: usize = 200_000;

/// A name that may match, and the projects that have a package of it.
struct Candidate {
    name: PackageName,
    projects: Vec<Rc<Project>>,
}

/// A package and its project.
type ProjectPackage = (Rc<Project>, Rc<Package>);

/// A package that matches.
struct Hit {
    project: Rc<Project>,
    name: PackageName,
    score: f64,
    version: String,
    published: Timestamp,
    /// The upload of the latest version.
    upload: Option<String>,
    summary: SearchSummary,
}

/// The packages whose names match, the best first.
enum Matches {
    Read(Vec<Hit>),
    /// Too many to read. A package without a listed version counts, but its page omits it.
    Unread(Vec<Candidate>),
}

impl Matches {
    fn len(&self) -> usize {
        match self {
            Matches::Read(hits) => hits.len(),
            Matches::Unread(candidates) => candidates.len(),
        }
    }

    fn page(self, env: &Env, query: &Query, from: usize, size: usize) -> Result<Vec<Hit>, StoreError> {
        match self {
            Matches::Read(hits) => Ok(hits.into_iter().skip(from).take(size).collect()),
            Matches::Unread(candidates) => {
                let page: Vec<Candidate> = candidates.into_iter().skip(from).take(size).collect();
                hits(env, &page, query)
            }
        }
    }
}

/// `GET <prefix>/-/v1/search?text=&size=&from=`. Parameters that weigh the score are
/// ignored.
///
/// Reads: at group and instance level the list of projects, and each project that is not cached. Then the list of
/// packages of each project in scope, up to twice [`MAX_PACKAGES`] packages, and their package-level fields that are
/// not cached. For each shown result its upload, its publisher, and the maintainers that are not cached. At group and
/// instance level before that the list of projects, and each project that is not cached.
pub fn search(request: &RegistryRequest) -> Result<Response, Error> {
    let params = request.http.params();
    let checks = Validation::new(&params);
    let (size, from) = (checks.integer("size"), checks.integer("from"));
    let text = checks.text("text").unwrap_or_default();
    checks.finish()?;
    let size = usize::try_from(size.unwrap_or(DEFAULT_SIZE).clamp(0, MAX_SIZE)).unwrap_or_default();
    let from = usize::try_from(from.unwrap_or_default().max(0)).unwrap_or(usize::MAX);
    let query = Query::parse(text);

    let env = &request.env;
    let (by_name, others) = candidates(request, &query)?;
    let by_name = match by_name.len() <= MAX_PACKAGES {
        true => Matches::Read(hits(env, &by_name, &query)?),
        false => Matches::Unread(by_name),
    };
    let mut others = hits(env, &others, &query)?;
    // The sort is stable: equal scores stay sorted by name.
    others.sort_by(|one, other| other.score.total_cmp(&one.score));

    let (before, total) = (by_name.len(), by_name.len() + others.len());
    let mut page = by_name.page(env, &query, from, size)?;
    let shown = before.saturating_sub(from).min(size);
    page.extend(others.into_iter().skip(from.saturating_sub(before)).take(size - shown));
    let mut objects = Vec::with_capacity(page.len());
    for hit in &page {
        if request.level.is_project() || may_publish(env, hit)? {
            objects.push(object(request, hit)?);
        }
    }
    let body = json!({"objects": objects, "total": total, "time": env.now.to_iso()});
    // Not even the host answers an equal search from its cache, so that each one is counted.
    Ok(Response::ok(&body).with_header(CACHE_CONTROL, HeaderValue::from_static("private, no-store")))
}

/// The names whose text alone matches, the best first; and at most [`MAX_PACKAGES`] others that may match,
/// in projects that the caller may read.
fn candidates(request: &RegistryRequest, query: &Query) -> Result<(Vec<Candidate>, Vec<Candidate>), Error> {
    let mut names: BTreeMap<String, Candidate> = BTreeMap::new();
    let mut compared = 0;
    let Scope { projects, is_truncated } = scope::projects(request)?;
    if is_truncated {
        return Err(Error::validation("the search has too many projects to look at; search in a group or a project"));
    }
    for project in projects {
        let root = project.root_namespace().path.as_str();
        // At instance level, the scope must be the path of the top-level namespace.
        let is_in_scope = |name: &PackageName| request.level != Level::Instance || name.is_below(root);
        for name in store::names(&request.env, &project.key())? {
            compared += 1;
            if compared > MAX_NAMES {
                let text =
                    format!("the search has more than {MAX_NAMES} packages to look at; search in a group or a project");
                return Err(Error::validation(text));
            }
            if is_in_scope(&name) && query.matches_scope(&name) {
                let empty = || Candidate { name: name.clone(), projects: Vec::new() };
                names.entry(name.as_str().to_owned()).or_insert_with(empty).projects.push(project.clone());
            }
        }
    }
    let mut by_name: Vec<(f64, Candidate)> = Vec::new();
    let mut others: Vec<Candidate> = Vec::new();
    for candidate in names.into_values() {
        match query.score_of_name(&candidate.name) {
            Some(score) => by_name.push((score, candidate)),
            None => others.push(candidate),
        }
    }
    by_name.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    others.sort_by_cached_key(|candidate| !query.matches_name(&candidate.name));
    others.truncate(MAX_PACKAGES);
    Ok((by_name.into_iter().map(|(_, candidate)| candidate).collect(), others))
}

/// The candidates that match, in the same order.
fn hits(env: &Env, candidates: &[Candidate], query: &Query) -> Result<Vec<Hit>, StoreError> {
    let hits = candidates.iter().map(|candidate| hit(env, candidate, query).transpose());
    hits.flatten().collect()
}

/// The most recently published package of this name, if it matches.
fn hit(env: &Env, candidate: &Candidate, query: &Query) -> Result<Option<Hit>, StoreError> {
    let name = &candidate.name;
    let Some((project, package)) = newest(env, candidate)? else { return Ok(None) };
    let summary = match &package.latest_upload {
        Some(upload) => summary(env, upload)?,
        None => SearchSummary::default(),
    };
    let (Some(score), Some(version)) = (query.score(name, &summary), package.latest()) else { return Ok(None) };
    let version = version.to_owned();
    let (name, published) = (name.clone(), package.published);
    Ok(Some(Hit { project, name, score, version, published, upload: package.latest_upload.clone(), summary }))
}

/// Whether a result's project may publish its name. If it may not, groups do not show its versions. 1 read.
fn may_publish(env: &Env, hit: &Hit) -> Result<bool, StoreError> {
    if !ownership::has_owners(env) {
        return Ok(true);
    }
    let known = ownership::find(env, hit.project.root_namespace(), &hit.name)?;
    Ok(known.is_some_and(|known| known.may_publish(&hit.project.key(), ownership::is_strict(env))))
}

/// The package of a name, and its project. The owner's package comes first, then the packages of other publishers. If
/// names are shared, the last published package counts.
///
/// Reads, for one project: its package. For several: the name's record, or the projects by name, and packages until one
/// lists a version. If an earlier build wrote the list, each package is read.
fn newest(env: &Env, candidate: &Candidate) -> Result<Option<ProjectPackage>, StoreError> {
    let Candidate { name, projects } = candidate;
    let listed = |project: &Rc<Project>| -> Result<Option<ProjectPackage>, StoreError> {
        let package = store::package(env, &project.key(), name)?.filter(|package| package.listed() > 0);
        Ok(package.map(|package| (project.clone(), package)))
    };
    if let [first, _, ..] = projects.as_slice()
        && ownership::has_owners(env)
    {
        let Some(known) = ownership::find(env, first.root_namespace(), name)? else { return Ok(None) };
        let publishers = known.publishers(ownership::is_strict(env));
        let readable = publishers.filter_map(|key| projects.iter().find(|project| project.key() == *key));
        return readable.map(listed).find_map(Result::transpose).transpose();
    }
    let by_name = if projects.len() > 1 { store::projects_by_name(env, name)? } else { Rc::default() };
    if by_name.by_publication {
        let last_first = by_name.projects.iter().rev();
        let readable = last_first.filter_map(|id| projects.iter().find(|project| project.id == *id));
        return readable.map(listed).find_map(Result::transpose).transpose();
    }
    let mut newest: Option<ProjectPackage> = None;
    for project in projects {
        if let Some(found) = listed(project)?
            && newest.as_ref().is_none_or(|(_, newest)| newest.published <= found.1.published)
        {
            newest = Some(found);
        }
    }
    Ok(newest)
}

/// The summary of a version. The instance caches it, without the readme.
fn summary(env: &Env, upload: &str) -> Result<SearchSummary, StoreError> {
    let key = format!("search/{upload}");
    if let Some(summary) = env.blobs.peek(&key).and_then(|summary| serde_json::from_slice(&summary).ok()) {
        return Ok(summary);
    }
    let summary = SearchSummary::read(&store::package_level_fields(env, upload)?).unwrap_or_default();
    if let Ok(bytes) = serde_json::to_vec(&summary) {
        env.blobs.put(&key, bytes.into());
    }
    Ok(summary)
}

fn object(request: &RegistryRequest, hit: &Hit) -> Result<Value, StoreError> {
    let RegistryRequest { env, caller, .. } = request;
    let person = |username: &str| json!({"username": username, "email": ""});
    let maintainers = maintainers::list(env, caller, &hit.project)?;
    let maintainers: Vec<Value> = maintainers.usernames.iter().map(|name| person(name)).collect();
    let package = json!({
        "name": hit.name.as_str(),
        "version": hit.version,
        "description": hit.summary.description,
        "keywords": hit.summary.keywords,
        "date": hit.published.to_iso(),
        "links": hit.summary.links,
        "publisher": publisher(env, hit)?.as_deref().map(person),
        "maintainers": maintainers,
    });
    // Clients read these members; the registry measures none of them.
    let detail = json!({"quality": 0.0, "popularity": 0.0, "maintenance": 0.0});
    let score = json!({"final": hit.score, "detail": detail});
    Ok(json!({"package": package, "score": score, "searchScore": hit.score}))
}

/// The user who published the latest version, if that user exists.
fn publisher(env: &Env, hit: &Hit) -> Result<Option<String>, StoreError> {
    let Some(upload) = &hit.upload else { return Ok(None) };
    let user = store::upload(env, upload)?.publisher.user(env)?;
    Ok(user.map(|user| user.username))
}
