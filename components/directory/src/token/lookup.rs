//! Single tokens.

use crate::model::token::{Fingerprint, Token};
use crate::store::{self, Key, TokenRecord};
use kit::Env;
use kit::store::StoreError;

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
