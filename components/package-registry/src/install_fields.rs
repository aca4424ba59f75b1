//! The fields that an installer acts on: of the `package.json` in a file, and of the document that it was
//! published with.
//!
//! Installers resolve by the document, and run the file's scripts and programs. Audits read one of the two. So the
//! document must agree with the file. Clients write fields into the document in normal forms, which are accepted here:
//! npm's (<https://github.com/npm/package-json>), yarn's and bun's.

mod bin;
mod dependency;
mod types;

use crate::json;
use crate::name::PackageName;
use crate::tarball::{PackageJson, TarballError};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The fields, in the order in which they are compared.
const FIELDS: &[&str] = &[
    BUNDLED,
    "dependencies",
    "optionalDependencies",
    "devDependencies",
    "peerDependencies",
    "acceptDependencies",
    "peerDependenciesMeta",
    "dependenciesMeta",
    "bin",
    DIRECTORIES,
    "engines",
    "os",
    "cpu",
    "libc",
    SCRIPTS,
    "gypfile",
];

/// The fields that map names of packages to version specs.
const DEPENDENCIES: &[&str] =
    &["dependencies", "optionalDependencies", "devDependencies", "peerDependencies", "acceptDependencies"];

const BUNDLED: &str = "bundleDependencies";

/// Another spelling of [`BUNDLED`].
const BUNDLED_ALIAS: &str = "bundledDependencies";

/// No installer acts on them in a package that it installs.
const DEV_DEPENDENCIES: &str = "devDependencies";

const DIRECTORIES: &str = "directories";

pub const SCRIPTS: &str = "scripts";

/// Scripts that run on installation.
const INSTALL_SCRIPTS: &[&str] = &["preinstall", "install", "postinstall"];

/// The script that installers use if there is a `binding.gyp`, and no script `preinstall` or `install`.
const GYP_SCRIPT: &str = "node-gyp rebuild";

/// The fields as they were written. A field with the value `null` is absent.
#[derive(Debug)]
pub struct InstallFields {
    /// The name without its scope.
    name: String,
    fields: BTreeMap<&'static str, Value>,
}

/// A field that differs between the document and the file.
#[derive(Debug, PartialEq)]
pub struct Difference {
    pub field: &'static str,
    /// Whether the document may be refused. Otherwise, some client is known to write the field so.
    pub is_error: bool,
    /// The file's value in normal form; `None` if the file has no such field.
    pub value: Option<Value>,
}

impl InstallFields {
    /// The fields of a `package.json`. An ambiguous field is an error, unless no installer acts on it.
    pub fn of_file(name: &PackageName, file: &PackageJson) -> Result<Self, TarballError> {
        let mut fields = BTreeMap::new();
        for field in FIELDS.iter().chain(&[BUNDLED_ALIAS]) {
            let text = if *field == DEV_DEPENDENCIES { file.last(field) } else { file.get(field)? };
            if let Some(text) = text {
                fields.insert(*field, read(field, text).map_err(TarballError::ManifestAmbiguous)?);
            }
        }
        Ok(InstallFields::new(name, fields))
    }

