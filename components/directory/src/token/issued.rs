//! Tokens with the incarnations that they were issued to. If several users, groups or projects have had an id, a token
//! belongs to the incarnation at the time of issue.

use crate::member::Source;
use crate::model::incarnation::Incarnation;
use crate::model::token::{Fingerprint, Subject, Token};
use crate::store::{self, Existence, Key, NamespaceRecord, ProjectRecord, TokenRecord, UserRecord};
use kit::Env;
use kit::store::StoreError;
use std::rc::Rc;

/// A token, and the incarnation of its owner.
pub(crate) struct IssuedToken {
    pub token: Token,
    /// The scopes of `token`, to be shared.
    pub scopes: Rc<[String]>,
    /// The incarnation of the user, group or project that the token was issued to.
    pub incarnation: Incarnation,
    /// The incarnation of a job's project.
    pub project_incarnation: Incarnation,
}

/// The present token with this fingerprint. 1 read; an instance decodes it once.
pub(crate) fn find_issued(env: &Env, fingerprint: &Fingerprint) -> Result<Option<Rc<IssuedToken>>, StoreError> {
    store::read_cached(env, &Key::Token(fingerprint), |record: TokenRecord| {
        let incarnation = record.incarnation.clone();
        let project_incarnation = record.project_incarnation.clone();
        let token = Token::from(record);
        IssuedToken { scopes: token.scopes.as_slice().into(), token, incarnation, project_incarnation }
    })
}

/// The record of a token for the present user, group or project with the id. 1 read, 2 for a job.
pub(super) fn record(env: &Env, token: Token) -> Result<TokenRecord, StoreError> {
    let of_project = |id| incarnation(store::existence::<ProjectRecord>(env, &Key::Project(id)));
    let (incarnation, project_incarnation) = match token.subject {
        Subject::User(id) => (of_user(env, id)?, Incarnation::default()),
        Subject::Deployment(Source::Project(id)) => (of_project(id)?, Incarnation::default()),
        Subject::Deployment(Source::Group(id)) => {
            (incarnation(store::existence::<NamespaceRecord>(env, &Key::Namespace(id)))?, Incarnation::default())
        }
        Subject::Job { user_id, project_id, .. } => (of_user(env, user_id)?, of_project(project_id)?),
    };
    let mut record = TokenRecord::from(token.with_unique_scopes());
    (record.incarnation, record.project_incarnation) = (incarnation, project_incarnation);
    Ok(record)
}

/// The incarnation of the present user with this id. 1 read.
fn of_user(env: &Env, id: u64) -> Result<Incarnation, StoreError> {
    incarnation(store::existence::<UserRecord>(env, &Key::User(id)))
}

/// The incarnation that owns the tokens of this user id; `None` if the user is deleted. 1 read.
pub(crate) fn owner_incarnation(env: &Env, user_id: u64) -> Result<Option<Incarnation>, StoreError> {
    Ok(match store::existence::<UserRecord>(env, &Key::User(user_id))? {
        Existence::Present(incarnation) => Some(incarnation),
        Existence::Unknown => Some(Incarnation::default()),
        Existence::Deleted => None,
    })
}

/// A user, group or project without a record counts as the first incarnation, because it may be imported later.
fn incarnation(existence: Result<Existence, StoreError>) -> Result<Incarnation, StoreError> {
    Ok(match existence? {
        Existence::Present(incarnation) => incarnation,
        Existence::Unknown | Existence::Deleted => Incarnation::default(),
    })
}
