//! The application manifest: Spin's `spin.toml`, version 2.
//!
//! A manifest that Spin runs has the same meaning here, or is refused with an error that says why.
//! Settings of this host only are in `[component.<id>.tool.hexad]`, which Spin ignores.

mod cache_policy;
mod credentials;
mod difference;
mod error;
mod limits;
mod maintenance;
mod schema;
mod variables;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use error::ManifestError;
pub use limits::{INSTANCES_CEILING, Limits, MEMORY_CEILING, RequestLimits, RouteLimits};
pub use maintenance::{Maintenance, MaintenanceTokens};
pub use variables::Environment;

use crate::credentials::Credentials;
use crate::imports::keyvalue::Grants;
use crate::imports::outbound::AllowedHosts;
use crate::imports::variables::Variables;
use crate::response_cache::CachePolicy;
use crate::router::Router;
use schema::{RouteTable, TriggerComponent};

/// The manifest that the commands read by default.
pub const FILE_NAME: &str = "spin.toml";

/// The variable that `--external-url` sets.
const EXTERNAL_URL: &str = "external_url";

/// An application: components, and the routes that lead to them.
pub struct Manifest {
    pub path: PathBuf,
    pub name: String,
    pub components: Vec<Component>,
    pub routes: Vec<Route>,
}

/// A component of the manifest, with the values of its variables.
pub struct Component {
    pub id: String,
    /// Absolute, or relative to the working directory.
    pub source: PathBuf,
    pub grants: Arc<Grants>,
    pub variables: Arc<Variables>,
    pub allowed_hosts: Arc<AllowedHosts>,
    /// Whether the manifest has `allowed_outbound_hosts`, even if the list is empty.
    pub declares_outbound: bool,
    pub limits: Limits,
    pub route_limits: RouteLimits,
    /// `None`: no response is cached.
    pub cache_policy: Option<CachePolicy>,
    pub credentials: Credentials,
    /// `None`: the host sends no maintenance requests.
    pub maintenance: Option<Maintenance>,
}

impl Component {
    /// The limits of a request to `path`.
    pub fn request_limits(&self, path: &str) -> &RequestLimits {
        self.route_limits.find(path).unwrap_or(&self.limits.request)
    }
}

/// Values that do not come from the manifest.
pub struct LoadOptions<'a> {
    /// Values of application variables.
    pub environment: Environment<'a>,
    /// Given to every component that declares a variable `external_url`.
    pub external_url: Option<&'a str>,
    /// Overrides every `maintenance.every`. Zero turns maintenance off.
    pub maintenance_every: Option<Duration>,
    /// The tokens that the host has made. A manifest that is read again gets the same ones.
    pub maintenance_tokens: &'a MaintenanceTokens,
}

/// A public route. Private triggers have no route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub pattern: String,
    pub component: String,
}

impl Manifest {
    /// Reads the manifest at `path`. Variables take their values from `environment`;
    /// `external_url` is given to every component that declares a variable of that name.
    pub fn load(path: &Path, environment: Environment<'_>, external_url: Option<&str>) -> Result<Self, ManifestError> {
        let maintenance_tokens = &MaintenanceTokens::default();
        let options = LoadOptions { environment, external_url, maintenance_every: None, maintenance_tokens };
        Self::load_with(path, &options)
    }

    pub fn load_with(path: &Path, options: &LoadOptions<'_>) -> Result<Self, ManifestError> {
        let text = std::fs::read_to_string(path).map_err(|source| ManifestError::unreadable(path, source))?;
        Self::parse(path, &text, options)
    }

    fn parse(path: &Path, text: &str, options: &LoadOptions<'_>) -> Result<Self, ManifestError> {
        let invalid = |reason| ManifestError::invalid(path, reason);
        let schema::Manifest { application, variables, component: declared, trigger, _version } =
            toml::from_str(text).map_err(|error| invalid(error.to_string()))?;
        application.check().map_err(invalid)?;

        let mut values = variables::resolve(&variables, options.environment).map_err(invalid)?;
        if let (Some(url), Some(value)) = (options.external_url, values.get_mut(EXTERNAL_URL)) {
            url.clone_into(value);
        }
        if options.maintenance_every != Some(Duration::ZERO) {
            let tools = declared.values().map(|component| &component.tool.hexad);
            options.maintenance_tokens.fill_in(tools, &mut values).map_err(invalid)?;
        }

        let all_labels: BTreeSet<String> =
            declared.values().flat_map(|component| component.key_value_stores.iter().cloned()).collect();
        let all_labels = Arc::new(all_labels);
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut components = Vec::with_capacity(declared.len());
        for (id, declared) in declared {
            let component = component(id, declared, folder, &values, &all_labels, options);
            components.push(component.map_err(invalid)?);
        }
        check_local_hosts(&components).map_err(invalid)?;
        let routes = routes(trigger.http, &components).map_err(invalid)?;
        check_paths(&components, &routes).map_err(invalid)?;
        Ok(Self { path: path.to_owned(), name: application.name, components, routes })
    }
}

