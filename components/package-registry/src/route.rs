//! The routes. Only this file knows URLs.

use http::Method;
use kit::Error;
use kit::maintenance::Task;
use kit::path::{self, Segment};

const BASE: &str = "/api/v4";

/// The refusal of a package name that could lead to another path.
pub const NOT_A_PATH: &str = "package_name should be a valid file path";

/// A request's target below one of the three prefixes.
#[derive(Debug, PartialEq, Eq)]
pub struct Route {
    pub level: Level,
    /// The path up to and including `npm` or `pkgreg`, as the request wrote it. URLs in responses repeat
    /// it, because clients choose their token by the beginning of a URL.
    pub prefix: String,
    pub endpoint: Endpoint,
}

/// The scope in which packages are looked up. The text is an id or a full path.
#[derive(Debug, PartialEq, Eq)]
pub enum Level {
    Project(String),
    Group(String),
    Instance,
}

impl Level {
    pub fn is_project(&self) -> bool {
        matches!(self, Level::Project(_))
    }
}

/// The maintenance task that a path names, if it is below the path of tasks.
pub fn task(method: &Method, path: &str) -> Option<Result<Task, Error>> {
    Some(Task::named(method, path.strip_prefix(BASE)?.strip_prefix("/maintenance/package-registry/")?))
}

/// An endpoint. Names, versions, tags and files are decoded and otherwise unchecked.
#[derive(Debug, PartialEq, Eq)]
pub enum Endpoint {
    Metadata {
        name: String,
    },
    Version {
        name: String,
        version: String,
    },
    Publish {
        name: String,
    },
    Download {
        name: String,
        file: String,
    },
    /// Replaces the document by a document without the versions to unpublish.
    Unpublish {
        name: String,
        revision: String,
    },
    UnpublishAll {
        name: String,
        revision: String,
    },
    RemoveFile {
        name: String,
        file: String,
    },
    ListTags {
        name: String,
    },
    SetTag {
        name: String,
        tag: String,
    },
    RemoveTag {
        name: String,
        tag: String,
    },
    Attestations {
        name: String,
        version: String,
    },
    Ping,
    WhoAmI,
    User {
        name: String,
    },
    Login {
        name: String,
    },
    Profile,
    Search,
    Audit(Audit),
    /// A publication to a group or to the instance, which is refused: only a project takes it.
    PublishAboveProject {
        name: String,
    },
    Visibility {
        name: String,
    },
    /// The visibility in pnpm's form, with whether publishing needs a second factor.
    AccessStatus {
        name: String,
    },
    Owners {
        name: String,
    },
    /// The files in the tarball of a version.
    Files {
        name: String,
        version: String,
    },
    /// The members of a package's project.
    Collaborators {
        name: String,
    },
    GroupPackages {
        group: String,
    },
    GroupUsers {
        group: String,
    },
    GroupTeams {
        group: String,
    },
    Hooks,
    /// A read, and a change, of what this registry does not have.
    Absent(Missing),
    Unchangeable(Missing),
    /// The packages that a user has starred.
    Stars,
    /// The list of all package versions, in the form that all registries of the forge share.
    List,
    /// One version by its numeric id, its files and its pipelines.
    Package {
        id: String,
    },
    RemovePackage {
        id: String,
    },
    PackageFiles {
        id: String,
    },
    RemovePackageFile {
        id: String,
        file: String,
    },
    Pipelines {
        id: String,
    },
    /// The protection rules of a project's packages.
    ProtectionRules,
    AddProtectionRule,
    ChangeProtectionRule {
        id: String,
    },
    RemoveProtectionRule {
        id: String,
    },
    /// Who may publish a name.
    NameOwner {
        name: String,
    },
    TransferName {
        name: String,
    },
    ReleaseName {
        name: String,
    },
    AllowProject {
        name: String,
    },
    DisallowProject {
        name: String,
        project: String,
    },
    Reservations,
    Reserve,
    Unreserve {
        id: String,
    },
}

/// The requests with which clients ask for known vulnerabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audit {
    /// Lists of advisories by package name.
    Bulk,
    /// A report about the tree of dependencies in the body.
    Quick,
    /// A report with all details, for yarn classic.
    Full,
}

