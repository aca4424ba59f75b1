//! URLs. No other file knows a URL.

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
    ListAllMergeRequests,
    ListMergeRequestsOfGroup {
        group: String,
    },
    ListMergeRequests {
        project: String,
    },
    CreateMergeRequest {
        project: String,
    },
    MergeRequest {
        project: String,
        iid: String,
        endpoint: MergeRequestEndpoint,
    },
    /// A request of git, by the project's id or by its full path.
    Repository {
        project: String,
        service: GitService,
    },
    ImportMergeRequests,
    ImportObjects {
        project: String,
    },
    ImportPack {
        project: String,
    },
    /// Which commits need not be imported.
    ImportKnown {
        project: String,
    },
    ImportRefs {
        project: String,
    },
    /// Garbage collection or a check of the store.
    Maintenance(Task),
    /// The console's page for an address of the reference service, below the base URL.
    Page(String),
}

/// The endpoints of one merge request.
#[derive(Debug, PartialEq, Eq)]
pub enum MergeRequestEndpoint {
    Show,
    Update,
    ListCommits,
    /// The merge request with its difference.
    ListChanges,
    ListDiffs,
    ListDiscussions,
    CreateDiscussion,
    GetDiscussion {
        discussion: String,
    },
    ResolveDiscussion {
        discussion: String,
    },
    ListDiscussionNotes {
        discussion: String,
    },
    Reply {
        discussion: String,
    },
    ListNotes,
    CreateNote,
    /// A note, of this discussion if it is named.
    GetNote {
        discussion: Option<String>,
        note: String,
    },
    EditNote {
        discussion: Option<String>,
        note: String,
    },
    DeleteNote {
        discussion: Option<String>,
        note: String,
    },
}

/// The services that git asks of a repository (gitprotocol-http).
#[derive(Debug, PartialEq, Eq)]
pub enum GitService {
    /// The list of branches and tags, and the server's capabilities.
    Refs,
    /// The list at an address without `.git`, as people copy it.
    RefsWithoutSuffix,
    /// The branch that is checked out.
    Head,
    Fetch,
    Push,
    /// A request of Git LFS, which is not supported.
    LargeFiles,
}

const GET: &str = "GET, HEAD";

/// The route of a request; the error is 404, or 405 with the allowed methods.
pub fn parse(method: &Method, path: &str) -> Result<Route, Error> {
    let Some(segments) = path::below(path, BASE) else { return parse_repository(method, path) };
    let text = |segment: &Segment| -> Result<String, Error> {
        let decoded = segment.decode().filter(|text| !text.is_empty());
        decoded.map(|text| text.into_owned()).ok_or_else(Error::route_not_found)
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
        [Segment("merge_requests")] if is_get => Ok(Route::ListAllMergeRequests),
        [Segment("merge_requests")] => Err(Error::method_not_allowed(GET)),
        [Segment("groups"), group, Segment("merge_requests")] => match is_get {
            true => Ok(Route::ListMergeRequestsOfGroup { group: text(group)? }),
            false => Err(Error::method_not_allowed(GET)),
        },
        [Segment("projects"), project, Segment("merge_requests")] => match *method {
            Method::GET | Method::HEAD => Ok(Route::ListMergeRequests { project: text(project)? }),
            Method::POST => Ok(Route::CreateMergeRequest { project: text(project)? }),
            _ => Err(Error::method_not_allowed("GET, HEAD, POST")),
        },
        [Segment("projects"), project, Segment("merge_requests"), iid, rest @ ..] => {
            let (project, iid) = (text(project)?, text(iid)?);
            Ok(Route::MergeRequest { project, iid, endpoint: merge_request_endpoint(method, rest)? })
        }
        [Segment("projects"), project, Segment("repository.git"), rest @ ..] if !rest.is_empty() => {
            Ok(Route::Repository { project: text(project)?, service: git_service(method, rest)? })
        }
        [Segment("maintenance"), Segment("suggestions"), Segment(task)] => {
            Task::named(method, task).map(Route::Maintenance)
        }
        [Segment("import"), Segment("suggestions"), rest @ ..] => {
            let route = match rest {
                [] => Route::ImportMergeRequests,
                [project, Segment("objects")] => Route::ImportObjects { project: text(project)? },
                [project, Segment("pack")] => Route::ImportPack { project: text(project)? },
                [project, Segment("known")] => Route::ImportKnown { project: text(project)? },
                [project, Segment("refs")] => Route::ImportRefs { project: text(project)? },
                _ => return Err(Error::route_not_found()),
            };
            if *method == Method::POST { Ok(route) } else { Err(Error::method_not_allowed("POST")) }
        }
        _ => Err(Error::route_not_found()),
    }
}

