//! Redirects to another registry, if the operator has configured one. Nothing is fetched on behalf of clients.
//!
//! If this registry does not have a name at the request's level, it redirects all reads of the name: metadata,
//! versions, tags, files and attestations. Three kinds of names are never forwarded, because others could publish a
//! package under an internal name there:
//! - names whose scope is, or ever was, the path of a top-level group or of a user's namespace. Deleted namespaces
//!   count, because lock files outlive them;
//! - names that a pattern of the operator denies;
//! - names whose versions were all unpublished here.

use super::request::RegistryRequest;
use crate::name;
use directory::glob;
use directory::path::is_or_was_path;
use directory::service_url;
use http::StatusCode;
use http::header::{HeaderValue, LOCATION};
use kit::store::StoreError;
use kit::{Env, Error, path};

/// The variable with the address of the other registry.
pub const FORWARD_URL: &str = "registry_forward_url";

/// The variable with patterns of names that are not forwarded, separated by commas or white space. `*` stands
/// for any text; letter case does not matter.
pub const FORWARD_DENY: &str = "registry_forward_deny";

/// The part of a package that a request reads.
#[derive(Debug, Clone, Copy)]
pub enum Resource<'a> {
    Metadata,
    /// A version or a tag.
    Version(&'a str),
    File(&'a str),
    Tags,
    /// The attestations of a version.
    Attestations(&'a str),
    Visibility,
    AccessStatus,
    Owners,
}

impl Resource<'_> {
    /// Whether every program reads the same resource from its path: some drop a part `.` or `..`, and some decode a
    /// path twice.
    fn is_path(self) -> bool {
        match self {
            Resource::Version(text) | Resource::File(text) | Resource::Attestations(text) => {
                !text.contains('%') && !text.split(['/', '\\']).any(|part| matches!(part, "." | ".."))
            }
            Resource::Metadata | Resource::Tags | Resource::Visibility | Resource::AccessStatus | Resource::Owners => {
                true
            }
        }
    }

    /// Its path below a registry's address, as clients spell it: the slash of a scope is encoded, unless the path
    /// begins with the name.
    fn path(self, name: &str) -> String {
        let encoded = |text: &str| path::encode(text).replace("%40", "@");
        let package = name.split('/').map(encoded).collect::<Vec<_>>().join("/");
        let segment = encoded(name);
        match self {
            Resource::Metadata => package,
            Resource::Version(version) => format!("{package}/{}", encoded(version)),
            Resource::File(file) => {
                // Files are listed without the scope; clients may ask for them with it.
                let file = file.rsplit_once('/').map_or(file, |(_, base)| base);
                format!("{package}/-/{}", encoded(file))
            }
            Resource::Tags => format!("-/package/{segment}/dist-tags"),
            Resource::Attestations(version) => format!("-/npm/v1/attestations/{segment}@{}", encoded(version)),
            Resource::Visibility => format!("-/package/{segment}/visibility"),
            Resource::AccessStatus => format!("-/package/{segment}/access"),
            Resource::Owners => format!("-/package/{segment}/owners"),
        }
    }
}

/// Redirects a read of a package that this registry does not have: the error is 302. `Ok` if the name is not forwarded.
/// 1 read for a scoped name: the entry of the scope's path.
pub fn package(request: &RegistryRequest, name: &str, resource: Resource) -> Result<(), Error> {
    let env = &request.env;
    let Some(registry) = registry(env)? else { return Ok(()) };
    let is_forwardable = name::is_file_path(name)
        && is_requestable(name)
        && resource.is_path()
        && !is_any_denied(env, [name].into_iter())
        && !has_local_scope(env, name)?;
    match HeaderValue::from_str(&format!("{registry}/{}", resource.path(name))) {
        Ok(location) if is_forwardable => {
            Err(Error::message(StatusCode::FOUND, "302 Found").with_header(LOCATION, location))
        }
        _ => Ok(()),
    }
}

/// Whether installers ask for packages by this name: `encodeURIComponent` leaves its parts unchanged
/// (<https://github.com/npm/validate-npm-package-name>). Another name could be read as the path of a different name,
/// which was not checked.
fn is_requestable(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.!~*'()".contains(c);
    let (scope, base) = match name.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').unwrap_or_default(),
        None => ("-", name),
    };
    [scope, base].iter().all(|part| !part.is_empty() && part.chars().all(is_plain))
}

/// The address of the other registry, without a slash at its end. 500 if the operator's value is invalid, so that the
/// operator notices.
pub fn registry(env: &Env) -> Result<Option<&str>, Error> {
    let Some(text) = env.variables.get(FORWARD_URL).map(str::trim).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    match service_url::parse(text).filter(|url| !url.has_query() && !url.has_fragment()) {
        Some(_) => Ok(Some(text.trim_end_matches('/'))),
        None => {
            Err(Error::internal(format!("the variable {FORWARD_URL} is not the http or https address of a registry")))
        }
    }
}

/// Whether a pattern of the operator denies one of the names.
pub fn is_any_denied<'a>(env: &Env, mut names: impl Iterator<Item = &'a str>) -> bool {
    let patterns = env.variables.get(FORWARD_DENY).unwrap_or_default().to_ascii_lowercase();
    let patterns: Vec<&str> =
        patterns.split(|c: char| c == ',' || c.is_whitespace()).filter(|pattern| !pattern.is_empty()).collect();
    !patterns.is_empty()
        && names.any(|name| {
            let name = name.to_ascii_lowercase();
            patterns.iter().any(|pattern| glob::matches(pattern, &name))
        })
}

/// Whether the name's scope is or was the path of a top-level namespace.
fn has_local_scope(env: &Env, name: &str) -> Result<bool, StoreError> {
    scope(name).map_or(Ok(false), |scope| is_local_scope(env, scope))
}

/// The scope of a name, without the `@`.
pub fn scope(name: &str) -> Option<&str> {
    Some(name.strip_prefix('@')?.split_once('/')?.0)
}

/// Whether a scope is or was the path of a top-level namespace: a group's or a user's, deleted or not. 1 read.
pub fn is_local_scope(env: &Env, scope: &str) -> Result<bool, StoreError> {
    is_or_was_path(env, None, scope)
}
