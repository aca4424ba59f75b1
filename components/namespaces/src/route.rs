//! The URLs of the area. Only this file knows URLs.

use http::Method;
use kit::{Error, path};

const BASE: &str = "/api/v4";

/// The path of the list.
pub const LIST: &str = "/api/v4/namespaces";

/// The API path of a project.
pub fn project(id: u64) -> String {
    format!("{BASE}/projects/{id}")
}

/// An endpoint.
#[derive(Debug, PartialEq, Eq)]
pub enum Route {
    List,
    /// By id or full path.
    Show(String),
    /// By the last segment of a path.
    Exists(String),
    CurrentUser,
    ListUsers,
    ShowUser(u64),
    /// By id or username.
    UserProjects(String),
    ListProjects,
    /// By id or full path.
    ShowProject(String),
    ListGroups,
    ShowGroup(String),
    GroupProjects(String),
    /// The groups directly below.
    Subgroups(String),
    DescendantGroups(String),
    ListMembers(MembersOf),
    ShowMember(MembersOf, u64),
    Version,
}

/// The group or project whose members are requested.
#[derive(Debug, PartialEq, Eq)]
pub struct MembersOf {
    /// The id or full path of the group or project.
    pub id: String,
    pub is_group: bool,
    /// Whether to include members with a role from a group above, or from an invited group.
    pub with_inherited: bool,
}

/// Parses a request's method and path; 404 or 405.
pub fn parse(method: &Method, path: &str) -> Result<Route, Error> {
    let segments = path::below(path, BASE).ok_or_else(Error::route_not_found)?;
    let segments: Option<Vec<_>> = segments.into_iter().map(path::Segment::decode).collect();
    let segments = segments.ok_or_else(Error::route_not_found)?;
    let names: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
    let route = match names.as_slice() {
        ["namespaces"] => Route::List,
        ["namespaces", id] if !id.is_empty() => Route::Show((*id).to_owned()),
        // The path is a single segment here, so an encoded slash matches no route.
        ["namespaces", name, "exists"] if !name.is_empty() && !name.contains('/') => Route::Exists((*name).to_owned()),
        ["user"] => Route::CurrentUser,
        ["users"] => Route::ListUsers,
        // A username is not accepted here, as in the reference service.
        ["users", id] => Route::ShowUser(id.parse().map_err(|_| Error::route_not_found())?),
        ["users", user, "projects"] => Route::UserProjects((*user).to_owned()),
        ["projects"] => Route::ListProjects,
        ["projects", id] => Route::ShowProject((*id).to_owned()),
        ["groups"] => Route::ListGroups,
        ["groups", id] => Route::ShowGroup((*id).to_owned()),
        ["groups", id, "projects"] => Route::GroupProjects((*id).to_owned()),
        ["groups", id, "subgroups"] => Route::Subgroups((*id).to_owned()),
        ["groups", id, "descendant_groups"] => Route::DescendantGroups((*id).to_owned()),
        [kind @ ("projects" | "groups"), id, "members", rest @ ..] => {
            let (with_inherited, user) = match rest {
                ["all", user @ ..] => (true, user),
                user => (false, user),
            };
            let members = MembersOf { id: (*id).to_owned(), is_group: *kind == "groups", with_inherited };
            match user {
                [] => Route::ListMembers(members),
                [user] => Route::ShowMember(members, user.parse().map_err(|_| Error::route_not_found())?),
                _ => return Err(Error::route_not_found()),
            }
        }
        ["version" | "metadata"] => Route::Version,
        _ => return Err(Error::route_not_found()),
    };
    match *method {
        Method::GET | Method::HEAD => Ok(route),
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
        assert_eq!(answer(Method::GET, "/api/v4/namespaces"), "List");
        assert_eq!(answer(Method::HEAD, "/api/v4/namespaces/7"), r#"Show("7")"#);
        assert_eq!(answer(Method::GET, "/api/v4/namespaces/a%2Fb.c"), r#"Show("a/b.c")"#);
        assert_eq!(answer(Method::GET, "/api/v4/namespaces/exists"), r#"Show("exists")"#);
        assert_eq!(answer(Method::GET, "/api/v4/namespaces/a.b/exists"), r#"Exists("a.b")"#);
        assert_eq!(answer(Method::GET, "/api/v4/user"), "CurrentUser");
        assert_eq!(answer(Method::GET, "/api/v4/users"), "ListUsers");
        assert_eq!(answer(Method::GET, "/api/v4/users/7"), "ShowUser(7)");
        assert_eq!(answer(Method::GET, "/api/v4/users/alice/projects"), r#"UserProjects("alice")"#);
        assert_eq!(answer(Method::GET, "/api/v4/projects/a%2Fb.c"), r#"ShowProject("a/b.c")"#);
        assert_eq!(answer(Method::GET, "/api/v4/groups/a%2Fb"), r#"ShowGroup("a/b")"#);
        assert_eq!(answer(Method::GET, "/api/v4/groups/a/projects"), r#"GroupProjects("a")"#);
        assert_eq!(answer(Method::GET, "/api/v4/groups/a/subgroups"), r#"Subgroups("a")"#);
        let members = |is_group, with_inherited| {
            format!(r#"MembersOf {{ id: "a/b", is_group: {is_group}, with_inherited: {with_inherited} }}"#)
        };
        for (path, route) in [
            ("projects/a%2Fb/members", format!("ListMembers({})", members(false, false))),
            ("groups/a%2Fb/members/all", format!("ListMembers({})", members(true, true))),
            ("projects/a%2Fb/members/7", format!("ShowMember({}, 7)", members(false, false))),
            ("groups/a%2Fb/members/all/7", format!("ShowMember({}, 7)", members(true, true))),
        ] {
            assert_eq!(answer(Method::GET, &format!("/api/v4/{path}")), route);
        }
        assert_eq!(answer(Method::GET, "/api/v4/metadata"), "Version");
        let paths = "/api/v4/users/alice /api/v4/projects/a/b /api/v4/projects/1/members/mia \
            /api/v4/projects/1/members/all/7/x /api/v4/namespaces/ /api/v4/namespaces/a/b \
            /api/v4/namespaces/a%2Fb/exists /api/v4/namespaces/a/b/exists /api/v4/namespaces//exists \
            /api/v4/namespace /api/v4";
        for path in paths.split(' ') {
            assert_eq!(answer(Method::GET, path), r#"404 {"error":"404 Not Found"}"#, "{path}");
        }
        assert_eq!(answer(Method::POST, "/api/v4/namespaces"), r#"405 {"error":"405 Not Allowed"}"#);
    }
}
