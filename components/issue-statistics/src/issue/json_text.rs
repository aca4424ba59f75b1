//! Texts in JSON that are borrowed from the line if they have no escapes.

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// A text. A plain `Cow` inside an `Option` would always be copied by serde.
#[derive(Debug)]
pub struct JsonText<'a>(pub Cow<'a, str>);

impl Deref for JsonText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for JsonText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor { accepts_object: false }).map(JsonText)
    }
}

/// The name of a label: a text, or an object with a name.
#[derive(Debug)]
pub struct LabelName<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for LabelName<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor { accepts_object: true }).map(LabelName)
    }
}

struct TextVisitor {
    accepts_object: bool,
}

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.accepts_object { "a name, or an object with a name" } else { "a text" })
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut name = None;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match &*key {
                "name" | "title" => name = Some(map.next_value::<Cow<'de, str>>()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        name.ok_or_else(|| A::Error::missing_field("name"))
    }
}
