//! The personal tokens of a user.

use super::issued::{self, IssuedToken};
use super::last_use::with_last_use;
use super::lookup::find;
use crate::model::incarnation::Incarnation;
use crate::model::token::{Fingerprint, PersonalToken, Subject, Token, TokenId};
use crate::store::{self, Key, TokenMigrationRecord, TokenRecord, UserTokenRecord, UserTokensRecord};
use kit::store::StoreError;
use kit::{Env, Timestamp};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The most personal tokens of a user for whom another one is created. An import is not bounded.
pub const MAX_TOKENS: usize = 5000;

/// The number of tokens that [`migrate`] lists before it records its progress.
const MIGRATION_STEP: usize = 1000;

/// A personal token to be created.
pub struct NewPersonalToken {
    pub name: String,
    pub description: String,
    pub scopes: Vec<String>,
    pub expires_at: Option<Timestamp>,
}

/// Creates a personal token. A user with [`MAX_TOKENS`] loses the oldest token that is expired, revoked, or of a former
/// user with the id. `None` if the user has no such token.
pub fn create(
    env: &Env,
    user_id: u64,
    fingerprint: &Fingerprint,
    new: NewPersonalToken,
) -> Result<Option<PersonalToken>, StoreError> {
    if !make_room(env, user_id)? {
        return Ok(None);
    }
    let id = add(env, user_id, fingerprint, &new.description)?;
    let token = Token {
        subject: Subject::User(user_id),
        name: new.name,
        scopes: new.scopes,
        expires_at: new.expires_at,
        revoked: false,
    }
    .with_unique_scopes();
    store::write(env, &Key::Token(fingerprint), Some(issued::record(env, token.clone())?))?;
    let (description, created_at) = (new.description, Some(env.now));
    Ok(Some(PersonalToken { id, token, description, created_at, last_used_at: None, fingerprint: *fingerprint }))
}

/// The personal token with this id. 5 reads.
pub fn by_id(env: &Env, id: TokenId) -> Result<Option<PersonalToken>, StoreError> {
    migrate(env)?;
    match read(env, id.user_id)?.tokens.get(&id.number) {
        Some(entry) => resolve_with_last_use(env, id, entry),
        None => Ok(None),
    }
}

/// The personal token with this fingerprint. 6 reads.
pub fn by_fingerprint(env: &Env, fingerprint: &Fingerprint) -> Result<Option<PersonalToken>, StoreError> {
    migrate(env)?;
    let Some(Token { subject: Subject::User(user_id), .. }) = find(env, fingerprint)? else { return Ok(None) };
    let hex = fingerprint.to_hex();
    match read(env, user_id)?.tokens.iter().find(|(_, entry)| entry.fingerprint == hex) {
        Some((number, entry)) => resolve_with_last_use(env, TokenId::new(user_id, *number), entry),
        None => Ok(None),
    }
}

/// Adds a token to its user's list, if it is not listed, and returns its id.
pub(super) fn add(
    env: &Env,
    user_id: u64,
    fingerprint: &Fingerprint,
    description: &str,
) -> Result<TokenId, StoreError> {
    let (fingerprint, description) = (fingerprint.to_hex(), description.to_owned());
    let entry = UserTokenRecord { fingerprint, description, created_at: Some(env.now) };
    let id = add_all(env, user_id, &[entry])?.first().copied();
    id.ok_or_else(|| StoreError::Other(format!("user {user_id} has {} tokens", TokenId::MAX_NUMBER)))
}

/// Deletes a token and its entry.
pub(super) fn delete(env: &Env, fingerprint: &Fingerprint) -> Result<(), StoreError> {
    let subject = find(env, fingerprint)?.map(|token| token.subject);
    store::write::<TokenRecord>(env, &Key::Token(fingerprint), None)?;
    let Some(Subject::User(user_id)) = subject else { return Ok(()) };
    let hex = fingerprint.to_hex();
    store::update(env, &Key::UserTokens(user_id), |current: Option<UserTokensRecord>| {
        let mut tokens = current.unwrap_or_default();
        tokens.tokens.retain(|_, entry| entry.fingerprint != hex);
        tokens
    })
}

/// The list of a user's tokens. 1 read.
pub(super) fn read(env: &Env, user_id: u64) -> Result<UserTokensRecord, StoreError> {
    Ok(store::read::<UserTokensRecord>(env, &Key::UserTokens(user_id))?.unwrap_or_default())
}

/// Lists these entries and returns the ids of the entries that are listed now.
fn add_all(env: &Env, user_id: u64, entries: &[UserTokenRecord]) -> Result<Vec<TokenId>, StoreError> {
    let mut ids = Vec::new();
    store::update(env, &Key::UserTokens(user_id), |current: Option<UserTokensRecord>| {
        let mut tokens = current.unwrap_or_default();
        let mut numbers: BTreeMap<String, u64> =
            tokens.tokens.iter().map(|(number, entry)| (entry.fingerprint.clone(), *number)).collect();
        ids.clear();
        for entry in entries {
            let number = match numbers.get(&entry.fingerprint) {
                Some(number) => *number,
                None => {
                    let Some(number) = free_number(&tokens) else { continue };
                    tokens.last = number;
                    numbers.insert(entry.fingerprint.clone(), number);
                    tokens.tokens.insert(number, entry.clone());
                    number
                }
            };
            ids.push(TokenId::new(user_id, number));
        }
        tokens
    })?;
    Ok(ids)
}

