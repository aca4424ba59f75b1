//! The redirect of a request that names a project by a former path.

use http::header::LOCATION;
use http::{HeaderValue, Method, StatusCode};
use kit::Error;

/// The request's URL with the project's id instead of its former path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// Without the query.
    url: String,
    /// With the query.
    location: String,
}

impl Redirect {
    /// `path` is the request's raw path, whose segment after `projects` names the project. `base_url` is the service's
    /// URL for clients ([`kit::Env::external_url`]).
    pub fn to_project(id: u64, base_url: &str, path: &str, query: &str) -> Self {
        let (above, named) = path.split_once("/projects/").unwrap_or((path, ""));
        let below = named.split_once('/').map_or(String::new(), |(_, below)| format!("/{below}"));
        let url = format!("{base_url}{above}/projects/{id}{below}");
        let location = if query.is_empty() { url.clone() } else { format!("{url}?{query}") };
        Redirect { url, location }
    }

    /// The value of the header `Location`.
    pub fn location(&self) -> &str {
        &self.location
    }

    /// The text of the response, as in the reference service.
    pub fn text(&self) -> String {
        format!("This resource has been moved permanently to {}", self.url)
    }

    /// 301 with the text as `message`; 405 for a method other than GET and HEAD, as in the reference service.
    pub fn into_error(self, method: &Method) -> Error {
        if !matches!(*method, Method::GET | Method::HEAD) {
            let text = "Non GET methods are not allowed for moved projects";
            return Error::message(StatusCode::METHOD_NOT_ALLOWED, text);
        }
        let error = Error::message(StatusCode::MOVED_PERMANENTLY, self.text());
        match HeaderValue::from_str(&self.location) {
            Ok(location) => error.with_header(LOCATION, location),
            Err(_) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_replaces_the_former_path_and_the_query_stays() {
        let path = "/api/v4/projects/acme%2Fweb/packages/npm/@a%2fb/-/b-1.0.0.tgz";
        let redirect = Redirect::to_project(7, "http://forge.example", path, "write=true");
        let url = "http://forge.example/api/v4/projects/7/packages/npm/@a%2fb/-/b-1.0.0.tgz";
        assert_eq!(redirect.location(), format!("{url}?write=true"));
        assert_eq!(redirect.text(), format!("This resource has been moved permanently to {url}"));
        let redirect = Redirect::to_project(7, "", "/api/v4/projects/acme%2Fweb/x/projects/y", "");
        assert_eq!(redirect.location(), "/api/v4/projects/7/x/projects/y");
        assert_eq!(Redirect::to_project(7, "", "/api/v4/projects/acme%2Fweb", "").location(), "/api/v4/projects/7");
        assert_eq!(redirect.clone().into_error(&Method::HEAD).status, StatusCode::MOVED_PERMANENTLY);
        assert_eq!(redirect.into_error(&Method::PUT).status, StatusCode::METHOD_NOT_ALLOWED);
    }
}
