//! The stored form of each record. Unknown fields are ignored. A missing field has its default. An unknown word or
//! number means the least access.

use crate::model::incarnation::Incarnation;
use crate::model::is_default;
use crate::model::membership::{Membership, Memberships, Role, Share, Source};
use crate::model::namespace::{Details, Namespace, NamespaceKind, NewGroup, PathOwner, Visibility};
use crate::model::project::{Analytics, FeatureAccess, JobTokenScope, NewProject, Project, ProtectedBranch};
use crate::model::token::{Subject, Token};
use crate::model::user::UserKey;
use kit::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A record with an incarnation.
pub(crate) trait Incarnated {
    fn incarnation(&self) -> &Incarnation;
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShareRecord {
    pub group_id: u64,
    role: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    expires_at: Option<Timestamp>,
}

impl From<ShareRecord> for Share {
    fn from(share: ShareRecord) -> Self {
        Share { group_id: share.group_id, role: share.role.into(), expires_at: share.expires_at }
    }
}

impl From<Share> for ShareRecord {
    fn from(share: Share) -> Self {
        ShareRecord { group_id: share.group_id, role: share.role.level(), expires_at: share.expires_at }
    }
}

/// Every membership of one user, by the id of the group or project.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MembershipsRecord {
    #[serde(default)]
    groups: BTreeMap<u64, Membership>,
    #[serde(default)]
    projects: BTreeMap<u64, Membership>,
}

impl From<MembershipsRecord> for Memberships {
    fn from(record: MembershipsRecord) -> Self {
        let groups = record.groups.into_iter().map(|(id, member)| (Source::Group(id), member));
        let projects = record.projects.into_iter().map(|(id, member)| (Source::Project(id), member));
        Memberships(groups.chain(projects).collect())
    }
}

impl From<&Memberships> for MembershipsRecord {
    fn from(memberships: &Memberships) -> Self {
        let mut record = MembershipsRecord::default();
        for (source, membership) in &memberships.0 {
            match *source {
                Source::Group(id) => record.groups.insert(id, *membership),
                Source::Project(id) => record.projects.insert(id, *membership),
            };
        }
        record
    }
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct NamespaceRecord {
    pub name: String,
    pub path: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub parent_id: Option<u64>,
    /// The user of a personal namespace; absent for a group.
    #[serde(default, skip_serializing_if = "is_default")]
    pub owner_id: Option<u64>,
    visibility: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub shares: Vec<ShareRecord>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub details: Option<Details>,
    #[serde(default, skip_serializing_if = "is_default")]
    incarnation: Incarnation,
}

impl Incarnated for NamespaceRecord {
    fn incarnation(&self) -> &Incarnation {
        &self.incarnation
    }
}

impl NamespaceRecord {
    /// Sets the incarnation.
    pub fn of(self, incarnation: Incarnation) -> Self {
        NamespaceRecord { incarnation, ..self }
    }

    pub fn visibility(&self) -> Visibility {
        Visibility::parse(&self.visibility).unwrap_or(Visibility::Private)
    }

    pub fn personal(owner: u64, username: &str, name: &str, details: Details) -> Self {
        NamespaceRecord {
            name: name.to_owned(),
            path: username.to_owned(),
            parent_id: None,
            owner_id: Some(owner),
            visibility: Visibility::Public.as_str().to_owned(),
            shares: Vec::new(),
            details: Some(details).filter(|details| !is_default(details)),
            incarnation: Incarnation::default(),
        }
    }

    pub fn group(new: NewGroup) -> Self {
        NamespaceRecord {
            name: new.name,
            path: new.path,
            parent_id: new.parent_id,
            owner_id: None,
            visibility: new.visibility.as_str().to_owned(),
            shares: new.shares.into_iter().map(ShareRecord::from).collect(),
            details: Some(new.details).filter(|details| !is_default(details)),
            incarnation: Incarnation::default(),
        }
    }

