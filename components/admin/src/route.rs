//! URLs.

use http::Method;
use kit::maintenance::Task;
use kit::{Error, path};

const BASE: &str = "/api/v4";

#[derive(Debug, PartialEq, Eq)]
pub enum Route {
    Import,
    ReadSettings,
    WriteSettings,
    ListFeatures,
    /// By name.
    SetFeature(String),
    DeleteFeature(String),
    CreateToken,
    /// A step of garbage collection or of checking the store.
    Maintain(Task),
}

/// The endpoint that `path` and `method` name.
pub fn parse(method: &Method, path: &str) -> Result<Route, Error> {
    let segments = path::below(path, BASE).ok_or_else(Error::unrouted)?;
    let segments: Option<Vec<_>> = segments.into_iter().map(path::Segment::decode).collect();
    let segments = segments.ok_or_else(Error::unrouted)?;
    let names: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
    let get = matches!(*method, Method::GET | Method::HEAD);
    match (names.as_slice(), method) {
        (["import", "directory"], &Method::POST) => Ok(Route::Import),
        (["import", "directory"], _) => Err(Error::method_not_allowed("POST")),
        (["maintenance", "admin", task], _) => Task::named(method, task).map(Route::Maintain),
        (["application", "settings"], _) if get => Ok(Route::ReadSettings),
        (["application", "settings"], &Method::PUT) => Ok(Route::WriteSettings),
        (["application", "settings"], _) => Err(Error::method_not_allowed("GET, HEAD, PUT")),
        (["features"], _) if get => Ok(Route::ListFeatures),
        (["features"], _) => Err(Error::method_not_allowed("GET, HEAD")),
        (["features", name], &Method::POST) if !name.is_empty() => Ok(Route::SetFeature((*name).to_owned())),
        (["features", name], &Method::DELETE) if !name.is_empty() => Ok(Route::DeleteFeature((*name).to_owned())),
        (["features", name], _) if !name.is_empty() => Err(Error::method_not_allowed("POST, DELETE")),
        (["personal_access_tokens"], &Method::POST) => Ok(Route::CreateToken),
        (["personal_access_tokens"], _) => Err(Error::method_not_allowed("POST")),
        _ => Err(Error::unrouted()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(method: Method, path: &str) -> String {
        match parse(&method, path) {
            Ok(route) => format!("{route:?}"),
            Err(error) => format!("{} {}", error.status.as_u16(), error.to_json()),
        }
    }

    #[test]
    fn paths() {
        assert_eq!(answer(Method::POST, "/api/v4/import/directory"), "Import");
        assert_eq!(answer(Method::POST, "/api/v4/maintenance/admin/fsck"), "Maintain(Check)");
        assert_eq!(answer(Method::HEAD, "/api/v4/application/settings"), "ReadSettings");
        assert_eq!(answer(Method::PUT, "/api/v4/application/settings"), "WriteSettings");
        assert_eq!(answer(Method::GET, "/api/v4/features"), "ListFeatures");
        assert_eq!(answer(Method::POST, "/api/v4/features/a%2Fb"), r#"SetFeature("a/b")"#);
        assert_eq!(answer(Method::DELETE, "/api/v4/features/x"), r#"DeleteFeature("x")"#);
        assert_eq!(answer(Method::POST, "/api/v4/personal_access_tokens"), "CreateToken");
        for path in [
            "/",
            "/api/v4",
            "/api/v4/",
            "/api/v4/features/",
            "/api/v4/features/a/b",
            "/api/v4/import/issues",
            "/api/v4/features/%ff",
        ] {
            assert_eq!(answer(Method::POST, path), r#"404 {"error":"404 Not Found"}"#, "{path}");
        }
        for path in ["import/directory", "application/settings", "features", "features/x", "personal_access_tokens"] {
            let refused = answer(Method::PATCH, &format!("/api/v4/{path}"));
            assert_eq!(refused, r#"405 {"error":"405 Not Allowed"}"#, "{path}");
        }
    }
}