fn component(
    id: String,
    declared: schema::Component,
    folder: &Path,
    values: &BTreeMap<String, String>,
    all_labels: &Arc<BTreeSet<String>>,
    options: &LoadOptions<'_>,
) -> Result<Component, String> {
    let at = |reason: String| format!("[component.{id}]: {reason}");
    declared.check().map_err(at)?;
    let source = folder.join(declared.source_path().map_err(at)?);
    let mut variables = Variables::new();
    for (name, template) in &declared.variables {
        let value = match options.external_url {
            Some(url) if name == EXTERNAL_URL => url.to_owned(),
            _ => variables::expand(template, values).map_err(|reason| at(format!("variables.{name}: {reason}")))?,
        };
        variables.insert(name.clone(), value);
    }
    let mut allowed_hosts = AllowedHosts::default();
    let declares_outbound = declared.allowed_outbound_hosts.is_some();
    for entry in declared.allowed_outbound_hosts.iter().flatten() {
        let at = |reason: String| at(format!("allowed_outbound_hosts: {reason}"));
        let expanded = variables::expand(entry, values).map_err(at)?;
        allowed_hosts.add(&expanded, expanded != *entry).map_err(at)?;
    }
    let (tool, labels) = (declared.tool.hexad, declared.key_value_stores);
    let prefixes = match (&tool.read, &tool.write) {
        (None, None) => None,
        (read, write) => Some((read.as_deref().unwrap_or_default(), write.as_deref().unwrap_or_default())),
    };
    let at = |reason: String| format!("[component.{id}.tool.hexad]: {reason}");
    let limits = Limits::from_tool(&tool).map_err(at)?;
    let route_limits = limits.request.of_routes(&tool).map_err(at)?;
    let cache_policy = cache_policy::from_tool(&tool, &allowed_hosts).map_err(at)?;
    let credentials = credentials::from_tool(&tool).map_err(at)?;
    let maintenance = maintenance::from_tool(&tool, options.maintenance_every, values).map_err(at)?;
    let grants = Grants::new(&id, all_labels.clone(), labels, prefixes);
    Ok(Component {
        source,
        grants: Arc::new(grants),
        variables: Arc::new(variables),
        allowed_hosts: Arc::new(allowed_hosts),
        declares_outbound,
        limits,
        route_limits,
        cache_policy,
        credentials,
        maintenance,
        id,
    })
}

/// An entry of `allowed_outbound_hosts` that names a component must name one that there is.
fn check_local_hosts(components: &[Component]) -> Result<(), String> {
    for Component { id, allowed_hosts, .. } in components {
        let unknown = allowed_hosts.components().find(|named| !components.iter().any(|known| known.id == *named));
        if let Some(named) = unknown {
            return Err(format!(
                "[component.{id}]: allowed_outbound_hosts has \"{named}.spin.internal\", and there is no \
                 [component.{named}]; add it or correct the entry"
            ));
        }
    }
    Ok(())
}

fn routes(triggers: Vec<schema::HttpTrigger>, components: &[Component]) -> Result<Vec<Route>, String> {
    let mut routes = Vec::with_capacity(triggers.len());
    for trigger in triggers {
        trigger.check()?;
        let id = match trigger.component {
            TriggerComponent::Id(id) => id,
            TriggerComponent::Inline(_) => {
                return Err(format!(
                    "[[trigger.http]] with route {}: an inline component is not supported; give \
                     it a [component.<id>] table and name that id",
                    trigger.route
                ));
            }
        };
        if !components.iter().any(|component| component.id == id) {
            return Err(format!(
                "[[trigger.http]] with route {}: there is no [component.{id}]; add it or correct \
                 the name",
                trigger.route
            ));
        }
        match trigger.route {
            RouteTable::Pattern(pattern) => routes.push(Route { pattern, component: id }),
            RouteTable::Private { private: true } => {}
            RouteTable::Private { private: false } => {
                return Err(format!(
                    "[[trigger.http]] of component `{id}`: `route` is a path or \
                     {{ private = true }}; remove `private = false` and name a path"
                ));
            }
        }
    }
    Ok(routes)
}

/// A limit for a route that leads elsewhere would bound nothing, and maintenance would be asked of another
/// component: the path is probably misspelt.
fn check_paths(components: &[Component], routes: &[Route]) -> Result<(), String> {
    let targets = routes.iter().map(|route| (route.pattern.clone(), route.component.as_str()));
    let router = Router::new(targets).map_err(|error| error.to_string())?;
    for component in components {
        for pattern in component.route_limits.patterns() {
            let leads_to = router.find(&pattern.replace("...", "*"));
            if leads_to != Some(&component.id.as_str()) {
                return Err(format!(
                    "[component.{}.tool.hexad.routes]: \"{pattern}\" is not a part of a route to this component; correct it, \
                     or add the route",
                    component.id
                ));
            }
        }
        let Some(maintenance) = &component.maintenance else { continue };
        if router.find(maintenance.path.path()) != Some(&component.id.as_str()) {
            return Err(format!(
                "[component.{}.tool.hexad]: maintenance.path = \"{}\" does not lead to this component; correct it or \
                 add a [[trigger.http]] route",
                component.id, maintenance.path
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
