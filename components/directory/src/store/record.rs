//! The stored form of each noun. Fields that a build does not know are ignored; a field that a
//! record does not have has its default; a word or number that a build does not know means the
//! least that it could allow.

use crate::access::Role;
use crate::member::{self, Membership, Source};
use crate::namespace::{self, Kind, NewGroup, Visibility};
use crate::path::Resident;
use crate::project::{self, FeatureAccess, NewProject};
use crate::{token, user};
use kit::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct User {
    username: String,
    name: String,
    #[serde(default, skip_serializing_if = "is_default")]
    commit_email: Option<String>,
    state: String,
    #[serde(default, skip_serializing_if = "is_default")]
    admin: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    external: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    bot: bool,
    namespace_id: u64,
}

impl User {
    pub fn into_user(self, id: u64) -> user::User {
        user::User {
            id,
            username: self.username,
            name: self.name,
            commit_email: self.commit_email,
            state: user::State::parse(&self.state).unwrap_or(user::State::Blocked),
            is_admin: self.admin,
            external: self.external,
            bot: self.bot,
            namespace_id: self.namespace_id,
        }
    }
}

impl From<&user::User> for User {
    fn from(user: &user::User) -> Self {
        User {
            username: user.username.clone(),
            name: user.name.clone(),
            commit_email: user.commit_email.clone(),
            state: user.state.as_str().to_owned(),
            admin: user.is_admin,
            external: user.external,
            bot: user.bot,
            namespace_id: user.namespace_id,
        }
    }
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Namespace {
    pub name: String,
    pub path: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub parent_id: Option<u64>,
    /// The user of a personal namespace; absent for a group.
    #[serde(default, skip_serializing_if = "is_default")]
    pub owner_id: Option<u64>,
    visibility: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub shares: Vec<Share>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub details: Option<namespace::Details>,
}

impl Namespace {
    pub fn visibility(&self) -> Visibility {
        Visibility::parse(&self.visibility).unwrap_or(Visibility::Private)
    }

    pub fn personal(owner: u64, username: &str, name: &str, details: namespace::Details) -> Self {
        Namespace {
            name: name.to_owned(),
            path: username.to_owned(),
            parent_id: None,
            owner_id: Some(owner),
            visibility: Visibility::Public.as_str().to_owned(),
            shares: Vec::new(),
            details: Some(details).filter(|details| !is_default(details)),
        }
    }

    pub fn group(new: NewGroup) -> Self {
        Namespace {
            name: new.name,
            path: new.path,
            parent_id: new.parent_id,
            owner_id: None,
            visibility: new.visibility.as_str().to_owned(),
            shares: new.shares.into_iter().map(Share::from).collect(),
            details: Some(new.details).filter(|details| !is_default(details)),
        }
    }

