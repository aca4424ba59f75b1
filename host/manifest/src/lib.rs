//! The application manifest: Spin's `spin.toml`, version 2.
//!
//! The host gives a manifest that Spin runs the same meaning, or refuses it with the reason. Settings of this host only
//! are in `[component.<id>.tool.hexad]`, which Spin ignores.

mod addition;
mod cache_policy;
pub mod credentials;
mod error;
mod former_names;
mod limits;
mod location;
mod maintenance;
pub mod router;
mod schema;
mod store_sharing;
mod tools;
mod value;
mod variables;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hexad_http::response_cache::CachePolicy;
use hexad_imports::keyvalue::Grants;
use hexad_imports::outbound::AllowedHosts;
use hexad_imports::variables::Variables;
use hexad_support::bounded_file;
use http::HeaderName;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::credentials::Credentials;
use crate::router::{RouteError, Router};

pub use error::ManifestError;
use error::Problems;
pub use former_names::resolved_digest;
pub use limits::{INSTANCES_CEILING, Limits, MEMORY_CEILING, RequestLimits, RouteLimits};
use location::Locations;
pub use maintenance::{Maintenance, MaintenanceTokens};
use schema::{PrivateRoute, TextOr};
pub use store_sharing::sharing_notes;
pub use variables::Environment;

/// The manifest that the commands read by default.
pub const FILE_NAME: &str = "spin.toml";

/// The largest manifest, in bytes.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;

/// The variable that `--external-url` sets.
const EXTERNAL_URL: &str = "external_url";

/// An application: components, and the routes that lead to them.
pub struct Manifest {
    pub path: PathBuf,
    pub name: String,
    pub components: Vec<Component>,
    pub routes: Vec<Route>,
    /// A sentence for each key that has its former name.
    pub former_names: Vec<String>,
    /// The application variables.
    pub variable_names: BTreeSet<String>,
}

/// A component of the manifest, with the values of its variables.
pub struct Component {
    pub id: String,
    /// Absolute, or relative to the working directory.
    pub source: PathBuf,
    pub grants: Arc<Grants>,
    pub variables: Arc<Variables>,
    /// The variables whose values the host draws if they are empty.
    pub generated: Vec<String>,
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

    /// The settings in which `other` differs, as the manifest and its documentation name them. The source is
    /// not among them.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let Self { id: _, source: _, grants, variables, allowed_hosts, declares_outbound, limits, .. } = self;
        let Self { route_limits, cache_policy, credentials, maintenance, .. } = self;
        let hosts = (allowed_hosts, declares_outbound) == (&other.allowed_hosts, &other.declares_outbound);
        let settings = [
            ("grants", **grants == *other.grants),
            ("variables", *variables == other.variables),
            ("allowed_outbound_hosts", hosts),
            ("limits", *limits == other.limits),
            ("limits of routes", *route_limits == other.route_limits),
            ("response cache", *cache_policy == other.cache_policy),
            ("credentials", *credentials == other.credentials),
            ("maintenance", *maintenance == other.maintenance),
        ];
        settings.into_iter().filter(|(_, is_equal)| !is_equal).map(|(name, _)| name).collect()
    }
}

/// Values that do not come from the manifest.
pub struct LoadOptions<'a> {
    /// Values of application variables.
    pub environment: Environment<'a>,
    /// The value of the variable `external_url` of each component that declares it.
    pub external_url: Option<&'a str>,
    /// Overrides every `maintenance.every`. Zero turns maintenance off.
    pub maintenance_every: Option<Duration>,
    /// The tokens that the host has drawn, so that a reload keeps them.
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
        let text =
            bounded_file::read_text(path, MAX_BYTES).map_err(|source| ManifestError::unreadable(path, source))?;
        Self::parse(path, &text, options)
    }

    fn parse(path: &Path, text: &str, options: &LoadOptions<'_>) -> Result<Self, ManifestError> {
        let document = DeTable::parse(text).map_err(|error| ManifestError::unparsable(path, text, &error))?;
        let former_names = former_names::find(text).map_err(|both| ManifestError::invalid(path, both))?;
        let document = Spanned::new(document.span(), DeValue::Table(document.into_inner()));
        let schema::ManifestTable { application, variables, component: declared, trigger, _version } =
            value::read(&document).map_err(|error| ManifestError::invalid(path, vec![error.reason(text)]))?;
        let locations = &Locations::new(text, &document);
        let mut problems = Problems::default();
        problems.keep(application.check().map_err(|reason| locations.in_table(&["application"], &reason)));
        tools::check(&application, &declared, locations, &mut problems);
        store_sharing::check(&declared, locations, &mut problems);

        let mut values = variables::resolve(&variables, options.environment, locations, &mut problems);
        if let (Some(url), Some(value)) = (options.external_url, values.get_mut(EXTERNAL_URL)) {
            url.clone_into(value);
        }
        if options.maintenance_every != Some(Duration::ZERO) {
            let tools = declared.values().map(|component| &component.tool.hexad);
            problems.keep(options.maintenance_tokens.fill_in(tools, &mut values));
        }

        let all_labels: BTreeSet<String> =
            declared.values().flat_map(|component| component.key_value_stores.iter().cloned()).collect();
        let all_labels = Arc::new(all_labels);
        let folder = path.parent().unwrap_or(Path::new(""));
        let ids: BTreeSet<String> = declared.keys().cloned().collect();
        let mut components = Vec::with_capacity(declared.len());
        for (id, declared) in declared {
            let values = Values { values: &values, all_labels: &all_labels, options };
            components.extend(component(id, declared, folder, &values, locations, &mut problems));
        }
        let mut routes = Vec::with_capacity(trigger.http.len());
        for (index, trigger) in trigger.http.into_iter().enumerate() {
            let at = |reason: String| locations.at(&["trigger", "http", &index.to_string()], &reason);
            let route = problems.keep(route(trigger, &ids).map_err(at)).flatten();
            routes.extend(route.map(|route| (index, route)));
        }
        // The checks below compare parts with each other.
        problems.check(path)?;
        check_local_hosts(&components, locations, &mut problems);
        check_paths(&components, &routes, locations, &mut problems);
        problems.check(path)?;
        let routes = routes.into_iter().map(|(_, route)| route).collect();
        let variable_names = variables.into_keys().collect();
        Ok(Self { path: path.to_owned(), name: application.name, components, routes, former_names, variable_names })
    }
}

