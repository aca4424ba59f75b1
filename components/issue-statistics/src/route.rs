//! The routes: the only module that knows URLs.

use http::Method;
use kit::Error;
use kit::maintenance::Task;
use kit::path::{self, Segment};

const BASE: &str = "/api/v4";

#[derive(Debug, PartialEq, Eq)]
pub enum Route {
    Count(Level),
    Import,
    /// Garbage collection or a check of the store.
    Maintain(Task),
}

/// The scope of a count in a URL. The text is an id or a full path.
#[derive(Debug, PartialEq, Eq)]
pub enum Level {
    Instance,
    Group(String),
    Project(String),
}

/// The endpoint for `path` and `method`. The error is 404, or 405 with the allowed methods.
pub fn parse(method: &Method, path: &str) -> Result<Route, Error> {
    let segments = path::below(path, BASE).ok_or_else(Error::route_not_found)?;
    let id = |segment: &Segment| {
        let id = segment.decode().filter(|id| !id.is_empty());
        id.map(|id| id.into_owned()).ok_or_else(Error::route_not_found)
    };
    let level = match segments.as_slice() {
        [Segment("import"), Segment("issues")] => {
            return if method == Method::POST { Ok(Route::Import) } else { Err(Error::method_not_allowed("POST")) };
        }
        [Segment("maintenance"), Segment("issue-statistics"), Segment(task)] => {
            return Task::named(method, task).map(Route::Maintain);
        }
        [Segment("issues_statistics")] => Level::Instance,
        [Segment("groups"), group, Segment("issues_statistics")] => Level::Group(id(group)?),
        [Segment("projects"), project, Segment("issues_statistics")] => Level::Project(id(project)?),
        _ => return Err(Error::route_not_found()),
    };
    match *method {
        Method::GET | Method::HEAD => Ok(Route::Count(level)),
        _ => Err(Error::method_not_allowed("GET, HEAD")),
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
        assert_eq!(answer(Method::GET, "/api/v4/issues_statistics"), "Count(Instance)");
        assert_eq!(answer(Method::HEAD, "/api/v4/groups/7/issues_statistics"), r#"Count(Group("7"))"#);
        assert_eq!(answer(Method::GET, "/api/v4/groups/a%2Fb/issues_statistics"), r#"Count(Group("a/b"))"#);
        assert_eq!(answer(Method::GET, "/api/v4/projects/a%2Fb.c/issues_statistics"), r#"Count(Project("a/b.c"))"#);
        assert_eq!(answer(Method::POST, "/api/v4/import/issues"), "Import");
        assert_eq!(answer(Method::POST, "/api/v4/maintenance/issue-statistics/gc"), "Maintain(CollectGarbage)");
        let paths = "/api/v4 /api/v4/issues_statistics/ /api/v4/projects//issues_statistics \
            /api/v4/projects/a/b/issues_statistics /api/v4/projects/%ff/issues_statistics /api/v4/import/directory";
        for path in paths.split(' ') {
            assert_eq!(answer(Method::GET, path), r#"404 {"error":"404 Not Found"}"#, "{path}");
        }
        for path in ["issues_statistics", "groups/7/issues_statistics", "projects/7/issues_statistics"] {
            let refused = answer(Method::POST, &format!("/api/v4/{path}"));
            assert_eq!(refused, r#"405 {"error":"405 Not Allowed"}"#, "{path}");
        }
        assert_eq!(answer(Method::GET, "/api/v4/import/issues"), r#"405 {"error":"405 Not Allowed"}"#);
    }
}
