//! Values of fields that come in more than one form.

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// A text that is borrowed from the line wherever it can be. Inside an `Option`, serde would copy a
/// plain `Cow`.
#[derive(Debug)]
pub struct Text<'a>(pub Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Named { object: false }).map(Text)
    }
}

/// A label: its name, or an object that has it.
#[derive(Debug)]
pub struct Name<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Named { object: true }).map(Name)
    }
}

struct Named {
    object: bool,
}

impl<'de> Visitor<'de> for Named {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.object { "a name, or an object with a name" } else { "a text" })
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
