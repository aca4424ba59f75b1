//! URLs. No other file knows one.

use http::Method;
use kit::Error;
use kit::maintenance::Task;
use kit::path::{self, Segment};

const BASE: &str = "/api/v4";

/// An endpoint and the parameters of its path, decoded and not validated. A project is named by its id or
/// its full path.
#[derive(Debug, PartialEq, Eq)]
pub enum Route {
    GetSuggestion {
        suggestion: String,
    },
    ApplySuggestion {
        suggestion: String,
    },
    ApplyBatch,
    ListDiscussions {
        project: String,
        merge_request: String,
    },
    CreateDiscussion {
        project: String,
        merge_request: String,
    },
    GetDiscussion {
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
    /// Garbage collection or a check of the store.
    Maintenance(Task),
}

/// A file of git's "dumb" HTTP protocol (gitprotocol-http).
#[derive(Debug, PartialEq, Eq)]
pub enum RepositoryFile {
    Head,
    Refs,
    Packs,
    /// A loose object, by 2 and more digits of its id, joined and not validated.
    Object(String),
    /// FileCache that a repository may have and this one has not.
    Other,
}

const GET: &str = "GET, HEAD";

/// The route of a request; the error is 404, or 405 with the allowed methods.
pub fn parse(method: &Method, path: &str) -> Result<Route, Error> {
    let segments = path::below(path, BASE).ok_or_else(Error::unrouted)?;
    let text = |segment: &Segment| -> Result<String, Error> {
        let decoded = segment.decode().filter(|text| !text.is_empty());
        decoded.map(|text| text.into_owned()).ok_or_else(Error::unrouted)
    };
    let is_get = matches!(*method, Method::GET | Method::HEAD);
    match segments.as_slice() {
        [Segment("suggestions"), Segment("batch_apply")] => match *method {
            Method::PUT => Ok(Route::ApplyBatch),
            _ => Err(Error::method_not_allowed("PUT")),
        },
        [Segment("suggestions"), id] => match is_get {
            true => Ok(Route::GetSuggestion { suggestion: text(id)? }),
            false => Err(Error::method_not_allowed(GET)),
        },
        [Segment("suggestions"), id, Segment("apply")] => match *method {
            Method::PUT => Ok(Route::ApplySuggestion { suggestion: text(id)? }),
            _ => Err(Error::method_not_allowed("PUT")),
        },
        [Segment("projects"), project, Segment("merge_requests"), iid, Segment("discussions"), rest @ ..] => {
            let (project, merge_request) = (text(project)?, text(iid)?);
            match rest {
                [] if is_get => Ok(Route::ListDiscussions { project, merge_request }),
                [] if *method == Method::POST => Ok(Route::CreateDiscussion { project, merge_request }),
                [] => Err(Error::method_not_allowed("GET, HEAD, POST")),
                [id] if is_get => Ok(Route::GetDiscussion { project, merge_request, discussion: text(id)? }),
                [_] => Err(Error::method_not_allowed(GET)),
                _ => Err(Error::unrouted()),
            }
        }
        [Segment("projects"), project, Segment("repository.git"), rest @ ..] if !rest.is_empty() => {
            if !is_get {
                return Err(Error::method_not_allowed(GET));
            }
            Ok(Route::Repository { project: text(project)?, file: repository_file(rest) })
        }
        [Segment("maintenance"), Segment("suggestions"), Segment(task)] => {
            Task::named(method, task).map(Route::Maintenance)
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

/// `path`, which names a project by an old path, with the project's id instead.
pub fn with_project_id(id: u64, path: &str) -> String {
    let below = path.strip_prefix(BASE).and_then(|rest| rest.splitn(4, '/').nth(3)).unwrap_or_default();
    format!("{BASE}/projects/{id}/{below}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(method: Method, path: &str) -> String {
        match parse(&method, &format!("/api/v4/{path}")) {
            Ok(route) => format!("{route:?}"),
            Err(error) => error.status.as_u16().to_string(),
        }
    }

    #[test]
    fn paths() {
        for (method, path, expected) in [
            (Method::PUT, "suggestions/5/apply", r#"ApplySuggestion { suggestion: "5" }"#),
            (Method::PUT, "suggestions/foo-123/apply", r#"ApplySuggestion { suggestion: "foo-123" }"#),
            (Method::PUT, "suggestions/batch_apply", "ApplyBatch"),
            (Method::HEAD, "suggestions/5", r#"GetSuggestion { suggestion: "5" }"#),
            (
                Method::POST,
                "projects/a%2Fb/merge_requests/3/discussions",
                r#"CreateDiscussion { project: "a/b", merge_request: "3" }"#,
            ),
            (
                Method::GET,
                "projects/7/merge_requests/3/discussions",
                r#"ListDiscussions { project: "7", merge_request: "3" }"#,
            ),
            (
                Method::GET,
                "projects/7/merge_requests/3/discussions/ab",
                r#"GetDiscussion { project: "7", merge_request: "3", discussion: "ab" }"#,
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
    fn a_path_of_a_moved_project_gets_its_id() {
        let path = "/api/v4/projects/old%2Fpath/merge_requests/3/discussions";
        assert_eq!(with_project_id(7, path), "/api/v4/projects/7/merge_requests/3/discussions");
    }
}
