//! The targets of a manifest's routes.

use crate::manifest::Route;
use crate::router::{RouteError, Router};

/// The target of a route.
#[derive(PartialEq, Eq)]
pub struct RouteTarget {
    /// The slot's index.
    pub slot: usize,
    /// The route as written in the manifest.
    pub route: String,
}

impl RouteTarget {
    /// The router of a manifest. `position` is the index of the slot of a component.
    pub fn router(
        routes: Vec<Route>,
        position: impl Fn(&str) -> Option<usize>,
    ) -> Result<Router<RouteTarget>, RouteError> {
        Router::new(routes.into_iter().filter_map(|Route { pattern, component }| {
            let slot = position(&component)?;
            Some((pattern.clone(), RouteTarget { slot, route: pattern }))
        }))
    }
}
