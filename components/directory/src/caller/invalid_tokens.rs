//! The limit of invalid credentials of an address, so that tokens cannot be guessed. All areas count together.

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

/// The length from which no token is found by guessing, in bytes. Those of this service and of the reference service
/// are longer.
const UNGUESSABLE: usize = 20;

/// For how long a recorded use shows that a client knew a token before, in milliseconds.
const RECENT_USE: i64 = 24 * 60 * 60 * 1000;

/// The outcome of `authenticate`, of which 401 for an invalid credential counts against the client's address. A
/// credential that is repeated counts once: it guesses nothing.
///
/// After too many of them, further invalid ones from there get 429 until the window ends. Clients that share the
/// address go on. Only a token that is short enough to be guessed, and was not used lately, gets 429 although it is
/// valid: a right guess must not differ from a wrong one. An instance knows of that from the first invalid credential
/// that it gets itself. A valid credential costs no access to the store.
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

/// Names the credential of a request by four bytes of its fingerprint, which do not tell it; `None` without one.
/// A header that cannot be read is one, too. Reads nothing.
fn item(request: &Request, accepted: AcceptedTokens) -> Option<u32> {
    let fingerprint = match credential::first(request, accepted) {
        Ok(credential) => Fingerprint::of(&credential?.token),
        Err(_) => Fingerprint::of(request.headers.get(AUTHORIZATION)?.as_bytes()),
    };
    fingerprint.bytes().first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}
