//! Features that clients can ask for and this registry does not have. A refusal says what to do instead. Clients would
//! print any other answer as a success.

use super::error::same_text;
use super::request::RegistryRequest;
use crate::route::Missing;
use http::StatusCode;
use kit::Error;

fn text(missing: Missing) -> &'static str {
    match missing {
        Missing::Hooks => {
            "this registry calls no hooks: ask for the metadata of a package with If-None-Match, whose ETag changes with \
             every publication"
        }
        Missing::Members => {
            "the members of an organization are those of the group with its path: add and remove them there"
        }
        Missing::Owners => "the owners of a package are the members of its project: add and remove them there",
        Missing::Stars => "this registry keeps no stars",
        Missing::Teams => "there are no teams: add members to a group or to a project",
        Missing::UserPackages => "packages belong to projects and not to users: ask for those of a group",
        Missing::Visibility => "who may read a package is who may read its project: change the project's visibility",
    }
}

/// The error for a read.
pub fn absent(missing: Missing) -> Error {
    same_text(StatusCode::NOT_FOUND, text(missing))
}

/// The error for a change.
pub fn unchanged(request: &RegistryRequest, missing: Missing) -> Error {
    match request.caller.is_anonymous() {
        true => Error::unauthorized(),
        false => same_text(StatusCode::BAD_REQUEST, format!("nothing was changed: {}", text(missing))),
    }
}
