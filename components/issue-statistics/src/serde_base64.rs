//! Serde for bytes as a Base64 text without padding.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::{Deserialize, Deserializer, Serializer, de::Error as _};
use std::borrow::Cow;

pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD_NO_PAD.encode(bytes))
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = <Cow<'de, str>>::deserialize(deserializer)?;
    STANDARD_NO_PAD.decode(text.as_bytes()).map_err(D::Error::custom)
}
