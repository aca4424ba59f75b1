//! The records of an import, in the shape of the reference service's own entities: one JSON object
//! with a `kind`. Fields that are not known are ignored, so that whole entities can be sent.

mod deserialize;
mod details;
mod member;
mod token;

pub use member::PendingMemberships;

use details::DetailsFields;
use member::MemberRecord;
use token::TokenRecord;

use crate::line_error::{InvalidLine, LineError};
use crate::{features, settings};
use directory::access::Role;
use directory::catalog::intent_log::Changes;
use directory::feature::FeatureGates;
use directory::member::Share;
use directory::namespace::{Details, NewGroup, Visibility};
use directory::project::{Analytics, FeatureAccess, NewProject};
use directory::user::{NewUser, UserState};
use directory::{feature, namespace, project, setting, user};
use kit::{Env, Timestamp};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::num::NonZeroU64;

/// The kinds of records.
pub const KINDS: [&str; 7] = ["user", "token", "group", "project", "member", "setting", "feature"];

#[derive(Deserialize)]
struct RecordHead<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    deleted: bool,
}

/// One line, read and not applied yet.
pub enum Record {
    User(User, Box<Details>),
    DeleteUser(ById),
    Token(TokenRecord, Deleted),
    Group(Box<Group>, Box<Details>),
    DeleteGroup(ById),
    Project(Box<Project>),
    DeleteProject(ById),
    Member(MemberRecord, Deleted),
    Setting(Map<String, Value>, Deleted),
    Feature(Feature, Deleted),
}

type Deleted = bool;

impl Record {
    pub fn parse(line: &[u8]) -> Result<Self, InvalidLine> {
        // Serde would also read an array as a struct's fields in order.
        if !line.trim_ascii_start().starts_with(b"{") {
            return Err(InvalidLine::NotAnObject);
        }
        let head: RecordHead = serde_json::from_slice(line).map_err(InvalidLine::Json)?;
        let deleted = head.deleted;
        match (&*head.kind, deleted) {
            ("user", false) => Ok(Record::User(parse(line)?, details(line)?)),
            ("user", true) => parse(line).map(Record::DeleteUser),
            ("token", _) => Ok(Record::Token(parse_secret(line)?, deleted)),
            ("group", false) => Ok(Record::Group(parse(line)?, details(line)?)),
            ("group", true) => parse(line).map(Record::DeleteGroup),
            ("project", false) => parse(line).map(Record::Project),
            ("project", true) => parse(line).map(Record::DeleteProject),
            ("member", _) => Ok(Record::Member(parse(line)?, deleted)),
            ("setting", _) => Ok(Record::Setting(parse_secret(line)?, deleted)),
            ("feature", _) => Ok(Record::Feature(parse(line)?, deleted)),
            _ => Err(InvalidLine::UnknownKind { kind: head.kind.into_owned(), known: &KINDS }),
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Record::User(..) | Record::DeleteUser(_) => "user",
            Record::Token(..) => "token",
            Record::Group(..) | Record::DeleteGroup(_) => "group",
            Record::Project(_) | Record::DeleteProject(_) => "project",
            Record::Member(..) => "member",
            Record::Setting(..) => "setting",
            Record::Feature(..) => "feature",
        }
    }

    /// Adds what this record changes, for the catalog to follow.
    pub fn add_to(&self, changes: &mut Changes) {
        match self {
            Record::User(user, _) => changes.user(user.id.get(), user.namespace_id.map(NonZeroU64::get)),
            Record::DeleteUser(user) => changes.user(user.id.get(), None),
            Record::Group(group, _) => changes.group(group.id.get()),
            Record::DeleteGroup(group) => changes.group(group.id.get()),
            Record::Project(project) => changes.project(project.id.get()),
            Record::DeleteProject(project) => changes.project(project.id.get()),
            Record::Member(member, _) => member.add_to(changes),
            Record::Token(..) | Record::Setting(..) | Record::Feature(..) => {}
        }
    }

