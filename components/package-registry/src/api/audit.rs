//! Advisories about the packages in a request's body. This registry knows none; another one may, to which
//! the operator forwards.

use super::forward;
use super::request::RegistryRequest;
use crate::json;
use crate::route::Audit;
use flate2::read::GzDecoder;
use http::StatusCode;
use http::header::{CONTENT_ENCODING, LOCATION};
use kit::store::StoreError;
use kit::{Env, Error, Response};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Read;

/// The most bytes of a body, as it is sent and decoded: a tree of some ten thousand packages.
const MAX_BODY: u64 = 8 << 20;

/// The most scopes of a body whose names are told to another registry; each is looked up.
const MAX_SCOPES: usize = 1000;

/// The report without any advisory, with the members that clients require.
fn nothing_known(audit: Audit) -> Value {
    match audit {
        Audit::Bulk => json!({}),
        Audit::Quick | Audit::Full => json!({
            "actions": [],
            "advisories": {},
            "muted": [],
            "metadata": {
                "vulnerabilities": {"info": 0, "low": 0, "moderate": 0, "high": 0, "critical": 0},
                "dependencies": 0,
                "devDependencies": 0,
                "optionalDependencies": 0,
                "totalDependencies": 0,
            },
        }),
    }
}

/// Advisories about the packages in the body: none, or 307 to the other registry, which keeps the method
/// and the body. The body tells the names of all packages that a program uses, so it does not leave if one
/// of them may not, or if it cannot be read here.
pub async fn report(request: RegistryRequest, audit: Audit) -> Result<Response, Error> {
    let RegistryRequest { env, mut http, .. } = request;
    let Some(registry) = forward::registry(&env).map(str::to_owned) else {
        return Ok(Response::ok(&nothing_known(audit)));
    };
    let body = std::mem::take(&mut http.body).collect(MAX_BODY).await?;
    let names = decoded(body, http.header(CONTENT_ENCODING)).and_then(|body| json::names(&body));
    Ok(match names {
        Some(names) if may_leave(&env, &names)? => {
            let location = format!("{registry}/{}", audit.path());
            Response::new(StatusCode::TEMPORARY_REDIRECT).with_text(LOCATION, &location)
        }
        _ => Response::ok(&nothing_known(audit)),
    })
}

fn decoded(body: Vec<u8>, encoding: Option<&str>) -> Option<Vec<u8>> {
    match encoding.map(str::trim).filter(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
        None => Some(body),
        Some(encoding) if encoding.eq_ignore_ascii_case("gzip") => {
            let mut decoded = Vec::new();
            let read = GzDecoder::new(body.as_slice()).take(MAX_BODY + 1).read_to_end(&mut decoded);
            (read.is_ok() && decoded.len() as u64 <= MAX_BODY).then_some(decoded)
        }
        Some(_) => None,
    }
}

/// Whether all of these names may be told to another registry. Reads: for each scope the top-level group of that
/// path, up to 2.
fn may_leave(env: &Env, names: &BTreeSet<String>) -> Result<bool, StoreError> {
    let scopes: BTreeSet<&str> = names.iter().filter_map(|name| forward::scope(name)).collect();
    if scopes.len() > MAX_SCOPES || names.iter().any(|name| forward::is_denied(env, name)) {
        return Ok(false);
    }
    for scope in scopes {
        if forward::is_local_scope(env, scope)? {
            return Ok(false);
        }
    }
    Ok(true)
}
