//! Rate limits.
//!
//! | variable | counts | by | window | default |
//! |---|---|---|---|---|
//! | [`AUTHENTICATED`] | requests with a token | user or deploy token | 15 s | off |
//! | [`UNAUTHENTICATED`] | requests without one | address | 15 s | off |
//! | [`LOOKUPS`] | the latter at group and instance level, which look through several projects | address | 15 s | 2000 |
//! | [`SEARCHES`] | searches and lists without a token | address | 60 s | 120 |
//! | [`INVALID_TOKENS`] | tokens that are refused | address | 60 s | 100 |
//!
//! The reference service's values of the first two are 1000 and 800. Limits that are off by default count
//! exactly; the others lease ([`kit::rate_limit::check_leased`]).

use super::request::caller_id;
use crate::route::{Endpoint, Level, Route};
use crate::store;
use directory::caller::{self, AcceptedTokens, Caller};
use http::StatusCode;
use kit::rate_limit::{self, RateLimit};
use kit::{Env, Error, Request};

/// The variables with the numbers of requests. 0 disables a limit.
pub const AUTHENTICATED: &str = "registry_rate_limit_authenticated";
pub const UNAUTHENTICATED: &str = "registry_rate_limit_unauthenticated";
pub const LOOKUPS: &str = "registry_rate_limit_lookups";
pub const SEARCHES: &str = "registry_rate_limit_searches";
pub const INVALID_TOKENS: &str = "registry_rate_limit_invalid_tokens";

const DEFAULT_LOOKUPS: u64 = 2000;
const DEFAULT_SEARCHES: u64 = 120;
const DEFAULT_INVALID_TOKENS: u64 = 100;

/// Requests for which an instance takes permits at once.
const LOOKUPS_LEASE: u64 = 100;
const SEARCHES_LEASE: u64 = 10;

const INVALID: RateLimit = RateLimit { variable: INVALID_TOKENS, seconds: 60, keys: store::INVALID_TOKEN_RATES };

/// The caller of a request. An invalid credential counts against the client's address. After too many of
/// them, no credential from there is looked up until the window ends, so that tokens cannot be guessed:
/// 429. Each instance learns that from the first invalid credential that it gets itself.
pub fn authenticate(env: &Env, request: &Request, accepted: AcceptedTokens) -> Result<Caller, Error> {
    let address = request.client_address();
    if let Some(address) = address
        && rate_limit::is_refused(env, &INVALID, address)
        && caller::has_credential(request, accepted)
    {
        return Err(Error::too_many_requests());
    }
    let outcome = caller::authenticate(env, request, accepted);
    if let (Err(error), Some(address)) = (&outcome, address)
        && error.status == StatusCode::UNAUTHORIZED
    {
        rate_limit::check_leased(env, &INVALID, DEFAULT_INVALID_TOKENS, 1, address)?;
    }
    outcome
}

/// Counts a request, or refuses it with 429. Without an address from the host, a request without a token
/// is not counted.
pub fn check(env: &Env, request: &Request, caller: &Caller, route: &Route) -> Result<(), Error> {
    match caller {
        Caller::Anonymous => match request.client_address() {
            Some(address) => {
                let limit = RateLimit { variable: UNAUTHENTICATED, seconds: 15, keys: store::ADDRESS_RATES };
                rate_limit::check(env, &limit, address)?;
                check_cost(env, address, route)
            }
            None => Ok(()),
        },
        Caller::User(_) | Caller::Job(_) | Caller::DeployToken(_) => {
            let limit = RateLimit { variable: AUTHENTICATED, seconds: 15, keys: store::CALLER_RATES };
            rate_limit::check(env, &limit, &caller_id(caller))
        }
    }
}

/// The limits of requests that cost more than others.
fn check_cost(env: &Env, address: &str, route: &Route) -> Result<(), Error> {
    if matches!(route.endpoint, Endpoint::Search | Endpoint::List) {
        let limit = RateLimit { variable: SEARCHES, seconds: 60, keys: store::SEARCH_RATES };
        return rate_limit::check_leased(env, &limit, DEFAULT_SEARCHES, SEARCHES_LEASE, address);
    }
    let is_lookup = !matches!(route.endpoint, Endpoint::Ping | Endpoint::WhoAmI);
    if is_lookup && !matches!(route.level, Level::Project(_)) {
        let limit = RateLimit { variable: LOOKUPS, seconds: 15, keys: store::LOOKUP_RATES };
        return rate_limit::check_leased(env, &limit, DEFAULT_LOOKUPS, LOOKUPS_LEASE, address);
    }
    Ok(())
}