    /// Writes the record; a membership only goes into `pending`.
    pub fn apply(self, env: &Env, pending: &mut PendingMemberships) -> Result<(), LineError> {
        match self {
            Record::User(user, details) => user.save(env, *details),
            Record::DeleteUser(user) => Ok(user::delete(env, user.id.get())?),
            Record::Token(token, deleted) => token.apply(env, deleted),
            Record::Group(group, details) => group.save(env, *details),
            Record::DeleteGroup(group) => Ok(namespace::delete_group(env, group.id.get())?),
            Record::Project(project) => project.save(env),
            Record::DeleteProject(project) => Ok(project::delete(env, project.id.get())?),
            Record::Member(member, deleted) => member.apply(deleted, pending),
            Record::Setting(fields, deleted) => apply_setting(env, fields, deleted),
            Record::Feature(feature, deleted) => feature.apply(env, deleted),
        }
    }
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T, InvalidLine> {
    serde_json::from_slice(line).map_err(InvalidLine::Json)
}

fn details(line: &[u8]) -> Result<Box<Details>, InvalidLine> {
    parse::<DetailsFields>(line).map(|fields| Box::new(fields.into()))
}

fn parse_secret<T: DeserializeOwned>(line: &[u8]) -> Result<T, InvalidLine> {
    serde_json::from_slice(line).map_err(|why| InvalidLine::SecretJson { column: why.column() })
}

#[derive(Deserialize)]
pub struct ById {
    id: NonZeroU64,
}

#[derive(Deserialize)]
pub struct User {
    id: NonZeroU64,
    username: String,
    name: Option<String>,
    commit_email: Option<String>,
    email: Option<String>,
    #[serde(default, deserialize_with = "deserialize::state")]
    state: Option<UserState>,
    #[serde(default, alias = "admin")]
    is_admin: bool,
    #[serde(default)]
    external: bool,
    #[serde(default)]
    bot: bool,
    namespace_id: Option<NonZeroU64>,
}

impl User {
    fn save(self, env: &Env, details: Details) -> Result<(), LineError> {
        let new = NewUser {
            id: self.id.get(),
            name: self.name.unwrap_or_else(|| self.username.clone()),
            username: self.username,
            commit_email: self.commit_email.or(self.email).filter(|email| !email.is_empty()),
            state: self.state.unwrap_or(UserState::Active),
            is_admin: self.is_admin,
            external: self.external,
            bot: self.bot,
            namespace_id: self.namespace_id.map(NonZeroU64::get),
            details,
        };
        Ok(user::save(env, new)?)
    }
}

#[derive(Deserialize)]
pub struct Group {
    id: NonZeroU64,
    name: Option<String>,
    path: Option<String>,
    full_path: Option<String>,
    parent_id: Option<NonZeroU64>,
    #[serde(default, deserialize_with = "deserialize::visibility")]
    visibility: Option<Visibility>,
    #[serde(default)]
    shared_with_groups: Vec<SharedWith>,
}

impl Group {
    fn save(self, env: &Env, details: Details) -> Result<(), LineError> {
        let (above, last) = split(self.full_path.as_deref());
        let path = self.path.as_deref().or(last).ok_or(InvalidLine::Fields("path or full_path is missing"))?;
        let parent_id = match (self.parent_id, above) {
            (Some(id), _) => Some(id.get()),
            (None, Some(above)) => Some(namespace_at(env, above)?),
            (None, None) => None,
        };
        let new = NewGroup {
            id: self.id.get(),
            name: self.name.unwrap_or_else(|| path.to_owned()),
            path: path.to_owned(),
            parent_id,
            visibility: self.visibility.unwrap_or(Visibility::Private),
            shares: self.shared_with_groups.into_iter().map(Share::from).collect(),
            details,
        };
        Ok(namespace::save_group(env, new)?)
    }
}

#[derive(Deserialize)]
pub struct Project {
    id: NonZeroU64,
    name: Option<String>,
    path: Option<String>,
    path_with_namespace: Option<String>,
    namespace_id: Option<NonZeroU64>,
    namespace: Option<ById>,
    #[serde(default, deserialize_with = "deserialize::visibility")]
    visibility: Option<Visibility>,
    #[serde(default, deserialize_with = "deserialize::feature_access")]
    package_registry_access_level: Option<FeatureAccess>,
    packages_enabled: Option<bool>,
    #[serde(default, deserialize_with = "deserialize::feature_access")]
    issues_access_level: Option<FeatureAccess>,
    issues_enabled: Option<bool>,
    #[serde(default)]
    archived: bool,
    default_branch: Option<String>,
    creator_id: Option<u64>,
    #[serde(default)]
    shared_with_groups: Vec<SharedWith>,
    #[serde(default)]
    job_token_scope: JobTokenScope,
    #[serde(default)]
    protected_branches: Vec<ProtectedBranch>,
    suggestion_commit_message: Option<String>,
    #[serde(alias = "cube_api_base_url")]
    analytics_api_base_url: Option<String>,
    #[serde(default, alias = "cube_api_key", deserialize_with = "deserialize::secret")]
    analytics_api_key: Option<String>,
    pages_unique_domain: Option<String>,
}

/// As the reference service lists them.
#[derive(Deserialize)]
struct ProtectedBranch {
    name: String,
    #[serde(default)]
    push_access_levels: Vec<PushAccess>,
}

/// Who may push: a role. Entries for single users, groups and deploy keys are not supported and
/// allow no push.
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
    fn save(self, env: &Env) -> Result<(), LineError> {
        let (above, last) = split(self.path_with_namespace.as_deref());
        let path =
            self.path.as_deref().or(last).ok_or(InvalidLine::Fields("path or path_with_namespace is missing"))?;
        let namespace_id = match (self.namespace_id.or(self.namespace.map(|namespace| namespace.id)), above) {
            (Some(id), _) => id.get(),
            (None, Some(above)) => namespace_at(env, above)?,
            (None, None) => return Err(InvalidLine::Fields("namespace_id is missing").into()),
        };
        let access = |level: Option<FeatureAccess>, enabled: Option<bool>| {
            level.unwrap_or(if enabled == Some(false) { FeatureAccess::Disabled } else { FeatureAccess::Enabled })
        };
        let base_url = self.analytics_api_base_url.filter(|url| !url.is_empty());
        if base_url.as_deref().is_some_and(|url| !settings::is_http(url)) {
            return Err(InvalidLine::Fields("analytics_api_base_url is not an http or https URL").into());
        }
        let new = NewProject {
            id: self.id.get(),
            name: self.name.unwrap_or_else(|| path.to_owned()),
            path: path.to_owned(),
            namespace_id,
            visibility: self.visibility.unwrap_or(Visibility::Private),
            registry: access(self.package_registry_access_level, self.packages_enabled),
            issues: access(self.issues_access_level, self.issues_enabled),
            archived: self.archived,
            default_branch: self.default_branch,
            creator_id: self.creator_id,
            shares: self.shared_with_groups.into_iter().map(Share::from).collect(),
            job_tokens: project::JobTokenScope {
                restricted: self.job_token_scope.inbound_enabled,
                projects: self.job_token_scope.projects,
                groups: self.job_token_scope.groups,
            },
            protected_branches: self.protected_branches.into_iter().map(project::ProtectedBranch::from).collect(),
            suggestion_commit_message: self.suggestion_commit_message,
            analytics: Analytics { base_url, key: self.analytics_api_key.filter(|key| !key.is_empty()) },
            pages_unique_domain: self.pages_unique_domain.filter(|domain| !domain.is_empty()),
        };
        Ok(project::save(env, new)?)
    }
}

