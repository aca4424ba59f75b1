//! Rate limits that are on by default: writes of a user, and records that anonymous callers read. All areas count in
//! the same keys.

use crate::caller::Caller;
use kit::rate_limit::{self, RateLimit};
use kit::{Env, Error, Request};

/// A limit of a user's writes in a minute. 0 disables it.
pub struct WriteLimit {
    pub variable: &'static str,
    default: u64,
    keys: &'static str,
}

/// Creating, changing, resolving and deleting notes and discussions. The default is the reference service's.
pub const NOTES: WriteLimit =
    WriteLimit { variable: "notes_rate_limit", default: 300, keys: "token-use/v1/rate/notes/" };

/// Creating and changing merge requests.
pub const MERGE_REQUESTS: WriteLimit =
    WriteLimit { variable: "merge_requests_rate_limit", default: 300, keys: "token-use/v1/rate/merge-requests/" };

/// Applying suggestions.
pub const SUGGESTIONS: WriteLimit =
    WriteLimit { variable: "suggestions_rate_limit", default: 1000, keys: "token-use/v1/rate/suggestions/" };

/// Pushes to repositories.
pub const PUSHES: WriteLimit =
    WriteLimit { variable: "pushes_rate_limit", default: 1000, keys: "token-use/v1/rate/pushes/" };

/// Publishing and unpublishing packages, and changing their tags.
pub const PUBLISHES: WriteLimit =
    WriteLimit { variable: "registry_rate_limit_publishes", default: 30_000, keys: "token-use/v1/rate/publishes/" };

/// Creating and rotating tokens.
pub const TOKENS: WriteLimit =
    WriteLimit { variable: "tokens_rate_limit", default: 300, keys: "token-use/v1/rate/tokens/" };

/// The variable with the number of records that anonymous requests from an address may read in a minute; 0: no limit.
pub const ANONYMOUS_RECORDS: &str = "anonymous_records_rate_limit";

/// About five seconds of a processor.
const DEFAULT_RECORDS: u64 = 500_000;

const RECORDS: RateLimit = RateLimit { variable: ANONYMOUS_RECORDS, seconds: 60, keys: "token-use/v1/rate/records/" };

/// A request that reads at most this many records is not counted.
const FREE_RECORDS: usize = 1000;

/// The number of catalog rows, which are in memory, that cost as much as a record.
const ROWS_PER_RECORD: usize = 32;

/// The most permits that an instance takes at once.
const MAX_LEASE: u64 = 32;

/// Counts a write of a user or deploy token, or refuses it with 429. The built-in administrator has no limit. Anonymous
/// callers may not write, so they are not counted.
pub fn check_write(env: &Env, caller: &Caller, limit: &WriteLimit) -> Result<(), Error> {
    let name = match caller {
        Caller::Anonymous => return Ok(()),
        Caller::User(session) if session.built_in => return Ok(()),
        Caller::User(session) => format!("user:{}", session.user.id),
        Caller::Job(job) => format!("user:{}", job.session.user.id),
        Caller::DeployToken(token) => format!("deploy-token:{:?}", token.source),
    };
    let WriteLimit { variable, default, keys } = *limit;
    rate_limit::check_leased(env, &RateLimit { variable, seconds: 60, keys }, default, MAX_LEASE, &name)
}

/// Counts the records that a request of an anonymous caller is about to read; 429 beyond the limit. If the host passes
/// no address, and for other callers, nothing is counted.
pub fn check_anonymous_records(env: &Env, request: &Request, caller: &Caller, records: usize) -> Result<(), Error> {
    if !caller.is_anonymous() || records <= FREE_RECORDS {
        return Ok(());
    }
    let Some(address) = request.client_address() else { return Ok(()) };
    rate_limit::check_cost(env, &RECORDS, DEFAULT_RECORDS, records as u64, address)
}

