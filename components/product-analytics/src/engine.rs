//! Which engine a project has, and where it is.

use crate::route::Endpoint;
use directory::project::Project;
use directory::setting::{License, Settings};
use fluent_uri::{Uri, UriRef};
use kit::Env;
use kit::store::StoreError;
use std::fmt;

/// The part of the address that is the engine's own.
const API: &str = "cubejs-api/v1/";

/// An engine, and the key that it knows us by.
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

/// The engine of a project, if analytics is there for it: the licence has it, nobody switched it
/// off, the project is in a group, and an address and a key are known.
pub fn of(env: &Env, settings: &Settings, project: &Project) -> Result<Option<Engine>, StoreError> {
    let available = settings.license() == License::Ultimate && settings.flag("product_analytics_enabled", true);
    if !available || !project.namespace.is_group() {
        return Ok(None);
    }
    let (own, base_url) = (project.analytics_key(env)?, settings.text("analytics_api_base_url"));
    // What is sent to a project's own engine is signed with the project's own key: whoever runs
    // that engine must not learn anything that is signed with everybody's.
    let (base_url, key) = match (project.analytics.base_url.as_deref(), own) {
        (Some(url), own) => (Some(url), own),
        (None, Some(own)) => (base_url, Some(own)),
        (None, None) => (base_url, settings.secret(env, "analytics_api_key")?),
    };
    Ok(base_url.zip(key).map(|(base_url, key)| Engine { base_url: base_url.to_owned(), key }))
}

impl Engine {
    /// The address of an endpoint: a relative reference to the base URL (RFC 3986, section 5), so
    /// a base path without a slash at its end loses its last segment. `None` if the base URL is
    /// none, is not for HTTP, or has a name and password in it, which would go nowhere.
    pub fn address(&self, endpoint: Endpoint) -> Option<http::Uri> {
        let base = Uri::parse(self.base_url.trim()).ok()?;
        let known = matches!(base.scheme().as_str().to_ascii_lowercase().as_str(), "http" | "https");
        if !known || base.authority().is_none_or(|authority| authority.has_userinfo() || authority.host().is_empty()) {
            return None;
        }
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
    fn what_is_no_address_is_none() {
        for base in
            ["", "h", "/x", "ftp://h/", "http:h", "http://", "http:///x", "http://a b/", "http://u:p@h/", "file:///x"]
        {
            assert_eq!(address(base), "none", "{base}");
        }
    }
}
