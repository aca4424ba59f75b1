//! Tokens. Only the SHA-256 of a token is stored, and only by it is one looked up.

pub use crate::model::token::{Fingerprint, PERSONAL_SCOPES, Subject, Token};

use crate::member::Source;
use crate::model::incarnation::Incarnation;
use crate::store::{self, Existence, Key, NamespaceRecord, ProjectRecord, TokenRecord, UserRecord};
use kit::Env;
use kit::store::StoreError;

/// A token, and whose it is.
pub(crate) struct IssuedToken {
    pub token: Token,
    /// The incarnation of the user, group or project that it was made for.
    pub incarnation: Incarnation,
    /// The incarnation of a job's project.
    pub project_incarnation: Incarnation,
}

/// The token with this fingerprint. 1 read.
pub fn find(env: &Env, fingerprint: &Fingerprint) -> Result<Option<Token>, StoreError> {
    Ok(find_issued(env, fingerprint)?.map(|issued| issued.token))
}

/// The same, with what it was made for.
pub(crate) fn find_issued(env: &Env, fingerprint: &Fingerprint) -> Result<Option<IssuedToken>, StoreError> {
    let record = store::read::<TokenRecord>(env, &Key::Token(fingerprint))?;
    Ok(record.map(|record| IssuedToken {
        incarnation: record.incarnation.clone(),
        project_incarnation: record.project_incarnation.clone(),
        token: Token::from(record),
    }))
}

/// Creates or replaces the token with this fingerprint, for the user, group or project that has the id
/// now; `None` deletes it.
pub fn save(env: &Env, fingerprint: &Fingerprint, token: Option<Token>) -> Result<(), StoreError> {
    let record = token.map(|token| record(env, token)).transpose()?;
    store::write(env, &Key::Token(fingerprint), record)
}

fn record(env: &Env, token: Token) -> Result<TokenRecord, StoreError> {
    let of_user = |id| incarnation(store::existence::<UserRecord>(env, &Key::User(id)));
    let of_project = |id| incarnation(store::existence::<ProjectRecord>(env, &Key::Project(id)));
    let (incarnation, project_incarnation) = match token.subject {
        Subject::User(id) => (of_user(id)?, Incarnation::default()),
        Subject::Deployment(Source::Project(id)) => (of_project(id)?, Incarnation::default()),
        Subject::Deployment(Source::Group(id)) => {
            (incarnation(store::existence::<NamespaceRecord>(env, &Key::Namespace(id)))?, Incarnation::default())
        }
        Subject::Job { user_id, project_id, .. } => (of_user(user_id)?, of_project(project_id)?),
    };
    let mut record = TokenRecord::from(token);
    (record.incarnation, record.project_incarnation) = (incarnation, project_incarnation);
    Ok(record)
}

/// Neither the user nor the group or project need be known yet.
fn incarnation(existence: Result<Existence, StoreError>) -> Result<Incarnation, StoreError> {
    Ok(match existence? {
        Existence::Present(incarnation) => incarnation,
        Existence::Unknown | Existence::Deleted => Incarnation::default(),
    })
}
