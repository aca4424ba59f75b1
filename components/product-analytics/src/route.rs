//! The URLs of the area. Only this file knows URLs.

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

/// Endpoints of the engine that its client also requests, and that have no counterpart here.
const UNSUPPORTED: [&str; 3] = ["sql", "subscribe", "cubesql"];

/// The target of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Endpoint(Endpoint),
    /// One of the engine's endpoints, by name.
    Unsupported(&'static str),
}

/// Parses a request's path: the project's id or full path, and the target.
pub fn parse(method: &Method, path: &str) -> Result<(String, Target), Error> {
    let segments = path::below(path, BASE).ok_or_else(Error::route_not_found)?;
    let [Segment("projects"), id, Segment("product_analytics"), Segment("request"), Segment(name)] =
        segments.as_slice()
    else {
        return Err(Error::route_not_found());
    };
    let id = id.decode().filter(|id| !id.is_empty()).ok_or_else(Error::route_not_found)?.into_owned();
    let endpoints = [Endpoint::Load, Endpoint::DryRun, Endpoint::Meta];
    let endpoint = endpoints.into_iter().find(|endpoint| endpoint.name() == *name).map(Target::Endpoint);
    let unsupported = || UNSUPPORTED.into_iter().find(|unsupported| unsupported == name).map(Target::Unsupported);
    let target = endpoint.or_else(unsupported).ok_or_else(Error::route_not_found)?;
    match *method {
        Method::GET | Method::HEAD | Method::POST => Ok((id, target)),
        _ => Err(Error::method_not_allowed("GET, HEAD, POST")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(method: Method, path: &str) -> String {
        match parse(&method, &format!("/api/v4/projects/{path}")) {
            Ok((id, Target::Endpoint(endpoint))) => format!("{id} {}", endpoint.name()),
            Ok((id, Target::Unsupported(name))) => format!("{id} no {name}"),
            Err(error) => format!("{} {}", error.status.as_u16(), error.to_json()),
        }
    }

    #[test]
    fn paths() {
        assert_eq!(answer(Method::POST, "a%2Fb/product_analytics/request/dry-run"), "a/b dry-run");
        for method in [Method::GET, Method::HEAD, Method::POST] {
            for name in ["load", "dry-run", "meta"] {
                let path = format!("7/product_analytics/request/{name}");
                assert_eq!(answer(method.clone(), &path), format!("7 {name}"));
            }
            assert_eq!(answer(method.clone(), "7/product_analytics/request/sql"), "7 no sql");
            assert_eq!(answer(method, "7/product_analytics/request/subscribe"), "7 no subscribe");
        }
        let paths = "7/product_analytics/request 7/product_analytics/request/ 7/product_analytics/request/load/ \
            7/product_analytics/request/nope /product_analytics/request/load a/b/product_analytics/request/load \
            %ff/product_analytics/request/load";
        for path in paths.split(' ') {
            assert_eq!(answer(Method::POST, path), r#"404 {"error":"404 Not Found"}"#, "{path}");
        }
    }

    #[test]
    fn methods() {
        for (method, name) in
            [(Method::PATCH, "load"), (Method::PUT, "dry-run"), (Method::DELETE, "meta"), (Method::PUT, "sql")]
        {
            let refused = answer(method, &format!("7/product_analytics/request/{name}"));
            assert_eq!(refused, r#"405 {"error":"405 Not Allowed"}"#, "{name}");
        }
    }
}
