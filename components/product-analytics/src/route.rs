//! Which URL means what: the only file that knows one.

use http::Method;
use kit::path::Segment;
use kit::{Error, path};

const BASE: &str = "/api/v4";

/// An endpoint. The engine's API uses the same names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    Load,
    DryRun,
    Meta,
}

impl Endpoint {
    /// The endpoint's last segment, here and at the engine.
    pub fn name(self) -> &'static str {
        match self {
            Endpoint::Load => "load",
            Endpoint::DryRun => "dry-run",
            Endpoint::Meta => "meta",
        }
    }
}

/// Parses a request's path: the project's id as given, and the endpoint.
pub fn parse(method: &Method, path: &str) -> Result<(String, Endpoint), Error> {
    let segments = path::below(path, BASE).ok_or_else(Error::unrouted)?;
    let [Segment("projects"), id, Segment("product_analytics"), Segment("request"), Segment(name)] =
        segments.as_slice()
    else {
        return Err(Error::unrouted());
    };
    let id = id.decode().filter(|id| !id.is_empty()).ok_or_else(Error::unrouted)?.into_owned();
    let get = matches!(*method, Method::GET | Method::HEAD);
    match (*name, method) {
        ("load", &Method::POST) => Ok((id, Endpoint::Load)),
        ("dry-run", &Method::POST) => Ok((id, Endpoint::DryRun)),
        ("meta", &Method::POST) => Ok((id, Endpoint::Meta)),
        ("meta", _) if get => Ok((id, Endpoint::Meta)),
        ("load" | "dry-run", _) => Err(Error::method_not_allowed("POST")),
        ("meta", _) => Err(Error::method_not_allowed("GET, HEAD, POST")),
        _ => Err(Error::unrouted()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(method: Method, path: &str) -> String {
        match parse(&method, &format!("/api/v4/projects/{path}")) {
            Ok((id, endpoint)) => format!("{id} {}", endpoint.name()),
            Err(error) => format!("{} {}", error.status.as_u16(), error.to_json()),
        }
    }

    #[test]
    fn paths() {
        assert_eq!(answer(Method::POST, "7/product_analytics/request/load"), "7 load");
        assert_eq!(answer(Method::POST, "a%2Fb/product_analytics/request/dry-run"), "a/b dry-run");
        for method in [Method::GET, Method::HEAD, Method::POST] {
            assert_eq!(answer(method, "7/product_analytics/request/meta"), "7 meta");
        }
        for path in [
            "7/product_analytics/request",
            "7/product_analytics/request/",
            "7/product_analytics/request/load/",
            "7/product_analytics/request/nope",
            "/product_analytics/request/load",
            "a/b/product_analytics/request/load",
            "%ff/product_analytics/request/load",
        ] {
            assert_eq!(answer(Method::POST, path), r#"404 {"error":"404 Not Found"}"#, "{path}");
        }
    }

    #[test]
    fn methods() {
        for (method, name) in [(Method::GET, "load"), (Method::PUT, "dry-run"), (Method::DELETE, "meta")] {
            let refused = answer(method, &format!("7/product_analytics/request/{name}"));
            assert_eq!(refused, r#"405 {"error":"405 Not Allowed"}"#, "{name}");
        }
    }
}
