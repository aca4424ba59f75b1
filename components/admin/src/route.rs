//! The routes: the only module that knows URLs.

use http::Method;
use kit::maintenance::Task;
use kit::{Error, path};

const BASE: &str = "/api/v4";

#[derive(Debug, PartialEq, Eq)]
pub enum Route {
    Import,
    LoadDemo,
    ReadSettings,
    WriteSettings,
    ListFeatures,
    /// By name.
    SetFeature(String),
    DeleteFeature(String),
    ListTokens,
    /// For the user in the path, or in the body.
    CreateToken(Option<String>),
    ShowToken(TokenName),
    RevokeToken(TokenName),
    RotateToken(TokenName),
    /// A request of npm about the tokens of the caller, at any registry.
    Npm(NpmRoute),
    /// A step of garbage collection, or of a check of the store.
    Maintain(Task),
}

/// A personal token in a path.
#[derive(Debug, PartialEq, Eq)]
pub enum TokenName {
    /// The token that the request presents.
    Presented,
    Id(String),
}

#[derive(Debug, PartialEq, Eq)]
pub enum NpmRoute {
    ListTokens,
    CreateToken,
    /// By its key in the list, or by its text.
    RevokeToken(String),
    /// By its text.
    Logout(String),
}

/// Whether the path contains the text of a token.
pub fn has_secret(path: &str) -> bool {
    path.contains("/-/user/token/") || path.contains("/-/npm/v1/tokens/token/")
}

/// The endpoint for `path` and `method`.
pub fn parse(method: &Method, path: &str) -> Result<Route, Error> {
    let segments = path::below(path, BASE).ok_or_else(Error::route_not_found)?;
    let segments: Option<Vec<_>> = segments.into_iter().map(path::Segment::decode).collect();
    let segments = segments.ok_or_else(Error::route_not_found)?;
    let names: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
    let get = matches!(*method, Method::GET | Method::HEAD);
    match (names.as_slice(), method) {
        (["import", "directory"], &Method::POST) => Ok(Route::Import),
        (["import", "demo"], &Method::POST) => Ok(Route::LoadDemo),
        (["import", "directory" | "demo"], _) => Err(Error::method_not_allowed("POST")),
        (["maintenance", "admin", task], _) => Task::named(method, task).map(Route::Maintain),
        (["application", "settings"], _) if get => Ok(Route::ReadSettings),
        (["application", "settings"], &Method::PUT) => Ok(Route::WriteSettings),
        (["application", "settings"], _) => Err(Error::method_not_allowed("GET, HEAD, PUT")),
        (["features"], _) if get => Ok(Route::ListFeatures),
        (["features"], _) => Err(Error::method_not_allowed("GET, HEAD")),
        (["features", name], &Method::POST) if !name.is_empty() => Ok(Route::SetFeature((*name).to_owned())),
        (["features", name], &Method::DELETE) if !name.is_empty() => Ok(Route::DeleteFeature((*name).to_owned())),
        (["features", name], _) if !name.is_empty() => Err(Error::method_not_allowed("POST, DELETE")),
        (["personal_access_tokens", rest @ ..], _) => tokens(rest, method),
        (["users", user, "personal_access_tokens"], &Method::POST) => Ok(Route::CreateToken(Some((*user).to_owned()))),
        (["users", _, "personal_access_tokens"], _) => Err(Error::method_not_allowed("POST")),
        (["projects", _, "packages", "npm" | "pkgreg", "-", rest @ ..], _)
        | (["groups", _, "-", "packages", "npm" | "pkgreg", "-", rest @ ..], _)
        | (["packages", "npm" | "pkgreg", "-", rest @ ..], _) => npm(rest, method).map(Route::Npm),
        _ => Err(Error::route_not_found()),
    }
}

fn tokens(rest: &[&str], method: &Method) -> Result<Route, Error> {
    let name = |name: &str| match name {
        "self" => TokenName::Presented,
        id => TokenName::Id(id.to_owned()),
    };
    match (rest, method) {
        ([], &Method::GET | &Method::HEAD) => Ok(Route::ListTokens),
        ([], &Method::POST) => Ok(Route::CreateToken(None)),
        ([], _) => Err(Error::method_not_allowed("GET, HEAD, POST")),
        ([token], &Method::GET | &Method::HEAD) => Ok(Route::ShowToken(name(token))),
        ([token], &Method::DELETE) => Ok(Route::RevokeToken(name(token))),
        ([_], _) => Err(Error::method_not_allowed("DELETE, GET, HEAD")),
        ([token, "rotate"], &Method::POST) => Ok(Route::RotateToken(name(token))),
        ([_, "rotate"], _) => Err(Error::method_not_allowed("POST")),
        _ => Err(Error::route_not_found()),
    }
}