    pub fn into_namespace(self, id: u64, parent: Option<namespace::Namespace>) -> namespace::Namespace {
        namespace::Namespace {
            id,
            visibility: self.visibility(),
            name: self.name,
            path: self.path,
            kind: self.owner_id.map_or(Kind::Group, |owner| Kind::User { owner }),
            details: self.details.unwrap_or_default(),
            shares: self.shares.into_iter().map(member::Share::from).collect(),
            parent: parent.map(Box::new),
        }
    }
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Project {
    pub name: String,
    pub path: String,
    pub namespace_id: u64,
    visibility: String,
    registry: String,
    issues: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub archived: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    default_branch: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    creator_id: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub shares: Vec<Share>,
    #[serde(default, skip_serializing_if = "is_default")]
    job_tokens: JobTokens,
    #[serde(default, skip_serializing_if = "is_default")]
    protected_branches: Vec<ProtectedBranch>,
    #[serde(default, skip_serializing_if = "is_default")]
    suggestion_commit_message: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    analytics: Analytics,
    #[serde(default, skip_serializing_if = "is_default")]
    pub pages_unique_domain: Option<String>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct ProtectedBranch {
    name: String,
    /// Absent: nobody pushes.
    #[serde(default, skip_serializing_if = "is_default")]
    push: Option<u64>,
}

#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
struct Analytics {
    #[serde(default, skip_serializing_if = "is_default")]
    base_url: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    key: Option<String>,
}

#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
struct JobTokens {
    /// Whether the jobs of every project are accepted.
    #[serde(default)]
    unrestricted: bool,
    #[serde(default)]
    projects: Vec<u64>,
    #[serde(default)]
    groups: Vec<u64>,
}

impl Project {
    pub fn visibility(&self) -> Visibility {
        Visibility::parse(&self.visibility).unwrap_or(Visibility::Private)
    }

    pub fn issues(&self) -> FeatureAccess {
        FeatureAccess::parse(&self.issues).unwrap_or(FeatureAccess::Disabled)
    }

    pub fn into_project(self, id: u64, namespace: namespace::Namespace) -> project::Project {
        project::Project {
            id,
            namespace,
            visibility: self.visibility(),
            issues: self.issues(),
            registry: FeatureAccess::parse(&self.registry).unwrap_or(FeatureAccess::Disabled),
            pages_unique_domain: self.pages_unique_domain,
            name: self.name,
            path: self.path,
            archived: self.archived,
            default_branch: self.default_branch,
            creator_id: self.creator_id,
            shares: self.shares.into_iter().map(member::Share::from).collect(),
            job_tokens: project::JobTokens {
                restricted: !self.job_tokens.unrestricted,
                projects: self.job_tokens.projects,
                groups: self.job_tokens.groups,
            },
            protected_branches: self.protected_branches.into_iter().map(project::ProtectedBranch::from).collect(),
            suggestion_commit_message: self.suggestion_commit_message,
            analytics: project::Analytics { base_url: self.analytics.base_url, key: self.analytics.key },
        }
    }
}

impl From<NewProject> for Project {
    fn from(new: NewProject) -> Self {
        Project {
            name: new.name,
            path: new.path,
            namespace_id: new.namespace_id,
            visibility: new.visibility.as_str().to_owned(),
            registry: new.registry.as_str().to_owned(),
            issues: new.issues.as_str().to_owned(),
            archived: new.archived,
            default_branch: new.default_branch,
            creator_id: new.creator_id,
            shares: new.shares.into_iter().map(Share::from).collect(),
            job_tokens: JobTokens {
                unrestricted: !new.job_tokens.restricted,
                projects: new.job_tokens.projects,
                groups: new.job_tokens.groups,
            },
            protected_branches: new.protected_branches.into_iter().map(ProtectedBranch::from).collect(),
            suggestion_commit_message: new.suggestion_commit_message,
            analytics: Analytics { base_url: new.analytics.base_url, key: new.analytics.key },
            pages_unique_domain: new.pages_unique_domain,
        }
    }
}

impl From<ProtectedBranch> for project::ProtectedBranch {
    fn from(record: ProtectedBranch) -> Self {
        project::ProtectedBranch { name: record.name, push: record.push.and_then(Role::from_level) }
    }
}

impl From<project::ProtectedBranch> for ProtectedBranch {
    fn from(branch: project::ProtectedBranch) -> Self {
        ProtectedBranch { name: branch.name, push: branch.push.map(Role::level) }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Share {
    group_id: u64,
    role: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    expires_at: Option<Timestamp>,
}

impl From<Share> for member::Share {
    fn from(share: Share) -> Self {
        let role = Role::from_level(share.role).unwrap_or(Role::None);
        member::Share { group_id: share.group_id, role, expires_at: share.expires_at }
    }
}

impl From<member::Share> for Share {
    fn from(share: member::Share) -> Self {
        Share { group_id: share.group_id, role: share.role.level(), expires_at: share.expires_at }
    }
}

/// Who lives at a path.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Entry {
    Namespace(u64),
    Project(u64),
}

impl From<Entry> for Resident {
    fn from(entry: Entry) -> Self {
        match entry {
            Entry::Namespace(id) => Resident::Namespace(id),
            Entry::Project(id) => Resident::Project(id),
        }
    }
}

impl From<Resident> for Entry {
    fn from(resident: Resident) -> Self {
        match resident {
            Resident::Namespace(id) => Entry::Namespace(id),
            Resident::Project(id) => Entry::Project(id),
        }
    }
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Token {
    #[serde(flatten)]
    holder: Holder,
    name: String,
    scopes: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "is_default")]
    revoked: bool,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Holder {
    Personal { user_id: u64 },
    GroupDeploy { group_id: u64 },
    ProjectDeploy { project_id: u64 },
    Job { user_id: u64, project_id: u64, running: bool },
}

impl From<Token> for token::Token {
    fn from(record: Token) -> Self {
        let holder = match record.holder {
            Holder::Personal { user_id } => token::Holder::User(user_id),
            Holder::GroupDeploy { group_id } => token::Holder::Deployment(Source::Group(group_id)),
            Holder::ProjectDeploy { project_id } => token::Holder::Deployment(Source::Project(project_id)),
            Holder::Job { user_id, project_id, running } => token::Holder::Job { user_id, project_id, running },
        };
        token::Token {
            holder,
            name: record.name,
            scopes: record.scopes,
            expires_at: record.expires_at,
            revoked: record.revoked,
        }
    }
}

impl From<token::Token> for Token {
    fn from(token: token::Token) -> Self {
        let holder = match token.holder {
            token::Holder::User(user_id) => Holder::Personal { user_id },
            token::Holder::Deployment(Source::Group(group_id)) => Holder::GroupDeploy { group_id },
            token::Holder::Deployment(Source::Project(project_id)) => Holder::ProjectDeploy { project_id },
            token::Holder::Job { user_id, project_id, running } => Holder::Job { user_id, project_id, running },
        };
        Token { holder, name: token.name, scopes: token.scopes, expires_at: token.expires_at, revoked: token.revoked }
    }
}

/// Every membership of one user, by the id of the group or project.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Access {
    #[serde(default)]
    groups: BTreeMap<u64, Member>,
    #[serde(default)]
    projects: BTreeMap<u64, Member>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Member {
    role: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    expires_at: Option<Timestamp>,
}

impl From<Access> for member::Memberships {
    fn from(record: Access) -> Self {
        let groups = record.groups.into_iter().map(|(id, member)| (Source::Group(id), member));
        let projects = record.projects.into_iter().map(|(id, member)| (Source::Project(id), member));
        let membership = |member: Member| Membership {
            role: Role::from_level(member.role).unwrap_or(Role::None),
            expires_at: member.expires_at,
        };
        member::Memberships(groups.chain(projects).map(|(source, member)| (source, membership(member))).collect())
    }
}

impl From<&member::Memberships> for Access {
    fn from(memberships: &member::Memberships) -> Self {
        let mut record = Access::default();
        for (source, membership) in &memberships.0 {
            let member = Member { role: membership.role.level(), expires_at: membership.expires_at };
            match *source {
                Source::Group(id) => record.groups.insert(id, member),
                Source::Project(id) => record.projects.insert(id, member),
            };
        }
        record
    }
}

pub(crate) type Features = BTreeMap<String, Feature>;

#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Feature {
    #[serde(default, skip_serializing_if = "is_default")]
    boolean: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    actors: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    percentage_of_actors: u8,
    #[serde(default, skip_serializing_if = "is_default")]
    percentage_of_time: u8,
    #[serde(default, skip_serializing_if = "is_default")]
    groups: BTreeSet<String>,
}

impl From<Feature> for crate::feature::Gates {
    fn from(record: Feature) -> Self {
        crate::feature::Gates {
            boolean: record.boolean,
            actors: record.actors,
            percentage_of_actors: record.percentage_of_actors,
            percentage_of_time: record.percentage_of_time,
            groups: record.groups,
        }
    }
}

impl From<crate::feature::Gates> for Feature {
    fn from(gates: crate::feature::Gates) -> Self {
        Feature {
            boolean: gates.boolean,
            actors: gates.actors,
            percentage_of_actors: gates.percentage_of_actors,
            percentage_of_time: gates.percentage_of_time,
            groups: gates.groups,
        }
    }
}