/// A feature that clients can ask for and this registry does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    Hooks,
    /// Members of an organization, as something of its own.
    Members,
    /// Owners of a package, as something of its own.
    Owners,
    Stars,
    Teams,
    UserPackages,
    /// The visibility of a package, as something of its own.
    Visibility,
}

impl Audit {
    /// Its path below a registry's address.
    pub fn path(self) -> &'static str {
        match self {
            Audit::Bulk => "-/npm/v1/security/advisories/bulk",
            Audit::Quick => "-/npm/v1/security/audits/quick",
            Audit::Full => "-/npm/v1/security/audits",
        }
    }
}

/// The route of a request; the error is 404, or 405 with the allowed methods.
pub fn route(method: &Method, path: &str) -> Result<Route, Error> {
    let segments = path::below(path, BASE).ok_or_else(Error::route_not_found)?;
    if let Some((level, endpoint)) = packages_api(&segments, method) {
        return Ok(Route { level, prefix: path.to_owned(), endpoint: endpoint? });
    }
    let (level, rest) = level(&segments).ok_or_else(Error::route_not_found)?;
    let again = below_prefix_again(&segments, rest).filter(|_| *method == Method::DELETE);
    let target = target(again.unwrap_or(rest))?;
    let is_project = matches!(level, Level::Project(_));
    let endpoint = match (target, method) {
        (Target::Package { name, .. }, &Method::GET | &Method::HEAD) => Endpoint::Metadata { name },
        (Target::Package { name, one_segment: true }, &Method::PUT) if is_project => Endpoint::Publish { name },
        // The reference service publishes only where the scope's slash is encoded.
        (Target::Package { one_segment: false, .. }, &Method::PUT) if is_project => {
            return Err(Error::route_not_found());
        }
        (Target::Package { .. }, _) if is_project => return Err(Error::method_not_allowed("GET, HEAD, PUT")),
        (Target::Package { name, .. }, &Method::PUT) => Endpoint::PublishAboveProject { name },
        (Target::Version { name, version }, &Method::GET | &Method::HEAD) => Endpoint::Version { name, version },
        (Target::File { name, file }, &Method::GET | &Method::HEAD) => Endpoint::Download { name, file },
        (Target::Revision { name, revision }, &Method::PUT) if is_project => Endpoint::Unpublish { name, revision },
        (Target::Revision { name, revision }, &Method::DELETE) if is_project => {
            Endpoint::UnpublishAll { name, revision }
        }
        (Target::Revision { .. }, _) if is_project => return Err(Error::method_not_allowed("DELETE, PUT")),
        (Target::FileRevision { name, file }, &Method::DELETE) if is_project => Endpoint::RemoveFile { name, file },
        (Target::FileRevision { .. }, _) if is_project => return Err(Error::method_not_allowed("DELETE")),
        (Target::Revision { .. } | Target::FileRevision { .. }, _) => return Err(Error::route_not_found()),
        (Target::Tags { name }, &Method::GET | &Method::HEAD) => Endpoint::ListTags { name },
        // The tag is empty, which is 404 in the reference service.
        (Target::Tags { .. }, &Method::PUT | &Method::DELETE) => return Err(Error::route_not_found()),
        (Target::Tag { name, tag }, &Method::PUT) => Endpoint::SetTag { name, tag },
        (Target::Tag { name, tag }, &Method::DELETE) => Endpoint::RemoveTag { name, tag },
        (Target::Tag { .. }, _) => return Err(Error::method_not_allowed("DELETE, PUT")),
        (Target::Attestations { name, version }, &Method::GET | &Method::HEAD) => {
            Endpoint::Attestations { name, version }
        }
        (Target::Ping, &Method::GET | &Method::HEAD) => Endpoint::Ping,
        (Target::WhoAmI, &Method::GET | &Method::HEAD) => Endpoint::WhoAmI,
        (Target::User { name }, &Method::GET | &Method::HEAD) => Endpoint::User { name },
        (Target::User { name }, &Method::PUT) => Endpoint::Login { name },
        (Target::User { .. }, _) => return Err(Error::method_not_allowed("GET, HEAD, PUT")),
        (Target::Profile, &Method::GET | &Method::HEAD) => Endpoint::Profile,
        (Target::Stars, &Method::GET | &Method::HEAD) => Endpoint::Stars,
        (Target::Search, &Method::GET | &Method::HEAD) => Endpoint::Search,
        (Target::Visibility { name }, &Method::GET | &Method::HEAD) => Endpoint::Visibility { name },
        (Target::AccessStatus { name }, &Method::GET | &Method::HEAD) => Endpoint::AccessStatus { name },
        // npm sends a POST, and pnpm a PUT.
        (Target::AccessStatus { .. }, &Method::POST | &Method::PUT) => Endpoint::Unchangeable(Missing::Visibility),
        (Target::AccessStatus { .. }, _) => return Err(Error::method_not_allowed("GET, HEAD, POST, PUT")),
        (Target::Owners { name, user: None }, &Method::GET | &Method::HEAD) => Endpoint::Owners { name },
        (Target::Owners { user: None, .. }, &Method::PUT) => Endpoint::Unchangeable(Missing::Owners),
        (Target::Owners { user: None, .. }, _) => return Err(Error::method_not_allowed("GET, HEAD, PUT")),
        (Target::Owners { user: Some(_), .. }, &Method::DELETE) => Endpoint::Unchangeable(Missing::Owners),
        (Target::Owners { user: Some(_), .. }, _) => return Err(Error::method_not_allowed("DELETE")),
        (Target::Audit(audit), &Method::POST) => Endpoint::Audit(audit),
        (Target::Audit(_), _) => return Err(Error::method_not_allowed("POST")),
        (target, _) => further_endpoint(target, method)?,
    };
    let rest_length: usize = rest.iter().map(|segment| segment.0.len() + 1).sum();
    let prefix = path.get(..path.len() - rest_length).unwrap_or_default().to_owned();
    Ok(Route { level, prefix, endpoint })
}

