//! Tokens with the incarnations that they were issued to. If several users, groups or projects have had an id, a token
//! belongs to the incarnation at the time of issue.

use crate::member::Source;
use crate::model::incarnation::Incarnation;
use crate::model::token::{Fingerprint, Subject, Token};
use crate::store::{self, Existence, Key, TokenRecord};
use crate::{namespace, project, user};
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
    let subject = token.subject;
    let mut record = TokenRecord::from(token.with_unique_scopes());
    let of_user = |id| user::existence(env, id).map(Existence::or_first);
    let of_project = |id| project::existence(env, id).map(Existence::or_first);
    match subject {
        Subject::User(id) => record.incarnation = of_user(id)?,
        Subject::Deployment(Source::Project(id)) => record.incarnation = of_project(id)?,
        Subject::Deployment(Source::Group(id)) => record.incarnation = namespace::existence(env, id)?.or_first(),
        Subject::Job { user_id, project_id, .. } => {
            (record.incarnation, record.project_incarnation) = (of_user(user_id)?, of_project(project_id)?);
        }
    }
    Ok(record)
}

/// The incarnation that owns the tokens of this user id; `None` if the user is deleted. 1 read.
pub(crate) fn owner_incarnation(env: &Env, user_id: u64) -> Result<Option<Incarnation>, StoreError> {
    Ok(match user::existence(env, user_id)? {
        Existence::Present(incarnation) => Some(incarnation),
        Existence::Unknown => Some(Incarnation::default()),
        Existence::Deleted => None,
    })
}

/// The token with this fingerprint. 1 read.
pub fn find(env: &Env, fingerprint: &Fingerprint) -> Result<Option<Token>, StoreError> {
    Ok(store::read::<TokenRecord>(env, &Key::Token(fingerprint))?.map(Token::from))
}

/// Revokes a token. It stays listed.
pub fn revoke(env: &Env, fingerprint: &Fingerprint) -> Result<(), StoreError> {
    let key = Key::Token(fingerprint);
    let Some(known) = store::read::<TokenRecord>(env, &key)? else { return Ok(()) };
    store::update(env, &key, |current: Option<TokenRecord>| {
        let mut record = current.unwrap_or_else(|| known.clone());
        record.revoked = true;
        record
    })
    .map_err(|error| key.redact(error))
}
