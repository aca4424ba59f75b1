//! Tokens of every kind.

use crate::line_error::{InvalidLine, LineError};
use crate::tokens;
use directory::member::Source;
use directory::token::{self, Fingerprint, Subject, Token};
use directory::user;
use kit::{Env, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use std::num::NonZeroU64;

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
