//! The tokens of deleted users.

use super::issued::owner_incarnation;
use super::last_use::delete_use;
use super::list::{migrate, read};
use crate::model::token::{Fingerprint, Subject, Token};
use crate::store::{self, Key, TokenRecord, UserTokensRecord};
use kit::Env;
use kit::store::StoreError;
use std::collections::BTreeSet;

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
            delete(env, user_id, fingerprint, record.as_ref())?;
        }
        let numbers: BTreeSet<u64> = found.into_iter().map(|(number, ..)| number).collect();
        store::update(env, &Key::UserTokens(user_id), |current: Option<UserTokensRecord>| {
            let mut tokens = current.unwrap_or_default();
            tokens.tokens.retain(|number, _| !numbers.contains(number));
            tokens
        })?;
    }
    Ok(())
}

/// Deletes a token with this record and its last use, unless it now belongs to another user.
fn delete(env: &Env, user_id: u64, fingerprint: &Fingerprint, record: Option<&TokenRecord>) -> Result<(), StoreError> {
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
