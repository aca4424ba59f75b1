//! The stored form of a token.

use super::is_default;
use crate::member::Source;
use crate::token;
use kit::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Token {
    #[serde(flatten)]
    subject: Subject,
    name: String,
    scopes: Vec<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "is_default")]
    revoked: bool,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Subject {
    Personal { user_id: u64 },
    GroupDeploy { group_id: u64 },
    ProjectDeploy { project_id: u64 },
    Job { user_id: u64, project_id: u64, running: bool },
}

impl From<Token> for token::Token {
    fn from(record: Token) -> Self {
        let subject = match record.subject {
            Subject::Personal { user_id } => token::Subject::User(user_id),
            Subject::GroupDeploy { group_id } => token::Subject::Deployment(Source::Group(group_id)),
            Subject::ProjectDeploy { project_id } => token::Subject::Deployment(Source::Project(project_id)),
            Subject::Job { user_id, project_id, running } => token::Subject::Job { user_id, project_id, running },
        };
        token::Token {
            subject,
            name: record.name,
            scopes: record.scopes,
            expires_at: record.expires_at,
            revoked: record.revoked,
        }
    }
}

impl From<token::Token> for Token {
    fn from(token: token::Token) -> Self {
        let subject = match token.subject {
            token::Subject::User(user_id) => Subject::Personal { user_id },
            token::Subject::Deployment(Source::Group(group_id)) => Subject::GroupDeploy { group_id },
            token::Subject::Deployment(Source::Project(project_id)) => Subject::ProjectDeploy { project_id },
            token::Subject::Job { user_id, project_id, running } => Subject::Job { user_id, project_id, running },
        };
        Token { subject, name: token.name, scopes: token.scopes, expires_at: token.expires_at, revoked: token.revoked }
    }
}
