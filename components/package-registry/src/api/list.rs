//! Lists of all versions of packages of a project or of a group, in the form that the reference service has for
//! every kind of registry.

use super::access;
use super::request::RegistryRequest;
use super::scope;
use crate::name::PackageName;
use crate::package::Package;
use crate::package_list::{self, DEFAULT, DEPRECATED, ListedVersion, NPM, ORDERS, OrderKey, STATUSES, TYPES};
use crate::route::Level;
use crate::segment::{self, VersionState};
use crate::store::{self, MetadataForm};
use directory::project::Project;
use http::header::{CACHE_CONTROL, HeaderValue};
use kit::page::Pagination;
use kit::params::{Params, Validation};
use kit::store::StoreError;
use kit::{Env, Error, Response};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Most packages that a list reads, and most bytes of their indexes and forms. A longer list is refused.
const MAX_PACKAGES: usize = 20_000;
const MAX_BYTES: u64 = 64 << 20;

/// About the size of an index entry, in bytes.
const ENTRY_BYTES: u64 = 80;

/// The parameters that links to other pages repeat.
const FILTERS: [&str; 8] = [
    "order_by",
    "sort",
    "package_type",
    "package_name",
    "package_version",
    "status",
    "include_versionless",
    "exclude_subgroups",
];

/// A package in a project that the caller may read.
struct Candidate {
    project: Rc<Project>,
    project_path: String,
    name: PackageName,
    package: Rc<Package>,
}

impl Candidate {
    fn order_key(&self) -> OrderKey<'_> {
        OrderKey { name: self.name.as_str(), project_path: &self.project_path }
    }
}

/// What a list has.
struct PackageFilter<'a> {
    name: &'a str,
    version: Option<&'a str>,
    /// One of [`STATUSES`].
    status: Option<&'a str>,
    /// Whether packages of the type that is asked for, in the state that is asked for, can be here at all.
    is_possible: bool,
    without_subgroups: bool,
}

