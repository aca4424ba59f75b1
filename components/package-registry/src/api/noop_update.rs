//! Documents that are accepted and change nothing: `npm owner` and `npm star` send a document of only `maintainers`, or
//! only `users`.
//!
//! The registry stores neither, and npm prints a notice about it ([`super::stars`]). The project's roles decide who may
//! publish, and a stored list of owners could only contradict them. The `maintainers` in metadata are members of the
//! project ([`super::maintainers`]). Such a document must not be read as the whole package: it has no versions, so
//! every version would be unpublished.

use super::access::{self, Read, Unpublish};
use super::error::package_not_found;
use super::request::RegistryRequest;
use super::stars::{self, NPM_NOTICE};
use crate::json::Members;
use http::HeaderValue;
use kit::body::Body;
use kit::{Error, Request, Response};
use serde_json::json;

/// Largest such document, in bytes. It has an entry for each owner, or for each user who starred the package, that
/// metadata lists: a handful.
const MAX_SIZE: u64 = 64 * 1024;

const OWNERS_ARE_MEMBERS: HeaderValue =
    HeaderValue::from_static("nothing was changed: the owners of a package are the members of its project");

/// An update that is accepted without effect.
#[derive(Debug, PartialEq, Eq)]
pub enum NoopUpdate {
    Owners,
    Star,
}

impl NoopUpdate {
    /// Reads a document; `None` for any other document.
    pub fn read(document: &[u8]) -> Option<Self> {
        let members = Members::read(std::str::from_utf8(document).ok()?).ok()?;
        let has = |name| members.get(name).is_some();
        match (has("maintainers"), has("users")) {
            _ if has("versions") || has("_attachments") => None,
            (true, _) => Some(NoopUpdate::Owners),
            (false, true) => Some(NoopUpdate::Star),
            (false, false) => None,
        }
    }

    /// Reads the body of a request if it is small enough. The request keeps the body, even if it broke off: the
    /// caller's rights are checked before that error is returned.
    pub async fn read_body(http: &mut Request) -> Result<Option<Self>, Error> {
        if http.content_length().is_some_and(|length| length > MAX_SIZE) {
            return Ok(None);
        }
        let mut rest = std::mem::take(&mut http.body);
        let mut document = Vec::new();
        while let Some(chunk) = rest.next().await {
            match chunk {
                Ok(chunk) => document.extend_from_slice(&chunk),
                Err(error) => {
                    http.body = Body::pull([Ok(document.into()), Err(error)].into_iter());
                    return Ok(None);
                }
            }
            if document.len() as u64 > MAX_SIZE {
                http.body = rest.after(document.into());
                return Ok(None);
            }
        }
        let update = NoopUpdate::read(&document);
        http.body = document.into();
        Ok(update)
    }

    /// Answers a caller who has the rights for the update. Reads the package.
    pub fn acknowledge(&self, request: &RegistryRequest, name: &str) -> Result<Response, Error> {
        request.caller.require_authenticated()?;
        match self {
            NoopUpdate::Owners => {
                access::authorize::<Unpublish>(request, name, package_not_found)?;
                Ok(Response::ok(&json!({"ok": true})).with_header(NPM_NOTICE, OWNERS_ARE_MEMBERS))
            }
            NoopUpdate::Star => {
                access::authorize::<Read>(request, name, package_not_found)?;
                Ok(stars::acknowledge())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noop_update_is_distinguished_from_a_publication() {
        for (document, update) in [
            (r#"{"_id":"a","_rev":"1-x","maintainers":[{"name":"mia","email":""}]}"#, Some(NoopUpdate::Owners)),
            (r#"{"_id":"a","_rev":"1-x","users":{"mia":true}}"#, Some(NoopUpdate::Star)),
            (r#"{"_id":"a","_rev":"1-x","users":{}}"#, Some(NoopUpdate::Star)),
            (r#"{"_id":"a","users":{},"versions":{}}"#, None),
            (r#"{"_id":"a","maintainers":[],"_attachments":{}}"#, None),
            (r#"{"_id":"a"}"#, None),
            (r#"["maintainers"]"#, None),
            ("", None),
            ("{", None),
        ] {
            assert_eq!(NoopUpdate::read(document.as_bytes()), update, "{document}");
        }
        assert_eq!(NoopUpdate::read(b"{\"users\":{},\"x\":\"\xff\"}"), None);
    }
}
