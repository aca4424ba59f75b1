//! The stored form of a token.

use super::is_default;
use crate::member::Source;
use crate::token;
use kit::Timestamp;
use serde::{Deserialize, Serialize};

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