    pub fn into_namespace(self, id: u64, parent: Option<Namespace>) -> Namespace {
        Namespace {
            id,
            visibility: self.visibility(),
            name: self.name,
            path: self.path,
            kind: self.owner_id.map_or(NamespaceKind::Group, |owner| NamespaceKind::User { owner }),
            details: self.details.unwrap_or_default(),
            shares: self.shares.into_iter().map(Share::from).collect(),
            incarnation: self.incarnation,
            parent: parent.map(Box::new),
        }
    }
}

/// The entry of a path: its owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PathRecord {
    #[serde(flatten)]
    pub owner: PathOwner,
    /// The owner's incarnation. Only a former path needs it, because the owner's record has the present path. Earlier
    /// builds did not write it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub incarnation: Incarnation,
    /// The id of a writer that is about to take the former path from its owner.
    #[serde(default, skip_serializing_if = "is_default")]
    pub challenge: Option<String>,
}

impl PathRecord {
    pub fn of(self, incarnation: &Incarnation) -> Self {
        PathRecord { incarnation: incarnation.clone(), ..self }
    }

    pub fn unchallenged(self) -> Self {
        PathRecord { challenge: None, ..self }
    }

    pub fn challenged(self, challenge: &str) -> Self {
        PathRecord { challenge: Some(challenge.to_owned()), ..self }
    }
}

impl From<PathOwner> for PathRecord {
    fn from(owner: PathOwner) -> Self {
        PathRecord { owner, incarnation: Incarnation::default(), challenge: None }
    }
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProjectRecord {
    pub name: String,
    pub path: String,
    pub namespace_id: u64,
    visibility: String,
    registry: String,
    issues: String,
    /// Absent: enabled, as for merge requests.
    #[serde(default, skip_serializing_if = "is_default")]
    repository: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    merge_requests: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub archived: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    default_branch: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    creator_id: Option<u64>,
    /// The incarnation of the creator. Absent for the first user with the id, and in records of earlier builds.
    #[serde(default, skip_serializing_if = "is_default")]
    creator_incarnation: Incarnation,
    #[serde(default, skip_serializing_if = "is_default")]
    pub shares: Vec<ShareRecord>,
    #[serde(default, skip_serializing_if = "is_default")]
    job_tokens: JobTokenScopeRecord,
    #[serde(default, skip_serializing_if = "is_default")]
    protected_branches: Option<Vec<ProtectedBranchRecord>>,
    #[serde(default, skip_serializing_if = "is_default")]
    suggestion_commit_message: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    analytics: AnalyticsRecord,
    #[serde(default, skip_serializing_if = "is_default")]
    pub pages_unique_domain: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    incarnation: Incarnation,
    /// The incarnation that the project's issues name. Earlier builds stored issues without an incarnation, so it is
    /// absent for a project that they created after a deletion.
    #[serde(default, skip_serializing_if = "is_default")]
    pub issues_incarnation: Incarnation,
    /// The incarnation that the project's repository names, likewise.
    #[serde(default, skip_serializing_if = "is_default")]
    pub repository_incarnation: Incarnation,
}

impl Incarnated for ProjectRecord {
    fn incarnation(&self) -> &Incarnation {
        &self.incarnation
    }
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct ProtectedBranchRecord {
    name: String,
    /// The least role that may push; absent: no role.
    #[serde(default, skip_serializing_if = "is_default")]
    push: Option<u64>,
}

#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
struct AnalyticsRecord {
    #[serde(default, skip_serializing_if = "is_default")]
    base_url: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    query_level: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    token_level: Option<u64>,
}

#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
struct JobTokenScopeRecord {
    /// Whether the jobs of every project are accepted.
    #[serde(default)]
    unrestricted: bool,
    #[serde(default)]
    projects: Vec<u64>,
    #[serde(default)]
    groups: Vec<u64>,
    /// The incarnations of the records with these ids, except first incarnations. Earlier builds did not write them.
    #[serde(default, skip_serializing_if = "is_default")]
    project_incarnations: BTreeMap<u64, Incarnation>,
    #[serde(default, skip_serializing_if = "is_default")]
    group_incarnations: BTreeMap<u64, Incarnation>,
}

impl JobTokenScopeRecord {
    fn incarnations(&self) -> BTreeMap<Source, Incarnation> {
        let named = |(id, incarnation): (&u64, &Incarnation)| (*id, incarnation.clone());
        let projects = self.project_incarnations.iter().map(named);
        let groups = self.group_incarnations.iter().map(named);
        let projects = projects.map(|(id, incarnation)| (Source::Project(id), incarnation));
        projects.chain(groups.map(|(id, incarnation)| (Source::Group(id), incarnation))).collect()
    }
}

impl ProjectRecord {
    /// Sets the incarnations of the sources whose jobs are accepted.
    pub fn accepting(mut self, incarnations: BTreeMap<Source, Incarnation>) -> Self {
        for (source, incarnation) in incarnations {
            match source {
                Source::Project(id) => self.job_tokens.project_incarnations.insert(id, incarnation),
                Source::Group(id) => self.job_tokens.group_incarnations.insert(id, incarnation),
            };
        }
        self
    }

