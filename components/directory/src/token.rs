//! Tokens. Only the SHA-256 of a token is stored, and only by it is one looked up.

pub use crate::model::token::{Fingerprint, PERSONAL_SCOPES, Subject, Token};

use crate::store::{self, Key, TokenRecord};
use kit::Env;
use kit::store::StoreError;

/// The token with this fingerprint. 1 read.
pub fn find(env: &Env, fingerprint: &Fingerprint) -> Result<Option<Token>, StoreError> {
    Ok(store::read::<TokenRecord>(env, &Key::Token(fingerprint))?.map(Token::from))
}

/// Creates or replaces the token with this fingerprint; `None` deletes it.
pub fn save(env: &Env, fingerprint: &Fingerprint, token: Option<Token>) -> Result<(), StoreError> {
    store::write(env, &Key::Token(fingerprint), token.map(TokenRecord::from))
}
