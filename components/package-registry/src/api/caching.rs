//! `Cache-Control` of responses, and conditional requests.

use super::request::RegistryRequest;
use crate::negotiation;
use crate::route::Level;
use directory::namespace::Visibility;
use directory::project::{FeatureAccess, Project};
use http::header::{HeaderValue, IF_NONE_MATCH};

/// Whether the client has the representation with this entity tag.
pub fn is_known(request: &RegistryRequest, entity_tag: &str) -> bool {
    let values = request.http.headers.get_all(IF_NONE_MATCH);
    negotiation::is_known(values.iter().filter_map(|value| value.to_str().ok()), entity_tag)
}

/// `Cache-Control` of metadata of these projects: caches revalidate it each time, so a new version is seen at once.
pub fn revalidated<'a>(mut projects: impl Iterator<Item = &'a Project>) -> HeaderValue {
    HeaderValue::from_static(if projects.all(is_public) { "public, no-cache" } else { "private, no-cache" })
}

/// `Cache-Control` of a published file or attestation. At an address with the project's id it never changes, because
/// version numbers are not reused. At an address with a path it may: another project can get the path. An id that a
/// deleted project had before is no exception.
pub fn of_file(level: &Level, project: &Project) -> HeaderValue {
    let by_number = matches!(level, Level::Project(id) if *id == project.id.to_string());
    match (by_number && project.incarnation.is_first(), is_public(project)) {
        (true, true) => HeaderValue::from_static("public, max-age=31536000, immutable"),
        (true, false) => HeaderValue::from_static("private, max-age=31536000, immutable"),
        (false, _) => revalidated([project].into_iter()),
    }
}

/// Whether an anonymous caller may read the project's packages, so that a shared cache may keep them.
pub fn is_public(project: &Project) -> bool {
    match project.registry {
        FeatureAccess::Public => true,
        FeatureAccess::Enabled => project.visibility == Visibility::Public,
        FeatureAccess::Private | FeatureAccess::Disabled => false,
    }
}
