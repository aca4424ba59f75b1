//! Rate limits.
//!
//! | variable | counts | by | window | default |
//! |---|---|---|---|---|
//! | [`AUTHENTICATED`] | requests with a token | user or deploy token | 15 s | off |
//! | [`UNAUTHENTICATED`] | requests without one | address | 15 s | off |
//! | [`LOOKUPS`] | requests without a token at group and instance level, which read several projects | address | 15 s | 2000 |
//! | [`PUBLISHES`] | requests that change packages | user or deploy token | 60 s | 30000 |
//! | [`SEARCHES`] | searches, lists and look-ups by id without a token, and audits where names are forwarded | address | 60 s | 120 |
//!
//! Invalid tokens are limited where callers are authenticated ([`directory::caller::INVALID_TOKENS`]). The reference
//! service's values of the first two are 1000 and 800. Limits that are off by default count exactly. For the others,
//! instances lease permits ([`kit::rate_limit::check_leased`]).

use super::forward;
use super::request::caller_id;
use crate::route::{Endpoint, Level, Route};
use crate::store;
use directory::caller::Caller;
use directory::request_limits::{PUBLISHES, check_write};
use kit::rate_limit::{self, RateLimit};
use kit::{Env, Error, Request};

/// The variables with the numbers of requests. 0 disables a limit.
pub const AUTHENTICATED: &str = "registry_rate_limit_authenticated";
pub const UNAUTHENTICATED: &str = "registry_rate_limit_unauthenticated";
pub const LOOKUPS: &str = "registry_rate_limit_lookups";
pub const SEARCHES: &str = "registry_rate_limit_searches";

const DEFAULT_LOOKUPS: u64 = 2000;
const DEFAULT_SEARCHES: u64 = 120;

/// The most permits that an instance leases at once.
const LOOKUPS_LEASE: u64 = 100;
const SEARCHES_LEASE: u64 = 10;

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
            rate_limit::check(env, &limit, &caller_id(caller))?;
            if is_publish(&route.endpoint) { check_write(env, caller, &PUBLISHES) } else { Ok(()) }
        }
    }
}

fn is_publish(endpoint: &Endpoint) -> bool {
    matches!(
        endpoint,
        Endpoint::Publish { .. }
            | Endpoint::Unpublish { .. }
            | Endpoint::UnpublishAll { .. }
            | Endpoint::RemoveFile { .. }
            | Endpoint::SetTag { .. }
            | Endpoint::RemoveTag { .. }
            | Endpoint::RemovePackage { .. }
            | Endpoint::RemovePackageFile { .. }
            | Endpoint::AddProtectionRule
            | Endpoint::ChangeProtectionRule { .. }
            | Endpoint::RemoveProtectionRule { .. }
            | Endpoint::TransferName { .. }
            | Endpoint::ReleaseName { .. }
            | Endpoint::AllowProject { .. }
            | Endpoint::DisallowProject { .. }
            | Endpoint::Reserve
            | Endpoint::Unreserve { .. }
    )
}

/// Checks the limits of expensive requests.
fn check_cost(env: &Env, address: &str, route: &Route) -> Result<(), Error> {
    // An audit reads a large body only if it may be forwarded.
    let is_search = match route.endpoint {
        Endpoint::Search | Endpoint::List => true,
        Endpoint::Files { .. } | Endpoint::GroupPackages { .. } => true,
        Endpoint::Package { .. } | Endpoint::PackageFiles { .. } | Endpoint::Pipelines { .. } => true,
        Endpoint::Audit(_) => forward::registry(env)?.is_some(),
        _ => false,
    };
    if is_search {
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