    /// The fields of a document's manifest. The error is the ambiguous member.
    pub fn of_document<'a>(name: &PackageName, get: impl Fn(&str) -> Option<&'a RawValue>) -> Result<Self, String> {
        let mut fields = BTreeMap::new();
        for field in FIELDS.iter().chain(&[BUNDLED_ALIAS]) {
            if let Some(text) = get(field) {
                fields.insert(*field, read(field, text)?);
            }
        }
        Ok(InstallFields::new(name, fields))
    }

    /// The first install script that differs: its field, the document's script and this file's.
    pub fn differing_script(&self, document: &InstallFields) -> Option<(String, [Option<String>; 2])> {
        let (ours, theirs) = (self.install_scripts(), document.install_scripts());
        INSTALL_SCRIPTS.iter().find_map(|name| {
            let (theirs, ours) = (theirs.get(*name).cloned(), ours.get(*name).cloned());
            (theirs != ours).then(|| (format!("{SCRIPTS}.{name}"), [theirs, ours]))
        })
    }

    fn new(name: &PackageName, mut fields: BTreeMap<&'static str, Value>) -> Self {
        fields.retain(|_, value| !value.is_null());
        let name = name.as_str();
        let name = name.rsplit_once('/').map_or(name, |(_, name)| name).to_owned();
        InstallFields { name, fields }
    }

    /// Whether a script or a build runs when the package is installed. `has_gyp_file`: whether there is a
    /// `binding.gyp`. Most installers compile it, some even if `gypfile` is false.
    pub fn has_install_script(&self, has_gyp_file: bool) -> bool {
        has_gyp_file || !self.install_scripts().is_empty()
    }

    /// The fields of `document` that differ from those of this file.
    pub fn differences(&self, document: &InstallFields, has_gyp_file: bool) -> Vec<Difference> {
        let compare = |field: &&'static str| {
            let value = self.normal(field);
            let (is_equal, is_error) = match *field {
                // npm leaves out a list that is written as an object.
                BUNDLED => (self.bundles_like(document), !(self.bundles_by_object() && document.bundles_nothing())),
                // npm writes the field beside this script, which runs with any value of the field.
                "gypfile" => {
                    let script = self.install_scripts().remove("install");
                    (document.normal(field) == value, script.is_none_or(|script| script != GYP_SCRIPT))
                }
                "bin" => self.compare_bin(document),
                // yarn turns `directories.bin` into `bin` and omits it.
                DIRECTORIES => {
                    let its = document.normal(field);
                    (its.is_none() || its == value, true)
                }
                SCRIPTS => self.compare_scripts(document, has_gyp_file),
                "dependencies" => self.compare_dependencies(document),
                field if DEPENDENCIES.contains(&field) => {
                    let (ours, mut theirs) = (meanings(value.clone()), meanings(document.normal(field)));
                    let is_equal = ours == theirs;
                    theirs.retain(|name, spec| !self.is_without_version(field, name, spec));
                    (is_equal, ours != theirs && field != DEV_DEPENDENCIES)
                }
                _ => (document.normal(field) == value, true),
            };
            // Installers read unexpected types differently, so metadata gets the normal form.
            let is_odd = !document.is_well_formed(field);
            let is_rewritten = !self.is_written_as(document, field);
            let is_error = is_odd && is_rewritten || !is_equal && is_error;
            // `package.json` does not list the commands of a folder, so the document's list is used.
            let value = if is_equal && *field == "bin" { document.normal(field) } else { value };
            // Some clients follow a path that leads out of the package, or normalize it in another way than npm.
            let leads_out = matches!(*field, "bin" | DIRECTORIES)
                && document.fields.get(*field).is_some_and(|written| !bin::stays_inside(written));
            (is_odd || !is_equal || leads_out).then_some(Difference { field, is_error, value })
        };
        FIELDS.iter().filter_map(compare).collect()
    }

    /// A field in normal form; `None` if it is absent, empty, or of a type that installers ignore.
    fn normal(&self, field: &str) -> Option<Value> {
        let value = self.fields.get(field);
        match field {
            "dependencies" => non_empty(self.dependencies()),
            _ if DEPENDENCIES.contains(&field) => non_empty(dependency::map(value?)),
            BUNDLED => {
                let names = self.bundled(value.or(self.fields.get(BUNDLED_ALIAS))?);
                (!names.is_empty()).then(|| names.into_iter().collect())
            }
            "bin" => non_empty(self.bin()),
            DIRECTORIES => {
                let folder = self.bin_folder()?;
                Some(serde_json::json!({"bin": if folder.is_empty() { "." } else { folder.as_str() }}))
            }
            "engines" => engines(value?),
            "os" | "cpu" | "libc" => list(value?),
            SCRIPTS => non_empty(self.install_scripts()),
            "gypfile" => value.filter(|value| **value == Value::Bool(false)).cloned(),
            _ => value.filter(|value| value.as_object().is_some_and(|object| !object.is_empty())).cloned(),
        }
    }

    /// The dependencies, without optional ones, which some clients repeat here.
    fn dependencies(&self) -> BTreeMap<String, String> {
        let map = |field| self.fields.get(field).map(dependency::map).unwrap_or_default();
        let (mut dependencies, optional) = (map("dependencies"), map("optionalDependencies"));
        let is_repeated = |name: &String, spec: &str| {
            optional.get(name).is_some_and(|other| dependency::meaning(other) == dependency::meaning(spec))
        };
        dependencies.retain(|name, spec| !is_repeated(name, spec));
        dependencies
    }

    /// Compares the dependencies. yarn 1 omits a name that is an optional dependency, too, which installers prefer. npm
    /// 7 writes `*` for a bundled dependency.
    fn compare_dependencies(&self, document: &InstallFields) -> (bool, bool) {
        let (mut ours, mut theirs) = (self.required(document), document.required(self));
        if ours == theirs {
            return (true, false);
        }
        let optional = self.fields.get("optionalDependencies").map(dependency::map).unwrap_or_default();
        let written = meanings(document.normal("dependencies"));
        theirs.retain(|name, spec| !self.is_without_version("dependencies", name, spec));
        let is_bundled = |name: &String| written.get(name).is_some_and(|spec| spec == "*");
        ours.retain(|name, _| theirs.contains_key(name) || !(optional.contains_key(name) || is_bundled(name)));
        (false, ours != theirs)
    }

    /// The meaning of each dependency, without bundled dependencies of version `*`, which some clients add.
    fn required(&self, other: &InstallFields) -> BTreeMap<String, String> {
        let lists = [self, other].into_iter().flat_map(|fields| {
            let values = [BUNDLED, BUNDLED_ALIAS].into_iter().filter_map(move |name| fields.fields.get(name));
            values.flat_map(move |value| fields.bundled(value))
        });
        let bundled: BTreeSet<String> = lists.collect();
        let mut meanings = meanings(self.normal("dependencies"));
        meanings.retain(|name, spec| spec != "*" || !bundled.contains(name));
        meanings
    }

    /// The names of bundled dependencies.
    fn bundled(&self, value: &Value) -> BTreeSet<String> {
        match value {
            Value::Bool(true) => {
                self.fields.get("dependencies").map(dependency::map).unwrap_or_default().into_keys().collect()
            }
            Value::Array(names) => {
                names.iter().filter_map(Value::as_str).filter(|name| !name.is_empty()).map(str::to_owned).collect()
            }
            Value::Object(names) => names.keys().cloned().collect(),
            _ => BTreeSet::new(),
        }
    }

    /// Compares both names of the field, because clients differ in which name they read.
    fn bundles_like(&self, document: &InstallFields) -> bool {
        let all = |fields: &InstallFields| -> BTreeSet<BTreeSet<String>> {
            let values = [BUNDLED, BUNDLED_ALIAS].iter().filter_map(|name| fields.fields.get(name));
            let mut all: BTreeSet<_> = values.map(|value| fields.bundled(value)).collect();
            if all.is_empty() {
                all.insert(BTreeSet::new());
            }
            all
        };
        all(document).is_subset(&all(self))
    }

    fn bundles_by_object(&self) -> bool {
        self.written(BUNDLED).into_iter().flatten().all(Value::is_object)
    }

    fn bundles_nothing(&self) -> bool {
        self.written(BUNDLED).into_iter().flatten().all(|value| self.bundled(value).is_empty())
    }

    fn install_scripts(&self) -> BTreeMap<String, String> {
        let scripts = self.fields.get(SCRIPTS).and_then(Value::as_object);
        let script = |name: &&str| {
            let script = scripts?.get(*name)?.as_str().filter(|script| !script.is_empty())?;
            Some(((*name).to_owned(), without_bin_folder(script).to_owned()))
        };
        INSTALL_SCRIPTS.iter().filter_map(script).collect()
    }

    /// npm and yarn write the script of a `binding.gyp` into the document, even if the file is not packed.
    fn compare_scripts(&self, document: &InstallFields, has_gyp_file: bool) -> (bool, bool) {
        let (ours, mut theirs) = (self.install_scripts(), document.install_scripts());
        let is_gyp = theirs.get("install").is_some_and(|script| script == GYP_SCRIPT);
        if is_gyp && !ours.contains_key("install") {
            theirs.remove("install");
            // If there is a script `preinstall`, only yarn classic writes this script, and npm does not run it.
            let is_run = has_gyp_file && !ours.contains_key("preinstall");
            return (ours == theirs && is_run, ours != theirs);
        }
        (ours == theirs, true)
    }

    /// The folder of commands; an empty path is the package's own folder.
    fn bin_folder(&self) -> Option<String> {
        let folder = self.fields.get(DIRECTORIES)?.get("bin")?.as_str().filter(|folder| !folder.is_empty())?;
        Some(bin::path(folder))
    }

    fn bin(&self) -> BTreeMap<String, String> {
        self.fields.get("bin").map(|bin| bin::map(bin, &self.name)).unwrap_or_default()
    }

    fn compare_bin(&self, document: &InstallFields) -> (bool, bool) {
        let (ours, theirs) = (self.bin(), document.bin());
        if ours == theirs {
            return (true, false);
        }
        if let Some(folder) = self.bin_folder().filter(|_| ours.is_empty()) {
            // Clients list the folder's files; some include hidden files.
            let is_of_folder = |(name, path): (&String, &String)| {
                let is_below =
                    folder.is_empty() || path.strip_prefix(folder.as_str()).is_some_and(|path| path.starts_with('/'));
                is_below && path.rsplit('/').next() == Some(name)
            };
            let is_equal = theirs.iter().all(is_of_folder);
            return (is_equal, !is_equal);
        }
        // yarn omits names that npm changes or that have unusual characters, and paths that lead out of the package.
        let written = self.fields.get("bin");
        let is_plain = |name: &String| match written {
            Some(Value::Object(bin)) => {
                bin.get(name).and_then(Value::as_str).is_some_and(|path| bin::is_plain(name, path))
            }
            Some(Value::String(path)) => bin::is_plain(name, path),
            _ => true,
        };
        let has_all = ours.keys().all(|name| theirs.contains_key(name) || !is_plain(name));
        let has_no_other = theirs.iter().all(|(name, path)| ours.get(name) == Some(path));
        (false, !(has_all && has_no_other))
    }
}

