//! Lists of all package versions of a project or of a group, in the reference service's form for every kind of
//! registry.

use super::access;
use super::package_row::PackageRow;
use super::request::RegistryRequest;
use super::scope::{self, Scope};
use crate::name::PackageName;
use crate::package::{Package, RunRef};
use crate::package_list::{self, DEFAULT, DEPRECATED, NPM, ORDERS, STATUSES, TYPES};
use crate::route::Level;
use crate::store::{self, MetadataForm};
use crate::version_run::{self, IndexEntry, VersionState};
use bytes::Bytes;
use directory::caller::Caller;
use directory::project::Project;
use http::header::{CACHE_CONTROL, HeaderValue};
use kit::page::Pagination;
use kit::params::Validation;
use kit::store::StoreError;
use kit::{Env, Error, Response, Timestamp};
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Limits of a list: packages for callers without and with a token; bytes of names; and bytes of indexes and forms. A
/// longer list is refused.
const MAX_ANONYMOUS_PACKAGES: usize = 2_000;
pub const MAX_PACKAGES: usize = 20_000;
pub const MAX_BYTES: u64 = 64 << 20;

/// The approximate size of an index entry, in bytes: a list of too many versions is refused before its indexes are
/// read.
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
    /// The text by which packages are ordered; empty if `order` is an order of versions.
    fn order_key(&self, order: &str) -> &str {
        match order {
            "name" => self.name.as_str(),
            "project_path" => &self.project_path,
            _ => "",
        }
    }

    fn listed(&self) -> u64 {
        self.package.runs.iter().map(|run| run.listed).sum()
    }
}

/// A version in a list. Its texts are in an index.
#[derive(Clone, Copy)]
struct Row {
    /// Positions: of its package among the candidates, of its run among the indexed runs, and of its entry in the
    /// index.
    package: usize,
    run: usize,
    start: usize,
    published: Timestamp,
}

/// A version run and its index.
struct IndexedRun {
    run: RunRef,
    index: Bytes,
}

/// The packages that a list includes.
struct PackageFilter<'a> {
    name: &'a str,
    version: Option<&'a str>,
    /// One of [`STATUSES`].
    status: Option<&'a str>,
    /// Whether this registry can have packages of the requested type and state.
    is_possible: bool,
    without_subgroups: bool,
}

