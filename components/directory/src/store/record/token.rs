//! The stored form of a token.

use super::is_default::is_default;
use crate::model::incarnation::Incarnation;
use crate::model::membership::Source;
use crate::model::token::{Subject, Token};
use kit::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