/// Counts rows of the catalog that a request scans, as [`check_anonymous_records`] does records.
pub fn check_anonymous_rows(env: &Env, request: &Request, caller: &Caller, rows: usize) -> Result<(), Error> {
    check_anonymous_records(env, request, caller, rows / ROWS_PER_RECORD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::{AcceptedTokens, BOOTSTRAP_ADMIN_TOKEN, authenticate};
    use crate::testing::{fill, issue_to};
    use http::Method;
    use kit::testing::{FailingStore, MemoryStore};
    use std::rc::Rc;

    fn forge(variables: &[(&str, &str)]) -> Env {
        let env = kit::testing::env(MemoryStore::default(), variables);
        fill(&env);
        for (token, user_id) in [("pat", 2), ("second", 2), ("bob", 3)] {
            issue_to(&env, token, user_id, &["api"]);
        }
        env
    }

    fn request(token: &str, address: &str) -> Request {
        let mut request = Request::new(Method::GET, "/");
        request.headers.insert("private-token", token.parse().unwrap());
        request.headers.insert("spin-client-addr", address.parse().unwrap());
        request
    }

    fn caller(env: &Env, token: &str) -> Caller {
        authenticate(env, &request(token, "192.0.2.1:1"), AcceptedTokens::Api).ok().unwrap()
    }

    /// Each request has its own instance, or all share one.
    #[test]
    fn writes_are_counted_by_user_whatever_the_token_and_the_instance() {
        for is_shared in [true, false] {
            let env = forge(&[(BOOTSTRAP_ADMIN_TOKEN, "boot")]);
            let [alice, second, bob, built_in] = ["pat", "second", "bob", "boot"].map(|token| caller(&env, token));
            let write = |caller: &Caller| {
                let instance_cache = if is_shared { env.instance_cache.clone() } else { Rc::default() };
                check_write(&Env { instance_cache, ..env.clone() }, caller, &NOTES)
            };
            assert!((0..150).all(|_| write(&alice).is_ok() && write(&second).is_ok()));
            let refused = write(&alice).unwrap_err();
            assert_eq!(refused, Error::too_many_requests("notes_rate_limit", 60));
            assert!(write(&second).is_err() && write(&bob).is_ok());
            assert!(check_write(&env, &alice, &PUSHES).is_ok(), "each kind has a limit of its own");
            assert!((0..400).all(|_| write(&built_in).is_ok() && write(&Caller::Anonymous).is_ok()));
        }
        let unlimited = forge(&[("notes_rate_limit", "0")]);
        let alice = caller(&unlimited, "pat");
        assert!((0..400).all(|_| check_write(&unlimited, &alice, &NOTES).is_ok()));
    }

    #[test]
    fn records_of_anonymous_callers_are_counted_by_address_beyond_those_of_an_ordinary_request() {
        let env = forge(&[]);
        let read = |address: &str, caller: &Caller, records: usize| {
            let env = Env { instance_cache: Rc::default(), ..env.clone() };
            check_anonymous_records(&env, &request("", address), caller, records).is_ok()
        };
        let anonymous = &Caller::Anonymous;
        assert_eq!((0..40).filter(|_| read("192.0.2.1:1", anonymous, 20_000)).count(), 25);
        assert!(read("192.0.2.1:1", anonymous, 1000) && read("192.0.2.2:1", anonymous, 20_000));
        assert!(read("192.0.2.1:1", &caller(&env, "pat"), 20_000));
        assert!(read("192.0.2.3:1", anonymous, 1_000_000), "one that costs more than all is let through once");
        assert!(!read("192.0.2.3:1", anonymous, 1001));
        let offline = Env { store: Rc::new(FailingStore::after(0, MemoryStore::default())), ..env.clone() };
        let of_rows = |rows| check_anonymous_rows(&offline, &request("", "192.0.2.4:1"), anonymous, rows).is_ok();
        assert!(of_rows(32_000), "few rows cost nothing, not even a read");
    }
}
