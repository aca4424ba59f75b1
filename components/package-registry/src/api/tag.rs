//! Distribution tags: list, set, remove.

use super::access::{self, Publish, Read, Unpublish};
use super::caching;
use super::error::{bad_request, package_not_found, same_text};
use super::forward::Resource;
use super::latest;
use super::request::RegistryRequest;
use super::update::{Change, update};
use crate::merged::{Holder, MergedPackage};
use crate::metadata;
use crate::negotiation;
use crate::package::{LATEST, MAX_TAGS, TagError};
use crate::store;
use crate::version_range::{is_range, is_space};
use http::StatusCode;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use kit::path::{self, Segment};
use kit::{Env, Error, Request, Response};
use serde_json::json;

/// Longest tag, in bytes: as long as names of the reference service can be.
const MAX_TAG: usize = 255;

/// Largest body of a request that sets a tag, in bytes: a version is at most 256 long.
const MAX_BODY: u64 = 4096;

/// `GET <prefix>/-/package/:package_name/dist-tags`. Reads: the package.
pub fn list(request: &RegistryRequest, name: &str) -> Result<Response, Error> {
    require_text(name, "Package Name")?;
    let authorized = access::authorize_or_forward::<Read>(request, name, Resource::Tags, package_not_found)?;
    let mut response = Response::new(StatusCode::OK);
    response.body = metadata::tags(&authorized.merged).into();
    Ok(response
        .with_header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
        .with_header(CACHE_CONTROL, caching::revalidated(authorized.merged.projects())))
}

/// `PUT <prefix>/-/package/:package_name/dist-tags/:tag`. 204, or `{"ok": true}` if the client asks for JSON.
pub async fn set(mut request: RegistryRequest, name: &str, tag: &str) -> Result<Response, Error> {
    request.caller.require_authenticated()?;
    require_text(name, "Package Name")?;
    require_text(tag, "Tag")?;
    check(tag)?;
    let version = requested_version(&mut request.http).await?;
    let request = access::renew(request)?;
    require_text(&version, "Version")?;
    // At group and instance level, the version decides whose tag it is.
    let choose = |merged: &MergedPackage| tagged(&request.env, merged, tag, &version);
    let authorized = access::authorize_chosen::<Publish>(&request, name, choose, package_not_found)?;
    update(&request.env, &authorized, |package| {
        let entry = store::find_listed(&request.env, package, &version)?.ok_or_else(package_not_found)?;
        if package.tags.get(tag).is_some_and(|set| set.version == version) {
            return Ok(Change::None);
        }
        package.set_tag(tag, &version, &entry.upload, request.env.now).map_err(tag_error)?;
        Ok(Change::Made)
    })?;
    // yarn classic takes an answer without this member for a failure.
    Ok(match negotiation::wants_json(request.http.header(ACCEPT)) {
        true => Response::ok(&json!({"ok": true})),
        false => Response::no_content(),
    })
}

/// The package whose version gets a tag. 403 if the tag would not count there: tags are the owner's.
fn tagged(env: &Env, merged: &MergedPackage, tag: &str, version: &str) -> Result<Holder, Error> {
    let found = merged.find(|package| store::find_listed(env, package, version))?;
    let (holder, _) = found.ok_or_else(package_not_found)?;
    if merged.hides_tag(holder, tag) {
        let text = format!("403 Forbidden - the tag {tag} belongs to the owner of the name, and {version} does not");
        return Err(same_text(StatusCode::FORBIDDEN, text));
    }
    Ok(holder.clone())
}

/// The version that a request names: the body as a JSON string, as clients write it, or as an object with
/// `version`; or a parameter.
async fn requested_version(request: &mut Request) -> Result<String, Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Body {
        Version(String),
        Object { version: String },
    }

    let body = std::mem::take(&mut request.body).collect(MAX_BODY).await?;
    if !body.iter().all(u8::is_ascii_whitespace) {
        return match serde_json::from_slice(&body) {
            Ok(Body::Version(version) | Body::Object { version }) => Ok(version),
            Err(_) => Err(Error::validation("version is invalid")),
        };
    }
    Ok(request.params().last("version").unwrap_or_default().to_owned())
}

/// `DELETE <prefix>/-/package/:package_name/dist-tags/:tag`.
pub fn remove(request: &RegistryRequest, name: &str, tag: &str) -> Result<Response, Error> {
    request.caller.require_authenticated()?;
    require_text(name, "Package Name")?;
    require_text(tag, "Tag")?;
    let choose = |merged: &MergedPackage| Ok(merged.provider(tag).unwrap_or(merged.first()).clone());
    let authorized = access::authorize_chosen::<Unpublish>(request, name, choose, package_not_found)?;
    update(&request.env, &authorized, |package| {
        latest::complete(&request.env, package)?;
        let computed = match package.computed_latest() {
            Some(version) if tag == LATEST => store::find_listed(&request.env, package, version.as_str())?,
            _ => None,
        };
        package.remove_tag(tag, computed.as_ref().map(|entry| entry.upload.as_str())).map_err(tag_error)?;
        Ok(Change::Made)
    })?;
    Ok(Response::no_content())
}

/// 400 if a part of the request is blank.
fn require_text(text: &str, field: &str) -> Result<(), Error> {
    if text.trim().is_empty() { Err(bad_request(&format!("\"{field}\" not given"))) } else { Ok(()) }
}

/// 400 for a tag that must not be set, here or by publishing. It is too long, clients would read it as a version range,
/// or no path can name it.
pub fn check(tag: &str) -> Result<(), Error> {
    if tag.len() > MAX_TAG {
        return Err(bad_request(&format!("Tag has {} bytes; at most {MAX_TAG} are allowed", tag.len())));
    }
    if is_range(tag) {
        return Err(bad_request(&format!("Tag name must not be a version or a range of versions: {tag}")));
    }
    // A JavaScript object gets no member when this name is assigned.
    if tag == "__proto__" {
        return Err(bad_request("Tag name must not be `__proto__`"));
    }
    if !is_addressable(tag) {
        return Err(bad_request(
            "Tag name must not be `.` or `..`, have a control character, or begin or end with white space",
        ));
    }
    Ok(())
}

/// Whether every client can name the tag in a path: it decodes to the same text, and clients leave it unchanged.
/// Clients resolve `.` and `..` even if they are encoded, and trim their user's input.
fn is_addressable(tag: &str) -> bool {
    let encoded = path::encode(tag);
    Segment(&encoded).decode().is_some_and(|decoded| decoded == tag)
        && !matches!(tag, "." | "..")
        && tag.trim_matches(|c: char| c.is_whitespace() || is_space(c)) == tag
}

/// The error for a tag that the package refuses.
pub fn tag_error(error: TagError) -> Error {
    match error {
        TagError::TooManyTags => same_text(
            StatusCode::BAD_REQUEST,
            format!("the package has {MAX_TAGS} tags, which is the most that it can have"),
        ),
        TagError::NoSuchTag => Error::pair(StatusCode::NOT_FOUND, "404 Package Tag Not Found", "Package tag not found"),
    }
}
