//! Projects.

use super::incarnation::Incarnation;
use super::membership::{Share, Source};
use super::namespace::{Namespace, Visibility};
use super::user::UserKey;
use crate::glob;
use crate::model::membership::Role;
use std::collections::BTreeMap;
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    pub id: u64,
    pub incarnation: Incarnation,
    /// The incarnation in the name of the project's repository.
    pub repository_incarnation: Incarnation,
    /// The display name.
    pub name: String,
    /// The last segment of the full path.
    pub path: String,
    /// The group or personal namespace of the project, with everything above.
    pub namespace: Namespace,
    pub visibility: Visibility,
    pub registry: FeatureAccess,
    pub issues: FeatureAccess,
    /// The access to the code and its history ([`crate::access::may_read_code`]).
    pub repository: FeatureAccess,
    /// The access to merge requests ([`crate::access::may_read_merge_requests`]).
    pub merge_requests: FeatureAccess,
    pub archived: bool,
    pub default_branch: Option<String>,
    pub creator: Option<UserKey>,
    /// Groups whose members have a role in this project.
    pub shares: Vec<Share>,
    pub job_tokens: JobTokenScope,
    /// The incarnations of the sources in `job_tokens`, except first incarnations.
    pub job_token_incarnations: BTreeMap<Source, Incarnation>,
    /// `None`: only the default branch is protected.
    pub protected_branches: Option<Vec<ProtectedBranch>>,
    /// The template of the message of a commit that applies suggestions.
    pub suggestion_commit_message: Option<String>,
    pub analytics: Analytics,
    /// The first label of the host name of its pages, if the pages have a unique domain.
    pub pages_unique_domain: Option<String>,
}

impl Project {
    /// Whether the repository accepts pushes.
    pub fn accepts_pushes(&self) -> bool {
        !self.archived && self.repository != FeatureAccess::Disabled
    }

    /// Whether a caller with this role may push to `branch`: a developer, unless the branch is protected. If several
    /// protections cover the branch, the most permissive counts, as in the reference service. `default_branch` is the
    /// repository's. Without a record of protected branches, only a maintainer may push to it.
    pub fn may_push(&self, role: Role, branch: &str, default_branch: Option<&str>) -> bool {
        if role < Role::Developer || !self.accepts_pushes() {
            return false;
        }
        let Some(protected) = &self.protected_branches else {
            return role >= Role::Maintainer || default_branch != Some(branch);
        };
        let mut protections = protected.iter().filter(|protected| protected.covers(branch)).peekable();
        match protections.peek() {
            None => true,
            Some(_) => protections.any(|protected| protected.push.is_some_and(|least| role >= least)),
        }
    }

    /// Whether the project accepts the jobs of another project, or of the projects below a group. After a deletion, the
    /// next project or group with the id is not accepted.
    pub fn accepts_jobs_of(&self, source: Source, incarnation: &Incarnation) -> bool {
        let is_named = match source {
            Source::Project(id) => self.job_tokens.projects.contains(&id),
            Source::Group(id) => self.job_tokens.groups.contains(&id),
        };
        is_named
            && self.job_token_incarnations.get(&source).map_or(incarnation.is_first(), |named| named == incarnation)
    }

    pub fn key(&self) -> ProjectKey {
        ProjectKey { id: self.id, incarnation: self.incarnation.clone() }
    }

    pub fn full_path(&self) -> String {
        format!("{}/{}", self.namespace.full_path(), self.path)
    }

    /// The top-level namespace above the project.
    pub fn root_namespace(&self) -> &Namespace {
        self.namespace.root()
    }
}

/// The name of a project in keys of other areas. Records under it do not belong to a later project with the same id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProjectKey {
    pub id: u64,
    pub incarnation: Incarnation,
}

impl ProjectKey {
    /// Parses the text of [`fmt::Display`].
    pub fn parse(text: &str) -> Option<Self> {
        let (id, incarnation) = match text.split_once('-') {
            Some((id, incarnation)) => (id, Incarnation::new(incarnation.to_owned())),
            None => (text, Incarnation::default()),
        };
        Some(ProjectKey { id: id.parse().ok()?, incarnation })
    }
}

/// The id and the incarnation; only the id for the first project with it.
impl fmt::Display for ProjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.id, self.incarnation)
    }
}

/// The callers who may use a feature of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureAccess {
    /// No caller.
    Disabled,
    /// The project's members.
    Private,
    /// Every caller who may see the project.
    Enabled,
    /// Every caller, even if the project is private.
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

/// The other projects whose job tokens a project accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobTokenScope {
    /// Whether only the listed projects are accepted; the default.
    pub restricted: bool,
    pub projects: Vec<u64>,
    pub groups: Vec<u64>,
}

/// A rule about pushes to some branches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedBranch {
    /// A branch's name, in which `*` stands for any text.
    pub name: String,
    /// The least role that may push; `None`: no role.
    pub push: Option<Role>,
}

impl ProtectedBranch {
    /// Whether the rule applies to `branch`.
    pub fn covers(&self, branch: &str) -> bool {
        glob::matches(&self.name, branch)
    }
}

/// A project's analytics engine instead of the service's engine, and the roles that may use it.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Analytics {
    pub base_url: Option<String>,
    /// Signs the requests to the engine; never part of a response. In a [`Project`] it is sealed
    /// ([`Project::analytics_key`]); in a [`NewProject`] it is plain.
    pub key: Option<String>,
    /// The least role that may query ([`crate::setting::ANALYTICS_LEVEL`]).
    pub query_level: Option<Role>,
    /// The least role that gets the engine's token ([`crate::setting::ANALYTICS_TOKEN_LEVEL`]).
    pub token_level: Option<Role>,
}

impl fmt::Debug for Analytics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.as_ref().map(|_| "hidden");
        f.debug_struct("Analytics").field("base_url", &self.base_url).field("key", &key).finish()
    }
}

/// The result of looking up a project by an identifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProjectLookup<P = Project> {
    Found(P),
    /// The identifier is a former path of this project ([`crate::redirect::Redirect`]).
    Moved(P),
    Missing,
}

/// A project to be saved.
pub struct NewProject {
    pub id: u64,
    pub name: String,
    pub path: String,
    pub namespace_id: u64,
    pub visibility: Visibility,
    pub registry: FeatureAccess,
    pub issues: FeatureAccess,
    pub repository: FeatureAccess,
    pub merge_requests: FeatureAccess,
    pub archived: bool,
    pub default_branch: Option<String>,
    pub creator_id: Option<u64>,
    pub shares: Vec<Share>,
    pub job_tokens: JobTokenScope,
    pub protected_branches: Option<Vec<ProtectedBranch>>,
    pub suggestion_commit_message: Option<String>,
    pub analytics: Analytics,
    pub pages_unique_domain: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        let covers = |name: &str, branch: &str| ProtectedBranch { name: name.into(), push: None }.covers(branch);
        for (name, branch) in [
            ("main", "main"),
            ("*", "x"),
            ("*", ""),
            ("rel/*", "rel/1"),
            ("*-stable", "1-stable"),
            ("a*b*c", "a.b.b.c"),
        ] {
            assert!(covers(name, branch), "{name} {branch}");
        }
        for (name, branch) in
            [("main", "mainly"), ("main", "Main"), ("rel/*", "rel"), ("*-stable", "stable"), ("a*b*c", "a.c.b")]
        {
            assert!(!covers(name, branch), "{name} {branch}");
        }
    }
}
