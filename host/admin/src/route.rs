//! The paths of the admin listener.

use std::time::Duration;

use hexad_runtime::component::CanaryPolicy;
use http::Method;
use jiff::SignedDuration;

/// The longest window, and the longest latency. The clock cannot add every duration.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The parameter that names a host that the swap leaves out.
const WITHOUT: &str = "without";

/// The operation that a request asks for.
#[derive(Debug, PartialEq)]
pub enum AdminRoute {
    Health,
    Ready,
    Metrics,
    Status,
    Components,
    Component(String),
    Swap {
        component: String,
        canary: Option<CanaryPolicy>,
        /// The hosts that are left out.
        without: Vec<String>,
    },
    Promote(String),
    RollBack(String),
    /// Make a code with which a browser can begin a session.
    SignInCode,
}

/// Why a request has no route.
#[derive(Debug, PartialEq)]
pub enum AdminRouteError {
    NotFound,
    /// The allowed methods.
    MethodNotAllowed(&'static str),
    /// A sentence for the operator.
    Parameter(String),
}

impl AdminRoute {
    pub fn parse(method: &Method, path: &str, query: Option<&str>) -> Result<Self, AdminRouteError> {
        let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let only = |allowed: Method, names: &'static str, route: AdminRoute| {
            // hyper sends no body in response to HEAD.
            let is_head = *method == Method::HEAD && allowed == Method::GET;
            if is_head || *method == allowed { Ok(route) } else { Err(AdminRouteError::MethodNotAllowed(names)) }
        };
        match *segments {
            ["healthz"] => only(Method::GET, "GET, HEAD", AdminRoute::Health),
            ["readyz"] => only(Method::GET, "GET, HEAD", AdminRoute::Ready),
            ["metrics"] => only(Method::GET, "GET, HEAD", AdminRoute::Metrics),
            ["status"] => only(Method::GET, "GET, HEAD", AdminRoute::Status),
            ["components"] => only(Method::GET, "GET, HEAD", AdminRoute::Components),
            ["components", id] if *method == Method::PUT => {
                let given = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
                let (hosts, trial): (Vec<_>, Vec<_>) = given.partition(|(name, _)| name == WITHOUT);
                let canary = canary_policy(trial.iter().map(|(name, value)| (&**name, &**value)))?;
                let without = hosts.into_iter().map(|(_, host)| host.into_owned()).collect();
                Ok(AdminRoute::Swap { component: id.to_owned(), canary, without })
            }
            ["components", id] => only(Method::GET, "GET, HEAD, PUT", AdminRoute::Component(id.to_owned())),
            ["components", id, "promote"] => only(Method::POST, "POST", AdminRoute::Promote(id.to_owned())),
            ["components", id, "rollback"] => only(Method::POST, "POST", AdminRoute::RollBack(id.to_owned())),
            ["sign-in-codes"] => only(Method::POST, "POST", AdminRoute::SignInCode),
            _ => Err(AdminRouteError::NotFound),
        }
    }

    /// Whether it needs no token.
    pub fn is_public(&self) -> bool {
        matches!(self, AdminRoute::Health | AdminRoute::Ready)
    }
}

