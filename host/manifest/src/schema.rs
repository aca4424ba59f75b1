//! The TOML of the manifest. It has every field of Spin's manifest. If this host lacks a capability, its field must be
//! empty.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestTable {
    /// Must be 2.
    #[serde(rename = "spin_manifest_version", deserialize_with = "version_2")]
    pub _version: (),
    pub application: ApplicationTable,
    #[serde(default)]
    pub variables: BTreeMap<String, Variable>,
    #[serde(default)]
    pub component: BTreeMap<String, ComponentTable>,
    pub trigger: Triggers,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplicationTable {
    pub name: String,
    #[serde(default, rename = "version")]
    _version: IgnoredAny,
    #[serde(default, rename = "description")]
    _description: IgnoredAny,
    #[serde(default, rename = "authors")]
    _authors: IgnoredAny,
    #[serde(default, rename = "targets")]
    _targets: IgnoredAny,
    #[serde(default)]
    pub tool: BTreeMap<String, IgnoredAny>,
    #[serde(default)]
    trigger: BTreeMap<String, IgnoredAny>,
}

impl ApplicationTable {
    pub fn check(&self) -> Result<(), String> {
        // Older manifests have the HTTP base path here. Ignoring it would change every route.
        unsupplied("trigger", self.trigger.is_empty())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    pub default: Option<String>,
    #[serde(default)]
    pub required: bool,
    #[serde(default, rename = "secret")]
    _secret: IgnoredAny,
    #[serde(default, rename = "description")]
    _description: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Triggers {
    /// Other triggers are refused, because the host would serve only a part of the application.
    #[serde(default)]
    pub http: Vec<HttpTrigger>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpTrigger {
    #[serde(default, rename = "id")]
    _id: IgnoredAny,
    pub route: RouteTable,
    /// The id of a component, or an inline component.
    pub component: TextOr<IgnoredAny>,
    #[serde(default)]
    executor: Executor,
}

impl HttpTrigger {
    pub fn check(&self) -> Result<(), String> {
        match self.executor.kind.as_deref() {
            None | Some("http" | "spin") => Ok(()),
            Some(other) => Err(format!(
                "[[trigger.http]] with route {}: executor type `{other}` is not supplied by this \
                 host; remove `executor`",
                self.route
            )),
        }
    }
}

#[derive(Default, Deserialize)]
struct Executor {
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// A path, or none.
pub type RouteTable = TextOr<PrivateRoute>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrivateRoute {
    pub private: bool,
}

impl fmt::Display for RouteTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TextOr::Text(pattern) => write!(f, "\"{pattern}\""),
            TextOr::Table(PrivateRoute { private }) => write!(f, "{{ private = {private} }}"),
        }
    }
}

/// A text or a table. An untagged enum of serde would not say why neither fits.
pub enum TextOr<T> {
    Text(String),
    Table(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TextOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = TextOr<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text in quotes or a table")
            }

            fn visit_str<E>(self, text: &str) -> Result<TextOr<T>, E> {
                Ok(TextOr::Text(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<TextOr<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(table)).map(TextOr::Table)
            }
        }

        deserializer.deserialize_any(Either(PhantomData))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComponentTable {
    source: TextOr<IgnoredAny>,
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    #[serde(default)]
    pub key_value_stores: Vec<String>,
    #[serde(default)]
    pub allowed_outbound_hosts: Option<Vec<String>>,
    #[serde(default)]
    pub tool: Tools,

    #[serde(default)]
    allowed_http_hosts: Vec<IgnoredAny>,
    #[serde(default)]
    environment: BTreeMap<String, IgnoredAny>,
    #[serde(default)]
    files: Vec<IgnoredAny>,
    #[serde(default)]
    sqlite_databases: Vec<IgnoredAny>,
    #[serde(default)]
    ai_models: Vec<IgnoredAny>,
    #[serde(default)]
    dependencies: BTreeMap<String, IgnoredAny>,

    #[serde(default, rename = "description")]
    _description: IgnoredAny,
    #[serde(default, rename = "exclude_files")]
    _exclude_files: IgnoredAny,
    #[serde(default, rename = "build")]
    _build: IgnoredAny,
    #[serde(default, rename = "targets")]
    _targets: IgnoredAny,
    #[serde(default, rename = "profile")]
    _profile: IgnoredAny,
    #[serde(default, rename = "dependencies_inherit_configuration")]
    _dependencies_inherit_configuration: IgnoredAny,
}

impl ComponentTable {
    pub fn check(&self) -> Result<(), String> {
        unsupplied("allowed_http_hosts", self.allowed_http_hosts.is_empty())?;
        unsupplied("environment", self.environment.is_empty())?;
        unsupplied("files", self.files.is_empty())?;
        unsupplied("sqlite_databases", self.sqlite_databases.is_empty())?;
        unsupplied("ai_models", self.ai_models.is_empty())?;
        unsupplied("dependencies", self.dependencies.is_empty())
    }