fn npm(rest: &[&str], method: &Method) -> Result<NpmRoute, Error> {
    match (rest, method) {
        (["npm", "v1", "tokens"], &Method::GET | &Method::HEAD) => Ok(NpmRoute::ListTokens),
        (["npm", "v1", "tokens"], &Method::POST) => Ok(NpmRoute::CreateToken),
        (["npm", "v1", "tokens"], _) => Err(Error::method_not_allowed("GET, HEAD, POST")),
        (["npm", "v1", "tokens", "token", key], &Method::DELETE) => Ok(NpmRoute::RevokeToken((*key).to_owned())),
        (["user", "token", token], &Method::DELETE) => Ok(NpmRoute::Logout((*token).to_owned())),
        (["npm", "v1", "tokens", "token", _] | ["user", "token", _], _) => Err(Error::method_not_allowed("DELETE")),
        _ => Err(Error::route_not_found()),
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
        assert_eq!(answer(Method::POST, "/api/v4/import/demo"), "LoadDemo");
        assert_eq!(answer(Method::POST, "/api/v4/maintenance/admin/fsck"), "Maintain(Check)");
        assert_eq!(answer(Method::HEAD, "/api/v4/application/settings"), "ReadSettings");
        assert_eq!(answer(Method::PUT, "/api/v4/application/settings"), "WriteSettings");
        assert_eq!(answer(Method::GET, "/api/v4/features"), "ListFeatures");
        assert_eq!(answer(Method::POST, "/api/v4/features/a%2Fb"), r#"SetFeature("a/b")"#);
        assert_eq!(answer(Method::DELETE, "/api/v4/features/x"), r#"DeleteFeature("x")"#);
        assert_eq!(answer(Method::POST, "/api/v4/personal_access_tokens"), "CreateToken(None)");
        assert_eq!(answer(Method::POST, "/api/v4/users/7/personal_access_tokens"), r#"CreateToken(Some("7"))"#);
        assert_eq!(answer(Method::GET, "/api/v4/personal_access_tokens"), "ListTokens");
        assert_eq!(answer(Method::GET, "/api/v4/personal_access_tokens/self"), "ShowToken(Presented)");
        assert_eq!(answer(Method::DELETE, "/api/v4/personal_access_tokens/5"), r#"RevokeToken(Id("5"))"#);
        assert_eq!(answer(Method::POST, "/api/v4/personal_access_tokens/self/rotate"), "RotateToken(Presented)");
        for registry in ["projects/7/packages/npm", "groups/a%2Fb/-/packages/pkgreg", "packages/npm"] {
            let at = |method, path: &str| answer(method, &format!("/api/v4/{registry}/-/{path}"));
            assert_eq!(at(Method::GET, "npm/v1/tokens"), "Npm(ListTokens)");
            assert_eq!(at(Method::POST, "npm/v1/tokens"), "Npm(CreateToken)");
            assert_eq!(at(Method::DELETE, "npm/v1/tokens/token/ab"), r#"Npm(RevokeToken("ab"))"#);
            assert_eq!(at(Method::DELETE, "user/token/a%2Fb"), r#"Npm(Logout("a/b"))"#);
            assert_eq!(at(Method::GET, "ping"), r#"404 {"error":"404 Not Found"}"#);
            assert!(has_secret(&format!("/api/v4/{registry}/-/user/token/x")));
        }
        let paths = "/ /api/v4 /api/v4/ /api/v4/features/ /api/v4/features/a/b /api/v4/import/issues \
            /api/v4/features/%ff";
        for path in paths.split(' ') {
            assert_eq!(answer(Method::POST, path), r#"404 {"error":"404 Not Found"}"#, "{path}");
        }
        for path in ["import/directory", "application/settings", "features", "features/x", "personal_access_tokens"] {
            let refused = answer(Method::PATCH, &format!("/api/v4/{path}"));
            assert_eq!(refused, r#"405 {"error":"405 Not Allowed"}"#, "{path}");
        }
    }
}