/// The endpoints of owners and reservations of names, and of organizations.
fn further_endpoint(target: Target, method: &Method) -> Result<Endpoint, Error> {
    match (target, method) {
        (Target::Files { name, version }, &Method::GET | &Method::HEAD) => Ok(Endpoint::Files { name, version }),
        (Target::Collaborators { name }, &Method::GET | &Method::HEAD) => Ok(Endpoint::Collaborators { name }),
        (Target::GroupPackages { group }, &Method::GET | &Method::HEAD) => Ok(Endpoint::GroupPackages { group }),
        (Target::GroupUsers { group }, &Method::GET | &Method::HEAD) => Ok(Endpoint::GroupUsers { group }),
        (Target::GroupUsers { .. }, _) => Ok(Endpoint::Unchangeable(Missing::Members)),
        (Target::GroupTeams { group }, &Method::GET | &Method::HEAD) => Ok(Endpoint::GroupTeams { group }),
        (Target::GroupTeams { .. }, _) => Ok(Endpoint::Unchangeable(Missing::Teams)),
        (Target::Hooks, &Method::GET | &Method::HEAD) => Ok(Endpoint::Hooks),
        (Target::Missing(missing), &Method::GET | &Method::HEAD) => Ok(Endpoint::Absent(missing)),
        (Target::Missing(missing), _) => Ok(Endpoint::Unchangeable(missing)),
        (Target::NameOwner { name }, &Method::GET | &Method::HEAD) => Ok(Endpoint::NameOwner { name }),
        (Target::NameOwner { name }, &Method::PUT) => Ok(Endpoint::TransferName { name }),
        (Target::NameOwner { name }, &Method::DELETE) => Ok(Endpoint::ReleaseName { name }),
        (Target::NameOwner { .. }, _) => Err(Error::method_not_allowed("DELETE, GET, HEAD, PUT")),
        (Target::NameProjects { name }, &Method::POST) => Ok(Endpoint::AllowProject { name }),
        (Target::NameProjects { .. }, _) => Err(Error::method_not_allowed("POST")),
        (Target::NameProject { name, project }, &Method::DELETE) => Ok(Endpoint::DisallowProject { name, project }),
        (Target::NameProject { .. }, _) => Err(Error::method_not_allowed("DELETE")),
        (Target::Reservations, &Method::GET | &Method::HEAD) => Ok(Endpoint::Reservations),
        (Target::Reservations, &Method::POST) => Ok(Endpoint::Reserve),
        (Target::Reservations, _) => Err(Error::method_not_allowed("GET, HEAD, POST")),
        (Target::Reservation { id }, &Method::DELETE) => Ok(Endpoint::Unreserve { id }),
        (Target::Reservation { .. }, _) => Err(Error::method_not_allowed("DELETE")),
        _ => Err(Error::method_not_allowed("GET, HEAD")),
    }
}

