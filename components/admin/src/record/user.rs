//! Users.

use crate::line_error::{InvalidLine, LineError};
use crate::record::reference;
use crate::tokens;
use directory::access::Role;
use directory::catalog::changes::DeletedRecords;
use directory::member::{self, Membership, MembershipChanges, Source};
use directory::namespace::Details;
use directory::path::Unconfirmed;
use directory::token::{self, Fingerprint, Subject, Token};
use directory::user::{self, NewUser, UserState};
use directory::{catalog, dependents};
use kit::ndjson::ImportReport;
use kit::store::StoreError;
use kit::{Env, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::num::NonZeroU64;

#[derive(Deserialize)]
pub struct User {
    #[serde(deserialize_with = "reference::user_id")]
    pub id: NonZeroU64,
    username: String,
    name: Option<String>,
    commit_email: Option<String>,
    email: Option<String>,
    #[serde(default, deserialize_with = "reference::state")]
    state: Option<UserState>,
    #[serde(default, alias = "admin")]
    is_admin: bool,
    #[serde(default)]
    external: bool,
    #[serde(default)]
    bot: bool,
    #[serde(default, deserialize_with = "reference::some_id")]
    pub namespace_id: Option<NonZeroU64>,
}

impl User {
    /// Whether the user gets another personal namespace.
    pub fn moves_namespace(&self, env: &Env) -> Result<bool, StoreError> {
        let Some(namespace_id) = self.namespace_id else { return Ok(false) };
        Ok(user::by_id(env, self.id.get())?.is_some_and(|known| known.namespace_id != namespace_id.get()))
    }

    pub fn write(self, env: &Env, details: Details) -> Result<Unconfirmed, LineError> {
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
        Ok(dependents::write_user(env, new)?)
    }
}

/// Changes of memberships that are parsed and not written yet, by user.
#[derive(Default)]
pub struct PendingMemberships(BTreeMap<u64, MembershipsOfUser>);

#[derive(Default)]
struct MembershipsOfUser {
    changes: MembershipChanges,
    /// The numbers and sources of the lines that change them.
    lines: Vec<(u64, Source)>,
}

impl PendingMemberships {
    fn add(&mut self, line: u64, user_id: u64, source: Source, membership: Option<Membership>) {
        let of_user = self.0.entry(user_id).or_default();
        of_user.changes.insert(source, membership);
        of_user.lines.push((line, source));
    }

    /// Writes the collected changes, one record for each user, and reports their lines. Roles of deleted users, groups
    /// and projects are not stored, because a later record with the id must not inherit them. 1 read for each user,
    /// group and project.
    pub fn write(self, env: &Env, deleted: &mut DeletedRecords, report: &mut ImportReport) -> Result<(), StoreError> {
        for (user_id, MembershipsOfUser { mut changes, lines }) in self.0 {
            let mut deleted_names = BTreeMap::new();
            for (source, membership) in &mut changes {
                if membership.is_none() {
                    continue;
                }
                if let Some(name) = deleted_record(env, deleted, user_id, *source)? {
                    deleted_names.insert(*source, name);
                    *membership = None;
                }
            }
            match member::save(env, user_id, &changes).map_err(LineError::from) {
                Ok(()) => lines.iter().for_each(|(line, source)| {
                    report.imported("member");
                    if let Some(name) = deleted_names.get(source) {
                        report.warn(*line, format!("{name} is deleted, and nobody has the role"));
                    }
                }),
                Err(LineError::Invalid(invalid)) => lines.iter().for_each(|(line, _)| report.failed(*line, &invalid)),
                Err(LineError::Store(error)) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The name of the user, group or project, if it is deleted.
fn deleted_record(
    env: &Env,
    deleted: &mut DeletedRecords,
    user_id: u64,
    source: Source,
) -> Result<Option<String>, StoreError> {
    if deleted.user(env, user_id)? {
        return Ok(Some(format!("user {user_id}")));
    }
    Ok(deleted.source(env, source)?.then(|| match source {
        Source::Group(id) => format!("group {id}"),
        Source::Project(id) => format!("project {id}"),
    }))
}

#[derive(Deserialize)]
pub struct MemberRecord {
    #[serde(default, deserialize_with = "reference::lower_case")]
    source_type: Option<String>,
    source_id: Option<NonZeroU64>,
    user_id: NonZeroU64,
    #[serde(default, deserialize_with = "reference::some_role")]
    access_level: Option<Role>,
    #[serde(default, deserialize_with = "reference::expires_at")]
    expires_at: Option<Timestamp>,
    /// `active`, or for example `awaiting` before the membership is approved.
    state: Option<String>,
    /// Present while a request for access is not granted yet.
    requested_at: Option<String>,
}

impl MemberRecord {
    fn source(&self) -> Option<Source> {
        match (self.source_type.as_deref(), self.source_id) {
            (Some("group" | "namespace"), Some(id)) => Some(Source::Group(id.get())),
            (Some("project"), Some(id)) => Some(Source::Project(id.get())),
            _ => None,
        }
    }

    pub fn add_to(&self, changes: &mut catalog::changes::Changes) {
        if let Some(source) = self.source() {
            changes.member(source, self.user_id.get());
        }
    }

    pub fn apply(self, line: u64, deleted: bool, pending: &mut PendingMemberships) -> Result<(), LineError> {
        let Some(source) = self.source() else {
            return Err(InvalidLine::Fields("source_type must be group or project, with a source_id").into());
        };
        let is_pending = self.requested_at.is_some() || self.state.as_deref().is_some_and(|state| state != "active");
        let membership = match (deleted || is_pending, self.access_level) {
            (true, _) | (_, Some(Role::None)) => None,
            (false, Some(role)) => Some(Membership { role, expires_at: self.expires_at }),
            (false, None) => return Err(InvalidLine::Fields("access_level is missing").into()),
        };
        pending.add(line, self.user_id.get(), source, membership);
        Ok(())
    }
}

#[derive(Deserialize)]
pub struct TokenRecord {
    token: String,
    /// The default is `personal`.
    #[serde(default, rename = "type", alias = "token_type")]
    kind: TokenKind,
    user_id: Option<NonZeroU64>,
    username: Option<String>,
    project_id: Option<NonZeroU64>,
    group_id: Option<NonZeroU64>,
    /// The status of the job.
    #[serde(alias = "state")]
    status: Option<String>,
    name: Option<String>,
    #[serde(default)]
    scopes: Vec<String>,
    /// Parsed later. An error of the JSON parser would not name the field, because its text could quote the token.
    #[serde(default)]
    expires_at: Value,
    revoked: Option<bool>,
    /// An inactive token is revoked unless `revoked` says otherwise, because it may only be expired.
    active: Option<bool>,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum TokenKind {
    #[default]
    #[serde(alias = "oauth")]
    Personal,
    Deploy,
    Job,
}

impl TokenRecord {
    pub fn apply(self, env: &Env, deleted: bool) -> Result<(), LineError> {
        // A token that does not fit into a header could never be used.
        if self.token.is_empty() || !self.token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(InvalidLine::Fields("token must be visible ASCII characters without spaces").into());
        }
        if self.name.as_deref().is_some_and(tokens::is_too_long) {
            return Err(InvalidLine::Fields("name is too long (maximum is 255 characters)").into());
        }
        let fingerprint = Fingerprint::of(self.token.as_bytes());
        if deleted {
            return Ok(token::save(env, &fingerprint, None)?);
        }
        let revoked = self.revoked.or(self.active.filter(|is_active| !is_active).map(|_| true));
        let token = Token {
            subject: self.subject(env)?,
            expires_at: self.end()?,
            name: self.name.unwrap_or_default(),
            scopes: self.scopes,
            revoked: revoked.unwrap_or_default(),
        };
        let saved = match revoked {
            Some(_) => token::save(env, &fingerprint, Some(token)),
            None => token::save_keeping_revocation(env, &fingerprint, token),
        };
        Ok(saved?)
    }

    fn end(&self) -> Result<Option<Timestamp>, LineError> {
        let end = match &self.expires_at {
            Value::Null => return Ok(None),
            Value::String(text) => Timestamp::parse(text),
            _ => None,
        };
        end.map(Some).ok_or_else(|| InvalidLine::Fields("expires_at is not a date or time").into())
    }

    fn subject(&self, env: &Env) -> Result<Subject, LineError> {
        let user_id = || match (self.user_id, &self.username) {
            (Some(id), _) => Ok(id.get()),
            (None, Some(name)) => match user::by_username(env, name)? {
                Some(user) => Ok(user.id),
                None => Err(InvalidLine::UnknownUser(name.clone()).into()),
            },
            (None, None) => Err(LineError::from(InvalidLine::Fields("user_id or username is missing"))),
        };
        match (self.kind, self.project_id, self.group_id) {
            (TokenKind::Personal, ..) => Ok(Subject::User(user_id()?)),
            (TokenKind::Deploy, Some(id), None) => Ok(Subject::Deployment(Source::Project(id.get()))),
            (TokenKind::Deploy, None, Some(id)) => Ok(Subject::Deployment(Source::Group(id.get()))),
            (TokenKind::Deploy, ..) => {
                Err(InvalidLine::Fields("a deploy token has either project_id or group_id").into())
            }
            (TokenKind::Job, Some(id), _) => {
                let running = self.status.as_deref() == Some("running");
                Ok(Subject::Job { user_id: user_id()?, project_id: id.get(), running })
            }
            (TokenKind::Job, None, _) => Err(InvalidLine::Fields("a job token has a project_id").into()),
        }
    }
}
