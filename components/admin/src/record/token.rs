//! Tokens of every kind.

use super::word;
use crate::bad_line::{BadLine, Unapplied};
use directory::member::Source;
use directory::token::{self, Fingerprint, Subject, Token};
use directory::user;
use kit::{Env, Timestamp};
use serde::Deserialize;
use std::num::NonZeroU64;

#[derive(Deserialize)]
pub struct Record {
    token: String,
    /// `personal` if it is absent.
    #[serde(default, rename = "type", alias = "token_type")]
    family: Family,
    user_id: Option<NonZeroU64>,
    username: Option<String>,
    project_id: Option<NonZeroU64>,
    group_id: Option<NonZeroU64>,
    /// Of a job.
    #[serde(alias = "state")]
    status: Option<String>,
    name: Option<String>,
    #[serde(default)]
    scopes: Vec<String>,
    #[serde(default, deserialize_with = "word::moment")]
    expires_at: Option<Timestamp>,
    #[serde(default)]
    revoked: bool,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Family {
    #[default]
    #[serde(alias = "oauth")]
    Personal,
    Deploy,
    Job,
}

impl Record {
    pub fn apply(self, env: &Env, deleted: bool) -> Result<(), Unapplied> {
        // What cannot be sent in a header could never be used.
        if self.token.is_empty() || !self.token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(BadLine::Fields("token must be visible ASCII characters without spaces").into());
        }
        let fingerprint = Fingerprint::of(self.token.as_bytes());
        let token = match deleted {
            true => None,
            false => Some(Token {
                subject: self.subject(env)?,
                name: self.name.unwrap_or_default(),
                scopes: self.scopes,
                expires_at: self.expires_at,
                revoked: self.revoked,
            }),
        };
        Ok(token::save(env, &fingerprint, token)?)
    }

    fn subject(&self, env: &Env) -> Result<Subject, Unapplied> {
        let user_id = || match (self.user_id, &self.username) {
            (Some(id), _) => Ok(id.get()),
            (None, Some(name)) => match user::by_username(env, name)? {
                Some(user) => Ok(user.id),
                None => Err(BadLine::NoUser(name.clone()).into()),
            },
            (None, None) => Err(Unapplied::from(BadLine::Fields("user_id or username is missing"))),
        };
        match (self.family, self.project_id, self.group_id) {
            (Family::Personal, ..) => Ok(Subject::User(user_id()?)),
            (Family::Deploy, Some(id), None) => Ok(Subject::Deployment(Source::Project(id.get()))),
            (Family::Deploy, None, Some(id)) => Ok(Subject::Deployment(Source::Group(id.get()))),
            (Family::Deploy, ..) => Err(BadLine::Fields("a deploy token has either project_id or group_id").into()),
            (Family::Job, Some(id), _) => {
                let running = self.status.as_deref() == Some("running");
                Ok(Subject::Job { user_id: user_id()?, project_id: id.get(), running })
            }
            (Family::Job, None, _) => Err(BadLine::Fields("a job token has a project_id").into()),
        }
    }
}