    pub fn source_path(&self) -> Result<&str, String> {
        match &self.source {
            TextOr::Text(path) => Ok(path),
            TextOr::Table(_) => Err("`source` is not a path; download the component and name the file".to_owned()),
        }
    }
}

/// The name of this host's table.
pub const HEXAD: &str = "hexad";

#[derive(Default)]
pub struct Tools {
    pub hexad: HexadTool,
    /// The names of the other tools. Their tables are ignored.
    pub others: Vec<String>,
}

impl<'de> Deserialize<'de> for Tools {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tables;

        impl<'de> Visitor<'de> for Tables {
            type Value = Tools;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut tables: A) -> Result<Tools, A::Error> {
                let mut tools = Tools::default();
                while let Some(name) = tables.next_key::<String>()? {
                    if name == HEXAD {
                        tools.hexad = tables.next_value()?;
                    } else {
                        tables.next_value::<IgnoredAny>()?;
                        tools.others.push(name);
                    }
                }
                Ok(tools)
            }
        }

        deserializer.deserialize_map(Tables)
    }
}

/// The settings of this host.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HexadTool {
    /// Key prefixes that may be read, in addition to the writable ones.
    pub read: Option<Vec<String>>,
    pub write: Option<Vec<String>>,
    /// Key prefixes of volatile values: a crash may undo the last changes.
    #[serde(default)]
    pub volatile: Vec<String>,
    /// Variables of the component whose values the host draws if they are empty.
    #[serde(default)]
    pub generate: Vec<String>,
    pub memory: Option<String>,
    pub request_timeout: Option<String>,
    pub transfer_timeout: Option<String>,
    pub cpu_time: Option<String>,
    pub max_body: Option<String>,
    pub max_response: Option<String>,
    pub instances: Option<u64>,
    pub instances_per_client: Option<u64>,
    pub queue_timeout: Option<String>,
    #[serde(alias = "reuse")]
    pub max_requests_per_instance: Option<u64>,
    pub idle_timeout: Option<String>,
    pub log_lines: Option<u64>,
    /// How long the host caches the response to a read. A change of a value that the component read ends this time.
    #[serde(rename = "response_cache", alias = "memoize")]
    pub cache_max_age: Option<String>,
    /// The request headers that a cached response depends on. The component gets no others.
    #[serde(rename = "response_cache_headers", alias = "headers")]
    pub cache_headers: Option<Vec<String>>,
    pub credentials: Option<CredentialsTool>,
    pub maintenance: Option<MaintenanceTool>,
    #[serde(default)]
    pub outbound: OutboundTool,
    /// Limits of the requests to some routes, by route pattern.
    #[serde(default)]
    pub routes: BTreeMap<String, RouteTool>,
}

/// Limits of a request to one route, in place of the component's.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteTool {
    pub request_timeout: Option<String>,
    pub transfer_timeout: Option<String>,
    pub cpu_time: Option<String>,
    pub max_body: Option<String>,
    pub max_response: Option<String>,
}

impl HexadTool {
    /// The limits of requests to all routes.
    pub fn request_limits(&self) -> RouteTool {
        RouteTool {
            request_timeout: self.request_timeout.clone(),
            transfer_timeout: self.transfer_timeout.clone(),
            cpu_time: self.cpu_time.clone(),
            max_body: self.max_body.clone(),
            max_response: self.max_response.clone(),
        }
    }
}

/// Where clients put credentials. During a canary, the host distinguishes clients by them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialsTool {
    #[serde(default)]
    pub headers: Vec<String>,
    /// Of the query string.
    #[serde(default)]
    pub parameters: Vec<String>,
}

/// A maintenance request, which the host sends periodically.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaintenanceTool {
    pub path: String,
    pub every: String,
    /// The name of an application variable.
    pub token: Option<String>,
}

/// Bounds of a component's outbound requests.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutboundTool {
    pub requests: Option<u64>,
    pub requests_per_client: Option<u64>,
    pub queue_timeout: Option<String>,
    pub connect_timeout: Option<String>,
    pub head_timeout: Option<String>,
    pub idle_timeout: Option<String>,
    pub timeout: Option<String>,
    pub max_response: Option<String>,
    /// Whether the host coalesces equal GET and HEAD requests in progress: it sends one.
    #[serde(default, alias = "share")]
    pub coalesce: bool,
    /// Further methods to coalesce. For the server, two equal requests must have the effect of one.
    #[serde(default, alias = "share_methods")]
    pub coalesce_methods: Vec<String>,
    #[serde(default)]
    pub networks: Vec<String>,
}

fn unsupplied(key: &str, empty: bool) -> Result<(), String> {
    match empty {
        true => Ok(()),
        false => Err(format!(
            "`{key}` asks for something that this host does not supply; remove it or run the \
             application elsewhere"
        )),
    }
}

fn version_2<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    match u64::deserialize(deserializer)? {
        2 => Ok(()),
        other => {
            Err(serde::de::Error::custom(format!("version {other} is not supported; write the manifest in version 2")))
        }
    }
}
