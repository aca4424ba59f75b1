//! URLs: the pages, and the endpoints of the API that they call.

use http::Method;
use kit::path::{self, Segment, encode};

/// The subject of a page: the whole service, a group or a project, by id or full path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Scope {
    #[default]
    Instance,
    Group(String),
    Project(String),
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Page {
    Home,
    PackageList,
    Package(String),
    Issues,
    NamespaceList,
    Namespace(String),
    Experiments,
    MergeRequestList,
    MergeRequest { project: String, iid: String },
    Analytics(String),
    Admin,
    SignIn,
    SignOut,
}

/// A static file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asset {
    Style,
    Script,
    Icon,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    Show(Page),
    /// A form was sent.
    Submit(Page),
    Asset(Asset),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteError {
    NotFound,
    /// The methods that the path has.
    Method(&'static str),
}

pub const HOME: &str = "/";
pub const ISSUES: &str = "/issues";
pub const MERGE_REQUESTS: &str = "/merge_requests";
pub const NAMESPACES: &str = "/namespaces";
pub const EXPERIMENTS: &str = "/experiments";
pub const ADMIN: &str = "/admin";
pub const SIGN_IN: &str = "/-/sign-in";
pub const SIGN_OUT: &str = "/-/sign-out";
pub const STYLE: &str = "/-/console.css";
pub const SCRIPT: &str = "/-/console.js";
pub const ICON: &str = "/-/icon.svg";

const API: &str = "/api/v4";

/// The application itself, as Spin and hexad name it.
const SELF: &str = "http://self.alt";

/// The route of a request, whose path is normal.
pub fn parse(method: &Method, path: &str) -> Result<Route, RouteError> {
    let segments: Vec<String> = path
        .split('/')
        .skip(1)
        .map(|segment| Segment(segment).decode().map(|text| text.into_owned()))
        .collect::<Option<_>>()
        .ok_or(RouteError::NotFound)?;
    let names: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (page, has_form) = match names.as_slice() {
        [""] => (Page::Home, false),
        ["-", "console.css"] => return read(method, Route::Asset(Asset::Style)),
        ["-", "console.js"] => return read(method, Route::Asset(Asset::Script)),
        ["-", "icon.svg"] => return read(method, Route::Asset(Asset::Icon)),
        ["-", "sign-in"] => (Page::SignIn, true),
        ["-", "sign-out"] => (Page::SignOut, true),
        ["packages"] => (Page::PackageList, false),
        ["packages", name @ ..] => (Page::Package(name.join("/")), true),
        ["issues"] => (Page::Issues, false),
        ["namespaces"] => (Page::NamespaceList, false),
        ["namespaces", path @ ..] => (Page::Namespace(path.join("/")), false),
        ["experiments"] => (Page::Experiments, false),
        ["merge_requests"] => (Page::MergeRequestList, false),
        ["merge_requests", project @ .., iid] if !project.is_empty() => {
            (Page::MergeRequest { project: project.join("/"), iid: (*iid).to_owned() }, true)
        }
        ["analytics", project @ ..] if !project.is_empty() => (Page::Analytics(project.join("/")), false),
        ["admin"] => (Page::Admin, true),
        _ => return Err(RouteError::NotFound),
    };
    match *method {
        Method::POST if has_form => Ok(Route::Submit(page)),
        _ if has_form => read(method, Route::Show(page)).map_err(|_| RouteError::Method("GET, HEAD, POST")),
        _ => read(method, Route::Show(page)),
    }
}

/// The namespace or project at an address of the reference service with one or two parts, such as `/<group>/<project>`
/// or `/groups/<group>`. Returns its path, and whether it can only be a group. Longer addresses, such as a
/// repository's, are not resolved.
pub fn reference_address(path: &str) -> Option<(String, bool)> {
    let segments: Vec<_> = path.split('/').skip(1).map(|segment| Segment(segment).decode()).collect::<Option<_>>()?;
    let names: Vec<&str> = segments.iter().map(|segment| &**segment).collect();
    // The API would take a number for an id.
    let is_number = |name: &&str| name.bytes().all(|byte| byte.is_ascii_digit());
    match names.as_slice() {
        ["-" | "api", ..] | [_, ""] => None,
        [name] | ["groups", name] if is_number(name) => None,
        ["groups", group] => Some(((*group).to_owned(), true)),
        [name] => Some(((*name).to_owned(), false)),
        [group, project] => Some((format!("{group}/{}", project.strip_suffix(".git").unwrap_or(project)), false)),
        _ => None,
    }
}

fn read(method: &Method, route: Route) -> Result<Route, RouteError> {
    match *method {
        Method::GET | Method::HEAD => Ok(route),
        _ => Err(RouteError::Method("GET, HEAD")),
    }
}

impl Scope {
    /// The scope that a page's `project` or `group` names.
    pub fn of(project: Option<&str>, group: Option<&str>) -> Self {
        match (project, group) {
            (Some(project), _) => Scope::Project(project.to_owned()),
            (None, Some(group)) => Scope::Group(group.to_owned()),
            (None, None) => Scope::Instance,
        }
    }

    /// The page parameter that names the scope, and its value.
    pub fn parameter(&self) -> Option<(&'static str, &str)> {
        match self {
            Scope::Instance => None,
            Scope::Group(path) => Some(("group", path)),
            Scope::Project(path) => Some(("project", path)),
        }
    }

    /// The scope's path in the API, with a slash at its end.
    fn api(&self, below_group: &str) -> String {
        match self {
            Scope::Instance => String::new(),
            Scope::Group(id) => format!("groups/{}/{below_group}", encode(id)),
            Scope::Project(id) => format!("projects/{}/", encode(id)),
        }
    }

    fn query(&self) -> String {
        self.parameter().map(|(name, value)| format!("?{name}={}", encode(value))).unwrap_or_default()
    }
}

/// `@scope/name` keeps its slash, for a legible address.
pub fn package(name: &str, scope: &Scope) -> String {
    format!("/packages/{}{}", encode_path(name), scope.query())
}

pub fn package_list(scope: &Scope) -> String {
    format!("/packages{}", scope.query())
}

pub fn issues(scope: &Scope) -> String {
    format!("{ISSUES}{}", scope.query())
}

pub fn namespace(path: &str) -> String {
    format!("{NAMESPACES}/{}", encode_path(path))
}

pub fn merge_request_list(scope: &Scope) -> String {
    format!("{MERGE_REQUESTS}{}", scope.query())
}

pub fn merge_request(project: &str, iid: &str) -> String {
    format!("{MERGE_REQUESTS}/{}/{}", encode_path(project), encode(iid))
}

pub fn analytics(project: &str) -> String {
    format!("/analytics/{}", encode_path(project))
}

fn encode_path(path: &str) -> String {
    let segments: Vec<String> = path.split('/').map(|segment| encode(segment).replace("%40", "@")).collect();
    segments.join("/")
}

/// The path below the API's base of an address within the API.
pub fn below_api(address: &str) -> Option<&str> {
    address.split_once(API).and_then(|(_, rest)| rest.strip_prefix('/'))
}

/// The URL at which this component calls the API. `path` is below the API's base.
pub fn endpoint(path: &str) -> String {
    format!("{SELF}{API}/{path}")
}

/// The URL of the package registry for package managers, with a slash at its end.
pub fn registry_url(base: &str, scope: &Scope) -> String {
    format!("{base}{API}/{}/", registry(scope))
}

/// The URL of an endpoint for clients.
pub fn public_endpoint(base: &str, path: &str) -> String {
    format!("{base}{API}/{path}")
}

/// The package registry of a scope, below the API's base.
pub fn registry(scope: &Scope) -> String {
    format!("{}packages/npm", scope.api("-/"))
}

/// The counts of a scope's issues.
pub fn issues_statistics(scope: &Scope) -> String {
    format!("{}issues_statistics", scope.api(""))
}

/// The page to sign in, which leads back to `here` if that is a page of this console.
pub fn sign_in(here: &str) -> String {
    match is_own(here) && here != HOME && !here.starts_with("/-/") {
        true => format!("{SIGN_IN}?next={}", encode(here)),
        false => SIGN_IN.to_owned(),
    }
}

/// Whether `target` leads to a page of this console, so that a redirect to it stays here.
pub fn is_own(target: &str) -> bool {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let is_plain = target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let normal = path::normalize(path);
    is_plain
        && path.starts_with('/')
        && !path.starts_with("//")
        && !path.split('/').any(|segment| matches!(Segment(segment).decode().as_deref(), Some("." | "..")))
        && (matches!(parse(&Method::GET, &normal), Ok(Route::Show(_))) || reference_address(&normal).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages() {
        let show = |path: &str| match parse(&Method::GET, path) {
            Ok(Route::Show(page)) => Some(page),
            _ => None,
        };
        assert_eq!(show("/"), Some(Page::Home));
        for path in ["/packages/@acme/lib", "/packages/%40acme%2Flib"] {
            assert_eq!(show(path), Some(Page::Package("@acme/lib".into())));
        }
        let merge_request = Some(Page::MergeRequest { project: "a/b".into(), iid: "7".into() });
        assert_eq!(show("/merge_requests/a/b/7"), merge_request);
        assert_eq!(show("/merge_requests/a%2Fb/7"), merge_request);
        for path in ["/nothing", "/-/x", "/merge_requests/7", "/analytics", "/packages/%ff", "/api/v4/user"] {
            assert_eq!(parse(&Method::GET, path), Err(RouteError::NotFound), "{path}");
        }
        assert_eq!(parse(&Method::POST, "/"), Err(RouteError::Method("GET, HEAD")));
        assert_eq!(parse(&Method::PUT, "/admin"), Err(RouteError::Method("GET, HEAD, POST")));
        assert_eq!(parse(&Method::POST, "/-/sign-out"), Ok(Route::Submit(Page::SignOut)));
    }

    #[test]
    fn links_lead_back_to_their_pages() {
        for name in ["@acme/lib", "lib", "a b", "<x>"] {
            let link = package(name, &Scope::Instance);
            assert_eq!(parse(&Method::GET, &link), Ok(Route::Show(Page::Package(name.into()))), "{link}");
        }
        assert_eq!(package("@a/b", &Scope::Project("x/y".into())), "/packages/@a/b?project=x%2Fy");
    }

    #[test]
    fn signing_in_leads_back_to_pages_only() {
        assert_eq!(sign_in("/issues?project=a%2Fb&q=x"), "/-/sign-in?next=%2Fissues%3Fproject%3Da%252Fb%26q%3Dx");
        for here in ["/", "/-/sign-in?next=/issues", "/-/sign-out", "//evil.test", "/a/b/c"] {
            assert_eq!(sign_in(here), SIGN_IN, "{here}");
        }
    }

    #[test]
    fn addresses_of_the_reference_name_a_namespace_or_a_project() {
        let name = |path: &str| reference_address(path).map(|(name, is_group)| format!("{name} {is_group}"));
        for (path, expected) in [
            ("/mia", Some("mia false")),
            ("/acme/site", Some("acme/site false")),
            ("/acme/site.git", Some("acme/site false")),
            ("/acme/a%20b", Some("acme/a b false")),
            ("/groups/acme", Some("acme true")),
            ("/", None),
            ("/-/x", None),
            ("/acme/", None),
            ("/api/v4", None),
            ("/a/b/c", None),
            ("/7", None),
            ("/groups/7", None),
            ("/%ff", None),
        ] {
            assert_eq!(name(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn only_pages_of_the_console_are_its_own() {
        for target in ["/", "/acme/site", "/issues?state=all", "/packages/@a/b?project=x%2Fy#versions"] {
            assert!(is_own(target), "{target}");
        }
        for target in [
            "//evil.test",
            "/../other",
            "/packages/%2e%2E/x",
            "https://evil.test",
            "/\\evil.test",
            "evil",
            "",
            "/api/v4/user",
            "/\t/evil.test",
        ] {
            assert!(!is_own(target), "{target}");
        }
    }
}