/// The path above the last segment, and the last segment.
fn split(full_path: Option<&str>) -> (Option<&str>, Option<&str>) {
    let Some(full_path) = full_path else { return (None, None) };
    match full_path.rsplit_once('/') {
        Some((above, last)) => (Some(above), Some(last)),
        None => (None, Some(full_path)),
    }
}

fn namespace_at(env: &Env, path: &str) -> Result<u64, LineError> {
    let found = namespace::find(env, path)?;
    Ok(found.ok_or_else(|| InvalidLine::UnknownNamespace(path.to_owned()))?.id)
}

#[derive(Deserialize)]
struct SharedWith {
    group_id: NonZeroU64,
    #[serde(alias = "access_level", deserialize_with = "deserialize::role")]
    group_access_level: Role,
    #[serde(default, deserialize_with = "deserialize::moment")]
    expires_at: Option<Timestamp>,
}

impl From<SharedWith> for Share {
    fn from(share: SharedWith) -> Self {
        Share { group_id: share.group_id.get(), role: share.group_access_level, expires_at: share.expires_at }
    }
}

/// One setting as `name` and `value`, or several as the fields of one object.
fn apply_setting(env: &Env, mut fields: Map<String, Value>, deleted: bool) -> Result<(), LineError> {
    fields.retain(|name, _| name != "kind" && name != "deleted");
    if let Some(Value::String(name)) = fields.get("name").cloned() {
        let value = fields.remove("value").filter(|_| !deleted).unwrap_or(Value::Null);
        fields = Map::from_iter([(name, value)]);
    } else if deleted {
        return Err(InvalidLine::Fields("name is missing").into());
    }
    let changes = settings::parse_changes(fields).map_err(InvalidLine::Settings)?;
    setting::save(env, &changes)?;
    Ok(())
}

#[derive(Deserialize)]
pub struct Feature {
    name: String,
    value: Option<bool>,
    gates: Option<Vec<Value>>,
}

impl Feature {
    fn apply(self, env: &Env, deleted: bool) -> Result<(), LineError> {
        if !features::is_name(&self.name) {
            return Err(InvalidLine::Fields("name has characters that no feature's name has, or is too long").into());
        }
        if deleted {
            return Ok(feature::delete(env, &self.name)?);
        }
        let gates = match (&self.gates, self.value) {
            (Some(list), _) => {
                features::parse_gates(list).ok_or(InvalidLine::Fields("gates has a gate that is not known"))?
            }
            (None, Some(boolean)) => FeatureGates { boolean, ..FeatureGates::default() },
            (None, None) => return Err(InvalidLine::Fields("gates or value is missing").into()),
        };
        feature::save(env, &self.name, |current| *current = gates.clone())?;
        Ok(())
    }
}
