//! Parameters of a request, from its query and from a JSON or form body.

use kit::params::Params;
use kit::{Error, Request};
use serde_json::{Map, Value};

/// The largest body of parameters, in bytes. All settings together are far smaller.
const MAX_BODY: u64 = 1 << 20;

/// Parameters that authenticate the caller. They are removed.
const CREDENTIALS: [&str; 4] = ["private_token", "access_token", "job_token", "sudo"];

/// The parameters of `request`; those of the body win over those of the query.
pub async fn read(request: Request) -> Result<Map<String, Value>, Error> {
    let mut fields = from_form(&request.query);
    let media_type = request.media_type();
    let body = request.body.collect(MAX_BODY).await?;
    match media_type.as_deref() {
        _ if body.is_empty() => {}
        Some("application/json") => match serde_json::from_slice(&body) {
            Ok(Value::Object(object)) => fields.extend(object),
            Ok(_) => return Err(Error::validation("the body must be a JSON object")),
            Err(error) => return Err(Error::validation(format!("the body is not valid JSON: {error}"))),
        },
        Some("application/x-www-form-urlencoded") => match std::str::from_utf8(&body) {
            Ok(form) => fields.extend(from_form(form)),
            Err(_) => return Err(Error::validation("the body is not UTF-8")),
        },
        other => return Err(Error::unsupported_media_type(other.unwrap_or_default())),
    }
    CREDENTIALS.iter().for_each(|name| drop(fields.remove(*name)));
    Ok(fields)
}

/// The fields of a form; a repeated `name[]` becomes a list.
fn from_form(form: &str) -> Map<String, Value> {
    let mut fields = Map::new();
    for (name, value) in Params::parse(form).pairs() {
        match name.strip_suffix("[]") {
            None => drop(fields.insert(name.to_owned(), value.into())),
            Some(list) => match fields.get_mut(list) {
                Some(Value::Array(items)) => items.push(value.into()),
                _ => drop(fields.insert(list.to_owned(), vec![value].into())),
            },
        }
    }
    fields
}