/// `GET /projects/:id/packages` and `GET /groups/:id/packages`, in pages.
///
/// Reads: the list of packages of each project, each package whose name matches and its indexes; if a status is
/// asked for, also their abbreviated forms; for each version that is shown, its form and its upload.
pub fn packages(request: &RegistryRequest) -> Result<Response, Error> {
    let params = request.http.params();
    let checks = Validation::new(&params);
    let page = Pagination::check(&checks);
    let is_group = matches!(request.level, Level::Group(_));
    let orders = if is_group { &ORDERS[..] } else { ORDERS.split_last().map_or(&[][..], |(_, orders)| orders) };
    let order = checks.one_of("order_by", orders).unwrap_or("created_at");
    let is_descending = checks.one_of("sort", &["asc", "desc"]) == Some("desc");
    checks.boolean("include_versionless");
    let filter = PackageFilter::read(&params, &checks);
    checks.finish()?;

    let env = &request.env;
    let candidates = candidates(request, &filter)?;
    let mut versions = versions(env, &candidates, &filter)?;
    let key = |listed: &ListedVersion| candidates.get(listed.package).map(Candidate::order_key);
    versions.sort_by(|one, other| match (key(one), key(other)) {
        (Some(one_key), Some(other_key)) => package_list::compare(order, (one, &one_key), (other, &other_key)),
        _ => std::cmp::Ordering::Equal,
    });
    if is_descending {
        versions.reverse();
    }
    let total = versions.len() as u64;
    let skip = usize::try_from(page.offset()).unwrap_or(usize::MAX);
    let shown = versions.iter().skip(skip).take(page.per_page as usize);
    let mut states = States::default();
    let rows = shown.filter_map(|listed| Some((listed, candidates.get(listed.package)?)));
    let rows: Vec<Value> = rows
        .map(|(listed, candidate)| render(env, listed, candidate, states.of(env, listed)?, is_group))
        .collect::<Result<_, StoreError>>()?;
    let given: Vec<(&str, &str)> =
        FILTERS.into_iter().filter_map(|name| params.text(name).map(|value| (name, value))).collect();
    // Not even the host answers an equal request from its cache, so that each one is counted.
    let response = Response::ok(&rows).with_header(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    Ok(page.describe(response, &request.url, &given, total))
}

impl<'a> PackageFilter<'a> {
    fn read(params: &'a Params, checks: &Validation<'a>) -> Self {
        let package_type = checks.one_of("package_type", &TYPES);
        let status = checks.one_of("status", &STATUSES);
        let has_status = status.is_none_or(|status| [DEFAULT, DEPRECATED].contains(&status));
        PackageFilter {
            name: params.text("package_name").unwrap_or_default(),
            version: params.text("package_version"),
            status,
            is_possible: has_status && package_type.is_none_or(|kind| kind == NPM),
            without_subgroups: checks.boolean("exclude_subgroups") == Some(true),
        }
    }
}

/// The packages with a listed version whose names match.
fn candidates(request: &RegistryRequest, filter: &PackageFilter) -> Result<Vec<Candidate>, Error> {
    let env = &request.env;
    let projects = scope::projects(request)?;
    if !filter.is_possible {
        return Ok(Vec::new());
    }
    let group = match &request.level {
        Level::Group(id) if filter.without_subgroups => Some(access::readable_group(request, id)?.id),
        _ => None,
    };
    let mut names = Vec::new();
    for project in projects.into_iter().filter(|project| group.is_none_or(|group| project.namespace.id == group)) {
        for name in store::names(env, &project.key())? {
            if package_list::matches(&name, filter.name) {
                names.push((project.clone(), name));
            }
        }
    }
    if names.len() > MAX_PACKAGES {
        return Err(too_long());
    }
    let mut candidates = Vec::with_capacity(names.len());
    for (project, name) in names {
        let package = store::package(env, &project.key(), &name)?.filter(|package| package.listed() > 0);
        if let Some(package) = package {
            candidates.push(Candidate { project_path: project.full_path(), project, name, package });
        }
    }
    Ok(candidates)
}

/// Their versions that the filter lets through.
fn versions(env: &Env, candidates: &[Candidate], filter: &PackageFilter) -> Result<Vec<ListedVersion>, Error> {
    let segments = || candidates.iter().flat_map(|candidate| &candidate.package.segments);
    let bytes: u64 = match filter.status {
        Some(_) => segments().map(|segment| segment.size).sum(),
        None => segments().map(|segment| segment.listed * ENTRY_BYTES).sum(),
    };
    if bytes > MAX_BYTES {
        return Err(too_long());
    }
    let mut states = States::default();
    let mut versions = Vec::new();
    for (package, candidate) in candidates.iter().enumerate() {
        for part in candidate.package.segments.iter().filter(|segment| segment.listed > 0) {
            let index = store::index(env, &part.id)?;
            let listed = segment::entries(&index).filter(|entry| entry.state == VersionState::Listed);
            for entry in listed.filter(|entry| filter.version.is_none_or(|version| version == entry.version)) {
                let listed = ListedVersion {
                    package,
                    version: entry.version.to_owned(),
                    upload: entry.upload.to_owned(),
                    published: entry.at,
                    segment: part.id.clone(),
                };
                let is_asked_for = match filter.status {
                    Some(status) => states.of(env, &listed)? == status,
                    None => true,
                };
                if is_asked_for {
                    versions.push(listed);
                }
            }
        }
    }
    Ok(versions)
}

/// The deprecated versions of the segments that were looked at.
#[derive(Default)]
struct States(BTreeMap<String, BTreeSet<String>>);

impl States {
    fn of(&mut self, env: &Env, listed: &ListedVersion) -> Result<&'static str, StoreError> {
        if !self.0.contains_key(&listed.segment) {
            let form = store::form(env, &listed.segment, MetadataForm::Abbreviated)?;
            let versions = segment::split(&form).map(|(versions, _)| versions).unwrap_or_default();
            let deprecated = segment::deprecated(versions).into_iter().map(str::to_owned).collect();
            self.0.insert(listed.segment.clone(), deprecated);
        }
        let is_deprecated = self.0.get(&listed.segment).is_some_and(|versions| versions.contains(&listed.version));
        Ok(if is_deprecated { DEPRECATED } else { DEFAULT })
    }
}

fn render(
    env: &Env,
    listed: &ListedVersion,
    candidate: &Candidate,
    status: &str,
    is_group: bool,
) -> Result<Value, StoreError> {
    let Candidate { project, project_path, name, package } = candidate;
    let number = package_list::number(&listed.upload);
    let creator = store::upload(env, &listed.upload)?.publisher;
    let creator: Option<u64> = creator.strip_prefix("user:").and_then(|id| id.parse().ok());
    let tags = package.dist_tags().into_iter().filter(|(_, version)| *version == listed.version);
    let tags: Vec<Value> = tags
        .map(|(tag, _)| {
            // `latest` is computed where it was not set.
            let at = package.tags.get(tag).map(|set| set.at.to_iso());
            json!({"package_id": number, "name": tag, "created_at": at, "updated_at": at, "project_id": project.id})
        })
        .collect();
    let mut row = Map::new();
    row.insert("id".into(), number.into());
    row.insert("name".into(), name.as_str().into());
    row.insert("version".into(), listed.version.as_str().into());
    row.insert("package_type".into(), NPM.into());
    row.insert("status".into(), status.into());
    row.insert("_links".into(), json!({}));
    row.insert("created_at".into(), listed.published.to_iso().into());
    row.insert("last_downloaded_at".into(), Value::Null);
    row.insert("creator_id".into(), creator.into());
    if is_group {
        row.insert("project_id".into(), project.id.into());
        row.insert("project_path".into(), project_path.as_str().into());
    }
    row.insert("tags".into(), tags.into());
    Ok(row.into())
}

fn too_long() -> Error {
    let text = format!(
        "the list has more than {MAX_PACKAGES} packages, or more versions than can be read at once; \
         narrow it by package_name"
    );
    Error::validation(text)
}
