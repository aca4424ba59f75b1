//! Which URL means what: the only file that knows one.

use http::Method;
use kit::Error;
use kit::maintenance::Task;
use kit::path::{self, Segment};

const BASE: &str = "/api/v4";

/// A project is named by its id or its full path. Numbers are as the request has them, decoded,
/// and need not be any.
#[derive(Debug, PartialEq, Eq)]
pub enum Route {
    Show {
        suggestion: String,
    },
    Apply {
        suggestion: String,
    },
    ApplyBatch,
    Discussions {
        project: String,
        merge_request: String,
    },
    Discuss {
        project: String,
        merge_request: String,
    },
    Discussion {
        project: String,
        merge_request: String,
        discussion: String,
    },
    Repository {
        project: String,
        file: RepositoryFile,
    },
    ImportMergeRequests,
    ImportObjects {
        project: String,
    },
    ImportRefs {
        project: String,
    },
    /// What an administrator does for the store.
    Maintain(Task),
}

/// What git's "dumb" protocol asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum RepositoryFile {
    Head,
    Refs,
    Packs,
    /// 40 characters.
    Object(String),
    /// Files that a repository may have and this one has not.
    Other,
}

const GET: &str = "GET, HEAD";

/// The route of a request; the error is 404, or 405 with what would be allowed.
pub fn route(method: &Method, path: &str) -> Result<Route, Error> {
    let segments = path::below(path, BASE).ok_or_else(Error::unrouted)?;
    let text = |segment: &Segment| -> Result<String, Error> {
        let decoded = segment.decode().filter(|text| !text.is_empty());
        decoded.map(|text| text.into_owned()).ok_or_else(Error::unrouted)
    };
    let get = matches!(*method, Method::GET | Method::HEAD);
    match segments.as_slice() {
        [Segment("suggestions"), Segment("batch_apply")] => match *method {
            Method::PUT => Ok(Route::ApplyBatch),
            _ => Err(Error::method_not_allowed("PUT")),
        },
        [Segment("suggestions"), id] => match get {
            true => Ok(Route::Show { suggestion: text(id)? }),
            false => Err(Error::method_not_allowed(GET)),
        },
        [Segment("suggestions"), id, Segment("apply")] => match *method {
            Method::PUT => Ok(Route::Apply { suggestion: text(id)? }),
            _ => Err(Error::method_not_allowed("PUT")),
        },
        [Segment("projects"), project, Segment("merge_requests"), iid, Segment("discussions"), rest @ ..] => {
            let (project, merge_request) = (text(project)?, text(iid)?);
            match rest {
                [] if get => Ok(Route::Discussions { project, merge_request }),
                [] if *method == Method::POST => Ok(Route::Discuss { project, merge_request }),
                [] => Err(Error::method_not_allowed("GET, HEAD, POST")),
                [id] if get => Ok(Route::Discussion { project, merge_request, discussion: text(id)? }),
                [_] => Err(Error::method_not_allowed(GET)),
                _ => Err(Error::unrouted()),
            }
        }
        [Segment("projects"), project, Segment("repository.git"), rest @ ..] if !rest.is_empty() => {
            if !get {
                return Err(Error::method_not_allowed(GET));
            }
            Ok(Route::Repository { project: text(project)?, file: repository_file(rest) })
        }
        [Segment("maintenance"), Segment("suggestions"), Segment(task)] => {
            Task::named(method, task).map(Route::Maintain)
        }
        [Segment("import"), Segment("suggestions"), rest @ ..] => {
            let route = match rest {
                [] => Route::ImportMergeRequests,
                [project, Segment("objects")] => Route::ImportObjects { project: text(project)? },
                [project, Segment("refs")] => Route::ImportRefs { project: text(project)? },
                _ => return Err(Error::unrouted()),
            };
            if *method == Method::POST { Ok(route) } else { Err(Error::method_not_allowed("POST")) }
        }
        _ => Err(Error::unrouted()),
    }
}

