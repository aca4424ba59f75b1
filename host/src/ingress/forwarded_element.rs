//! The elements of the `Forwarded` header (RFC 7239): each proxy adds one.
//!
//! A proxy writes its element to the right of its client's text. So the host reads the header from the right: the
//! proxy's own text then decides where a quoted string ends. A quote that the client left open cannot swallow the
//! proxy's element. A quoted string may hold separators, for example in a `Host` that a client has chosen.

use std::borrow::Cow;
use std::iter;

use http::HeaderMap;
use http::header::{FORWARDED, HeaderValue};

/// One element. A parameter is `None` if it is missing or unreadable.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ForwardedElement<'a> {
    /// The parameter `for`.
    pub client: Option<Cow<'a, str>>,
    pub proto: Option<Cow<'a, str>>,
    pub host: Option<Cow<'a, str>>,
}

/// The elements of all lines of the header, the nearest proxy's first.
pub fn forwarded_elements(headers: &HeaderMap) -> impl Iterator<Item = ForwardedElement<'_>> {
    let lines = headers.get_all(FORWARDED).iter().rev().map(HeaderValue::as_bytes);
    let elements = lines.flat_map(|line| split_from_right(line, b',')).map(<[u8]>::trim_ascii);
    elements.filter(|element| !element.is_empty()).map(ForwardedElement::parse)
}

impl<'a> ForwardedElement<'a> {
    /// An element with a repeated parameter has no values. A proxy writes each parameter once, so one of them is a
    /// client's, in a value that the proxy did not quote.
    fn parse(element: &'a [u8]) -> Self {
        let (mut client, mut proto, mut host) = (None, None, None);
        for pair in split_from_right(element, b';') {
            let mut parts = pair.splitn(2, |byte| *byte == b'=').map(<[u8]>::trim_ascii);
            let (Some(name), Some(value)) = (parts.next(), parts.next()) else { continue };
            let parameter = match name {
                name if name.eq_ignore_ascii_case(b"for") => &mut client,
                name if name.eq_ignore_ascii_case(b"proto") => &mut proto,
                name if name.eq_ignore_ascii_case(b"host") => &mut host,
                _ => continue,
            };
            if parameter.replace(unquoted(value)).is_some() {
                return Self::default();
            }
        }
        Self { client: client.flatten(), proto: proto.flatten(), host: host.flatten() }
    }
}

/// The parts between the separators that are in no quoted string, from the right.
fn split_from_right(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    iter::from_fn(move || {
        let text = rest.take()?;
        let Some((before, part)) = last_separator(text, separator).and_then(|at| text.split_at_checked(at)) else {
            return Some(text);
        };
        rest = Some(before);
        part.get(1..)
    })
}

fn last_separator(text: &[u8], separator: u8) -> Option<usize> {
    let mut is_quoted = false;
    for (at, byte) in text.iter().enumerate().rev() {
        match *byte {
            b'"' if is_quoted && is_escaped(text.get(..at).unwrap_or_default()) => {}
            b'"' => is_quoted = !is_quoted,
            byte if byte == separator && !is_quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// Whether a backslash escapes the character after `before`, in a quoted string. A backslash that is escaped itself
/// does not.
fn is_escaped(before: &[u8]) -> bool {
    before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// The text of a token or of a quoted string. `None` if it is neither.
fn unquoted(value: &[u8]) -> Option<Cow<'_, str>> {
    let value = std::str::from_utf8(value).ok()?;
    let Some(rest) = value.strip_prefix('"') else {
        return (!value.contains('"')).then_some(Cow::Borrowed(value));
    };
    let quoted = rest.strip_suffix('"')?;
    if !quoted.contains(['"', '\\']) {
        return Some(Cow::Borrowed(quoted));
    }
    let mut text = String::with_capacity(quoted.len());
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        text.push(match character {
            '"' => return None,
            '\\' => characters.next()?,
            character => character,
        });
    }
    Some(Cow::Owned(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `for`, `proto` and `host` of each element, or "-", the nearest first.
    fn elements(lines: &[&str]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FORWARDED, HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        let text = |parameter: Option<Cow<'_, str>>| parameter.map_or("-".to_owned(), Cow::into_owned);
        let parameters =
            |element: ForwardedElement<'_>| [element.client, element.proto, element.host].map(text).join(" ");
        forwarded_elements(&headers).map(parameters).collect()
    }

    #[test]
    fn separators_in_a_quoted_string_separate_nothing() {
        assert_eq!(elements(&[r#"for=a;host="x;for=b""#]), ["a - x;for=b"]);
        assert_eq!(elements(&[r#"for=a;host="x,for=b""#]), ["a - x,for=b"]);
        assert_eq!(elements(&[r#"host="x;proto=https, for=b";for=a"#]), ["a - x;proto=https, for=b"]);
    }

    #[test]
    fn an_escaped_quote_ends_no_string() {
        assert_eq!(elements(&[r#"for=a;host="x\";for=b;by=\"y""#]), [r#"a - x";for=b;by="y"#]);
        assert_eq!(elements(&[r#"for=a;host="\",for=b""#]), [r#"a - ",for=b"#]);
        // The backslash before the last quote is escaped itself, and so are those before the first.
        assert_eq!(elements(&[r#"for=a;host="x\\", for=c;host="y\\""#]), [r"c - y\", r"a - x\"]);
        assert_eq!(elements(&[r#"for=a;host="\\\",for=b""#]), [r#"a - \",for=b"#]);
    }

    #[test]
    fn a_quote_that_a_client_left_open_swallows_no_element_of_a_proxy() {
        let proxies = r#"for=a;host="h""#;
        for client in [r#"""#, r#"for=b;host=""#, r#"for="b"#, r"x\", r#"\""#, r#"host="\"#, r#"for=b;host="x\""#] {
            let found = elements(&[&format!("{client}, {proxies}")]);
            assert_eq!(found[0], "a - h", "{client}");
            let found = elements(&[client, proxies]);
            assert_eq!(found[0], "a - h", "{client}");
            let found = elements(&[&format!("{client}, for=c, {proxies}")]);
            assert_eq!(found[..2], ["a - h", "c - -"], "{client}");
        }
    }

    #[test]
    fn a_value_that_is_not_closed_or_not_escaped_is_unreadable() {
        assert_eq!(elements(&[r#"for=a;host="x"#]), ["- - -"], "the quote opens a string to the left");
        assert_eq!(elements(&[r#"for=a;host="x"y""#]), ["- - -"]);
        assert_eq!(elements(&[r#"for=a;host=x"y""#]), ["a - -"]);
        assert_eq!(elements(&[r#"for=a;host=""#]), ["- - -"]);
        assert_eq!(elements(&[r#"for=a;host="""#]), ["a - "]);
    }

    #[test]
    fn a_parameter_that_occurs_twice_makes_its_element_unreadable() {
        assert_eq!(elements(&["for=c, for=a;host=x;For=b;proto=https"]), ["- - -", "c - -"]);
        assert_eq!(elements(&["for=\u{ff};for=b"])[0], "- - -");
        assert_eq!(elements(&[r#"for=a;host="x";for=b;y="""#]), ["- - -"], "a proxy that does not escape");
        assert_eq!(elements(&["for=a;proto=http;proto=https"]), ["- - -"]);
    }

    #[test]
    fn the_elements_of_all_lines_are_read_nearest_first() {
        assert_eq!(elements(&["for=a, ,for=b;", "", "for=c ; proto = HTTPS"]), ["c HTTPS -", "b - -", "a - -"]);
    }
}
