//! JSON objects whose members keep their order and their text.
//!
//! Many programs write package manifests, with fields of varying types. Fields are stored and served byte for byte, so
//! that parsing loses nothing.

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::fmt;

/// The most members of one object. Without the limit, a megabyte of text could take ten of memory. The largest packages
/// have some ten thousand versions.
const MAX_MEMBERS: usize = 200_000;

/// The members of one JSON object, in the order in which they were written, each name once.
#[derive(Debug, Default)]
pub struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Reads an object. Another type, or a name that occurs twice, is an error.
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
                    if names.len() > MAX_MEMBERS {
                        return Err(A::Error::custom(format_args!("an object has more than {MAX_MEMBERS} members")));
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
pub struct Name<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// The value as a string, if it is one.
pub fn string(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// Begins the error about a member that has two values.
const TWICE: &str = "twice: ";

/// The value. The error is the name of two different members in one object: some programs use the first, and some the
/// last. It is `None` if the value is nested deeper than 127 levels, the parser's limit.
pub fn unambiguous(value: &RawValue) -> Result<Value, Option<String>> {
    serde_json::from_str(value.get()).map(|Unambiguous(value)| value).map_err(|why| {
        let text = why.to_string();
        let name = text.strip_prefix(TWICE)?;
        Some(name.rsplit_once(" at line ").map_or(name, |(name, _)| name).to_owned())
    })
}

struct Unambiguous(Value);

impl<'de> Deserialize<'de> for Unambiguous {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a JSON value")
            }

            fn visit_unit<E>(self) -> Result<Value, E> {
                Ok(Value::Null)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
                Ok(value.into())
            }

            fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
                Ok(value.into())
            }

            fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
                Ok(value.into())
            }

            fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
                Ok(value.into())
            }

            fn visit_str<E>(self, value: &str) -> Result<Value, E> {
                Ok(value.into())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
                let mut values = Vec::new();
                while let Some(Unambiguous(value)) = list.next_element()? {
                    values.push(value);
                }
                Ok(values.into())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
                let mut members = serde_json::Map::new();
                while let Some((name, Unambiguous(value))) = map.next_entry::<String, _>()? {
                    if members.get(&name).is_some_and(|first| *first != value) {
                        return Err(A::Error::custom(format_args!("{TWICE}{name}")));
                    }
                    members.insert(name, value);
                }
                Ok(members.into())
            }
        }

        deserializer.deserialize_any(Reader).map(Unambiguous)
    }
}

/// The strings in a JSON text, at every depth: names of members, and values. `None` if it is no JSON.
pub fn strings(text: &[u8]) -> Option<BTreeSet<String>> {
    let mut strings = BTreeSet::new();
    let mut reader = serde_json::Deserializer::from_slice(text);
    Strings(&mut strings).deserialize(&mut reader).ok()?;
    reader.end().ok()?;
    Some(strings)
}

struct Strings<'a>(&'a mut BTreeSet<String>);

impl<'de> DeserializeSeed<'de> for Strings<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strings<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.0.insert(text.to_owned());
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Strings(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            self.0.insert(name);
            map.next_value_seed(Strings(self.0))?;
        }
        Ok(())
    }
}

/// Whether every client can read the JSON. Because of half a surrogate pair in a string, or a number beyond a double's
/// range, some clients refuse the whole document.
pub fn is_portable(value: &RawValue) -> bool {
    serde_json::from_str::<Value>(value.get()).is_ok()
}

/// Whether the value is an object.
pub fn is_object(value: &RawValue) -> bool {
    value.get().starts_with('{')
}

/// `text` as a JSON string, quotes included.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Appends `text`, which is valid JSON, without the white space between its tokens. The result
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
    fn a_value_is_unambiguous_unless_a_name_has_two_values() {
        let read = |text: &str| unambiguous(&RawValue::from_string(text.into()).unwrap());
        let text = r#"{"a":[null,true,-1,18446744073709551615,1.5,"é",{"b":{}}],"\u0061":[null,true,-1,18446744073709551615,1.5,"é",{"b":{}}]}"#;
        assert_eq!(read(text), Ok(serde_json::from_str(text).unwrap()));
        assert_eq!(read(r#"{"a at line 1":1,"a at line 1":2}"#), Err(Some("a at line 1".into())));
        assert_eq!(read(r#"[{"a":{"b":1,"\u0062":"1"}}]"#), Err(Some("b".into())));
        assert!(read(&format!("{}{}", "[".repeat(127), "]".repeat(127))).is_ok());
        assert_eq!(read(&format!("{}{}", "[".repeat(128), "]".repeat(128))), Err(None));
    }

    #[test]
    fn strings_are_found_at_every_depth() {
        let text = br#"{"a":[1,-1,1.5,true,null,"x",{"b":{"\u0063":{}}}],"a":{}}"#;
        let strings = strings(text).unwrap();
        assert_eq!(strings.iter().collect::<Vec<_>>(), ["a", "b", "c", "x"]);
        for text in ["", "{", "{}x", "{\"a\":}", "\u{1f}"] {
            assert_eq!(super::strings(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn texts_that_strict_parsers_refuse_are_not_portable() {
        let is_portable = |text: &str| is_portable(&RawValue::from_string(text.into()).unwrap());
        for text in [r#"{"a":"\ud83d\ude00","b":[1e308,-0,18446744073709551616]}"#, r#""\u0000""#] {
            assert!(is_portable(text), "{text}");
        }
        for text in [r#""\ud83d""#, r#"{"a":["\ude00x"]}"#, r#"{"\ud83d":1}"#, "1e400", "[-1e400]"] {
            assert!(!is_portable(text), "{text}");
        }
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