/// The path of one version by its numeric id.
pub fn package_path(project: u64, id: u64) -> String {
    format!("{BASE}/projects/{project}/packages/{id}")
}

/// The endpoints below the list of a project's packages that name no registry.
fn below_packages(segments: &[Segment], method: &Method) -> Result<Endpoint, Error> {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    match (segments, method) {
        ([Segment("protection"), Segment("rules")], _) if is_read => Ok(Endpoint::ProtectionRules),
        ([Segment("protection"), Segment("rules")], &Method::POST) => Ok(Endpoint::AddProtectionRule),
        ([Segment("protection"), Segment("rules")], _) => Err(Error::method_not_allowed("GET, HEAD, POST")),
        ([Segment("protection"), Segment("rules"), id], &Method::PATCH) => {
            Ok(Endpoint::ChangeProtectionRule { id: text(id)? })
        }
        ([Segment("protection"), Segment("rules"), id], &Method::DELETE) => {
            Ok(Endpoint::RemoveProtectionRule { id: text(id)? })
        }
        ([Segment("protection"), Segment("rules"), _], _) => Err(Error::method_not_allowed("DELETE, PATCH")),
        ([id], _) if is_read => Ok(Endpoint::Package { id: text(id)? }),
        ([id], &Method::DELETE) => Ok(Endpoint::RemovePackage { id: text(id)? }),
        ([_], _) => Err(Error::method_not_allowed("DELETE, GET, HEAD")),
        ([id, Segment("package_files")], _) if is_read => Ok(Endpoint::PackageFiles { id: text(id)? }),
        ([id, Segment("package_files"), file], &Method::DELETE) => {
            Ok(Endpoint::RemovePackageFile { id: text(id)?, file: text(file)? })
        }
        ([_, Segment("package_files"), _], _) => Err(Error::method_not_allowed("DELETE")),
        ([id, Segment("pipelines")], _) if is_read => Ok(Endpoint::Pipelines { id: text(id)? }),
        ([_, Segment("package_files" | "pipelines")], _) => Err(Error::method_not_allowed("GET, HEAD")),
        _ => Err(Error::route_not_found()),
    }
}

/// The endpoint of a path that names no registry: of a list of packages, or below it.
fn packages_api(segments: &[Segment], method: &Method) -> Option<(Level, Result<Endpoint, Error>)> {
    let (level, rest) = match segments {
        [Segment("projects"), project, Segment("packages"), rest @ ..] => (Level::Project(id(project)?), rest),
        [Segment("groups"), group, Segment("packages")] => (Level::Group(id(group)?), &[][..]),
        _ => return None,
    };
    let endpoint = match (rest, method) {
        ([registry, ..], _) if is_registry(registry) => return None,
        ([], &Method::GET | &Method::HEAD) => Ok(Endpoint::List),
        ([], _) => Err(Error::method_not_allowed("GET, HEAD")),
        _ => below_packages(rest, method),
    };
    Some((level, endpoint))
}

