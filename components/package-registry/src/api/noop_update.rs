//! Documents that would change what this registry does not keep: `npm owner` and `npm star` send a document of only
//! `maintainers`, or only `users`.
//!
//! The registry stores neither, and refuses them ([`super::refusals`]). The project's roles decide who may publish, and
//! a stored list of owners could only contradict them. The `maintainers` in metadata are members of the project
//! ([`super::maintainers`]). Such a document must not be read as the whole package: it has no versions, so every version
//! would be unpublished.

use super::access::{self, Read, Unpublish};
use super::error::package_not_found;
use super::refusals;
use super::request::RegistryRequest;
use crate::json::Members;
use crate::route::Missing;
use kit::body::Body;
use kit::{Error, Request};

/// Largest such document, in bytes. It has an entry for each owner, or for each user who starred the package, that
/// metadata lists: a handful.
const MAX_SIZE: u64 = 64 * 1024;

/// An update that would have no effect.
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

    /// The refusal. A caller without the rights for the update is refused for that. Reads the package.
    pub fn refuse(&self, request: &RegistryRequest, name: &str) -> Error {
        let (authorized, missing) = match (request.caller.require_authenticated(), self) {
            (Err(error), _) => return error,
            (Ok(()), NoopUpdate::Owners) => {
                (access::authorize::<Unpublish>(request, name, package_not_found).map(drop), Missing::Owners)
            }
            (Ok(()), NoopUpdate::Star) => {
                (access::authorize::<Read>(request, name, package_not_found).map(drop), Missing::Stars)
            }
        };
        authorized.err().unwrap_or_else(|| refusals::unchanged(request, missing))
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