/// The endpoint below a merge request's own path.
fn merge_request_endpoint(method: &Method, segments: &[Segment]) -> Result<MergeRequestEndpoint, Error> {
    use MergeRequestEndpoint as Endpoint;
    let text = |segment: &Segment| -> Result<String, Error> {
        let decoded = segment.decode().filter(|text| !text.is_empty());
        decoded.map(|text| text.into_owned()).ok_or_else(Error::route_not_found)
    };
    let is_get = matches!(*method, Method::GET | Method::HEAD);
    let one = |discussion: Option<&Segment>, note: &Segment| {
        let (discussion, note) = (discussion.map(text).transpose()?, text(note)?);
        match *method {
            _ if is_get => Ok(Endpoint::GetNote { discussion, note }),
            Method::PUT => Ok(Endpoint::EditNote { discussion, note }),
            Method::DELETE => Ok(Endpoint::DeleteNote { discussion, note }),
            _ => Err(Error::method_not_allowed("GET, HEAD, PUT, DELETE")),
        }
    };
    match segments {
        [] if is_get => Ok(Endpoint::Show),
        [] if *method == Method::PUT => Ok(Endpoint::Update),
        [] => Err(Error::method_not_allowed("GET, HEAD, PUT")),
        [Segment("commits")] if is_get => Ok(Endpoint::ListCommits),
        [Segment("changes")] if is_get => Ok(Endpoint::ListChanges),
        [Segment("diffs")] if is_get => Ok(Endpoint::ListDiffs),
        [Segment("commits" | "changes" | "diffs")] => Err(Error::method_not_allowed(GET)),
        [Segment("discussions")] if is_get => Ok(Endpoint::ListDiscussions),
        [Segment("discussions")] if *method == Method::POST => Ok(Endpoint::CreateDiscussion),
        [Segment("discussions")] => Err(Error::method_not_allowed("GET, HEAD, POST")),
        [Segment("discussions"), id] if is_get => Ok(Endpoint::GetDiscussion { discussion: text(id)? }),
        [Segment("discussions"), id] if *method == Method::PUT => {
            Ok(Endpoint::ResolveDiscussion { discussion: text(id)? })
        }
        [Segment("discussions"), _] => Err(Error::method_not_allowed("GET, HEAD, PUT")),
        [Segment("discussions"), id, Segment("notes")] if is_get => {
            Ok(Endpoint::ListDiscussionNotes { discussion: text(id)? })
        }
        [Segment("discussions"), id, Segment("notes")] if *method == Method::POST => {
            Ok(Endpoint::Reply { discussion: text(id)? })
        }
        [Segment("discussions"), _, Segment("notes")] => Err(Error::method_not_allowed("GET, HEAD, POST")),
        [Segment("discussions"), id, Segment("notes"), note] => one(Some(id), note),
        [Segment("notes")] if is_get => Ok(Endpoint::ListNotes),
        [Segment("notes")] if *method == Method::POST => Ok(Endpoint::CreateNote),
        [Segment("notes")] => Err(Error::method_not_allowed("GET, HEAD, POST")),
        [Segment("notes"), note] => one(None, note),
        _ => Err(Error::route_not_found()),
    }
}

