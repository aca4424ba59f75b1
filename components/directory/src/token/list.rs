//! The personal tokens of a user.

use crate::model::incarnation::Incarnation;
use crate::model::token::{Fingerprint, PersonalToken, Subject, Token, TokenId};
use crate::store::{self, Key, TokenMigrationRecord, TokenRecord, UserTokenRecord, UserTokensRecord};
use crate::token::issued::{self, IssuedToken, find, owner_incarnation};
use crate::token::last_use::{delete_use, was_used, with_last_use};
use kit::store::StoreError;
use kit::{Env, Timestamp, root};
use serde::de::IgnoredAny;
use std::collections::{BTreeMap, BTreeSet};
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
    retain(env, user_id, |_, entry| entry.fingerprint != hex)
}

/// Removes the other entries from a user's list.
pub(super) fn retain(
    env: &Env,
    user_id: u64,
    is_kept: impl Fn(u64, &UserTokenRecord) -> bool,
) -> Result<(), StoreError> {
    store::update(env, &Key::UserTokens(user_id), |current: Option<UserTokensRecord>| {
        let mut tokens = current.unwrap_or_default();
        tokens.tokens.retain(|number, entry| is_kept(*number, entry));
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

/// A user's personal tokens, by id, including expired and revoked ones, without last uses. 3 reads, and 1 for each
/// token.
pub fn of_user(env: &Env, user_id: u64) -> Result<Vec<PersonalToken>, StoreError> {
    let tokens = PersonalTokens::open(env)?.of_user(user_id)?;
    tokens.ids().filter_map(|id| tokens.find(env, id).transpose()).collect()
}

/// The personal tokens of all users.
pub struct PersonalTokens<'a>(&'a Env);

impl<'a> PersonalTokens<'a> {
    /// 1 read.
    pub fn open(env: &'a Env) -> Result<Self, StoreError> {
        migrate(env)?;
        Ok(PersonalTokens(env))
    }

    /// The ids of a user's tokens, without their records. 1 read, and 1 more if the list has entries.
    pub fn of_user(&self, user_id: u64) -> Result<UserTokens, StoreError> {
        let mut entries = read(self.0, user_id)?.tokens;
        let owner = if entries.is_empty() { None } else { issued::owner_incarnation(self.0, user_id)? };
        if owner.is_none() {
            entries.clear();
        }
        Ok(UserTokens { user_id, owner: owner.unwrap_or_default(), entries })
    }
}

/// The personal tokens in a user's list.
pub struct UserTokens {
    user_id: u64,
    owner: Incarnation,
    entries: BTreeMap<u64, UserTokenRecord>,
}

impl UserTokens {
    /// The ids in ascending order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = TokenId> {
        self.entries.keys().map(|number| TokenId::new(self.user_id, *number))
    }

    /// A token of the list, without its last use; `None` if its record is absent or belongs to another user. 1 read.
    pub fn find(&self, env: &Env, id: TokenId) -> Result<Option<PersonalToken>, StoreError> {
        match self.entries.get(&id.number) {
            Some(entry) => resolve(env, id, &self.owner, entry),
            None => Ok(None),
        }
    }
}

/// The number of tokens that are deleted before their entries are removed.
const STEP_TOKENS: usize = 500;

/// Deletes the personal tokens of a deleted user, with their last uses and entries. It works in steps, so an
/// interrupted deletion can be repeated. Until then the tokens are refused, because every request reads its token's
/// user. If another user has the id now, nothing is deleted. An unreadable token stays for a repair.
///
/// The list itself stays with the last number, so that the next user's tokens get other ids. 2 reads; for each token 2,
/// a swap and 2 deletions.
pub(crate) fn delete_of_former(env: &Env, user_id: u64) -> Result<(), StoreError> {
    match migrate(env) {
        // Another token of an earlier build is damaged.
        Err(StoreError::Corrupt { .. }) => {}
        migrated => migrated?,
    }
    let listed: Vec<(u64, String)> =
        read(env, user_id)?.tokens.into_iter().map(|(number, entry)| (number, entry.fingerprint)).collect();
    for step in listed.chunks(STEP_TOKENS) {
        let mut found = Vec::new();
        for (number, hex) in step {
            let Some(fingerprint) = Fingerprint::from_hex(hex) else { continue };
            match store::read::<TokenRecord>(env, &Key::Token(&fingerprint)) {
                Err(StoreError::Corrupt { .. }) => {}
                record => found.push((*number, fingerprint, record?)),
            }
        }
        // Read after the records, so the records found do not belong to a later user.
        if owner_incarnation(env, user_id)?.is_some() {
            return Ok(());
        }
        for (_, fingerprint, record) in &found {
            delete_with_use(env, user_id, fingerprint, record.as_ref())?;
        }
        let numbers: BTreeSet<u64> = found.into_iter().map(|(number, ..)| number).collect();
        retain(env, user_id, |number, _| !numbers.contains(&number))?;
    }
    Ok(())
}

/// Deletes a token with this record and its last use, unless it now belongs to another user.
fn delete_with_use(
    env: &Env,
    user_id: u64,
    fingerprint: &Fingerprint,
    record: Option<&TokenRecord>,
) -> Result<(), StoreError> {
    if let Some(record) = record {
        if Token::from(record.clone()).subject != Subject::User(user_id) {
            return Ok(());
        }
        let key = Key::Token(fingerprint);
        store::delete_if(env, &key, |current: &TokenRecord| current.is_of_same(record))
            .map_err(|error| key.redact(error))?;
    }
    delete_use(env, fingerprint)
}

/// The outcome of a rotation.
pub enum Rotation {
    Done(PersonalToken),
    /// The old token is already revoked. If two rotations run at the same time, one succeeds.
    AlreadyRevoked,
    /// The user has [`MAX_TOKENS`] active tokens.
    TooManyTokens,
}

/// Creates a token with the name, description and scopes of `old`, and revokes `old`.
pub fn rotate(
    env: &Env,
    old: &PersonalToken,
    fingerprint: &Fingerprint,
    expires_at: Timestamp,
) -> Result<Rotation, StoreError> {
    if old.token.revoked {
        return Ok(Rotation::AlreadyRevoked);
    }
    let new = NewPersonalToken {
        name: old.token.name.clone(),
        description: old.description.clone(),
        scopes: old.token.scopes.clone(),
        expires_at: Some(expires_at),
    };
    // The new token comes first: an interrupted request leaves the owner the old one.
    let Some(new) = create(env, old.id.user_id, fingerprint, new)? else { return Ok(Rotation::TooManyTokens) };
    let key = Key::Token(&old.fingerprint);
    let mut is_ours = false;
    store::update(env, &key, |current: Option<TokenRecord>| {
        let mut record = current.unwrap_or_else(|| TokenRecord::from(old.token.clone()));
        // A swap that took place and was reported lost has this number.
        is_ours = !record.revoked || record.rotated_to == Some(new.id.number);
        if is_ours {
            record.revoked = true;
            record.rotated_to = Some(new.id.number);
        }
        record
    })
    .map_err(|error| key.redact(error))?;
    if is_ours {
        return Ok(Rotation::Done(new));
    }
    delete(env, fingerprint)?;
    Ok(Rotation::AlreadyRevoked)
}

/// If this token is revoked, revokes its successor in a rotation, and so on. When a rotated token is presented for
/// another rotation, two clients have it, and the server cannot know the owner.
pub fn revoke_successors(env: &Env, fingerprint: &Fingerprint) -> Result<(), StoreError> {
    let Some(mut token) = by_fingerprint(env, fingerprint)? else { return Ok(()) };
    while token.token.revoked {
        let record = store::read::<TokenRecord>(env, &Key::Token(&token.fingerprint))?;
        // A successor has a higher number, so the chain ends.
        let next = record.and_then(|record| record.rotated_to).filter(|number| *number > token.id.number);
        let Some(number) = next else { return Ok(()) };
        let Some(successor) = by_id(env, TokenId::new(token.id.user_id, number))? else { return Ok(()) };
        if !successor.token.revoked {
            return issued::revoke(env, &successor.fingerprint);
        }
        token = successor;
    }
    Ok(())
}

/// The damage of a listed token's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    /// The record existed, and now not even a deletion's `null` is left.
    Lost,
    Unreadable,
}

