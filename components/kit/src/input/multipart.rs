//! Multipart forms (RFC 7578), which `curl --form` sends. Text fields only, no files.

use crate::params::Params;

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
pub fn parse(body: &[u8], boundary: &str) -> Option<Params> {
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
        let params = parse(body.as_bytes(), "XX").unwrap();
        let pairs: Vec<_> = params.pairs().collect();
        assert_eq!(pairs, [("body", "```suggestion\na --XX\r\n```"), ("position[new_line]", "3")]);
        assert_eq!(parse(b"--XX--\r\n", "XX").unwrap().pairs().count(), 0);
        for bad in
            [&b""[..], b"--XX\r\n", b"--XX\r\nno headers\r\n--XX--", b"--YY--", b"--XX\r\n\r\nx\r\n--XX--", b"\xff"]
        {
            assert!(parse(bad, "XX").is_none(), "{bad:?}");
        }
    }
}
