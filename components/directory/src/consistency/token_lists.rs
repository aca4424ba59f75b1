//! Whether each personal token is listed among those of its user. A token is listed before its record is written
//! ([`crate::token`]), so one that is not listed has a record that was damaged or put in its place: it works, and its user
//! does not see it.

use crate::model::token::{Fingerprint, Subject};
use crate::store::{self, Key, TokenMigrationRecord, UserTokensRecord};
use crate::token;
use kit::Env;
use kit::store::StoreError;
use lru::LruCache;
use std::cell::RefCell;
use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::rc::Rc;

/// The most users whose lists are kept for the tokens that follow.
const MAX_USERS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(999);

/// The lists of a step, each read once for all tokens of its user.
pub struct TokenLists(RefCell<LruCache<u64, Rc<HashSet<String>>>>);

impl Default for TokenLists {
    fn default() -> Self {
        TokenLists(RefCell::new(LruCache::new(MAX_USERS)))
    }
}

impl TokenLists {
    /// The problem of a token that its user does not see. 3 reads, and 1 for a user whose list is not kept.
    pub fn problem(&self, env: &Env, fingerprint: &Fingerprint) -> Result<Option<String>, StoreError> {
        let Some(issued) = token::find_issued(env, fingerprint)? else { return Ok(None) };
        let Subject::User(user_id) = issued.token.subject else { return Ok(None) };
        // A token of a former user with the id is of no use.
        if token::holder(env, user_id)?.is_none_or(|holder| holder != issued.incarnation) {
            return Ok(None);
        }
        let fingerprint = fingerprint.to_hex();
        if self.list(env, user_id)?.contains(&fingerprint) {
            return Ok(None);
        }
        // A token that was made after its user's list was read is listed by now.
        self.0.borrow_mut().pop(&user_id);
        let is_listed = self.list(env, user_id)?.contains(&fingerprint);
        // Tokens of earlier builds are listed at the first question for a list.
        let is_migrated = store::read::<TokenMigrationRecord>(env, &Key::TokenMigration)?.is_some_and(|m| m.done);
        let text = || format!("a token of user {user_id} works and is not listed among the user's; import it again");
        Ok((is_migrated && !is_listed).then(text))
    }

    fn list(&self, env: &Env, user_id: u64) -> Result<Rc<HashSet<String>>, StoreError> {
        if let Some(list) = self.0.borrow_mut().get(&user_id) {
            return Ok(list.clone());
        }
        let tokens = store::read::<UserTokensRecord>(env, &Key::UserTokens(user_id))?.unwrap_or_default().tokens;
        let list: Rc<HashSet<String>> = Rc::new(tokens.into_values().map(|entry| entry.fingerprint).collect());
        self.0.borrow_mut().put(user_id, list.clone());
        Ok(list)
    }
}