    /// Sets the incarnation of the creator.
    pub fn created_by(self, creator_incarnation: Incarnation) -> Self {
        ProjectRecord { creator_incarnation, ..self }
    }

    /// Sets the incarnation of a record that replaces `before`.
    pub fn of(self, incarnation: Incarnation, before: Option<&Self>) -> Self {
        let issues_incarnation = before.map_or(&incarnation, |before| &before.issues_incarnation).clone();
        let repository_incarnation = before.map_or(&incarnation, |before| &before.repository_incarnation).clone();
        ProjectRecord { incarnation, issues_incarnation, repository_incarnation, ..self }
    }

    pub fn visibility(&self) -> Visibility {
        Visibility::parse(&self.visibility).unwrap_or(Visibility::Private)
    }

    pub fn issues(&self) -> FeatureAccess {
        FeatureAccess::parse(&self.issues).unwrap_or(FeatureAccess::Disabled)
    }

    pub fn into_project(self, id: u64, namespace: Namespace) -> Project {
        Project {
            id,
            namespace,
            visibility: self.visibility(),
            issues: self.issues(),
            repository: level(self.repository.as_deref()),
            merge_requests: level(self.merge_requests.as_deref()),
            incarnation: self.incarnation,
            repository_incarnation: self.repository_incarnation,
            registry: FeatureAccess::parse(&self.registry).unwrap_or(FeatureAccess::Disabled),
            pages_unique_domain: self.pages_unique_domain,
            name: self.name,
            path: self.path,
            archived: self.archived,
            default_branch: self.default_branch,
            creator: self.creator_id.map(|id| UserKey { id, incarnation: self.creator_incarnation }),
            shares: self.shares.into_iter().map(Share::from).collect(),
            job_token_incarnations: self.job_tokens.incarnations(),
            job_tokens: JobTokenScope {
                restricted: !self.job_tokens.unrestricted,
                projects: self.job_tokens.projects,
                groups: self.job_tokens.groups,
            },
            protected_branches: self
                .protected_branches
                .map(|branches| branches.into_iter().map(ProtectedBranch::from).collect()),
            suggestion_commit_message: self.suggestion_commit_message,
            analytics: self.analytics.into(),
        }
    }
}

impl From<NewProject> for ProjectRecord {
    fn from(new: NewProject) -> Self {
        ProjectRecord {
            name: new.name,
            path: new.path,
            namespace_id: new.namespace_id,
            visibility: new.visibility.as_str().to_owned(),
            registry: new.registry.as_str().to_owned(),
            issues: new.issues.as_str().to_owned(),
            repository: unless_enabled(new.repository),
            merge_requests: unless_enabled(new.merge_requests),
            archived: new.archived,
            default_branch: new.default_branch,
            creator_id: new.creator_id,
            creator_incarnation: Incarnation::default(),
            shares: new.shares.into_iter().map(ShareRecord::from).collect(),
            job_tokens: JobTokenScopeRecord {
                unrestricted: !new.job_tokens.restricted,
                projects: new.job_tokens.projects,
                groups: new.job_tokens.groups,
                ..JobTokenScopeRecord::default()
            },
            protected_branches: new
                .protected_branches
                .map(|branches| branches.into_iter().map(ProtectedBranchRecord::from).collect()),
            suggestion_commit_message: new.suggestion_commit_message,
            analytics: new.analytics.into(),
            pages_unique_domain: new.pages_unique_domain,
            incarnation: Incarnation::default(),
            issues_incarnation: Incarnation::default(),
            repository_incarnation: Incarnation::default(),
        }
    }
}

/// The access level of a record. An unknown word allows nothing.
fn level(stored: Option<&str>) -> FeatureAccess {
    stored.map_or(FeatureAccess::Enabled, |word| FeatureAccess::parse(word).unwrap_or(FeatureAccess::Disabled))
}

fn unless_enabled(level: FeatureAccess) -> Option<String> {
    (level != FeatureAccess::Enabled).then(|| level.as_str().to_owned())
}

impl From<AnalyticsRecord> for Analytics {
    fn from(record: AnalyticsRecord) -> Self {
        // An unknown level requires the highest role.
        let role = |level: Option<u64>| level.map(|level| Role::from_level(level).unwrap_or(Role::Owner));
        Analytics {
            base_url: record.base_url,
            key: record.key,
            query_level: role(record.query_level),
            token_level: role(record.token_level),
        }
    }
}

impl From<Analytics> for AnalyticsRecord {
    fn from(analytics: Analytics) -> Self {
        AnalyticsRecord {
            base_url: analytics.base_url,
            key: analytics.key,
            query_level: analytics.query_level.map(Role::level),
            token_level: analytics.token_level.map(Role::level),
        }
    }
}

impl From<ProtectedBranchRecord> for ProtectedBranch {
    fn from(record: ProtectedBranchRecord) -> Self {
        ProtectedBranch { name: record.name, push: record.push.and_then(Role::from_level) }
    }
}

impl From<ProtectedBranch> for ProtectedBranchRecord {
    fn from(branch: ProtectedBranch) -> Self {
        ProtectedBranchRecord { name: branch.name, push: branch.push.map(Role::level) }
    }
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TokenRecord {
    #[serde(flatten)]
    subject: SubjectRecord,
    name: String,
    scopes: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub revoked: bool,
    /// The number of the token that replaced this one in a rotation.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rotated_to: Option<u64>,
    /// The incarnation of the user, group or project.
    #[serde(default, skip_serializing_if = "is_default")]
    pub incarnation: Incarnation,
    /// The incarnation of a job's project.
    #[serde(default, skip_serializing_if = "is_default")]
    pub project_incarnation: Incarnation,
}

impl TokenRecord {
    /// Whether both are for the same user, group or project.
    pub fn is_of_same(&self, other: &Self) -> bool {
        self.subject == other.subject && self.incarnation == other.incarnation
    }
}

/// Every personal token of one user, by number. The tokens' own records authenticate.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct UserTokensRecord {
    /// The last number that was given, even to a deleted token.
    #[serde(default)]
    pub last: u64,
    #[serde(default)]
    pub tokens: BTreeMap<u64, UserTokenRecord>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct UserTokenRecord {
    /// In hex.
    pub fingerprint: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub description: String,
    /// Absent for tokens of earlier builds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub created_at: Option<Timestamp>,
}

/// The progress of adding tokens to [`UserTokensRecord`] that were stored before it existed.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TokenMigrationRecord {
    /// The last key that was handled.
    #[serde(default)]
    pub after: String,
    #[serde(default)]
    pub done: bool,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum SubjectRecord {
    Personal { user_id: u64 },
    GroupDeploy { group_id: u64 },
    ProjectDeploy { project_id: u64 },
    Job { user_id: u64, project_id: u64, running: bool },
}

impl From<TokenRecord> for Token {
    fn from(record: TokenRecord) -> Self {
        let subject = match record.subject {
            SubjectRecord::Personal { user_id } => Subject::User(user_id),
            SubjectRecord::GroupDeploy { group_id } => Subject::Deployment(Source::Group(group_id)),
            SubjectRecord::ProjectDeploy { project_id } => Subject::Deployment(Source::Project(project_id)),
            SubjectRecord::Job { user_id, project_id, running } => Subject::Job { user_id, project_id, running },
        };
        Token {
            subject,
            name: record.name,
            scopes: record.scopes,
            expires_at: record.expires_at,
            revoked: record.revoked,
        }
    }
}

impl From<Token> for TokenRecord {
    fn from(token: Token) -> Self {
        let subject = match token.subject {
            Subject::User(user_id) => SubjectRecord::Personal { user_id },
            Subject::Deployment(Source::Group(group_id)) => SubjectRecord::GroupDeploy { group_id },
            Subject::Deployment(Source::Project(project_id)) => SubjectRecord::ProjectDeploy { project_id },
            Subject::Job { user_id, project_id, running } => SubjectRecord::Job { user_id, project_id, running },
        };
        TokenRecord {
            subject,
            name: token.name,
            scopes: token.scopes,
            expires_at: token.expires_at,
            revoked: token.revoked,
            rotated_to: None,
            incarnation: Incarnation::default(),
            project_incarnation: Incarnation::default(),
        }
    }
}
