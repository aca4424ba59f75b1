//! Projects.

use crate::line_error::{InvalidLine, LineError};
use crate::record::reference::{self, ById, NamedPath, SharedWith};
use crate::settings;
use directory::access::Role;
use directory::member::Share;
use directory::namespace::{self, Details, NewGroup, Visibility};
use directory::path::Unconfirmed;
use directory::project::{self, Analytics, FeatureAccess, NewProject};
use directory::{dependents, service_url};
use kit::Env;
use kit::store::StoreError;
use serde::Deserialize;
use serde_json::Value;
use std::num::NonZeroU64;

#[derive(Deserialize)]
pub struct Project {
    #[serde(deserialize_with = "reference::id")]
    pub id: NonZeroU64,
    name: Option<String>,
    path: Option<String>,
    path_with_namespace: Option<String>,
    namespace_id: Option<NonZeroU64>,
    namespace: Option<ById>,
    #[serde(default, deserialize_with = "reference::visibility")]
    visibility: Option<Visibility>,
    #[serde(default, deserialize_with = "reference::feature_access")]
    package_registry_access_level: Option<FeatureAccess>,
    packages_enabled: Option<bool>,
    #[serde(default, deserialize_with = "reference::feature_access")]
    issues_access_level: Option<FeatureAccess>,
    issues_enabled: Option<bool>,
    #[serde(default, deserialize_with = "reference::feature_access")]
    repository_access_level: Option<FeatureAccess>,
    #[serde(default, deserialize_with = "reference::feature_access")]
    merge_requests_access_level: Option<FeatureAccess>,
    merge_requests_enabled: Option<bool>,
    #[serde(default)]
    archived: bool,
    default_branch: Option<String>,
    creator_id: Option<u64>,
    #[serde(default)]
    shared_with_groups: Vec<SharedWith>,
    #[serde(default)]
    job_token_scope: JobTokenScope,
    /// If absent, the default protection applies. If empty, no branch is protected.
    protected_branches: Option<Vec<ProtectedBranch>>,
    suggestion_commit_message: Option<String>,
    #[serde(alias = "cube_api_base_url")]
    analytics_api_base_url: Option<String>,
    #[serde(default, alias = "cube_api_key", deserialize_with = "reference::secret")]
    analytics_api_key: Option<String>,
    #[serde(default, deserialize_with = "reference::some_role")]
    product_analytics_min_access_level: Option<Role>,
    #[serde(default, deserialize_with = "reference::some_role")]
    product_analytics_token_min_access_level: Option<Role>,
    pages_unique_domain: Option<String>,
    external_authorization_classification_label: Option<Value>,
    protected_tags: Option<Value>,
    push_rule: Option<Value>,
}

/// A protected branch in the form of the reference service.
#[derive(Deserialize)]
struct ProtectedBranch {
    name: String,
    #[serde(default)]
    push_access_levels: Vec<PushAccess>,
}

/// A role that may push. Entries for single users, groups and deploy keys are unsupported and allow no push.
#[derive(Deserialize)]
struct PushAccess {
    access_level: Option<u64>,
    user_id: Option<u64>,
    group_id: Option<u64>,
    deploy_key_id: Option<u64>,
}

impl From<ProtectedBranch> for project::ProtectedBranch {
    fn from(branch: ProtectedBranch) -> Self {
        let roles = branch.push_access_levels.iter().filter_map(|access| {
            let is_single = access.user_id.or(access.group_id).or(access.deploy_key_id).is_some();
            access.access_level.filter(|_| !is_single).and_then(Role::from_level).filter(|role| *role > Role::None)
        });
        project::ProtectedBranch { push: roles.min(), name: branch.name }
    }
}

/// The projects and groups whose job tokens a project accepts.
#[derive(Deserialize)]
#[serde(default)]
struct JobTokenScope {
    inbound_enabled: bool,
    projects: Vec<u64>,
    groups: Vec<u64>,
}

impl Default for JobTokenScope {
    fn default() -> Self {
        JobTokenScope { inbound_enabled: true, projects: Vec::new(), groups: Vec::new() }
    }
}

impl Project {
    /// A warning about a short key of the analytics engine and about unsupported restrictions.
    pub fn warning(&self) -> Option<String> {
        let key = self.analytics_api_key.as_deref();
        let key = key.and_then(|key| settings::key_warning(settings::ANALYTICS_KEY, key));
        let unsupported = reference::warning(&[
            ("external_authorization_classification_label", &self.external_authorization_classification_label),
            ("protected_tags", &self.protected_tags),
            ("push_rule", &self.push_rule),
        ]);
        let warnings: Vec<String> = key.into_iter().chain(unsupported).collect();
        (!warnings.is_empty()).then(|| warnings.join("; "))
    }

