//! Projects.

use crate::member::Share;
use crate::namespace::{self, Namespace, Visibility};
use crate::path::{self, Identifier, Resident};
use crate::rejection::{Rejection, Unsaved};
use crate::store::{self, Key};
use kit::Env;
use kit::store::Fault;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    pub id: u64,
    /// For people.
    pub name: String,
    /// The last segment of the full path.
    pub path: String,
    /// The group or personal namespace that it lives in, with everything above.
    pub namespace: Namespace,
    pub visibility: Visibility,
    pub registry: FeatureAccess,
    pub issues: FeatureAccess,
    pub archived: bool,
    pub default_branch: Option<String>,
    pub creator_id: Option<u64>,
    /// Groups whose members have a role in this project.
    pub shares: Vec<Share>,
    /// Whose job tokens are accepted.
    pub job_tokens: JobTokens,
}

/// Who may use a feature of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureAccess {
    /// Nobody.
    Disabled,
    /// The project's members.
    Private,
    /// Everybody who may see the project.
    Enabled,
    /// Everybody, even if the project is private.
    Public,
}

impl FeatureAccess {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "disabled" => Some(FeatureAccess::Disabled),
            "private" => Some(FeatureAccess::Private),
            "enabled" => Some(FeatureAccess::Enabled),
            "public" => Some(FeatureAccess::Public),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            FeatureAccess::Disabled => "disabled",
            FeatureAccess::Private => "private",
            FeatureAccess::Enabled => "enabled",
            FeatureAccess::Public => "public",
        }
    }
}

/// The projects whose job tokens a project accepts beside its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobTokens {
    /// Whether only the listed ones are accepted; the default.
    pub restricted: bool,
    pub projects: Vec<u64>,
    pub groups: Vec<u64>,
}

impl Project {
    pub fn full_path(&self) -> String {
        format!("{}/{}", self.namespace.full_path(), self.path)
    }

    /// The top-level namespace above the project.
    pub fn root_namespace(&self) -> &Namespace {
        self.namespace.root()
    }
}

/// What an identifier names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    Found(Project),
    /// The identifier is an old path of this project. A reader is redirected to its id.
    Moved(Project),
    Missing,
}

/// The project with this id. One read, and one for each namespace above it.
pub fn by_id(env: &Env, id: u64) -> Result<Option<Project>, Fault> {
    let Some(record) = store::read::<store::Project>(env, &Key::Project(id))? else {
        return Ok(None);
    };
    let namespace = namespace::by_id(env, record.namespace_id)?;
    Ok(namespace.map(|namespace| record.into_project(id, namespace)))
}

/// The project named by an id (all digits) or by a full path in any letter case. By path, two
/// reads for each segment.
pub fn find(env: &Env, id_or_path: &str) -> Result<Lookup, Fault> {
    match Identifier::parse(id_or_path) {
        Identifier::Id(id) => Ok(by_id(env, id)?.map_or(Lookup::Missing, Lookup::Found)),
        Identifier::Path(path) => path::project(env, path),
        Identifier::Impossible => Ok(Lookup::Missing),
    }
}

/// A project as it is to be.
pub struct NewProject {
    pub id: u64,
    pub name: String,
    pub path: String,
    pub namespace_id: u64,
    pub visibility: Visibility,
    pub registry: FeatureAccess,
    pub issues: FeatureAccess,
    pub archived: bool,
    pub default_branch: Option<String>,
    pub creator_id: Option<u64>,
    pub shares: Vec<Share>,
    pub job_tokens: JobTokens,
}

/// Creates or replaces a project. After a change of its path the old one leads to it, until
/// something else claims that path.
pub fn save(env: &Env, new: NewProject) -> Result<(), Unsaved> {
    if namespace::by_id(env, new.namespace_id)?.is_none() {
        return Err(Rejection::NoNamespace(new.namespace_id).into());
    }
    path::claim(env, Some(new.namespace_id), &new.path, Resident::Project(new.id))?;
    let id = new.id;
    Ok(store::write(env, &Key::Project(id), Some(store::Project::from(new)))?)
}

/// The id of the namespace that a project lives in. 1 read.
pub(crate) fn namespace_of(env: &Env, id: u64) -> Result<Option<u64>, Fault> {
    Ok(store::read::<store::Project>(env, &Key::Project(id))?.map(|record| record.namespace_id))
}

pub fn delete(env: &Env, id: u64) -> Result<(), Fault> {
    store::write::<store::Project>(env, &Key::Project(id), None)
}
