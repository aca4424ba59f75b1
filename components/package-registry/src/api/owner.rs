//! Owners and stars, which clients keep in a package's document: they put back a document of
//! nothing but `maintainers`, or of nothing but `users`.
//!
//! Neither is kept here. Who may publish is who has a role in the project, so a list of owners in a
//! package could only contradict it; metadata shows the `maintainers` that the latest version was
//! published with, and the client is told so in a notice, which it prints. A document like that must
//! not be taken for the whole of a package, though: no version, tag or field is lost by it.

use super::access::{self, Purpose};
use super::{Call, no_package, publish};
use crate::json::Members;
use directory::user;
use http::{HeaderName, HeaderValue, StatusCode};
use kit::{Error, Response};
use serde_json::json;

/// Largest document that can be one of these, in bytes. It has an entry for each owner, or for each
/// user who likes the package, of those that metadata has: a handful.
const MAX_SIZE: u64 = 64 * 1024;

/// Printed by npm (<https://docs.npmjs.com/cli/v11/using-npm/logging>).
const NPM_NOTICE: HeaderName = HeaderName::from_static("npm-notice");

const OWNERS_ARE_MEMBERS: HeaderValue =
    HeaderValue::from_static("nothing was changed: the owners of a package are the members of its project");

/// What a document asks for that has neither versions nor attachments.
#[derive(Debug, PartialEq, Eq)]
pub enum NoopUpdate {
    Owners,
    Star,
}

impl NoopUpdate {
    /// `None` if the document asks for something else, or for nothing that can be read.
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
}

/// `PUT projects/:id/packages/…/:package_name`: a document of this kind, or else one for
/// [`publish::submit`].
pub async fn submit(mut call: Call, name: &str) -> Result<Response, Error> {
    call.caller.known_or_401()?;
    if call.request.content_length().is_some_and(|length| length <= MAX_SIZE) {
        let document = std::mem::take(&mut call.request.body).collect(MAX_SIZE).await?;
        if let Some(wish) = NoopUpdate::read(&document) {
            return acknowledge(&call, name, &wish);
        }
        call.request.body = document.into();
    }
    publish::submit(call, name).await
}

/// Answers a caller who may do what they ask for. Only the package is read.
pub fn acknowledge(call: &Call, name: &str, wish: &NoopUpdate) -> Result<Response, Error> {
    let purpose = match wish {
        NoopUpdate::Owners => Purpose::Unpublish,
        NoopUpdate::Star => Purpose::Read,
    };
    access::find(call, name, purpose)?.authorize(call, purpose, no_package())?;
    let response = Response::ok(&json!({"ok": true}));
    Ok(match wish {
        NoopUpdate::Owners => response.with_header(NPM_NOTICE, OWNERS_ARE_MEMBERS),
        NoopUpdate::Star => response,
    })
}

/// `GET <prefix>/-/user/org.couchdb.user:NAME`: what a client asks before it adds an owner.
pub fn user(call: &Call, name: &str) -> Result<Response, Error> {
    call.caller.known_or_401()?;
    let found = user::find(&call.env, name)?.filter(|user| user.username.eq_ignore_ascii_case(name));
    let no_user = || Error::pair(StatusCode::NOT_FOUND, "404 User Not Found", format!("user {name} not found"));
    let username = found.ok_or_else(no_user)?.username;
    Ok(Response::ok(&json!({"_id": format!("org.couchdb.user:{username}"), "name": username, "email": ""})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_told_from_a_publication() {
        for (document, wish) in [
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
            assert_eq!(NoopUpdate::read(document.as_bytes()), wish, "{document}");
        }
        assert_eq!(NoopUpdate::read(b"{\"users\":{},\"x\":\"\xff\"}"), None);
    }
}
