//! Which responses clients and shared caches may keep, and whether a client has the current representation.

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

/// `Cache-Control` of metadata: caches revalidate it each time, so a new version is seen at once.
pub fn revalidated(project: &Project) -> HeaderValue {
    HeaderValue::from_static(if is_public(project) { "public, no-cache" } else { "private, no-cache" })
}

/// `Cache-Control` of a published file or attestation. In a project it never changes, because the number of an
/// unpublished version is not used again. In a group, and in the instance, another project may have the name later.
pub fn of_file(level: &Level, project: &Project) -> HeaderValue {
    match (level, is_public(project)) {
        (Level::Project(_), true) => HeaderValue::from_static("public, max-age=31536000, immutable"),
        (Level::Project(_), false) => HeaderValue::from_static("private, max-age=31536000, immutable"),
        _ => revalidated(project),
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
