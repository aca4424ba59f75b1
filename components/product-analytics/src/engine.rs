//! The analytics engine of a project: its address and key.

use crate::route::Endpoint;
use directory::project::Project;
use directory::service_url;
use directory::setting::{License, Settings};
use fluent_uri::UriRef;
use kit::Env;
use kit::store::StoreError;
use std::fmt;

/// The path of the engine's API below its base URL.
const API: &str = "cubejs-api/v1/";

/// An engine and the key that signs requests to it.
#[derive(PartialEq, Eq)]
pub struct Engine {
    pub base_url: String,
    pub key: String,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("base_url", &self.base_url).finish_non_exhaustive()
    }
}

/// The engine of a project, if analytics is available for it. The licence includes analytics, and the settings do not
/// disable it. The project is in a group, and an address and a key are configured.
pub fn of(env: &Env, settings: &Settings, project: &Project) -> Result<Option<Engine>, StoreError> {
    let available = settings.license() == License::Ultimate && settings.flag("product_analytics_enabled", true);
    if !available || !project.namespace.is_group() {
        return Ok(None);
    }
    let (own, base_url) = (project.analytics_key(env)?, settings.text("analytics_api_base_url"));
    // Requests to a project's own engine are signed with the project's own key: its operator must
    // not see a signature of the shared key.
    let (base_url, key) = match (project.analytics.base_url.as_deref(), own) {
        (Some(url), own) => (Some(url), own),
        (None, Some(own)) => (base_url, Some(own)),
        (None, None) => (base_url, settings.secret(env, "analytics_api_key")?),
    };
    Ok(base_url.zip(key).map(|(base_url, key)| Engine { base_url: base_url.to_owned(), key }))
}

impl Engine {
    /// The URL of an endpoint, resolved as a relative reference to the base URL (RFC 3986, section 5). A base path
    /// without a trailing slash loses its last segment. `None` if the base URL is invalid ([`service_url::parse`]); an
    /// earlier build may have stored one.
    pub fn address(&self, endpoint: Endpoint) -> Option<http::Uri> {
        let base = service_url::parse(&self.base_url)?;
        let reference = format!("{API}{}", endpoint.name());
        let address = UriRef::parse(reference.as_str()).ok()?.resolve_against(&base.strip_fragment()).ok()?;
        address.as_str().parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(base_url: &str) -> String {
        let engine = Engine { base_url: base_url.into(), key: "k".into() };
        engine.address(Endpoint::DryRun).map_or("none".into(), |address| address.to_string())
    }

    #[test]
    fn the_address_is_a_relative_reference_to_the_base() {
        for (base, expected) in [
            ("http://h", "http://h/cubejs-api/v1/dry-run"),
            ("http://h/", "http://h/cubejs-api/v1/dry-run"),
            ("https://h:8443/x/", "https://h:8443/x/cubejs-api/v1/dry-run"),
            ("http://h/x", "http://h/cubejs-api/v1/dry-run"),
            ("http://h/x/y?z=1#f", "http://h/x/cubejs-api/v1/dry-run"),
            ("http://h/a/../b/./", "http://h/b/cubejs-api/v1/dry-run"),
            (" http://[::1]:4000/ ", "http://[::1]:4000/cubejs-api/v1/dry-run"),
        ] {
            assert_eq!(address(base), expected, "{base}");
        }
    }

    #[test]
    fn an_invalid_base_has_no_address() {
        for base in
            ["", "h", "/x", "ftp://h/", "http:h", "http://", "http:///x", "http://a b/", "http://u:p@h/", "file:///x"]
        {
            assert_eq!(address(base), "none", "{base}");
        }
    }
}
