//! Object ids: SHA-1.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// The SHA-1 of an object; 40 lower-case hex digits in text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId([u8; ObjectId::LENGTH]);

impl ObjectId {
    /// In bytes.
    pub const LENGTH: usize = 20;

    pub const fn new(bytes: [u8; ObjectId::LENGTH]) -> Self {
        ObjectId(bytes)
    }

    pub fn bytes(&self) -> &[u8; ObjectId::LENGTH] {
        &self.0
    }

    /// Parses 40 hex digits, in any letter case.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; ObjectId::LENGTH];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(ObjectId(bytes))
    }

    /// Calls `with` with the 40 digits, without an allocation. Lists of packs have many ids, and each apply writes a
    /// list.
    fn with_digits<T>(&self, with: impl FnOnce(&str) -> T) -> T {
        let mut digits = [0; 2 * ObjectId::LENGTH];
        // The length is right, and the digits are ASCII.
        let _ = hex::encode_to_slice(self.0, &mut digits);
        with(str::from_utf8(&digits).unwrap_or_default())
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_digits(|digits| f.write_str(digits))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for ObjectId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.with_digits(|digits| to.serialize_str(digits))
    }
}

impl<'de> Deserialize<'de> for ObjectId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Digits)
    }
}

/// Reads an id from text without a copy of the text.
struct Digits;

impl de::Visitor<'_> for Digits {
    type Value = ObjectId;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object id")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ObjectId, E> {
        ObjectId::parse(text).ok_or_else(|| E::custom(format_args!("`{text}` is not an object id")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form() {
        let text = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
        let id = ObjectId::parse(text).unwrap();
        assert_eq!(id.to_string(), text);
        assert_eq!(ObjectId::parse(&text.to_uppercase()), Some(id));
        assert_eq!(serde_json::from_str::<ObjectId>(&serde_json::to_string(&id).unwrap()).unwrap(), id);
        for bad in ["", "4b825dc", &text.replace('4', "g"), &format!("{text}0"), &text.replace("04", "é")] {
            assert_eq!(ObjectId::parse(bad), None, "{bad}");
        }
    }
}
