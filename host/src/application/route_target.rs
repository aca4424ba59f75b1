//! The targets of a manifest's routes.

use crate::manifest::Route;
use crate::router::{RouteError, Router};

#[derive(PartialEq, Eq)]
pub struct RouteTarget {
    pub service: usize,
    /// The route as written in the manifest.
    pub route: String,
}

impl RouteTarget {
    /// The router of a manifest. `position` finds the index of a component's service.
    pub fn router(
        routes: Vec<Route>,
        position: impl Fn(&str) -> Option<usize>,
    ) -> Result<Router<RouteTarget>, RouteError> {
        Router::new(routes.into_iter().filter_map(|Route { pattern, component }| {
            let service = position(&component)?;
            Some((pattern.clone(), RouteTarget { service, route: pattern }))
        }))
    }
}
