//! The context of a request, for every endpoint of the REST API.

use directory::caller::{self, AcceptedTokens, Caller};
use directory::project::Project;
use directory::record_cache;
use directory::redirect::Redirect;
use directory::request_limits;
use directory::user::User;
use kit::params::Params;
use kit::{Env, Error, Request};

/// A request, and its authenticated caller.
pub struct RequestContext {
    pub env: Env,
    pub caller: Caller,
    /// Without its body.
    pub head: Request,
    /// The service's address.
    pub url: String,
}

impl RequestContext {
    /// Authenticates the caller of a request whose body was taken out.
    pub fn new(env: Env, head: Request) -> Result<Self, Error> {
        let caller = authenticate(&env, &head)?;
        Ok(RequestContext { url: env.external_url(&head), env, caller, head })
    }

    /// Authenticates the caller again, at the present time. A client may send a body for as long as the host lets it,
    /// and its token can be revoked meanwhile. So decisions from before the body was read do not count afterwards.
    pub fn renew(&mut self) -> Result<(), Error> {
        self.env = record_cache::renew(&self.env)?;
        self.caller = authenticate(&self.env, &self.head)?;
        Ok(())
    }

    /// Counts the records that an anonymous request is about to read; 429 beyond the limit.
    pub fn check_records(&self, records: usize) -> Result<(), Error> {
        request_limits::check_anonymous_records(&self.env, &self.head, &self.caller, records)
    }

    /// As [`Self::check_records`], for rows of the catalog.
    pub fn check_rows(&self, rows: usize) -> Result<(), Error> {
        request_limits::check_anonymous_rows(&self.env, &self.head, &self.caller, rows)
    }

    /// The parameters of the query.
    pub fn params(&self) -> Params {
        self.head.params()
    }

    /// The requested address, without its query.
    pub fn own_url(&self) -> String {
        format!("{}{}", self.url, self.head.path)
    }

    /// The response to a request that named this project by an old path: 301, or 405 unless it is a GET.
    pub fn moved(&self, project: &Project) -> Error {
        Redirect::to_project(project.id, &self.url, &self.head.path, &self.head.query).into_error(&self.head.method)
    }

    /// The e-mail address of a user in commits: the address that they chose, or an address that receives no mail.
    pub fn commit_email(&self, user: &User) -> String {
        let host = kit::url::host(&self.url);
        let no_reply = || format!("{}-{}@users.noreply.{host}", user.id, user.username);
        user.commit_email.clone().unwrap_or_else(no_reply)
    }
}

fn authenticate(env: &Env, head: &Request) -> Result<Caller, Error> {
    let caller = caller::authenticate(env, head, AcceptedTokens::Api)?;
    caller.require_scope(caller::api_scopes(&head.method))?;
    Ok(caller)
}
