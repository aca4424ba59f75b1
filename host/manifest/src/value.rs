//! Reads the values of a manifest's TOML. An error has the line, the key, the value's type and the expected type.
//!
//! Only a table is read as a table. serde would also accept a list, in the order of the fields.

use std::fmt;
use std::ops::Range;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error, Expected, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use toml::Spanned;
use toml::de::{DeInteger, DeString, DeValue};

use super::location::{line, shown};

const TEXT: &str = "a text in quotes";
const NUMBER: &str = "a whole number";
const FLAG: &str = "`true` or `false`";
const LIST: &str = "a list in square brackets";
const TABLE: &str = "a table";
const LIST_OF_TABLES: &str = "a list of tables";

/// Reads a whole document.
pub fn read<'a, T: DeserializeOwned>(document: &'a Spanned<DeValue<'a>>) -> Result<T, ValueError> {
    T::deserialize(Value(document))
}

/// A defect of a value, with its path in the document.
#[derive(Debug)]
pub struct ValueError {
    /// The path of the value, the last part first.
    path: Vec<String>,
    /// The value's position in the text, in bytes.
    span: Option<Range<usize>>,
    problem: Problem,
}

#[derive(Debug)]
enum Problem {
    Kind { found: &'static str, expected: String },
    Other(String),
}

impl ValueError {
    fn new(problem: Problem) -> Self {
        Self { path: Vec::new(), span: None, problem }
    }

    /// Sets the position, unless a more exact one is known.
    fn at(mut self, span: Range<usize>) -> Self {
        self.span.get_or_insert(span);
        self
    }

    fn below(mut self, part: String) -> Self {
        self.path.push(part);
        self
    }

    /// A sentence for the author of `text`.
    pub fn reason(&self, text: &str) -> String {
        let line = line(text, self.span.as_ref().map_or(0, |span| span.start));
        let path: String = self.path.iter().rev().map(String::as_str).collect();
        let path = path.trim_start_matches('.');
        let comma = if path.is_empty() { "" } else { ", " };
        let hint = match &self.problem {
            Problem::Kind { found: LIST_OF_TABLES, expected } if expected == TABLE => {
                format!("; write it once, as [{path}]")
            }
            _ => String::new(),
        };
        format!("line {line}{comma}{path}: {self}{hint}")
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Problem::Kind { found, expected } => write!(f, "{found} is there, and {expected} belongs there"),
            Problem::Other(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for ValueError {}

impl Error for ValueError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(Problem::Other(message.to_string()))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::custom(format!("`{field}` is missing; add it"))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let known: Vec<_> = expected.iter().map(|key| format!("`{key}`")).collect();
        Self::custom(format!("there is no key `{field}` here; correct it to one of {}, or remove it", known.join(", ")))
    }
}

/// A value of the document.
#[derive(Clone, Copy)]
struct Value<'a>(&'a Spanned<DeValue<'a>>);

impl<'a> Value<'a> {
    fn read<T>(self, read: impl FnOnce(&'a DeValue<'a>) -> Result<T, ValueError>) -> Result<T, ValueError> {
        read(self.0.get_ref()).map_err(|error| error.at(self.0.span()))
    }
}

fn misfit<T>(value: &DeValue<'_>, expected: &str) -> Result<T, ValueError> {
    let found = match value {
        DeValue::String(_) => TEXT,
        DeValue::Integer(_) => NUMBER,
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => FLAG,
        DeValue::Datetime(_) => "a date or a time",
        DeValue::Array(entries) => {
            let is_table = |entry: &Spanned<DeValue<'_>>| matches!(entry.get_ref(), DeValue::Table(_));
            if !entries.is_empty() && entries.iter().all(is_table) { LIST_OF_TABLES } else { "a list" }
        }
        DeValue::Table(_) => TABLE,
    };
    Err(ValueError::new(Problem::Kind { found, expected: expected.to_owned() }))
}

fn number(number: &DeInteger<'_>) -> Result<u64, ValueError> {
    u64::from_str_radix(number.as_str(), number.radix())
        .map_err(|_| ValueError::custom(format!("{number} is not a number from 0 to {}; correct it", u64::MAX)))
}

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = ValueError;

    /// Reads a value that may be a text or a table.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        self.read(|value| match value {
            DeValue::String(text) => visitor.visit_str(text),
            DeValue::Table(table) => visitor.visit_map(TableEntries { left: table.iter(), value: None }),
            value => misfit(value, &(&visitor as &dyn Expected).to_string()),
        })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        self.read(|value| match value {
            DeValue::Table(table) => visitor.visit_map(TableEntries { left: table.iter(), value: None }),
            value => misfit(value, TABLE),
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        self.deserialize_map(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        self.read(|value| match value {
            DeValue::Array(entries) => visitor.visit_seq(List { left: entries.iter().enumerate() }),
            value => misfit(value, LIST),
        })
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        self.read(|value| match value {
            DeValue::String(text) => visitor.visit_str(text),
            value => misfit(value, TEXT),
        })
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        self.read(|value| match value {
            DeValue::Integer(integer) => visitor.visit_u64(number(integer)?),
            value => misfit(value, NUMBER),
        })
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        self.read(|value| match value {
            DeValue::Boolean(flag) => visitor.visit_bool(*flag),
            value => misfit(value, FLAG),
        })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_some(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_unit()
    }

    // No field of a manifest has one of these types.
    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 f64 char bytes byte_buf unit unit_struct newtype_struct tuple
        tuple_struct enum identifier
    }
}

/// The entries of a table.
struct TableEntries<'a> {
    left: toml::map::Iter<'a, Spanned<DeString<'a>>, Spanned<DeValue<'a>>>,
    /// The last key and its value.
    value: Option<(&'a str, &'a Spanned<DeValue<'a>>)>,
}

impl<'de> MapAccess<'de> for TableEntries<'_> {
    type Error = ValueError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ValueError> {
        let Some((key, value)) = self.left.next() else { return Ok(None) };
        self.value = Some((key.get_ref(), value));
        let read = seed.deserialize(StrDeserializer::new(key.get_ref()));
        read.map(Some).map_err(|error: ValueError| error.at(key.span()))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ValueError> {
        let (key, value) = self.value.take().ok_or_else(|| ValueError::custom("a value without a key"))?;
        seed.deserialize(Value(value)).map_err(|error| error.below(format!(".{}", shown(key))))
    }
}

/// The entries of a list.
struct List<I> {
    left: I,
}

impl<'de, 'a, I: Iterator<Item = (usize, &'a Spanned<DeValue<'a>>)>> SeqAccess<'de> for List<I> {
    type Error = ValueError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ValueError> {
        let Some((index, value)) = self.left.next() else { return Ok(None) };
        seed.deserialize(Value(value)).map(Some).map_err(|error| error.below(format!("[{index}]")))
    }
}
