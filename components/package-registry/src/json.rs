//! JSON objects whose members keep their order and their text.
//!
//! Package manifests are written by many programs, with fields of varying types. They are stored
//! and served byte for byte, so that parsing them loses nothing.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

/// The members of one JSON object, in the order in which they were written, each name once.
#[derive(Debug, Default)]
pub struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Reads an object. The error is that of another type, or of a name that occurs twice.
    pub fn read(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (&**name, *value))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

// Not derived, because no map of serde or serde_json keeps the order and refuses a second member of the
// same name.
impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                let mut names = HashSet::new();
                while let Some(Name(name)) = map.next_key()? {
                    if !names.insert(name.clone()) {
                        return Err(A::Error::custom(format_args!("`{name}` is given twice")));
                    }
                    members.push((name, map.next_value()?));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Reader)
    }
}

/// A member's name, borrowed where the text has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// The value as a string, if it is one.
pub fn string(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// Whether the value is an object.
pub fn is_object(value: &RawValue) -> bool {
    value.get().starts_with('{')
}

/// `text` as a JSON string, quotes included.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Appends `text`, which is valid JSON, without the white space between its tokens. What remains
/// has no line feed, because inside a string JSON requires it to be escaped.
pub fn compact(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(quote) = memchr::memchr(b'"', rest.as_bytes()) {
        let (tokens, string) = rest.split_at(quote);
        push_tokens(tokens, out);
        let (string, after) = string.split_at(string_length(string));
        out.push_str(string);
        rest = after;
    }
    push_tokens(rest, out);
}

fn push_tokens(tokens: &str, out: &mut String) {
    out.extend(tokens.split([' ', '\t', '\n', '\r']));
}

/// The length, in bytes, of the string literal that `text` starts with, both quotes included.
pub fn string_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut end = 1;
    while let Some(at) = bytes.get(end..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        end += at + 1;
        if bytes.get(end - 1) == Some(&b'"') {
            return end;
        }
        end += 1;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compacted(text: &str) -> String {
        let mut out = String::new();
        compact(text, &mut out);
        out
    }

    #[test]
    fn members_keep_their_order_and_their_text() {
        let members = Members::read(r#"{"b": 1.50, "a": [ 1 ], "\u0063": "é"}"#).unwrap();
        let pairs: Vec<_> = members.iter().map(|(name, value)| (name, value.get())).collect();
        assert_eq!(pairs, [("b", "1.50"), ("a", "[ 1 ]"), ("c", "\"é\"")]);
    }

    #[test]
    fn a_duplicate_name_is_refused_also_if_escaped() {
        let why = Members::read(r#"{"a":1,"\u0061":2}"#).unwrap_err().to_string();
        assert!(why.starts_with("`a` is given twice"), "{why}");
    }

    #[test]
    fn anything_but_an_object_is_refused() {
        for text in ["[]", "1", "\"a\"", "null", "", "{", "{}x", "{\"a\":}"] {
            assert!(Members::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn compacting_drops_white_space_between_tokens_only() {
        assert_eq!(
            compacted("{ \"a b\" :\t[ 1,\r\n 2 ] , \"c\\\" \\\\\": \" x \" }\n"),
            "{\"a b\":[1,2],\"c\\\" \\\\\":\" x \"}"
        );
        assert_eq!(compacted(" 12 "), "12");
    }

    #[test]
    fn a_string_ends_at_its_first_unescaped_quote() {
        assert_eq!(string_length(r#""a\"b\\" : "c""#), 8);
        assert_eq!(string_length(r#""""#), 2);
    }
}
