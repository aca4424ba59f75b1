//! What every endpoint of the REST API needs to know about a request.

use directory::caller::Caller;
use directory::project::Project;
use directory::redirect::Redirect;
use directory::user::User;
use http::Method;
use kit::{Env, Error};

/// A request without its body, and its authenticated caller.
pub struct RequestContext {
    pub env: Env,
    pub caller: Caller,
    pub method: Method,
    pub path: String,
    pub query: String,
    /// The service's address.
    pub url: String,
}

impl RequestContext {
    /// The response to a request that named this project by an old path: 301, or 405 unless it is a GET.
    pub fn moved(&self, project: &Project) -> Error {
        Redirect::to_project(project.id, &self.url, &self.path, &self.query).into_error(&self.method)
    }

    /// The e-mail address of a user in commits: the one they chose, or one that receives no mail.
    pub fn commit_email(&self, user: &User) -> String {
        let host = kit::url::host(&self.url);
        let no_reply = || format!("{}-{}@users.noreply.{host}", user.id, user.username);
        user.commit_email.clone().unwrap_or_else(no_reply)
    }
}