/// The damaged tokens of a user's list. 1 read, and 1 for each token; 1 more for each if one has no record.
///
/// An entry without a record is not always damaged, because a token is listed before its record is written. A token
/// without a record is lost if its entry was migrated from a record, if it was used, or if a rotation names it as the
/// successor.
pub(crate) fn damaged(env: &Env, user_id: u64) -> Result<Vec<(TokenId, Damage)>, StoreError> {
    let tokens = read(env, user_id)?.tokens;
    let (mut damaged, mut successors) = (Vec::new(), None);
    for (number, entry) in &tokens {
        let Some(fingerprint) = Fingerprint::from_hex(&entry.fingerprint) else { continue };
        let id = TokenId::new(user_id, *number);
        let is_absent = match record(env, &fingerprint) {
            Err(StoreError::Corrupt { .. }) => {
                damaged.push((id, Damage::Unreadable));
                continue;
            }
            record => record?.is_none(),
        };
        let is_lost = is_absent
            && (entry.created_at.is_none() || was_used(env, &fingerprint)? || {
                let known = successors.take().map_or_else(|| numbers_of_successors(env, &tokens), Ok)?;
                successors.insert(known).contains(number)
            });
        if is_lost {
            damaged.push((id, Damage::Lost));
        }
    }
    Ok(damaged)
}