impl Difference {
    /// The value that metadata has in place of the document's.
    pub fn corrected(&self, published: Option<&RawValue>) -> Option<Value> {
        if self.field != SCRIPTS {
            return self.value.clone();
        }
        let published = published.and_then(|scripts| serde_json::from_str::<Map<String, Value>>(scripts.get()).ok());
        let mut scripts = published.unwrap_or_default();
        scripts.retain(|name, _| !INSTALL_SCRIPTS.contains(&name.as_str()));
        if let Some(Value::Object(ours)) = &self.value {
            scripts.extend(ours.clone());
        }
        (!scripts.is_empty()).then_some(Value::Object(scripts))
    }

    /// Whether the correction replaces the published member of this name.
    pub fn replaces(&self, name: &str) -> bool {
        name == self.field || self.field == BUNDLED && name == BUNDLED_ALIAS
    }
}

/// The value of a field. Of scripts, it has only the install scripts. The error is the member that occurs twice with
/// different values, or the field if it is nested too deep.
fn read(field: &str, text: &RawValue) -> Result<Value, String> {
    if field == DEV_DEPENDENCIES
        && let Ok(value) = serde_json::from_str(text.get())
    {
        return Ok(value);
    }
    let unambiguous = |name: &str, text: &RawValue| {
        json::unambiguous(text).map_err(|member| member.map_or(name.to_owned(), |member| format!("{name}.{member}")))
    };
    if let (SCRIPTS, Ok(scripts)) = (field, PackageJson::read(text.get().as_bytes())) {
        let mut kept = Map::new();
        for script in INSTALL_SCRIPTS {
            let name = format!("{SCRIPTS}.{script}");
            if let Some(text) = scripts.get(script).map_err(|_| name.clone())? {
                kept.insert((*script).to_owned(), unambiguous(&name, text)?);
            }
        }
        return Ok(kept.into());
    }
    let value = unambiguous(field, text)?;
    let command = if field == "bin" { bin::ambiguous(&value) } else { None };
    command.map_or(Ok(value), |command| Err(format!("bin.{command}")))
}