/// The values that the parts of a component are made from.
struct Values<'a> {
    values: &'a BTreeMap<String, String>,
    all_labels: &'a Arc<BTreeSet<String>>,
    options: &'a LoadOptions<'a>,
}

/// A component. `None` if it has a problem.
fn component(
    id: String,
    declared: schema::ComponentTable,
    folder: &Path,
    &Values { values, all_labels, options }: &Values<'_>,
    locations: &Locations<'_>,
    problems: &mut Problems,
) -> Option<Component> {
    let at = |reason: String| locations.in_table(&["component", &id], &reason);
    let checked = problems.keep(check_id(&id).and_then(|()| declared.check()).map_err(at));
    let source = problems.keep(declared.source_path().map_err(at));
    let variables = variables(&declared, values, options, &mut |reason| problems.add(at(reason)));
    let mut allowed_hosts = AllowedHosts::default();
    let declares_outbound = declared.allowed_outbound_hosts.is_some();
    for entry in declared.allowed_outbound_hosts.iter().flatten() {
        let added = variables::expand(entry, values)
            .and_then(|expanded| allowed_hosts.add(&expanded, (expanded != *entry).then_some(entry)));
        problems.keep(added.map_err(|reason| at(format!("allowed_outbound_hosts: {reason}"))));
    }
    for label in declared.key_value_stores.iter().filter(|label| label.starts_with('.')) {
        problems.add(at(format!("key_value_stores has \"{label}\"; names with a dot in front are the host's")));
    }
    let source = source.map(|source| folder.join(source));
    let (tool, labels) = (declared.tool.hexad, declared.key_value_stores);
    let prefixes = match (&tool.read, &tool.write) {
        (None, None) => None,
        (read, write) => Some((read.as_deref().unwrap_or_default(), write.as_deref().unwrap_or_default())),
    };
    let at = |reason: String| locations.in_table(&["component", &id, "tool", "hexad"], &reason);
    let mut problem = |reason| problems.add(at(reason));
    for name in tool.generate.iter().filter(|name| !declared.variables.contains_key(*name)) {
        problem(format!("generate has \"{name}\", which is not in [component.{id}.variables]; add it there"));
    }
    let limits = Limits::from_tool(&tool, &mut problem);
    let route_limits = limits.request.of_routes(&tool, &mut problem);
    let cache_policy = problems.keep(cache_policy::from_tool(&tool, &allowed_hosts).map_err(at));
    let credentials = problems.keep(credentials(&tool).map_err(at));
    let maintenance = problems.keep(maintenance::from_tool(&tool, options.maintenance_every, values).map_err(at));
    let grants = Grants::new(&id, all_labels.clone(), labels, prefixes).with_volatile(&tool.volatile);
    let grants = problems.keep(grants.map_err(at));
    checked?;
    Some(Component {
        source: source?,
        grants: Arc::new(grants?),
        variables: Arc::new(variables),
        generated: tool.generate,
        allowed_hosts: Arc::new(allowed_hosts),
        declares_outbound,
        limits,
        route_limits: route_limits?,
        cache_policy: cache_policy?,
        credentials: credentials?,
        maintenance: maintenance?,
        id,
    })
}

/// Spin's rule for the ids of components: words of letters and digits, joined by dashes.
fn check_id(id: &str) -> Result<(), String> {
    let word = |word: &str| {
        let is_of = |letter: fn(&char) -> bool| word.chars().all(|c| letter(&c) || c.is_ascii_digit());
        word.starts_with(|c: char| c.is_ascii_alphabetic())
            && (is_of(char::is_ascii_lowercase) || is_of(char::is_ascii_uppercase))
    };
    match id.split('-').all(word) {
        true => Ok(()),
        false => Err("an id is letters and digits in words joined by `-`, each word in one case and starting with a \
                      letter; rename it"
            .into()),
    }
}