fn repository_file(segments: &[Segment]) -> RepositoryFile {
    match segments {
        [Segment("HEAD")] => RepositoryFile::Head,
        [Segment("info"), Segment("refs")] => RepositoryFile::Refs,
        [Segment("objects"), Segment("info"), Segment("packs")] => RepositoryFile::Packs,
        [Segment("objects"), Segment(first), Segment(rest)] if first.len() == 2 => {
            RepositoryFile::Object(format!("{first}{rest}"))
        }
        _ => RepositoryFile::Other,
    }
}

/// The address of the same thing in the project with this id, for a request that named the project
/// by an old path.
pub fn in_project(id: u64, path: &str) -> String {
    let below = path.strip_prefix(BASE).and_then(|rest| rest.splitn(4, '/').nth(3)).unwrap_or_default();
    format!("{BASE}/projects/{id}/{below}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(method: Method, path: &str) -> String {
        match route(&method, &format!("/api/v4/{path}")) {
            Ok(route) => format!("{route:?}"),
            Err(error) => error.status.as_u16().to_string(),
        }
    }

    #[test]
    fn paths() {
        for (method, path, expected) in [
            (Method::PUT, "suggestions/5/apply", r#"Apply { suggestion: "5" }"#),
            (Method::PUT, "suggestions/foo-123/apply", r#"Apply { suggestion: "foo-123" }"#),
            (Method::PUT, "suggestions/batch_apply", "ApplyBatch"),
            (Method::HEAD, "suggestions/5", r#"Show { suggestion: "5" }"#),
            (
                Method::POST,
                "projects/a%2Fb/merge_requests/3/discussions",
                r#"Discuss { project: "a/b", merge_request: "3" }"#,
            ),
            (
                Method::GET,
                "projects/7/merge_requests/3/discussions",
                r#"Discussions { project: "7", merge_request: "3" }"#,
            ),
            (
                Method::GET,
                "projects/7/merge_requests/3/discussions/ab",
                r#"Discussion { project: "7", merge_request: "3", discussion: "ab" }"#,
            ),
            (Method::GET, "projects/7/repository.git/HEAD", r#"Repository { project: "7", file: Head }"#),
            (Method::GET, "projects/7/repository.git/info/refs", r#"Repository { project: "7", file: Refs }"#),
            (
                Method::GET,
                "projects/7/repository.git/objects/ab/cdef",
                r#"Repository { project: "7", file: Object("abcdef") }"#,
            ),
            (
                Method::GET,
                "projects/7/repository.git/objects/info/packs",
                r#"Repository { project: "7", file: Packs }"#,
            ),
            (
                Method::GET,
                "projects/7/repository.git/objects/info/http-alternates",
                r#"Repository { project: "7", file: Other }"#,
            ),
            (Method::POST, "import/suggestions", "ImportMergeRequests"),
            (Method::POST, "import/suggestions/7/objects", r#"ImportObjects { project: "7" }"#),
            (Method::POST, "import/suggestions/7/refs", r#"ImportRefs { project: "7" }"#),
        ] {
            assert_eq!(answer(method, path), expected, "{path}");
        }
        for path in [
            "",
            "suggestions",
            "suggestions/",
            "suggestions/5/apply/x",
            "projects/7/merge_requests/3/discussions/a/b",
            "projects//merge_requests/3/discussions",
            "projects/7/repository.git",
            "import/suggestions/7",
            "import/suggestions/7/other",
        ] {
            assert_eq!(answer(Method::GET, path), "404", "{path}");
        }
        for path in [
            "suggestions/5",
            "suggestions/5/apply",
            "suggestions/batch_apply",
            "projects/7/merge_requests/3/discussions",
            "projects/7/merge_requests/3/discussions/ab",
            "projects/7/repository.git/HEAD",
            "import/suggestions",
        ] {
            assert_eq!(answer(Method::DELETE, path), "405", "{path}");
        }
    }

    #[test]
    fn a_moved_project_has_the_same_things_below_its_id() {
        let path = "/api/v4/projects/old%2Fpath/merge_requests/3/discussions";
        assert_eq!(in_project(7, path), "/api/v4/projects/7/merge_requests/3/discussions");
    }
}