/// `GET /projects/:id/packages` and `GET /groups/:id/packages`, in pages.
///
/// Reads: the list of packages of each project, and each package whose name matches, with its indexes. For each shown
/// version its form, its upload and its publisher. In the order of names or paths, only the indexes of the page are
/// read. A filter by status also reads the abbreviated forms.
pub fn packages(request: &RegistryRequest) -> Result<Response, Error> {
    access::redirect_moved(request)?;
    let params = request.http.params();
    let checks = Validation::new(&params);
    let page = Pagination::check(&checks);
    let is_group = matches!(request.level, Level::Group(_));
    let orders = if is_group { &ORDERS[..] } else { ORDERS.split_last().map_or(&[][..], |(_, orders)| orders) };
    let order = checks.one_of("order_by", orders).unwrap_or("created_at");
    let is_descending = checks.one_of("sort", &["asc", "desc"]) == Some("desc");
    checks.boolean("include_versionless");
    let filter = PackageFilter::read(&checks);
    checks.finish()?;

    let env = &request.env;
    let candidates = candidates(request, &filter)?;
    let mut list =
        VersionList { env, candidates: &candidates, filter, order, is_descending, runs: Vec::new(), bytes: 0 };
    let skip = usize::try_from(page.offset()).unwrap_or(usize::MAX);
    let (shown, total) = list.page(skip, page.per_page as usize)?;
    let mut statuses = StatusLookup::default();
    let rows: Vec<Value> = shown
        .iter()
        .filter_map(|row| Some((list.entry(row)?, candidates.get(row.package)?, list.runs.get(row.run)?)))
        .map(|(entry, candidate, indexed)| {
            let row = PackageRow {
                project: &candidate.project,
                name: &candidate.name,
                package: &candidate.package,
                version: entry.version,
                upload: entry.upload,
                published: entry.at,
                status: statuses.of(env, &indexed.run, entry.version)?,
            };
            row.render(request, is_group)
        })
        .collect::<Result<_, Error>>()?;
    let given: Vec<(&str, &str)> =
        FILTERS.into_iter().filter_map(|name| params.text(name).map(|value| (name, value))).collect();
    // The host must not answer from its cache, either: the rate limit counts every request.
    let response = Response::ok(&rows).with_header(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    Ok(page.describe(response, &request.url, &given, total))
}

impl<'a> PackageFilter<'a> {
    fn read(checks: &Validation<'a>) -> Self {
        let package_type = checks.one_of("package_type", &TYPES);
        let status = checks.one_of("status", &STATUSES);
        let has_status = status.is_none_or(|status| [DEFAULT, DEPRECATED].contains(&status));
        PackageFilter {
            name: checks.text("package_name").unwrap_or_default(),
            version: checks.text("package_version"),
            status,
            is_possible: has_status && package_type.is_none_or(|kind| kind == NPM),
            without_subgroups: checks.boolean("exclude_subgroups") == Some(true),
        }
    }
}

/// The packages with a listed version whose names match.
fn candidates(request: &RegistryRequest, filter: &PackageFilter) -> Result<Vec<Candidate>, Error> {
    let env = &request.env;
    let Scope { projects, is_truncated } = scope::projects(request)?;
    let limit = match request.caller {
        Caller::Anonymous => MAX_ANONYMOUS_PACKAGES,
        _ => MAX_PACKAGES,
    };
    if is_truncated {
        return Err(too_long(limit));
    }
    if !filter.is_possible {
        return Ok(Vec::new());
    }
    let group = match &request.level {
        Level::Group(id) if filter.without_subgroups => Some(access::readable_group(request, id)?.id),
        _ => None,
    };
    let (mut names, mut bytes) = (Vec::new(), 0);
    for project in projects.into_iter().filter(|project| group.is_none_or(|group| project.namespace.id == group)) {
        for name in store::names(env, &project.key())? {
            bytes += name.as_str().len() as u64;
            if package_list::matches(&name, filter.name) {
                names.push((project.clone(), name));
            }
        }
        if names.len() > limit || bytes > MAX_BYTES {
            return Err(too_long(limit));
        }
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

/// The versions of the candidates that pass the filter.
struct VersionList<'a> {
    env: &'a Env,
    candidates: &'a [Candidate],
    filter: PackageFilter<'a>,
    order: &'a str,
    is_descending: bool,
    runs: Vec<IndexedRun>,
    /// Bytes of the indexes read. An index also has the unpublished versions, which no package counts.
    bytes: u64,
}

impl VersionList<'_> {
    /// The rows of a page, and the number of all rows. In the order of names or paths, packages outside the page are
    /// only counted.
    fn page(&mut self, skip: usize, count: usize) -> Result<(Vec<Row>, u64), Error> {
        let is_counted = self.filter.version.is_none() && self.filter.status.is_none();
        let key = |at: &usize| self.candidates.get(*at).map(|candidate| candidate.order_key(self.order));
        let mut order: Vec<usize> = (0..self.candidates.len()).collect();
        if !is_counted || key(&0).is_none_or(str::is_empty) {
            let rows = self.rows(&order)?;
            let total = rows.len() as u64;
            return Ok((rows.into_iter().skip(skip).take(count).collect(), total));
        }
        order.sort_by(|one, other| key(one).cmp(&key(other)));
        let mut groups: Vec<Vec<usize>> =
            order.chunk_by(|one, other| key(one) == key(other)).map(<[_]>::to_vec).collect();
        if self.is_descending {
            groups.reverse();
        }
        let (mut shown, mut before) = (Vec::new(), 0);
        for group in groups {
            let listed = group.iter().filter_map(|at| self.candidates.get(*at)).map(Candidate::listed).sum::<u64>();
            let end = before + usize::try_from(listed).unwrap_or(usize::MAX);
            if end > skip && shown.len() < count {
                let left = count - shown.len();
                shown.extend(self.rows(&group)?.into_iter().skip(skip.saturating_sub(before)).take(left));
            }
            before = end;
        }
        Ok((shown, before as u64))
    }

    /// The rows of some candidates, in order.
    fn rows(&mut self, candidates: &[usize]) -> Result<Vec<Row>, Error> {
        let chosen = || candidates.iter().filter_map(|at| Some((*at, self.candidates.get(*at)?)));
        let runs = || chosen().flat_map(|(_, candidate)| &candidate.package.runs);
        let bytes: u64 = match self.filter.status {
            Some(_) => runs().map(|run| run.size).sum(),
            None => runs().map(|run| run.listed * ENTRY_BYTES).sum(),
        };
        if bytes > MAX_BYTES {
            return Err(too_long(MAX_PACKAGES));
        }
        let mut statuses = StatusLookup::default();
        let (mut rows, mut read) = (Vec::new(), std::mem::take(&mut self.runs));
        for (package, candidate) in chosen() {
            for run in candidate.package.runs.iter().filter(|run| run.listed > 0) {
                let indexed = IndexedRun { run: run.clone(), index: store::index(self.env, run)? };
                self.bytes += indexed.index.len() as u64;
                if self.bytes > MAX_BYTES {
                    return Err(too_long(MAX_PACKAGES));
                }
                for (start, entry) in version_run::entries_with_offsets(&indexed.index) {
                    let is_asked_for = entry.state == VersionState::Listed
                        && self.filter.version.is_none_or(|version| version == entry.version)
                        && match self.filter.status {
                            Some(status) => statuses.of(self.env, run, entry.version)? == status,
                            None => true,
                        };
                    if is_asked_for {
                        rows.push(Row { package, run: read.len(), start, published: entry.at });
                    }
                }
                read.push(indexed);
            }
        }
        self.runs = read;
        rows.sort_by(|one, other| self.compare(one, other));
        if self.is_descending {
            rows.reverse();
        }
        Ok(rows)
    }

    fn entry(&self, row: &Row) -> Option<IndexEntry<'_>> {
        version_run::entry_at(&self.runs.get(row.run)?.index, row.start)
    }

    /// Rows with equal keys are in the order of publication.
    fn compare(&self, one: &Row, other: &Row) -> Ordering {
        let key = |row: &Row| self.candidates.get(row.package).map(|candidate| candidate.order_key(self.order));
        let by_field = match self.order {
            "version" => self.entry(one).map(|entry| entry.version).cmp(&self.entry(other).map(|entry| entry.version)),
            // All packages are of one type.
            _ => key(one).cmp(&key(other)),
        };
        let upload = |row: &Row| self.entry(row).map(|entry| entry.upload);
        by_field.then_with(|| one.published.cmp(&other.published)).then_with(|| upload(one).cmp(&upload(other)))
    }
}

/// The status of versions. It has the deprecated versions of each run read so far, by the run's id.
#[derive(Default)]
struct StatusLookup(BTreeMap<String, BTreeSet<String>>);

impl StatusLookup {
    fn of(&mut self, env: &Env, run: &RunRef, version: &str) -> Result<&'static str, StoreError> {
        if !self.0.contains_key(&run.id) {
            let form = store::form(env, run, MetadataForm::Abbreviated)?;
            let versions = version_run::split(&form).map(|(versions, _)| versions).unwrap_or_default();
            let deprecated = version_run::deprecated(versions).into_iter().map(str::to_owned).collect();
            self.0.insert(run.id.clone(), deprecated);
        }
        let is_deprecated = self.0.get(&run.id).is_some_and(|versions| versions.contains(version));
        Ok(if is_deprecated { DEPRECATED } else { DEFAULT })
    }
}

fn too_long(packages: usize) -> Error {
    let text = format!(
        "the list has more than {packages} packages, or more versions or projects than can be read at once; \
         narrow it by package_name"
    );
    Error::validation(text)
}