/// The path after the second prefix. To remove a file, npm 6 appends the whole path of the file's URL to the registry's
/// address, so the prefix occurs twice.
fn below_prefix_again<'a, 'b>(segments: &[Segment<'a>], rest: &'b [Segment<'a>]) -> Option<&'b [Segment<'a>]> {
    let prefix = segments.get(..segments.len() - rest.len())?;
    match rest {
        [Segment("api"), Segment("v4"), again @ ..] => again.strip_prefix(prefix),
        _ => None,
    }
}

fn id(segment: &Segment) -> Option<String> {
    segment.decode().map(|id| id.into_owned()).filter(|id| !id.is_empty())
}

fn level<'a, 'b>(segments: &'b [Segment<'a>]) -> Option<(Level, &'b [Segment<'a>])> {
    match segments {
        [Segment("projects"), project, Segment("packages"), registry, rest @ ..] if is_registry(registry) => {
            Some((Level::Project(id(project)?), rest))
        }
        [Segment("groups"), group, Segment("-"), Segment("packages"), registry, rest @ ..] if is_registry(registry) => {
            Some((Level::Group(id(group)?), rest))
        }
        [Segment("packages"), registry, rest @ ..] if is_registry(registry) => Some((Level::Instance, rest)),
        _ => None,
    }
}

fn is_registry(segment: &Segment) -> bool {
    matches!(segment.0, "pkgreg" | "npm")
}

/// The resource that a path names, independent of the method.
enum Target {
    /// `one_segment`: a scope's slash, if any, is encoded.
    Package {
        name: String,
        one_segment: bool,
    },
    Version {
        name: String,
        version: String,
    },
    File {
        name: String,
        file: String,
    },
    /// The revision of a package, or of a file, that a write replaces.
    Revision {
        name: String,
        revision: String,
    },
    FileRevision {
        name: String,
        file: String,
    },
    Tags {
        name: String,
    },
    Tag {
        name: String,
        tag: String,
    },
    Attestations {
        name: String,
        version: String,
    },
    Ping,
    WhoAmI,
    User {
        name: String,
    },
    Profile,
    Search,
    Stars,
    Visibility {
        name: String,
    },
    AccessStatus {
        name: String,
    },
    /// The owners of a package, or one owner.
    Owners {
        name: String,
        user: Option<String>,
    },
    Audit(Audit),
    Files {
        name: String,
        version: String,
    },
    Collaborators {
        name: String,
    },
    /// The packages, members and teams of an organization.
    GroupPackages {
        group: String,
    },
    GroupUsers {
        group: String,
    },
    GroupTeams {
        group: String,
    },
    Hooks,
    Missing(Missing),
    NameOwner {
        name: String,
    },
    /// The projects that may publish a name besides its owner, or one of them.
    NameProjects {
        name: String,
    },
    NameProject {
        name: String,
        project: String,
    },
    Reservations,
    Reservation {
        id: String,
    },
}

/// The prefix of a user's name in document ids.
const USER_PREFIX: &str = "org.couchdb.user:";

fn target(segments: &[Segment]) -> Result<Target, Error> {
    match segments {
        [Segment("-"), rest @ ..] => service(rest),
        _ => package(segments),
    }
}

fn service(segments: &[Segment]) -> Result<Target, Error> {
    match segments {
        [Segment("ping")] => Ok(Target::Ping),
        [Segment("whoami")] => Ok(Target::WhoAmI),
        [Segment("user"), user] => match text(user)?.strip_prefix(USER_PREFIX) {
            Some(name) => Ok(Target::User { name: name.to_owned() }),
            None => Err(Error::route_not_found()),
        },
        [Segment("user"), _, Segment("package")] => Ok(Target::Missing(Missing::UserPackages)),
        [Segment("org"), group, Segment("package")] => Ok(Target::GroupPackages { group: text(group)? }),
        [Segment("org"), group, Segment("user")] => Ok(Target::GroupUsers { group: text(group)? }),
        [Segment("org"), group, Segment("team")] => Ok(Target::GroupTeams { group: text(group)? }),
        [Segment("team"), _, _] | [Segment("team"), _, _, Segment("package" | "user")] => {
            Ok(Target::Missing(Missing::Teams))
        }
        [Segment("npm"), Segment("v1"), Segment("hooks")] => Ok(Target::Hooks),
        [Segment("npm"), Segment("v1"), Segment("hooks"), Segment("hook")]
        | [Segment("npm"), Segment("v1"), Segment("hooks"), Segment("hook"), _] => Ok(Target::Missing(Missing::Hooks)),
        [Segment("npm"), Segment("v1"), Segment("user")] => Ok(Target::Profile),
        [Segment("package_name_owners"), rest @ ..] => match name(rest)? {
            (name, []) => Ok(Target::NameOwner { name }),
            (name, [Segment("projects")]) => Ok(Target::NameProjects { name }),
            (name, [Segment("projects"), project]) => Ok(Target::NameProject { name, project: text(project)? }),
            _ => Err(Error::route_not_found()),
        },
        [Segment("package_name_reservations")] => Ok(Target::Reservations),
        [Segment("package_name_reservations"), id] => Ok(Target::Reservation { id: text(id)? }),
        [Segment("v1"), Segment("search")] => Ok(Target::Search),
        [Segment("_view"), Segment("starredByUser")] => Ok(Target::Stars),
        [Segment("npm"), Segment("v1"), Segment("security"), rest @ ..] => match rest {
            [Segment("advisories"), Segment("bulk")] => Ok(Target::Audit(Audit::Bulk)),
            [Segment("audits"), Segment("quick")] => Ok(Target::Audit(Audit::Quick)),
            [Segment("audits")] => Ok(Target::Audit(Audit::Full)),
            _ => Err(Error::route_not_found()),
        },
        [Segment("npm"), Segment("v1"), Segment("attestations"), rest @ ..] => match name(rest)? {
            (subject, []) => subject
                .rsplit_once('@')
                .map(|(name, version)| Target::Attestations { name: name.to_owned(), version: version.to_owned() })
                .ok_or_else(Error::route_not_found),
            _ => Err(Error::route_not_found()),
        },
        [Segment("package"), rest @ ..] => match name(rest)? {
            (name, [Segment("visibility")]) => Ok(Target::Visibility { name }),
            (name, [Segment("access")]) => Ok(Target::AccessStatus { name }),
            (name, [Segment("files"), version]) => Ok(Target::Files { name, version: text(version)? }),
            (name, [Segment("collaborators")]) => Ok(Target::Collaborators { name }),
            (name, [Segment("owners")]) => Ok(Target::Owners { name, user: None }),
            (name, [Segment("owners"), user]) => Ok(Target::Owners { name, user: Some(text(user)?) }),
            (name, [Segment("dist-tags")]) => Ok(Target::Tags { name }),
            (name, [Segment("dist-tags"), tag]) => Ok(Target::Tag { name, tag: text(tag)? }),
            _ => Err(Error::route_not_found()),
        },
        _ => Err(Error::route_not_found()),
    }
}

fn package(segments: &[Segment]) -> Result<Target, Error> {
    // The reference service answers a segment that does not decode with this text.
    if segments.iter().any(|segment| segment.decode().is_none()) {
        return Err(Error::validation(NOT_A_PATH));
    }
    let (name, rest) = name(segments)?;
    match rest {
        [] => Ok(Target::Package { name, one_segment: segments.len() == 1 }),
        [Segment("-"), file] => Ok(Target::File { name, file: text(file)? }),
        [Segment("-"), scope, file] if scope.decode().is_some_and(|scope| scope.starts_with('@')) => {
            Ok(Target::File { name, file: format!("{}/{}", text(scope)?, text(file)?) })
        }
        [Segment("-rev"), revision] => Ok(Target::Revision { name, revision: text(revision)? }),
        [Segment("-"), file, Segment("-rev"), _] => Ok(Target::FileRevision { name, file: text(file)? }),
        [Segment("-"), scope, file, Segment("-rev"), _] => {
            Ok(Target::FileRevision { name, file: format!("{}/{}", text(scope)?, text(file)?) })
        }
        [version] if *version != Segment("-") => Ok(Target::Version { name, version: text(version)? }),
        _ => Err(Error::route_not_found()),
    }
}

/// The package name that a path starts with, and the rest of the path. The slash after a scope
/// may be encoded or not.
fn name<'a, 'b>(segments: &'b [Segment<'a>]) -> Result<(String, &'b [Segment<'a>]), Error> {
    let [first, rest @ ..] = segments else { return Err(Error::route_not_found()) };
    let first = text(first)?;
    match rest {
        [base, rest @ ..] if first.starts_with('@') && !first.contains('/') => {
            Ok((format!("{first}/{}", text(base)?), rest))
        }
        _ => Ok((first, rest)),
    }
}

/// The text of a segment. An empty segment is 404; a blank one is accepted.
fn text(segment: &Segment) -> Result<String, Error> {
    let text = segment.decode().filter(|text| !text.is_empty());
    text.map(|text| text.into_owned()).ok_or_else(Error::route_not_found)
}

#[cfg(test)]
mod tests;
