//! The metadata of a package, as package managers get it.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A package.
#[derive(Deserialize)]
pub struct Metadata {
    pub name: String,
    pub description: Option<String>,
    #[serde(rename = "dist-tags", default)]
    pub tags: BTreeMap<String, String>,
    #[serde(default)]
    pub versions: BTreeMap<String, Version>,
    #[serde(default)]
    pub time: BTreeMap<String, String>,
    #[serde(default)]
    pub readme: Option<String>,
    #[serde(default)]
    pub maintainers: Vec<Person>,
}

#[derive(Deserialize)]
pub struct Person {
    pub name: String,
}

/// One version. Fields that publishers write are of any type.
#[derive(Deserialize)]
pub struct Version {
    #[serde(default)]
    pub deprecated: Option<Value>,
    #[serde(default)]
    pub dependencies: Option<BTreeMap<String, Value>>,
    #[serde(default, rename = "peerDependencies")]
    pub peer_dependencies: Option<BTreeMap<String, Value>>,
    #[serde(default)]
    pub license: Option<Value>,
    #[serde(default)]
    pub homepage: Option<Value>,
    #[serde(default)]
    pub repository: Option<Value>,
    #[serde(default)]
    pub engines: Option<Value>,
    #[serde(default, rename = "hasInstallScript")]
    pub has_install_script: bool,
    #[serde(default)]
    pub dist: Dist,
    #[serde(default, rename = "_npmUser")]
    pub publisher: Option<Person>,
}

#[derive(Deserialize, Default)]
pub struct Dist {
    #[serde(default, rename = "unpackedSize")]
    pub unpacked_size: Option<u64>,
    #[serde(default, rename = "fileCount")]
    pub files: Option<u64>,
    #[serde(default)]
    pub attestations: Option<Value>,
    #[serde(default)]
    pub integrity: Option<String>,
}

impl Version {
    /// The reason of a deprecation.
    pub fn deprecation(&self) -> Option<&str> {
        match self.deprecated.as_ref()? {
            Value::String(text) if !text.is_empty() => Some(text),
            Value::Bool(true) => Some("This version is deprecated."),
            _ => None,
        }
    }

    /// The address of its repository, as its publisher wrote it.
    pub fn repository(&self) -> Option<&str> {
        match self.repository.as_ref()? {
            Value::String(url) => Some(url),
            Value::Object(fields) => fields.get("url")?.as_str(),
            _ => None,
        }
    }

    /// The package's folder in its repository, if that has several packages.
    pub fn directory(&self) -> Option<&str> {
        self.repository.as_ref()?.get("directory")?.as_str()
    }
}
