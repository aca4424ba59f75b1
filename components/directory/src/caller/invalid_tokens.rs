//! The limit of invalid credentials from an address, which prevents guessing of tokens. All areas count together.

use crate::credential::{self, AcceptedTokens, Credential};
use crate::token::{self, Fingerprint};
use http::StatusCode;
use http::header::AUTHORIZATION;
use kit::rate_limit::{self, RateLimit};
use kit::store::StoreError;
use kit::{Env, Error, Request};

/// The variable with the number of distinct invalid credentials that an address may send in a minute; 0: no limit.
pub const INVALID_TOKENS: &str = "registry_rate_limit_invalid_tokens";

const DEFAULT: u64 = 100;

/// Every area may write below `token-use/`.
const LIMIT: RateLimit = RateLimit { variable: INVALID_TOKENS, seconds: 60, keys: "token-use/v1/refused/" };

/// The length, in bytes, from which a token cannot be guessed. Tokens of this service and of the reference service are
/// longer.
const UNGUESSABLE: usize = 20;

/// The time, in milliseconds, for which a recorded use proves that a client knew a token before.
const RECENT_USE: i64 = 24 * 60 * 60 * 1000;

/// Limits `authenticate`: its 401 for an invalid credential counts against the client's address. A repeated credential
/// counts once, because it guesses nothing.
///
/// Beyond the limit, further invalid credentials from the address get 429 until the window ends. Clients with valid
/// tokens that share the address are served. Only a short token without recent use gets 429 although it is valid,
/// because a right guess must not differ from a wrong one. An instance applies the limit from the first invalid
/// credential that it gets. A valid credential costs no access to the store.
pub(super) fn limited<T>(
    env: &Env,
    request: &Request,
    accepted: AcceptedTokens,
    authenticate: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    let Some(address) = request.client_address() else { return authenticate() };
    if let Some(refusal) = rate_limit::known_refusal(env, &LIMIT, address)
        && let Ok(Some(credential)) = credential::first(request, accepted)
        && is_guess(env, &credential)?
    {
        return Err(refusal);
    }
    let outcome = authenticate();
    if let Err(error) = &outcome
        && error.status == StatusCode::UNAUTHORIZED
        && let Some(item) = item(request, accepted)
    {
        rate_limit::check_distinct(env, &LIMIT, DEFAULT, address, item)?;
    }
    outcome
}

/// Whether the credential can be a guess. 1 read for a short one.
fn is_guess(env: &Env, credential: &Credential) -> Result<bool, StoreError> {
    if credential.token.len() >= UNGUESSABLE {
        return Ok(false);
    }
    let used = token::last_use(env, &Fingerprint::of(&credential.token))?;
    Ok(used.is_none_or(|used| env.now.millis() - used.millis() > RECENT_USE))
}

/// Four bytes of the credential's fingerprint, which do not reveal it; `None` without a credential. An unreadable
/// header counts as a credential. Reads nothing.
fn item(request: &Request, accepted: AcceptedTokens) -> Option<u32> {
    let fingerprint = match credential::first(request, accepted) {
        Ok(credential) => Fingerprint::of(&credential?.token),
        Err(_) => Fingerprint::of(request.headers.get(AUTHORIZATION)?.as_bytes()),
    };
    fingerprint.bytes().first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}
