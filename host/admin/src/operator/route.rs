//! The paths of the operator's pages.

use http::Method;
use url::form_urlencoded;

use crate::route::AdminRouteError;

pub const OVERVIEW: &str = "/operator";
pub const SIGN_IN: &str = "/operator/sign-in";
pub const SIGN_OUT: &str = "/operator/sign-out";
pub const STYLE: &str = "/operator/style.css";
pub const ICON: &str = "/operator/icon.svg";

/// The operation that a request to the pages asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum OperatorRoute {
    Overview,
    Component(String),
    /// Swap in the file of a form.
    Swap(String),
    /// Show what a change will do.
    Confirm(PromoteOrRollBack, String),
    Perform(PromoteOrRollBack, String),
    /// With a one-time code, it begins a session.
    SignInForm(Option<String>),
    SignIn,
    SignOut,
    Style,
    Icon,
}

/// A change without a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromoteOrRollBack {
    Promote,
    RollBack,
}

impl PromoteOrRollBack {
    pub fn name(self) -> &'static str {
        match self {
            Self::Promote => "promote",
            Self::RollBack => "rollback",
        }
    }
}

/// The page of a component.
pub fn component(id: &str) -> String {
    format!("{OVERVIEW}/components/{id}")
}

/// The page that asks for confirmation of a change, and to which its form is sent.
pub fn confirmation(id: &str, change: PromoteOrRollBack) -> String {
    format!("{}/{}", component(id), change.name())
}

impl OperatorRoute {
    /// The route of a request; `None` if its path is not one of the pages.
    pub fn parse(method: &Method, path: &str, query: Option<&str>) -> Option<Result<Self, AdminRouteError>> {
        let below = path.strip_prefix(OVERVIEW)?;
        if !below.is_empty() && !below.starts_with('/') {
            return None;
        }
        let segments: Vec<&str> = below.split('/').skip(1).collect();
        let (shown, submitted) = match *segments {
            [] | [""] => (Some(Self::Overview), None),
            ["components", id] => (Some(Self::Component(id.to_owned())), Some(Self::Swap(id.to_owned()))),
            ["components", id, "promote"] => Self::with_confirmation(PromoteOrRollBack::Promote, id),
            ["components", id, "rollback"] => Self::with_confirmation(PromoteOrRollBack::RollBack, id),
            ["sign-in"] => (Some(Self::SignInForm(code(query.unwrap_or_default()))), Some(Self::SignIn)),
            ["sign-out"] => (None, Some(Self::SignOut)),
            ["style.css"] => (Some(Self::Style), None),
            ["icon.svg"] => (Some(Self::Icon), None),
            _ => return Some(Err(AdminRouteError::NotFound)),
        };
        let allowed = match (&shown, &submitted) {
            (Some(_), Some(_)) => "GET, HEAD, POST",
            (None, _) => "POST",
            (_, None) => "GET, HEAD",
        };
        let route = match *method {
            // hyper sends no body in response to HEAD.
            Method::GET | Method::HEAD => shown,
            Method::POST => submitted,
            _ => None,
        };
        Some(route.ok_or(AdminRouteError::MethodNotAllowed(allowed)))
    }

    fn with_confirmation(change: PromoteOrRollBack, id: &str) -> (Option<Self>, Option<Self>) {
        (Some(Self::Confirm(change, id.to_owned())), Some(Self::Perform(change, id.to_owned())))
    }

    /// Whether it needs no session.
    pub fn is_public(&self) -> bool {
        matches!(self, Self::SignInForm(_) | Self::SignIn | Self::Style | Self::Icon)
    }
}

fn code(query: &str) -> Option<String> {
    form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "code").map(|(_, code)| code.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: &str, target: &str) -> Option<Result<OperatorRoute, AdminRouteError>> {
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        OperatorRoute::parse(&method.parse().unwrap(), path, query)
    }

    #[test]
    fn pages_and_their_forms_have_routes() {
        for path in [OVERVIEW, "/operator/"] {
            assert_eq!(of("GET", path), Some(Ok(OperatorRoute::Overview)));
        }
        assert_eq!(of("HEAD", OVERVIEW), Some(Ok(OperatorRoute::Overview)));
        assert_eq!(of("HEAD", SIGN_OUT), Some(Err(AdminRouteError::MethodNotAllowed("POST"))));
        let id = || "a".to_owned();
        assert_eq!(of("GET", &component("a")), Some(Ok(OperatorRoute::Component(id()))));
        assert_eq!(of("POST", &component("a")), Some(Ok(OperatorRoute::Swap(id()))));
        for each in [PromoteOrRollBack::Promote, PromoteOrRollBack::RollBack] {
            assert_eq!(of("GET", &confirmation("a", each)), Some(Ok(OperatorRoute::Confirm(each, id()))));
            assert_eq!(of("POST", &confirmation("a", each)), Some(Ok(OperatorRoute::Perform(each, id()))));
        }
        assert_eq!(of("GET", "/operator/sign-in?code=x%2F"), Some(Ok(OperatorRoute::SignInForm(Some("x/".into())))));
        assert_eq!(of("GET", SIGN_OUT), Some(Err(AdminRouteError::MethodNotAllowed("POST"))));
        assert_eq!(of("PUT", &component("a")), Some(Err(AdminRouteError::MethodNotAllowed("GET, HEAD, POST"))));
        assert_eq!(of("POST", OVERVIEW), Some(Err(AdminRouteError::MethodNotAllowed("GET, HEAD"))));
        assert_eq!(of("GET", "/operator/x"), Some(Err(AdminRouteError::NotFound)));
        assert_eq!((of("GET", "/operators"), of("GET", "/status")), (None, None));
    }
}
