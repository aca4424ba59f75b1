//! References of records to groups, projects and users.

use crate::line_error::{InvalidLine, LineError};
use directory::access::Role;
use directory::member::Share;
use directory::namespace::{self, Details, Visibility};
use directory::project::FeatureAccess;
use directory::token::TokenId;
use directory::user::UserState;
use kit::{Env, Timestamp};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::num::NonZeroU64;

#[derive(Deserialize)]
pub struct ById {
    pub id: NonZeroU64,
}

/// The location of a group or project in a line: by ids, by paths, or by both.
pub struct NamedPath<'a> {
    /// The last segment of its path.
    pub path: Option<&'a str>,
    pub full_path: Option<&'a str>,
    /// The id of the parent namespace.
    pub parent_id: Option<NonZeroU64>,
}

impl<'a> NamedPath<'a> {
    /// The full path without its last segment.
    pub fn parent_path(&self) -> Option<&'a str> {
        self.full_path?.rsplit_once('/').map(|(parent, _)| parent)
    }

    /// The last segment of its path. `None` if the line has no path.
    pub fn last(&self) -> Result<Option<&'a str>, InvalidLine> {
        let last = self.full_path.map(|path| path.rsplit('/').next().unwrap_or(path));
        match (self.path, last) {
            (Some(path), Some(last)) if !path.eq_ignore_ascii_case(last) => {
                Err(InvalidLine::Fields("path is not the end of the full path"))
            }
            (path, last) => Ok(path.or(last)),
        }
    }

    /// The id of the parent namespace. `None` if the line names no parent. A parent given by id may have another path
    /// than the line says, because its own line may come later. An error if another namespace has the path.
    pub fn namespace_id(&self, env: &Env) -> Result<Option<u64>, LineError> {
        let Some(path) = self.parent_path() else { return Ok(self.parent_id.map(NonZeroU64::get)) };
        let found = namespace::find(env, path)?.map(|found| found.id);
        match (self.parent_id, found) {
            (Some(id), Some(found)) if found != id.get() => {
                Err(InvalidLine::Fields("the id and the path of the namespace are of two namespaces").into())
            }
            (Some(id), _) => Ok(Some(id.get())),
            (None, Some(found)) => Ok(Some(found)),
            (None, None) => Err(InvalidLine::UnknownNamespace(path.to_owned()).into()),
        }
    }
}

#[derive(Deserialize)]
pub struct SharedWith {
    group_id: NonZeroU64,
    #[serde(alias = "access_level", deserialize_with = "role")]
    group_access_level: Role,
    #[serde(default, deserialize_with = "expires_at")]
    expires_at: Option<Timestamp>,
}

impl From<SharedWith> for Share {
    fn from(share: SharedWith) -> Self {
        Share { group_id: share.group_id.get(), role: share.group_access_level, expires_at: share.expires_at }
    }
}

/// A warning about those restrictions that have a value.
pub fn warning(restrictions: &[(&str, &Option<Value>)]) -> Option<String> {
    let is_empty = |value: &Value| match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        value => value.is_null() || *value == false,
    };
    let given = restrictions.iter().filter(|(_, value)| value.as_ref().is_some_and(|value| !is_empty(value)));
    let names: Vec<&str> = given.map(|(name, _)| *name).collect();
    (!names.is_empty())
        .then(|| format!("not supported by this server, which does not restrict by it: {}", names.join(", ")))
}

/// Reads [`Details`] of a line.
#[derive(Deserialize)]
#[serde(remote = "Details")]
pub struct DetailsFields {
    #[serde(default, deserialize_with = "some_text")]
    avatar_url: Option<String>,
    #[serde(default, deserialize_with = "some_text")]
    plan: Option<String>,
    trial: Option<bool>,
    #[serde(default, deserialize_with = "trial_ends_on")]
    trial_ends_on: Option<Timestamp>,
    #[serde(default, deserialize_with = "end_date")]
    end_date: Option<Timestamp>,
    seats_in_use: Option<u64>,
    max_seats_used: Option<u64>,
    #[serde(default, deserialize_with = "max_seats_used_changed_at")]
    max_seats_used_changed_at: Option<Timestamp>,
    shared_runners_minutes_limit: Option<u64>,
    extra_shared_runners_minutes_limit: Option<u64>,
    additional_purchased_storage_size: Option<u64>,
    #[serde(default, deserialize_with = "additional_purchased_storage_ends_on")]
    additional_purchased_storage_ends_on: Option<Timestamp>,
    root_repository_size: Option<u64>,
    billable_members_count: Option<u64>,
}

/// A text; an empty one counts as absent.
fn some_text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.filter(|text| !text.is_empty()))
}

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