/// The route of `/<full path>.git/…`.
fn parse_repository(method: &Method, path: &str) -> Result<Route, Error> {
    let segments: Vec<Segment> = path.split('/').skip(1).map(Segment).collect();
    let project = |names: &[Segment]| {
        let names: Option<Vec<_>> = names.iter().map(|segment| segment.decode()).collect();
        names.map(|names| names.join("/")).ok_or_else(Error::route_not_found)
    };
    let is_get = matches!(*method, Method::GET | Method::HEAD);
    let end = segments.iter().position(|segment| segment.0.ends_with(".git"));
    if let Some(end) = end.filter(|end| !is_get || end + 1 < segments.len()) {
        let (above, rest) = segments.split_at_checked(end + 1).ok_or_else(Error::route_not_found)?;
        let project = project(above)?.strip_suffix(".git").unwrap_or_default().to_owned();
        return Ok(Route::Repository { project, service: git_service(method, rest)? });
    }
    match segments.as_slice() {
        // With an empty segment, the redirect would lead to another host.
        [above @ .., Segment("info"), Segment("refs")]
            if *method == Method::GET && above.len() > 1 && above.iter().all(|segment| !segment.0.is_empty()) =>
        {
            Ok(Route::Repository { project: project(above)?, service: GitService::RefsWithoutSuffix })
        }
        [.., Segment("info"), Segment("refs")] => Err(Error::route_not_found()),
        _ if is_get => page(&segments).map(Route::Page).ok_or_else(Error::route_not_found),
        _ => Err(Error::route_not_found()),
    }
}

/// The console's page for an address of the reference service, such as `/<full path>/-/merge_requests/1`. Addresses of
/// one or two parts are the console's own.
fn page(segments: &[Segment]) -> Option<String> {
    let names: Vec<String> =
        segments.iter().map(|segment| Some(segment.decode()?.into_owned())).collect::<Option<_>>()?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if names.len() < 3 || names.contains(&"") || names.starts_with(&["api"]) {
        return None;
    }
    let (path, below) = names.split_at(names.iter().position(|name| *name == "-").unwrap_or(names.len()));
    let (kind, path) = match path {
        ["groups", path @ ..] => ("group", path),
        path => ("project", path),
    };
    let parts: Vec<String> = path.iter().map(|name| path::encode(name)).collect();
    let (id, path) = (parts.join("%2F"), parts.join("/"));
    Some(match below {
        _ if parts.is_empty() => return None,
        ["-", "merge_requests", iid, ..] => format!("/merge_requests/{path}/{}", path::encode(iid)),
        ["-", list @ ("merge_requests" | "issues" | "packages"), ..] => format!("/{list}?{kind}={id}"),
        [] | ["-", "blob" | "commit" | "commits" | "tree", ..] => {
            format!("/namespaces/{}", path.strip_suffix(".git").unwrap_or(&path))
        }
        // Other addresses, such as archives, are for programs, which would take a page for an archive.
        _ => return None,
    })
}

