//! The limit of invalid credentials of an address, so that tokens cannot be guessed. All areas count together.

use crate::credential::{self, AcceptedTokens};
use http::StatusCode;
use kit::rate_limit::{self, RateLimit};
use kit::{Env, Error, Request};

/// The variable with the number of invalid credentials that an address may send in a minute; 0: no limit.
pub const INVALID_TOKENS: &str = "registry_rate_limit_invalid_tokens";

const DEFAULT: u64 = 100;

/// Every area may write below `token-use/`.
const LIMIT: RateLimit = RateLimit { variable: INVALID_TOKENS, seconds: 60, keys: "token-use/v1/refused/" };

/// The outcome of `authenticate`, of which 401 for an invalid credential counts against the client's address.
/// After too many of them, no credential from there is looked up until the window ends: 429, for a valid one too,
/// or a right guess could be told from a wrong one. Each instance learns that from the first invalid credential
/// that it gets itself. A valid credential costs no access to the store.
pub(super) fn limited<T>(
    env: &Env,
    request: &Request,
    accepted: AcceptedTokens,
    authenticate: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    let Some(address) = request.client_address() else { return authenticate() };
    if rate_limit::is_refused(env, &LIMIT, address) && has_credential(request, accepted) {
        return Err(Error::too_many_requests());
    }
    let outcome = authenticate();
    if let Err(error) = &outcome
        && error.status == StatusCode::UNAUTHORIZED
        && has_credential(request, accepted)
    {
        rate_limit::check_leased(env, &LIMIT, DEFAULT, 1, address)?;
    }
    outcome
}

/// Whether the request has a credential, valid or not. Reads nothing.
fn has_credential(request: &Request, accepted: AcceptedTokens) -> bool {
    !matches!(credential::first(request, accepted), Ok(None))
}
