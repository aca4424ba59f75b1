//! Deserializers of record fields that accept only known words, numbers and times.

use directory::access::Role;
use directory::namespace::Visibility;
use directory::project::FeatureAccess;
use directory::token::TokenId;
use directory::user::UserState;
use kit::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::num::NonZeroU64;

/// A text that `read` accepts; `null` counts as absent. `kind` names the field in the error.
fn known<'de, D: Deserializer<'de>, T>(
    from: D,
    kind: &str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, D::Error> {
    let Some(text) = Option::<String>::deserialize(from)? else { return Ok(None) };
    match read(&text) {
        Some(value) => Ok(Some(value)),
        None => Err(D::Error::custom(format_args!("{kind} `{text}` is not known"))),
    }
}

/// The highest id of a group, project or namespace. Clients send lists of ids as signed numbers.
const MAX_ID: u64 = u64::MAX >> 1;

fn at_most<E: serde::de::Error>(id: NonZeroU64, max: u64) -> Result<NonZeroU64, E> {
    match id.get() <= max {
        true => Ok(id),
        false => Err(E::custom(format_args!("id {id} is too large; the largest is {max}"))),
    }
}

pub fn id<'de, D: Deserializer<'de>>(from: D) -> Result<NonZeroU64, D::Error> {
    at_most(NonZeroU64::deserialize(from)?, MAX_ID)
}

pub fn some_id<'de, D: Deserializer<'de>>(from: D) -> Result<Option<NonZeroU64>, D::Error> {
    Option::deserialize(from)?.map(|id| at_most(id, MAX_ID)).transpose()
}

/// Limits user ids so that token ids can contain them.
pub fn user_id<'de, D: Deserializer<'de>>(from: D) -> Result<NonZeroU64, D::Error> {
    at_most(NonZeroU64::deserialize(from)?, TokenId::MAX_USER_ID)
}

pub fn state<'de, D: Deserializer<'de>>(from: D) -> Result<Option<UserState>, D::Error> {
    known(from, "state", UserState::parse)
}

pub fn visibility<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Visibility>, D::Error> {
    known(from, "visibility", Visibility::parse)
}

pub fn feature_access<'de, D: Deserializer<'de>>(from: D) -> Result<Option<FeatureAccess>, D::Error> {
    known(from, "access level", FeatureAccess::parse)
}

/// A time, or a date, which means the beginning of the day. `field` names it in the error.
fn moment<'de, D: Deserializer<'de>>(from: D, field: &str) -> Result<Option<Timestamp>, D::Error> {
    let found = match Value::deserialize(from)? {
        Value::Null => return Ok(None),
        Value::String(text) => Timestamp::parse(&text).ok_or(format!("`{text}`")),
        other => Err(other.to_string()),
    };
    found.map(Some).map_err(|text| D::Error::custom(format_args!("{field} is {text}, which is not a date or time")))
}

macro_rules! moments {
    ($($field:ident),*) => {
        $(pub fn $field<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
            moment(from, stringify!($field))
        })*
    };
}

moments!(expires_at, trial_ends_on, end_date, max_seats_used_changed_at, additional_purchased_storage_ends_on);

pub fn lower_case<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    known(from, "word", |text| Some(text.to_ascii_lowercase()))
}

/// A secret text. An error quotes neither the text nor a value of another type.
pub fn secret<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(from)? {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        _ => Err(D::Error::custom("a secret is no text")),
    }
}

pub fn role<'de, D: Deserializer<'de>>(from: D) -> Result<Role, D::Error> {
    known_role(u64::deserialize(from)?)
}

pub fn some_role<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Role>, D::Error> {
    Option::deserialize(from)?.map(known_role).transpose()
}

fn known_role<E: serde::de::Error>(level: u64) -> Result<Role, E> {
    Role::from_level(level).ok_or_else(|| E::custom(format_args!("access level {level} is not known")))
}
