//! URLs.

use http::Method;
use kit::maintenance::Task;
use kit::{Error, path};

const BASE: &str = "/api/v4";

#[derive(Debug, PartialEq, Eq)]
pub enum Route {
    List,
    Import,
    Check,
}

/// The route of a request; the error is 404, or 405 with the allowed methods.
pub fn parse(method: &Method, path: &str) -> Result<Route, Error> {
    let segments = path::below(path, BASE).ok_or_else(Error::route_not_found)?;
    let names: Vec<&str> = segments.iter().map(|segment| segment.0).collect();
    match (names.as_slice(), method) {
        (["experiments"], &Method::GET | &Method::HEAD) => Ok(Route::List),
        (["experiments"], _) => Err(Error::method_not_allowed("GET, HEAD")),
        (["import", "experiments"], &Method::POST) => Ok(Route::Import),
        (["import", "experiments"], _) => Err(Error::method_not_allowed("POST")),
        (["maintenance", "experiments", task], _) => match Task::named(method, task)? {
            Task::Check => Ok(Route::Check),
            // The area has nothing to collect or to repair.
            Task::CollectGarbage | Task::Repair => Err(Error::route_not_found()),
        },
        _ => Err(Error::route_not_found()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let status = |method: Method, path: &str| parse(&method, path).map_err(|error| error.status.as_u16());
        assert_eq!(status(Method::HEAD, "/api/v4/experiments"), Ok(Route::List));
        assert_eq!(status(Method::POST, "/api/v4/import/experiments"), Ok(Route::Import));
        assert_eq!(status(Method::POST, "/api/v4/experiments"), Err(405));
        assert_eq!(status(Method::GET, "/api/v4/import/experiments"), Err(405));
        assert_eq!(status(Method::POST, "/api/v4/maintenance/experiments/fsck"), Ok(Route::Check));
        assert_eq!(status(Method::GET, "/api/v4/maintenance/experiments/fsck"), Err(405));
        assert_eq!(status(Method::POST, "/api/v4/maintenance/experiments/gc"), Err(404));
        for path in ["/api/v4/experiments/", "/api/v4/experiments/1", "/api/v4/import", "/experiments"] {
            assert_eq!(status(Method::GET, path), Err(404), "{path}");
        }
    }
}