fn git_service(method: &Method, segments: &[Segment]) -> Result<GitService, Error> {
    let is_get = matches!(*method, Method::GET | Method::HEAD);
    match segments {
        [Segment("info"), Segment("refs")] if is_get => Ok(GitService::Refs),
        [Segment("HEAD")] if is_get => Ok(GitService::Head),
        [Segment("info"), Segment("refs")] => Err(Error::method_not_allowed(GET)),
        [Segment("git-upload-pack")] if *method == Method::POST => Ok(GitService::Fetch),
        [Segment("git-receive-pack")] if *method == Method::POST => Ok(GitService::Push),
        [Segment("git-upload-pack" | "git-receive-pack")] => Err(Error::method_not_allowed("POST")),
        [Segment("info"), Segment("lfs"), ..] => Ok(GitService::LargeFiles),
        _ => Err(Error::route_not_found()),
    }
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
            (Method::GET, "projects/a%2Fb/merge_requests", r#"ListMergeRequests { project: "a/b" }"#),
            (Method::POST, "projects/7/merge_requests", r#"CreateMergeRequest { project: "7" }"#),
            (
                Method::POST,
                "projects/a%2Fb/merge_requests/3/discussions",
                r#"MergeRequest { project: "a/b", iid: "3", endpoint: CreateDiscussion }"#,
            ),
            (Method::GET, "projects/7/repository.git/info/refs", r#"Repository { project: "7", service: Refs }"#),
            (
                Method::POST,
                "projects/a%2Fb/repository.git/git-upload-pack",
                r#"Repository { project: "a/b", service: Fetch }"#,
            ),
            (
                Method::POST,
                "projects/7/repository.git/git-receive-pack",
                r#"Repository { project: "7", service: Push }"#,
            ),
            (
                Method::POST,
                "projects/7/repository.git/info/lfs/objects/batch",
                r#"Repository { project: "7", service: LargeFiles }"#,
            ),
            (Method::GET, "merge_requests", "ListAllMergeRequests"),
            (Method::GET, "groups/a%2Fb/merge_requests", r#"ListMergeRequestsOfGroup { group: "a/b" }"#),
            (Method::POST, "import/suggestions", "ImportMergeRequests"),
            (Method::POST, "import/suggestions/7/objects", r#"ImportObjects { project: "7" }"#),
            (Method::POST, "import/suggestions/7/refs", r#"ImportRefs { project: "7" }"#),
        ] {
            assert_eq!(answer(method, path), expected, "{path}");
        }
        for (method, path, expected) in [
            (Method::GET, "", "Show"),
            (Method::PUT, "", "Update"),
            (Method::GET, "/commits", "ListCommits"),
            (Method::GET, "/changes", "ListChanges"),
            (Method::GET, "/diffs", "ListDiffs"),
            (Method::HEAD, "/discussions", "ListDiscussions"),
            (Method::GET, "/discussions/ab", r#"GetDiscussion { discussion: "ab" }"#),
            (Method::PUT, "/discussions/ab", r#"ResolveDiscussion { discussion: "ab" }"#),
            (Method::GET, "/discussions/ab/notes", r#"ListDiscussionNotes { discussion: "ab" }"#),
            (Method::POST, "/discussions/ab/notes", r#"Reply { discussion: "ab" }"#),
            (Method::GET, "/discussions/ab/notes/1", r#"GetNote { discussion: Some("ab"), note: "1" }"#),
            (Method::PUT, "/discussions/ab/notes/1", r#"EditNote { discussion: Some("ab"), note: "1" }"#),
            (Method::DELETE, "/discussions/ab/notes/1", r#"DeleteNote { discussion: Some("ab"), note: "1" }"#),
            (Method::GET, "/notes", "ListNotes"),
            (Method::POST, "/notes", "CreateNote"),
            (Method::GET, "/notes/1", r#"GetNote { discussion: None, note: "1" }"#),
            (Method::PUT, "/notes/1", r#"EditNote { discussion: None, note: "1" }"#),
            (Method::DELETE, "/notes/1", r#"DeleteNote { discussion: None, note: "1" }"#),
        ] {
            let route = answer(method, &format!("projects/7/merge_requests/3{path}"));
            assert_eq!(route, format!(r#"MergeRequest {{ project: "7", iid: "3", endpoint: {expected} }}"#));
        }
        for path in [
            "",
            "suggestions",
            "suggestions/",
            "suggestions/5/apply/x",
            "projects/7/merge_requests/3/discussions/a/b",
            "projects/7/merge_requests/3/discussions/a/notes/1/x",
            "projects/7/merge_requests/3/pipelines",
            "projects//merge_requests/3/discussions",
            "projects/7/repository.git",
            "projects/7/repository.git/objects/ab/cdef",
            "import/suggestions/7",
            "import/suggestions/7/other",
        ] {
            assert_eq!(answer(Method::GET, path), "404", "{path}");
        }
        let paths = "suggestions/5 suggestions/5/apply suggestions/batch_apply projects/7/merge_requests \
            projects/7/merge_requests/3 merge_requests projects/7/merge_requests/3/commits \
            projects/7/merge_requests/3/discussions projects/7/merge_requests/3/discussions/ab \
            projects/7/merge_requests/3/discussions/ab/notes projects/7/merge_requests/3/notes \
            projects/7/repository.git/info/refs projects/7/repository.git/git-upload-pack import/suggestions";
        for path in paths.split(' ') {
            assert_eq!(answer(Method::DELETE, path), "405", "{path}");
        }
    }

    #[test]
    fn addresses_of_pages_lead_to_the_console() {
        for (address, expected) in [
            ("/acme/labs/site", "/namespaces/acme/labs/site"),
            ("/acme/labs/site.git", "/namespaces/acme/labs/site"),
            ("/groups/acme/labs", "/namespaces/acme/labs"),
            ("/acme/a%20b/-/merge_requests/7", "/merge_requests/acme/a%20b/7"),
            ("/acme/labs/site/-/merge_requests/7/diffs", "/merge_requests/acme/labs/site/7"),
            ("/acme/site/-/merge_requests", "/merge_requests?project=acme%2Fsite"),
            ("/acme/site/-/issues/3", "/issues?project=acme%2Fsite"),
            ("/acme/site/-/packages/3", "/packages?project=acme%2Fsite"),
            ("/groups/acme/labs/-/packages", "/packages?group=acme%2Flabs"),
            ("/groups/acme/-/issues", "/issues?group=acme"),
            ("/acme/site/-/commit/0a1b", "/namespaces/acme/site"),
            ("/acme/site/-/tree/main/src", "/namespaces/acme/site"),
        ] {
            let route = parse(&Method::GET, address).unwrap_or_else(|_| panic!("{address} is refused"));
            assert_eq!(route, Route::Page(expected.to_owned()), "{address}");
        }
    }

    #[test]
    fn repositories_by_their_full_path() {
        let service = |method, path| match parse(&method, path) {
            Ok(Route::Repository { project, service }) => format!("{project} {service:?}"),
            Ok(other) => format!("{other:?}"),
            Err(error) => error.status.as_u16().to_string(),
        };
        for (method, path, expected) in [
            (Method::GET, "/acme/sub/site.git/info/refs", "acme/sub/site Refs"),
            (Method::POST, "/acme/site.git/git-upload-pack", "acme/site Fetch"),
            (Method::POST, "/acme/site.git/git-receive-pack", "acme/site Push"),
            (Method::POST, "/acme/a%20b.git/info/lfs/locks", "acme/a b LargeFiles"),
            (Method::GET, "/acme/site/info/refs", "acme/site RefsWithoutSuffix"),
            (Method::POST, "/acme/site/info/refs", "404"),
            (Method::POST, "/acme/site/git-upload-pack", "404"),
            (Method::GET, "//acme/site/info/refs", "404"),
            (Method::GET, "/acme//info/refs", "404"),
            (Method::GET, "/acme/info/refs", "404"),
            (Method::GET, "/info/refs", "404"),
            (Method::GET, "/acme/site.git", "404"),
            (Method::GET, "/acme/site.git/HEAD", "acme/site Head"),
            (Method::GET, "/acme/site.git/config", "404"),
            (Method::GET, "/", "404"),
            (Method::POST, "/acme/sub/site.git", "404"),
            (Method::POST, "/acme/site/-/merge_requests/1", "404"),
            (Method::GET, "/api/v5/projects/1", "404"),
            (Method::GET, "/-/acme/site", "404"),
            (Method::GET, "/groups/-/acme", "404"),
            (Method::GET, "/acme/site/-/archive/main.tar.gz", "404"),
            (Method::GET, "/acme/site/-/raw/main/a", "404"),
            (Method::GET, "/acme//-/issues", "404"),
            (Method::GET, "/acme/site.git/git-upload-pack", "405"),
        ] {
            assert_eq!(service(method, path), expected, "{path}");
        }
    }
}
