//! Projects.

use crate::access::Role;
use crate::member::Share;
use crate::namespace::{self, Namespace, Visibility};
use crate::path::{self, Identifier, PathOwner};
use crate::save_error::{Rejection, SaveError};
use crate::seal;
use crate::store::{self, Key};
use kit::Env;
use kit::store::StoreError;
use std::fmt;

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
    pub protected_branches: Vec<ProtectedBranch>,
    /// What the message of a commit of applied suggestions is made of.
    pub suggestion_commit_message: Option<String>,
    pub analytics: Analytics,
    /// The first label of the address of its pages, if they have one of their own.
    pub pages_unique_domain: Option<String>,
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

/// Branches that not every developer pushes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedBranch {
    /// A branch's name, in which `*` stands for anything.
    pub name: String,
    /// The least role that may push; `None`: nobody.
    pub push: Option<Role>,
}

impl ProtectedBranch {
    /// Whether `branch` is one of those.
    pub fn covers(&self, branch: &str) -> bool {
        let mut parts = self.name.split('*');
        let Some(mut rest) = parts.next().and_then(|first| branch.strip_prefix(first)) else { return false };
        let mut parts = parts.peekable();
        if parts.peek().is_none() {
            return rest.is_empty();
        }
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                return rest.ends_with(part);
            }
            match rest.split_once(part) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
        true
    }
}

/// An analytics engine of a project's own, in place of the one in the service's settings.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Analytics {
    pub base_url: Option<String>,
    /// Signs what is asked of the engine. Never shown. As it is stored ([`Project::analytics_key`]),
    /// and before it is stored, as it was given.
    pub key: Option<String>,
}

impl fmt::Debug for Analytics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.as_ref().map(|_| "hidden");
        f.debug_struct("Analytics").field("base_url", &self.base_url).field("key", &key).finish()
    }
}

/// Where a project's key is stored.
fn place(id: u64) -> String {
    format!("project/{id}/analytics_api_key")
}

impl Project {
    /// The key of the project's own engine. A fault if it was sealed with a key that is not there.
    pub fn analytics_key(&self, env: &Env) -> Result<Option<String>, StoreError> {
        self.analytics.key.as_deref().map(|stored| seal::open(env, &place(self.id), stored)).transpose()
    }

    /// Whether somebody with this role may push to `branch`: a developer, unless the branch is
    /// protected. Of several protections that cover it, the most permissive counts, as in the
    /// reference service.
    pub fn may_push(&self, role: Role, branch: &str) -> bool {
        let mut protections = self.protected_branches.iter().filter(|protected| protected.covers(branch)).peekable();
        let allowed = match protections.peek() {
            None => true,
            Some(_) => protections.any(|protected| protected.push.is_some_and(|least| role >= least)),
        };
        role >= Role::Developer && !self.archived && allowed
    }

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
pub fn by_id(env: &Env, id: u64) -> Result<Option<Project>, StoreError> {
    let Some(record) = store::read::<store::Project>(env, &Key::Project(id))? else {
        return Ok(None);
    };
    let namespace = namespace::by_id(env, record.namespace_id)?;
    Ok(namespace.map(|namespace| record.into_project(id, namespace)))
}

/// The project named by an id (all digits) or by a full path in any letter case. By path, two
/// reads for each segment.
pub fn find(env: &Env, id_or_path: &str) -> Result<Lookup, StoreError> {
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
    pub protected_branches: Vec<ProtectedBranch>,
    pub suggestion_commit_message: Option<String>,
    pub analytics: Analytics,
    pub pages_unique_domain: Option<String>,
}

/// Creates or replaces a project. After a change of its path the old one leads to it, until
/// something else claims that path.
pub fn save(env: &Env, mut new: NewProject) -> Result<(), SaveError> {
    if namespace::by_id(env, new.namespace_id)?.is_none() {
        return Err(Rejection::NoNamespace(new.namespace_id).into());
    }
    path::claim(env, Some(new.namespace_id), &new.path, PathOwner::Project(new.id))?;
    let id = new.id;
    new.analytics.key = new.analytics.key.map(|key| seal::seal(env, &place(id), &key)).transpose()?;
    Ok(store::write(env, &Key::Project(id), Some(store::Project::from(new)))?)
}

/// The id of the namespace that a project lives in. 1 read.
pub(crate) fn namespace_of(env: &Env, id: u64) -> Result<Option<u64>, StoreError> {
    Ok(store::read::<store::Project>(env, &Key::Project(id))?.map(|record| record.namespace_id))
}

pub fn delete(env: &Env, id: u64) -> Result<(), StoreError> {
    store::write::<store::Project>(env, &Key::Project(id), None)
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

    #[test]
    fn a_protected_branch_asks_for_more_and_the_most_permissive_protection_counts() {
        let env = crate::testing::forge();
        let mut project = by_id(&env, 100).unwrap().unwrap();
        assert!(project.may_push(Role::Developer, "main") && !project.may_push(Role::Reporter, "main"));
        let protect = |name: &str, push| ProtectedBranch { name: name.into(), push };
        project.protected_branches = vec![protect("main", Some(Role::Maintainer)), protect("frozen", None)];
        assert!(!project.may_push(Role::Developer, "main") && project.may_push(Role::Maintainer, "main"));
        assert!(!project.may_push(Role::Owner, "frozen") && project.may_push(Role::Developer, "topic"));
        project.protected_branches.push(protect("*", Some(Role::Developer)));
        assert!(project.may_push(Role::Developer, "main"));
        project.archived = true;
        assert!(!project.may_push(Role::Owner, "topic"));
    }
}