/// The record of a token; `Some(None)` if it was deleted. 1 read.
fn record(env: &Env, fingerprint: &Fingerprint) -> Result<Option<Option<TokenRecord>>, StoreError> {
    let key = Key::Token(fingerprint);
    root::read(&*env.store, &key.text()).map_err(|error| key.redact(error))
}

/// The numbers of the tokens that have replaced one of these. 1 read for each.
fn numbers_of_successors(env: &Env, tokens: &BTreeMap<u64, UserTokenRecord>) -> Result<BTreeSet<u64>, StoreError> {
    let mut numbers = BTreeSet::new();
    for fingerprint in tokens.values().filter_map(|entry| Fingerprint::from_hex(&entry.fingerprint)) {
        match record(env, &fingerprint) {
            // Its own check reports it.
            Err(StoreError::Corrupt { .. }) => {}
            record => numbers.extend(record?.flatten().and_then(|record| record.rotated_to)),
        }
    }
    Ok(numbers)
}

/// Deletes the record of a token if it is not JSON, and returns whether it did. 1 read, and 1 more for an unreadable
/// record.
pub(crate) fn delete_unreadable(env: &Env, fingerprint: &Fingerprint) -> Result<bool, StoreError> {
    replace_unreadable(env, fingerprint, || Ok(None))
}

/// Replaces the record of a token if it is not JSON, and returns whether it did. Other unreadable records may be from a
/// later build.
fn replace_unreadable(
    env: &Env,
    fingerprint: &Fingerprint,
    new: impl FnOnce() -> Result<Option<TokenRecord>, StoreError>,
) -> Result<bool, StoreError> {
    let key = Key::Token(fingerprint);
    match record(env, fingerprint) {
        Err(StoreError::Corrupt { .. }) if is_json(env, &key)? => Ok(false),
        Err(StoreError::Corrupt { .. }) => {
            store::replace_unreadable(env, &key, new()?.as_ref()).map_err(|error| key.redact(error))
        }
        record => record.map(|_| false),
    }
}

fn is_json(env: &Env, key: &Key) -> Result<bool, StoreError> {
    match root::read::<IgnoredAny>(&*env.store, &key.text()) {
        Err(StoreError::Corrupt { .. }) => Ok(false),
        read => read.map(|_| true).map_err(|error| key.redact(error)),
    }
}

/// The repair of a damaged token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repair {
    /// It had no record.
    Unlisted,
    Revoked,
    /// Its record is JSON, or is readable now.
    Kept,
}

/// Removes tokens without a record from the user's list, and revokes tokens whose record is not JSON. Such a token may
/// have been revoked before, and an import must not bring it back. 1 read, and 2 for each token.
pub(crate) fn repair(
    env: &Env,
    user_id: u64,
    damaged: &[(TokenId, Damage)],
) -> Result<Vec<(TokenId, Damage, Repair)>, StoreError> {
    let listed = read(env, user_id)?.tokens;
    let (mut repaired, mut lost) = (Vec::new(), BTreeSet::new());
    for (number, entry) in &listed {
        let id = TokenId::new(user_id, *number);
        let Some((_, damage)) = damaged.iter().find(|(damaged, _)| *damaged == id) else { continue };
        let Some(fingerprint) = Fingerprint::from_hex(&entry.fingerprint) else { continue };
        let repair = match record(env, &fingerprint) {
            Ok(None | Some(None)) => {
                lost.insert(*number);
                Repair::Unlisted
            }
            _ if replace_unreadable(env, &fingerprint, || revoked(env, user_id).map(Some))? => Repair::Revoked,
            _ => Repair::Kept,
        };
        repaired.push((id, *damage, repair));
    }
    retain(env, user_id, |number, _| !lost.contains(&number))?;
    Ok(repaired)
}

