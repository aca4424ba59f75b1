//! Parameters in the body of a request: a JSON object or a form.

use crate::error::Error;
use crate::params::Params;
use crate::request::Request;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value};

/// The parameters of a body. An empty body is a form without fields, whatever its media type.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Values keep the types that the client gave them.
    Json(Map<String, Value>),
    /// Every value is text.
    Form(Params),
}

impl Input {
    /// Reads the body of a request, of at most `limit` bytes. 400 if the body does not parse as its media type, or is
    /// JSON but no object. 413 beyond the limit. 415 for a media type other than JSON and forms.
    pub async fn read(request: Request, limit: u64) -> Result<Self, Error> {
        let media_type = request.media_type();
        let boundary = request.header(CONTENT_TYPE).and_then(boundary);
        let body = request.body.collect(limit).await?;
        match media_type.as_deref() {
            _ if body.is_empty() => Ok(Input::Form(Params::default())),
            Some("application/json") => match serde_json::from_slice(&body) {
                Ok(Value::Object(object)) => Ok(Input::Json(object)),
                Ok(_) => Err(Error::validation("the body must be a JSON object")),
                Err(why) => Err(Error::validation(format!("the body is not valid JSON: {why}"))),
            },
            Some("application/x-www-form-urlencoded") => match std::str::from_utf8(&body) {
                Ok(form) => Ok(Input::Form(Params::parse(form))),
                Err(_) => Err(Error::validation("the body is not UTF-8")),
            },
            Some("multipart/form-data") => boundary
                .and_then(|boundary| parse_multipart(&body, &boundary))
                .map(Input::Form)
                .ok_or_else(|| Error::validation("the body is not a valid multipart form")),
            other => Err(Error::unsupported_media_type(other.unwrap_or_default())),
        }
    }

    /// Converts all values to text.
    pub fn into_params(self) -> Result<Params, Error> {
        match self {
            Input::Json(object) => Params::from_json(&object),
            Input::Form(params) => Ok(params),
        }
    }
}

/// Reads the parameters of the query and of a body of at most `limit` bytes. A parameter of the body replaces one of
/// the query. Errors: as [`Input::read`].
pub async fn read_params(request: Request, limit: u64) -> Result<Params, Error> {
    let mut params = request.params();
    params.extend(Input::read(request, limit).await?.into_params()?);
    Ok(params)
}

/// The boundary parameter of a `Content-Type`; `None` if it is absent or empty.
pub fn boundary(content_type: &str) -> Option<String> {
    let parameter = content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim())
    })?;
    let unquoted = parameter.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    Some(unquoted.unwrap_or(parameter).to_owned()).filter(|boundary| !boundary.is_empty())
}

/// Parses the fields of a form, in order; `None` if it is malformed or not UTF-8.
pub fn parse_multipart(body: &[u8], boundary: &str) -> Option<Params> {
    // A delimiter begins with a line break, which the first delimiter of a body lacks.
    let body = format!("\r\n{}", std::str::from_utf8(body).ok()?);
    let delimiter = format!("\r\n--{boundary}");
    let mut fields = Vec::new();
    let mut parts = body.split(delimiter.as_str()).skip(1);
    loop {
        let part = parts.next()?;
        if part.starts_with("--") {
            return Some(Params::from_iter(fields));
        }
        let (headers, value) = part.strip_prefix("\r\n")?.split_once("\r\n\r\n")?;
        let name = headers.split("\r\n").find_map(field_name)?;
        fields.push((name, value.to_owned()));
    }
}

/// The field's name, if this is the header `Content-Disposition`.
fn field_name(header: &str) -> Option<String> {
    let (name, value) = header.split_once(':')?;
    if !name.trim().eq_ignore_ascii_case("content-disposition") {
        return None;
    }
    let name = value.split(';').find_map(|parameter| parameter.trim().strip_prefix("name="))?;
    Some(name.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::executor::block_on;
    use http::{HeaderValue, Method};
    use serde_json::json;

    fn request(media_type: &'static str, body: &'static str) -> Request {
        let mut request = Request::new(Method::POST, "/?a=1&b=2");
        request.headers.insert("content-type", HeaderValue::from_static(media_type));
        request.body = body.into();
        request
    }

    #[test]
    fn the_body_wins_over_the_query() {
        for (media_type, body) in [
            ("application/json; charset=utf-8", r#"{"a":true}"#),
            ("application/x-www-form-urlencoded", "a=true"),
            (
                "multipart/form-data; boundary=X",
                "--X\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\ntrue\r\n--X--\r\n",
            ),
        ] {
            let params = block_on(read_params(request(media_type, body), 200)).unwrap();
            assert_eq!((params.last("a"), params.last("b")), (Some("true"), Some("2")), "{media_type}");
        }
        assert!(block_on(read_params(request("image/png", ""), 100)).is_ok(), "nothing has no type");
    }

    #[test]
    fn bodies_that_are_no_objects_or_forms_are_refused() {
        for (media_type, body, status, error) in [
            ("application/json", "[1]", 400, json!("the body must be a JSON object")),
            (
                "application/json",
                "{",
                400,
                json!("the body is not valid JSON: EOF while parsing an object at line 1 column 1"),
            ),
            ("multipart/form-data; boundary=X", "--X", 400, json!("the body is not a valid multipart form")),
            ("multipart/form-data", "--X--", 400, json!("the body is not a valid multipart form")),
            ("text/xml", "<a/>", 415, json!("The provided content-type 'text/xml' is not supported.")),
        ] {
            let refused = block_on(Input::read(request(media_type, body), 100)).unwrap_err();
            assert_eq!((refused.status.as_u16(), &refused.to_json()["error"]), (status, &error), "{body}");
        }
        assert_eq!(block_on(Input::read(request("application/json", "{}"), 1)).unwrap_err().status, 413);
        let mut broken = request("application/x-www-form-urlencoded", "");
        broken.body = b"\xff".to_vec().into();
        let broken = block_on(Input::read(broken, 1)).unwrap_err();
        assert_eq!(broken.to_json(), json!({"error": "the body is not UTF-8"}));
    }
}

#[cfg(test)]
mod multipart_tests {
    use super::*;

    #[test]
    fn boundaries() {
        assert_eq!(boundary("multipart/form-data; boundary=abc").as_deref(), Some("abc"));
        assert_eq!(boundary("multipart/form-data; charset=utf-8; Boundary=\"a b\"").as_deref(), Some("a b"));
        assert_eq!(boundary("multipart/form-data"), None);
        assert_eq!(boundary("multipart/form-data; boundary="), None);
    }

    #[test]
    fn fields_as_curl_sends_them() {
        let body = "--XX\r\nContent-Disposition: form-data; name=\"body\"\r\n\r\n```suggestion\na --XX\r\n```\r\n\
            --XX\r\nContent-Disposition: form-data; name=\"position[new_line]\"\r\nContent-Type: text/plain\r\n\r\n3\r\n--XX--\r\n";
        let params = parse_multipart(body.as_bytes(), "XX").unwrap();
        let pairs: Vec<_> = params.pairs().collect();
        assert_eq!(pairs, [("body", "```suggestion\na --XX\r\n```"), ("position[new_line]", "3")]);
        assert_eq!(parse_multipart(b"--XX--\r\n", "XX").unwrap().pairs().count(), 0);
        for bad in
            [&b""[..], b"--XX\r\n", b"--XX\r\nno headers\r\n--XX--", b"--YY--", b"--XX\r\n\r\nx\r\n--XX--", b"\xff"]
        {
            assert!(parse_multipart(bad, "XX").is_none(), "{bad:?}");
        }
    }
}
