//! Rate limits: requests in 15 seconds by each user or deploy token and, without a token, by each
//! address. Off unless the variables are set; the reference service's values are 1000 and 800.

use super::request::caller_id;
use crate::store;
use directory::caller::Caller;
use kit::rate_limit::{self, RateLimit};
use kit::{Env, Error, Request};

/// The variables with the numbers of requests.
pub const AUTHENTICATED: &str = "registry_rate_limit_authenticated";
pub const UNAUTHENTICATED: &str = "registry_rate_limit_unauthenticated";

const SECONDS: i64 = 15;

/// Counts a request, or refuses it with 429.
pub fn check(env: &Env, request: &Request, caller: &Caller) -> Result<(), Error> {
    match caller {
        // Without an address from the host the request is not counted.
        Caller::Anonymous => match request.client_address() {
            Some(address) => {
                let limit = RateLimit { variable: UNAUTHENTICATED, seconds: SECONDS, keys: store::ADDRESS_RATES };
                rate_limit::check(env, &limit, &address)
            }
            None => Ok(()),
        },
        Caller::User(_) | Caller::Job(_) | Caller::DeployToken(_) => {
            let limit = RateLimit { variable: AUTHENTICATED, seconds: SECONDS, keys: store::CALLER_RATES };
            rate_limit::check(env, &limit, &caller_id(caller))
        }
    }
}
