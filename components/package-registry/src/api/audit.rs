//! Advisories about the packages in a request's body. This registry has none. If the operator forwards, clients are
//! redirected to another registry, which may have some. Otherwise an audit is refused: clients print an empty answer as
//! "0 vulnerabilities", although no program has looked for any.

use super::access;
use super::error::same_text;
use super::forward;
use super::request::RegistryRequest;
use crate::json;
use crate::name::PackageName;
use crate::route::{Audit, Level};
use flate2::read::GzDecoder;
use http::StatusCode;
use http::header::{CONTENT_ENCODING, LOCATION};
use kit::path::Segment;
use kit::{Env, Error, Response};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashSet};
use std::io::Read;

/// The most bytes of a body, as it is sent and decoded: a tree of some ten thousand packages.
const MAX_BODY: u64 = 8 << 20;

/// The most scopes of a body that is forwarded. Each scope is looked up.
const MAX_SCOPES: usize = 1000;

/// The variable for audits that are not forwarded: `refuse`, the default, or [`EMPTY`].
pub const AUDIT: &str = "registry_audit";

/// They are answered as if there were no advisories.
const EMPTY: &str = "empty";

/// A report without advisories, with the members that clients require.
fn empty_report(audit: Audit) -> Value {
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

/// Answers with 307 to the other registry, which keeps the method and the body. The body has the names of all packages
/// that a program uses. It is not forwarded if one of the names may not be, or if it cannot be parsed here. Who may not
/// read the project or group is refused.
pub async fn report(mut request: RegistryRequest, audit: Audit) -> Result<Response, Error> {
    match &request.level {
        Level::Project(_) => drop(access::readable_project(&request)?),
        Level::Group(id) => drop(access::readable_group(&request, id)?),
        Level::Instance => {}
    }
    let Some(registry) = forward::registry(&request.env)?.map(str::to_owned) else {
        return unanswered(&request.env, audit, "this registry knows none");
    };
    let body = std::mem::take(&mut request.http.body).collect(MAX_BODY).await?;
    let strings = decoded(body, request.http.header(CONTENT_ENCODING)).and_then(|body| json::strings(&body));
    Ok(match strings {
        Some(strings) if may_be_forwarded(&request, &strings)? => {
            let location = format!("{registry}/{}", audit.path());
            Response::new(StatusCode::TEMPORARY_REDIRECT).with_text(LOCATION, &location)
        }
        _ => return unanswered(&request.env, audit, "the names of some packages may not leave this registry"),
    })
}

/// The answer where no advisories were looked for. 404, which clients do not repeat, and after which they go on to
/// install.
fn unanswered(env: &Env, audit: Audit, why: &str) -> Result<Response, Error> {
    if env.variables.get(AUDIT) == Some(EMPTY) {
        return Ok(Response::ok(&empty_report(audit)));
    }
    let text = format!(
        "no advisories were looked for, because {why}: audit with the address of a registry that has advisories (npm \
         audit --registry URL)"
    );
    Err(same_text(StatusCode::NOT_FOUND, text))
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

/// Whether all package names in these strings may be forwarded. Reads: for each scope the entry of its path, 1; and the
/// reads of [`access::any_name_exists`].
fn may_be_forwarded(request: &RegistryRequest, strings: &BTreeSet<String>) -> Result<bool, Error> {
    let env = &request.env;
    // In addresses, the slash after a scope is encoded. A text that does not decode could be any name.
    let encoded = strings.iter().filter(|text| text.contains('%'));
    let Some(decoded) = encoded.map(|text| Segment(text).decode()).collect::<Option<Vec<_>>>() else {
        return Ok(false);
    };
    let texts = strings.iter().map(String::as_str).chain(decoded.iter().map(|text| &**text));
    let names: BTreeSet<&str> = texts.flat_map(package_names).collect();
    let scopes: BTreeSet<&str> = names.iter().filter_map(|name| forward::scope(name)).collect();
    if scopes.len() > MAX_SCOPES || forward::is_any_denied(env, names.iter().copied()) {
        return Ok(false);
    }
    for scope in scopes {
        if forward::is_local_scope(env, scope)? {
            return Ok(false);
        }
    }
    let names: HashSet<PackageName> = names.into_iter().filter_map(PackageName::parse).collect();
    Ok(!access::any_name_exists(request, &names)?)
}

/// The possible package names in a string: the string itself, the package of a file's address, and the name before a
/// version. Examples are `lib@1.0.0`, `npm:lib@^1` and `other@npm:lib@1.0.0`.
fn package_names(text: &str) -> impl Iterator<Item = &str> {
    let in_address = text.split_once("/-/").map(|(before, _)| last_of_path(before));
    [text].into_iter().chain(text.split(':').map(str::trim).map(without_version)).chain(in_address)
}

/// The last segment of a path, with the scope before it.
fn last_of_path(path: &str) -> &str {
    let Some((above, last)) = path.rsplit_once('/') else { return path };
    let scope = above.rsplit('/').next().filter(|scope| scope.starts_with('@'));
    let length = scope.map_or(0, |scope| scope.len() + 1) + last.len();
    path.get(path.len() - length..).unwrap_or(last)
}

/// `lib@1.0.0` or `@scope/lib@1.0.0` without the version.
fn without_version(spec: &str) -> &str {
    let end = spec.char_indices().skip(1).find(|(_, character)| *character == '@');
    end.and_then(|(end, _)| spec.get(..end)).unwrap_or(spec)
}

#[cfg(test)]
mod tests {
    use super::package_names;

    #[test]
    fn names_are_found_with_versions_and_behind_aliases() {
        for (text, expected) in [
            ("lib", "lib"),
            ("@a/lib", "@a/lib"),
            ("lib@1.0.0", "lib"),
            ("@a/lib@^1", "@a/lib"),
            ("npm:lib", "lib"),
            ("NPM:@a/lib@^1", "@a/lib"),
            ("other@npm:@a/lib@1.0.0", "@a/lib"),
            ("other@npm: @a/lib@1.0.0", "@a/lib"),
            ("other@npm:lib@1.0.0", "other"),
            ("https://h/lib/-/lib-1.0.0.tgz", "lib"),
            ("https://h/x/@a/lib/-/lib-1.0.0.tgz", "@a/lib"),
            ("@a/lib/-/lib-1.0.0.tgz", "@a/lib"),
            ("/-/", ""),
        ] {
            assert!(package_names(text).any(|name| name == expected), "{text}");
        }
        assert!(package_names("").all(str::is_empty) && package_names("@").all(|name| name == "@"));
    }
}