/// The variables of a component. A variable without a value is reported to `problem` and left out.
fn variables(
    declared: &schema::ComponentTable,
    values: &BTreeMap<String, String>,
    options: &LoadOptions<'_>,
    problem: &mut dyn FnMut(String),
) -> Variables {
    let mut variables = Variables::new();
    for (name, template) in &declared.variables {
        let value = match options.external_url {
            Some(url) if name == EXTERNAL_URL => Ok(url.to_owned()),
            _ => variables::expand(template, values),
        };
        match value {
            Ok(value) => drop(variables.insert(name.clone(), value)),
            Err(reason) => problem(format!("variables.{name}: {reason}")),
        }
    }
    variables
}

/// An entry of `allowed_outbound_hosts` that names a component must name one of the manifest.
fn check_local_hosts(components: &[Component], locations: &Locations<'_>, problems: &mut Problems) {
    for Component { id, allowed_hosts, .. } in components {
        for named in allowed_hosts.components().filter(|named| !components.iter().any(|known| known.id == *named)) {
            let reason = format!(
                "allowed_outbound_hosts has \"{named}.spin.internal\", and there is no [component.{named}]; add it or \
                 correct the entry"
            );
            problems.add(locations.in_table(&["component", id], &reason));
        }
    }
}

/// The route of a trigger to one of the components `ids`. `None` if the trigger is private.
fn route(trigger: schema::HttpTrigger, ids: &BTreeSet<String>) -> Result<Option<Route>, String> {
    trigger.check()?;
    let id = match trigger.component {
        TextOr::Text(id) => id,
        TextOr::Table(_) => {
            return Err(format!(
                "[[trigger.http]] with route {}: an inline component is not supported; give \
                 it a [component.<id>] table and name that id",
                trigger.route
            ));
        }
    };
    if !ids.contains(&id) {
        return Err(format!(
            "[[trigger.http]] with route {}: there is no [component.{id}]; add it or correct \
             the name",
            trigger.route
        ));
    }
    match trigger.route {
        TextOr::Text(pattern) => Ok(Some(Route { pattern, component: id })),
        TextOr::Table(PrivateRoute { private: true }) => Ok(None),
        TextOr::Table(PrivateRoute { private: false }) => Err(format!(
            "[[trigger.http]] of component `{id}`: `route` is a path or \
             {{ private = true }}; remove `private = false` and name a path"
        )),
    }
}

/// Refuses limits and maintenance whose path leads to another component or to none: the path is probably misspelt.
fn check_paths(
    components: &[Component],
    routes: &[(usize, Route)],
    locations: &Locations<'_>,
    problems: &mut Problems,
) {
    let targets = routes.iter().map(|(_, route)| (route.pattern.clone(), route.component.as_str()));
    let at = |error: RouteError| {
        let index = routes.iter().rfind(|(_, route)| route.pattern == error.route()).map_or(0, |(index, _)| *index);
        locations.at(&["trigger", "http", &index.to_string()], &error.to_string())
    };
    let Some(router) = problems.keep(Router::new(targets).map_err(at)) else { return };
    for component in components {
        let id = component.id.as_str();
        for pattern in component.route_limits.patterns() {
            if router.find(&pattern.replace("...", "*")) != Some(&id) {
                let reason =
                    format!("\"{pattern}\" is not a part of a route to this component; correct it, or add the route");
                problems.add(locations.in_table(&["component", id, "tool", "hexad", "routes"], &reason));
            }
        }
        let Some(maintenance) = &component.maintenance else { continue };
        if router.find(maintenance.path.path()) != Some(&id) {
            let reason = format!(
                "maintenance.path = \"{}\" does not lead to this component; correct it or add a [[trigger.http]] route",
                maintenance.path
            );
            problems.add(locations.in_table(&["component", id, "tool", "hexad"], &reason));
        }
    }
}

/// Lists the manifest's components, so that the reader sees a typing error.
#[derive(Debug, thiserror::Error)]
#[error("there is no component `{id}` in the manifest, which has {known}")]
pub struct UnknownComponent {
    id: String,
    known: String,
}

impl UnknownComponent {
    pub fn new<'a>(id: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let known: Vec<_> = known.map(|id| format!("`{id}`")).collect();
        Self { id: id.to_owned(), known: known.join(", ") }
    }
}

/// Which headers and query parameters have a component's credentials.
fn credentials(tool: &schema::HexadTool) -> Result<Credentials, String> {
    let Some(declared) = &tool.credentials else {
        return Ok(Credentials::default());
    };
    let header = |name: &String| {
        name.parse::<HeaderName>()
            .map_err(|_| format!("credentials.headers: {name:?} is not the name of a header; correct it"))
    };
    Ok(Credentials {
        headers: declared.headers.iter().map(header).collect::<Result<_, _>>()?,
        parameters: declared.parameters.clone(),
        is_declared: true,
    })
}

#[cfg(test)]
mod tests;