/// The record of a revoked token of which only the user is known.
fn revoked(env: &Env, user_id: u64) -> Result<TokenRecord, StoreError> {
    let (name, scopes) = ("could not be read".to_owned(), Vec::new());
    issued::record(env, Token { subject: Subject::User(user_id), name, scopes, expires_at: None, revoked: true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::UserTokenRecord;
    use crate::testing::{fill, new_token, new_user};
    use crate::token::{LAST_USE_MINUTES, NewPersonalToken, create, of_user, record_use, save};
    use crate::user;
    use kit::store::Store as _;
    use kit::testing::{FailingStore, MemoryStore, env};

    fn fingerprint(text: &str) -> Fingerprint {
        Fingerprint::of(text.as_bytes())
    }

    /// Users 2 and 3 with tokens that were used.
    fn forge() -> (MemoryStore, Env) {
        let store = MemoryStore::default();
        let env = env(store.clone(), &[(LAST_USE_MINUTES, "10")]);
        fill(&env);
        for (user_id, text) in [(2, "one"), (2, "two"), (2, "three"), (3, "of another")] {
            save(&env, &fingerprint(text), Some(new_token(Subject::User(user_id), &["api"]))).unwrap();
            record_use(&env, &fingerprint(text));
        }
        (store, env)
    }

    /// The keys of tokens that are not deleted, and of last uses.
    fn left(store: &MemoryStore) -> Vec<String> {
        let is_left = |key: &String| match key.starts_with(Key::TOKENS) {
            true => !key.ends_with("/init") && store.get(key).unwrap().unwrap() != b"null",
            false => key.starts_with("token-use/"),
        };
        store.keys().into_iter().filter(is_left).collect()
    }

    fn keys_of(text: &str) -> Vec<String> {
        let hex = fingerprint(text).to_hex();
        let used = format!("token-use/v1/{hex}");
        vec![format!("{}{hex}", Key::TOKENS), used.clone(), format!("{used}/init")]
    }

    #[test]
    fn a_deletion_that_broke_off_can_be_repeated_and_leaves_nothing() {
        let mut broken_off = 0;
        for operations in 0.. {
            let (store, before) = forge();
            user::delete(&before, 2).unwrap();
            let failing = FailingStore::after(operations, store.clone());
            let outcome = delete_of_former(&env(failing.clone(), &[]), 2);
            assert_eq!(outcome.is_err(), failing.failed());
            let next = env(store.clone(), &[]);
            assert!(of_user(&next, 2).unwrap().is_empty(), "they are refused meanwhile");
            delete_of_former(&next, 2).unwrap();
            assert_eq!(left(&store), keys_of("of another"), "{operations}");
            assert!(read(&next, 2).unwrap().tokens.is_empty(), "{operations}");
            if !failing.failed() {
                break;
            }
            broken_off += 1;
        }
        assert!(broken_off > 10, "{broken_off}");
    }

    #[test]
    fn more_tokens_than_a_step_deletes_are_deleted() {
        let (store, env) = forge();
        let record = store.get(&keys_of("one")[0]).unwrap().unwrap();
        let mut tokens = read(&env, 2).unwrap();
        let entry = tokens.tokens[&1].clone();
        for number in 4..2 * STEP_TOKENS as u64 {
            let fingerprint = fingerprint(&number.to_string());
            tokens.tokens.insert(number, UserTokenRecord { fingerprint: fingerprint.to_hex(), ..entry.clone() });
            store.set(&Key::Token(&fingerprint).text(), &record).unwrap();
        }
        store::write(&env, &Key::UserTokens(2), Some(tokens)).unwrap();
        user::delete(&env, 2).unwrap();
        delete_of_former(&env, 2).unwrap();
        assert_eq!((left(&store), read(&env, 2).unwrap().tokens.len()), (keys_of("of another"), 0));
    }

    #[test]
    fn tokens_of_others_and_of_a_later_user_with_the_id_stay() {
        let (store, env) = forge();
        save(&env, &fingerprint("two"), Some(new_token(Subject::User(3), &["api"]))).unwrap();
        store.set(&keys_of("three")[0], b"{").unwrap();
        let all = left(&store);
        delete_of_former(&env, 2).unwrap();
        assert_eq!(left(&store), all, "the user is not deleted");
        user::delete(&env, 2).unwrap();
        user::save(&env, new_user(2, "next")).unwrap();
        delete_of_former(&env, 2).unwrap();
        assert_eq!(left(&store), all);

        user::delete(&env, 2).unwrap();
        delete_of_former(&env, 2).unwrap();
        let gone = keys_of("one");
        assert_eq!(left(&store), all.into_iter().filter(|key| !gone.contains(key)).collect::<Vec<_>>());
        assert_eq!(read(&env, 2).unwrap().tokens.into_keys().collect::<Vec<_>>(), [3], "it cannot be read");
        user::save(&env, new_user(2, "next")).unwrap();
        let new = NewPersonalToken { name: "n".into(), description: String::new(), scopes: vec![], expires_at: None };
        let created = create(&env, 2, &fingerprint("new"), new).unwrap().unwrap();
        assert_eq!(created.id.number, 4, "a number is given once");
    }
}