/// The policy of a canary, from names and values, each once. `None` if there are no parameters. Without `percent`, the
/// other parameters are refused, so that an intended trial never becomes a swap. Durations are like `60s`, errors are
/// in percent.
pub fn canary_policy<'a>(
    given: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<Option<CanaryPolicy>, AdminRouteError> {
    let mut policy = CanaryPolicy::default();
    let mut names = Vec::new();
    for (name, value) in given {
        if names.contains(&name) {
            return Err(AdminRouteError::Parameter(format!("{name} is given more than once")));
        }
        let wrong = |expected: &str| AdminRouteError::Parameter(format!("{name}={value} is not {expected}"));
        let percent = || value.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
        let duration = || {
            let parsed = value.parse::<SignedDuration>().ok().and_then(|value| Duration::try_from(value).ok());
            let parsed = parsed.filter(|duration| !duration.is_zero() && *duration <= LONGEST);
            parsed.ok_or_else(|| wrong("a duration, such as 60s, of at most a year"))
        };
        match name {
            "percent" => {
                let above_zero = percent().filter(|percent| *percent > 0.0);
                policy.percent = above_zero.ok_or_else(|| wrong("a percentage, above 0 and at most 100"))?;
            }
            "window" => policy.window = duration()?,
            "max_latency" => policy.max_latency = duration()?,
            "max_errors" => policy.max_errors = percent().ok_or_else(|| wrong("a percentage"))? / 100.0,
            _ => return Err(AdminRouteError::Parameter(format!("there is no parameter `{}`", name.escape_debug()))),
        }
        names.push(name);
    }
    match names.first() {
        Some(name) if !names.contains(&"percent") => Err(AdminRouteError::Parameter(format!(
            "{name} is for a trial, which needs a percentage of the callers, such as percent=5"
        ))),
        first => Ok(first.map(|_| policy)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: &str, target: &str) -> Result<AdminRoute, AdminRouteError> {
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        AdminRoute::parse(&method.parse().unwrap(), path, query)
    }

    fn swap(component: &str, canary: Option<CanaryPolicy>, without: &[&str]) -> AdminRoute {
        let without = without.iter().map(|host| host.to_string()).collect();
        AdminRoute::Swap { component: component.to_owned(), canary, without }
    }

    #[test]
    fn paths_and_methods_have_routes() {
        assert_eq!(of("GET", "/healthz"), Ok(AdminRoute::Health));
        assert_eq!(of("HEAD", "/healthz"), Ok(AdminRoute::Health));
        assert_eq!(of("HEAD", "/components/a"), Ok(AdminRoute::Component("a".into())));
        assert_eq!(of("HEAD", "/components/a/rollback"), Err(AdminRouteError::MethodNotAllowed("POST")));
        assert_eq!(of("GET", "/components/a"), Ok(AdminRoute::Component("a".into())));
        assert_eq!(of("PUT", "/components/a"), Ok(swap("a", None, &[])));
        assert_eq!(of("PUT", "/components/a?without=web:/d%231&without=b"), Ok(swap("a", None, &["web:/d#1", "b"])));
        assert_eq!(of("POST", "/components/a/rollback"), Ok(AdminRoute::RollBack("a".into())));
        assert_eq!(of("DELETE", "/components/a"), Err(AdminRouteError::MethodNotAllowed("GET, HEAD, PUT")));
        assert_eq!(of("GET", "/components/a/rollback"), Err(AdminRouteError::MethodNotAllowed("POST")));
        assert_eq!(of("GET", "/"), Err(AdminRouteError::NotFound));
        assert_eq!(of("GET", "/components/a/b/c"), Err(AdminRouteError::NotFound));
    }

    #[test]
    fn a_percentage_asks_for_a_canary() {
        let expected = CanaryPolicy {
            percent: 2.5,
            window: Duration::from_secs(300),
            max_errors: 0.01,
            max_latency: Duration::from_millis(250),
        };
        let target = "/components/a?percent=2.5&window=5m&max_errors=1&max_latency=250ms";
        assert_eq!(of("PUT", target), Ok(swap("a", Some(expected), &[])));
        let encoded = "/components/a?%70ercent=2%2E5&window=5m&max_errors=1&max_latency=250ms";
        assert_eq!(of("PUT", encoded), of("PUT", target));
        for wrong in [
            "percent=0",
            "percent=101",
            "percent=x",
            "window=0s",
            "window=-1s",
            "window=9999999999h",
            "max_errors=-1",
            "speed=1",
            "percent",
            "percent=5&percent=6",
            "percent=5&window=1m&window=1m",
            "window=10m",
            "max_errors=1",
            "max_latency=1s&without=b",
        ] {
            assert!(
                matches!(of("PUT", &format!("/components/a?{wrong}")), Err(AdminRouteError::Parameter(_))),
                "{wrong}"
            );
        }
    }
}
