//! What every endpoint of the REST API needs to know about a request.

use crate::route;
use directory::caller::Caller;
use directory::project::Project;
use directory::user::User;
use http::header::{HeaderValue, LOCATION};
use http::{Method, StatusCode};
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
        if !matches!(self.method, Method::GET | Method::HEAD) {
            let text = "Non GET methods are not allowed for moved projects";
            return Error::message(StatusCode::METHOD_NOT_ALLOWED, text);
        }
        let url = format!("{}{}", self.url, route::with_project_id(project.id, &self.path));
        let text = format!("This resource has been moved permanently to {url}");
        let url = if self.query.is_empty() { url } else { format!("{url}?{}", self.query) };
        let moved = Error::message(StatusCode::MOVED_PERMANENTLY, text);
        match HeaderValue::from_str(&url) {
            Ok(location) => moved.with_header(LOCATION, location),
            Err(_) => moved,
        }
    }

    /// The e-mail address of a user in commits: the one they chose, or one that receives no mail.
    pub fn commit_email(&self, user: &User) -> String {
        let authority = self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest);
        let authority = authority.split('/').next().unwrap_or_default();
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => authority,
        };
        let no_reply = || format!("{}-{}@users.noreply.{host}", user.id, user.username);
        user.commit_email.clone().unwrap_or_else(no_reply)
    }
}
