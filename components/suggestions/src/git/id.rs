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
        let digits = text.as_bytes();
        if digits.len() != 2 * ObjectId::LENGTH {
            return None;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let mut bytes = [0; ObjectId::LENGTH];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let [high, low] = pair else { return None };
            *byte = u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?;
        }
        Some(ObjectId(bytes))
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digit = |value: u8| char::from(if value < 10 { b'0' + value } else { b'a' + value - 10 });
        let digits = self.0.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
        f.write_str(&digits.collect::<String>())
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for ObjectId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ObjectId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(from)?;
        ObjectId::parse(&text).ok_or_else(|| de::Error::custom(format_args!("`{text}` is not an object id")))
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
