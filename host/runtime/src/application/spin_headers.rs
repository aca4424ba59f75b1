//! The request headers that Spin's applications expect: the full URL, the route, and what the path has in its place.

use hexad_manifest::router::captures;
use http::request::Parts;
use http::{HeaderName, HeaderValue};

/// The prefix of a header with the value of a `:name` segment.
const PATH_MATCH: &str = "spin-path-match-";

/// Sets the headers. `route` is the route of the request as written in the manifest, and `parts` has an absolute URI.
/// The host has removed headers of a client with these names.
pub fn insert(parts: &mut Parts, route: &str) {
    let uri = std::mem::take(&mut parts.uri);
    let (parameters, path_info) = captures(route, uri.path());
    let mut set = |name: &str, value: &str| {
        // A name that no header can have is left out, as it is in Spin.
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
            parts.headers.insert(name, value);
        }
    };
    set("spin-full-url", &uri.to_string());
    set("spin-path-info", path_info);
    set("spin-matched-route", route);
    set("spin-raw-component-route", route);
    set("spin-component-route", route.strip_suffix("/...").or(route.strip_suffix("/*")).unwrap_or(route));
    set("spin-base-path", "/");
    for (name, value) in parameters {
        // Spin writes names as environment variables, and these as header names.
        set(&format!("{PATH_MATCH}{}", name.replace('_', "-")), value);
    }
    parts.uri = uri;
}