    pub fn write(self, env: &Env) -> Result<Unconfirmed, LineError> {
        let named = NamedPath {
            path: self.path.as_deref(),
            full_path: self.path_with_namespace.as_deref(),
            parent_id: self.namespace_id.or(self.namespace.map(|namespace| namespace.id)),
        };
        let path = named.last()?.ok_or(InvalidLine::Fields("path or path_with_namespace is missing"))?;
        let namespace_id = named.namespace_id(env)?.ok_or(InvalidLine::Fields("namespace_id is missing"))?;
        let access = |level: Option<FeatureAccess>, enabled: Option<bool>| {
            level.unwrap_or(if enabled == Some(false) { FeatureAccess::Disabled } else { FeatureAccess::Enabled })
        };
        let base_url = self.analytics_api_base_url.filter(|url| !url.is_empty());
        if base_url.as_deref().is_some_and(|url| service_url::parse(url).is_none()) {
            return Err(InvalidLine::Fields(settings::INVALID_ENGINE_URL).into());
        }
        let new = NewProject {
            id: self.id.get(),
            name: self.name.unwrap_or_else(|| path.to_owned()),
            path: path.to_owned(),
            namespace_id,
            visibility: self.visibility.unwrap_or(Visibility::Private),
            registry: access(self.package_registry_access_level, self.packages_enabled),
            issues: access(self.issues_access_level, self.issues_enabled),
            repository: access(self.repository_access_level, None),
            merge_requests: access(self.merge_requests_access_level, self.merge_requests_enabled),
            archived: self.archived,
            default_branch: self.default_branch,
            creator_id: self.creator_id,
            shares: self.shared_with_groups.into_iter().map(Share::from).collect(),
            job_tokens: project::JobTokenScope {
                restricted: self.job_token_scope.inbound_enabled,
                projects: self.job_token_scope.projects,
                groups: self.job_token_scope.groups,
            },
            protected_branches: self
                .protected_branches
                .map(|branches| branches.into_iter().map(project::ProtectedBranch::from).collect()),
            suggestion_commit_message: self.suggestion_commit_message,
            analytics: Analytics {
                base_url,
                key: self.analytics_api_key.filter(|key| !key.is_empty()),
                query_level: self.product_analytics_min_access_level,
                token_level: self.product_analytics_token_min_access_level,
            },
            pages_unique_domain: self.pages_unique_domain.filter(|domain| !domain.is_empty()),
        };
        Ok(project::write(env, new)?)
    }
}

#[derive(Deserialize)]
pub struct Group {
    #[serde(deserialize_with = "reference::id")]
    pub id: NonZeroU64,
    name: Option<String>,
    path: Option<String>,
    full_path: Option<String>,
    parent_id: Option<NonZeroU64>,
    #[serde(default, deserialize_with = "reference::visibility")]
    visibility: Option<Visibility>,
    #[serde(default)]
    shared_with_groups: Vec<SharedWith>,
    ip_restriction_ranges: Option<Value>,
}

impl Group {
    fn named_path(&self) -> NamedPath<'_> {
        NamedPath { path: self.path.as_deref(), full_path: self.full_path.as_deref(), parent_id: self.parent_id }
    }

    /// A warning about unsupported restrictions.
    pub fn warning(&self) -> Option<String> {
        reference::warning(&[("ip_restriction_ranges", &self.ip_restriction_ranges)])
    }

    /// Whether the group exists and gets another parent.
    pub fn changes_parent(&self, env: &Env) -> Result<bool, StoreError> {
        let parent_id = match (self.parent_id, self.named_path().parent_path()) {
            (Some(id), _) => id.get(),
            // An unknown path always means a new parent.
            (None, Some(path)) => namespace::find(env, path)?.map_or(0, |parent| parent.id),
            (None, None) => return Ok(false),
        };
        namespace::is_elsewhere(env, self.id.get(), parent_id)
    }

    pub fn write(self, env: &Env, details: Details) -> Result<Unconfirmed, LineError> {
        let path = self.named_path().last()?.ok_or(InvalidLine::Fields("path or full_path is missing"))?.to_owned();
        let parent_id = self.named_path().namespace_id(env)?;
        let new = NewGroup {
            id: self.id.get(),
            name: self.name.unwrap_or_else(|| path.clone()),
            path,
            parent_id,
            visibility: self.visibility.unwrap_or(Visibility::Private),
            shares: self.shared_with_groups.into_iter().map(Share::from).collect(),
            details,
        };
        Ok(dependents::write_group(env, new)?)
    }
}