/// The first free number after the last one, starting again from 1 after the highest. So a deleted token's id is used
/// again only after about a million others.
fn free_number(tokens: &UserTokensRecord) -> Option<u64> {
    (tokens.last + 1..=TokenId::MAX_NUMBER).chain(1..=tokens.last).find(|number| !tokens.tokens.contains_key(number))
}

/// The tokens in the order in which [`free_number`] gave their numbers, the last round at the end.
pub(super) fn by_age(tokens: &UserTokensRecord) -> impl Iterator<Item = &UserTokenRecord> {
    let before_the_last_round = tokens.tokens.range(tokens.last.saturating_add(1)..);
    before_the_last_round.chain(tokens.tokens.range(..=tokens.last)).map(|(_, entry)| entry)
}

/// Whether a user may have another token, after the oldest inactive one is deleted if necessary.
fn make_room(env: &Env, user_id: u64) -> Result<bool, StoreError> {
    let tokens = read(env, user_id)?;
    if tokens.tokens.len() < MAX_TOKENS {
        return Ok(true);
    }
    let owner = issued::owner_incarnation(env, user_id)?;
    for entry in by_age(&tokens) {
        let Some(fingerprint) = Fingerprint::from_hex(&entry.fingerprint) else { continue };
        // An entry whose token has no record yet may belong to another request.
        let Some(issued) = issued::find_issued(env, &fingerprint)? else { continue };
        let is_own = issued.token.subject == Subject::User(user_id);
        if is_own && (Some(&issued.incarnation) != owner.as_ref() || !issued.token.is_active(env.now)) {
            delete(env, &fingerprint)?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// The token of an entry with its last use.
fn resolve_with_last_use(env: &Env, id: TokenId, entry: &UserTokenRecord) -> Result<Option<PersonalToken>, StoreError> {
    let Some(owner) = issued::owner_incarnation(env, id.user_id)? else { return Ok(None) };
    resolve(env, id, &owner, entry)?.map(|token| with_last_use(env, token)).transpose()
}

/// The token of an entry without its last use; `None` if it has no record or belongs to another user. 1 read.
pub(super) fn resolve(
    env: &Env,
    id: TokenId,
    owner: &Incarnation,
    entry: &UserTokenRecord,
) -> Result<Option<PersonalToken>, StoreError> {
    let Some(fingerprint) = Fingerprint::from_hex(&entry.fingerprint) else { return Ok(None) };
    let is_theirs =
        |issued: &Rc<IssuedToken>| issued.token.subject == Subject::User(id.user_id) && issued.incarnation == *owner;
    let found = issued::find_issued(env, &fingerprint).map_err(|error| match error {
        // The key of a token is not logged, and a list has many tokens.
        StoreError::Corrupt { key, why } => {
            StoreError::Corrupt { key, why: format!("it is token {}: {why}", id.get()) }
        }
        error => error,
    });
    let Some(issued) = found?.filter(is_theirs) else { return Ok(None) };
    let token = issued.token.clone();
    let (description, created_at) = (entry.description.clone(), entry.created_at);
    Ok(Some(PersonalToken { id, token, description, created_at, last_used_at: None, fingerprint }))
}

/// Lists the tokens that were stored before lists existed. This happens once for a store, in steps, and continues after
/// an interruption. 1 read when it is done.
pub(super) fn migrate(env: &Env) -> Result<(), StoreError> {
    loop {
        let migration = store::read::<TokenMigrationRecord>(env, &Key::TokenMigration)?.unwrap_or_default();
        if migration.done {
            return Ok(());
        }
        let keys = env.store.list(Key::TOKENS, &migration.after, MIGRATION_STEP)?;
        let mut by_user: BTreeMap<u64, Vec<UserTokenRecord>> = BTreeMap::new();
        for key in &keys {
            let Some(fingerprint) = key.strip_prefix(Key::TOKENS).and_then(Fingerprint::from_hex) else { continue };
            if let Some(Token { subject: Subject::User(user_id), .. }) = find(env, &fingerprint)? {
                let fingerprint = fingerprint.to_hex();
                let entry = UserTokenRecord { fingerprint, description: String::new(), created_at: None };
                by_user.entry(user_id).or_default().push(entry);
            }
        }
        for (user_id, entries) in by_user {
            add_all(env, user_id, &entries)?;
        }
        let done = keys.len() < MIGRATION_STEP;
        let after = keys.last().cloned().unwrap_or(migration.after);
        store::write(env, &Key::TokenMigration, Some(TokenMigrationRecord { after, done }))?;
    }
}