/// Dependencies, each with the meaning of its spec.
fn meanings(dependencies: Option<Value>) -> BTreeMap<String, String> {
    let Some(Value::Object(dependencies)) = dependencies else { return BTreeMap::new() };
    let meaning = |spec: Value| dependency::meaning(spec.as_str().unwrap_or_default());
    dependencies.into_iter().map(|(name, spec)| (name, meaning(spec))).collect()
}

fn non_empty(map: BTreeMap<String, String>) -> Option<Value> {
    (!map.is_empty()).then(|| map.into_iter().map(|(name, value)| (name, Value::from(value))).collect())
}

/// An object of texts; an old form is a list of texts, each a name and a range.
fn engines(value: &Value) -> Option<Value> {
    match value {
        Value::Object(engines) => {
            let texts = engines.iter().filter_map(|(name, range)| Some((name.clone(), range.as_str()?.to_owned())));
            non_empty(texts.collect())
        }
        Value::Array(engines) => {
            let texts = engines.iter().filter_map(Value::as_str).map(|engine| {
                let mut words = engine.split_ascii_whitespace();
                let name = words.next().unwrap_or_default().to_owned();
                (name, words.collect::<Vec<_>>().join(" "))
            });
            non_empty(texts.collect())
        }
        _ => None,
    }
}

/// A list of texts, sorted; a single text is a list of one.
fn list(value: &Value) -> Option<Value> {
    let texts: BTreeSet<&str> = match value {
        Value::String(text) => [text.as_str()].into(),
        Value::Array(texts) => texts.iter().filter_map(Value::as_str).collect(),
        _ => BTreeSet::new(),
    };
    (!texts.is_empty()).then(|| texts.into_iter().collect())
}

/// npm removes the folder of installed programs from the start of a script: it is on the path anyway.
fn without_bin_folder(script: &str) -> &str {
    let from_here = script.strip_prefix("./").or(script.strip_prefix(".\\")).unwrap_or(script);
    let separator = |text: &'_ str| text.starts_with(['/', '\\']);
    let below = from_here.strip_prefix("node_modules").filter(|rest| separator(rest)).and_then(|rest| rest.get(1..));
    let below = below.and_then(|rest| rest.strip_prefix(".bin")).filter(|rest| separator(rest));
    below.and_then(|rest| rest.get(1..)).unwrap_or(script)
}

#[cfg(test)]
mod tests;
