//! How records name groups, projects and users that are above or beside them.

use super::deserialize;
use crate::line_error::{InvalidLine, LineError};
use directory::access::Role;
use directory::member::Share;
use directory::namespace;
use kit::{Env, Timestamp};
use serde::Deserialize;
use std::num::NonZeroU64;

#[derive(Deserialize)]
pub struct ById {
    pub id: NonZeroU64,
}

/// The path above the last segment, and the last segment.
pub fn split(full_path: Option<&str>) -> (Option<&str>, Option<&str>) {
    let Some(full_path) = full_path else { return (None, None) };
    match full_path.rsplit_once('/') {
        Some((above, last)) => (Some(above), Some(last)),
        None => (None, Some(full_path)),
    }
}

/// The id of the namespace with this full path.
pub fn namespace_at(env: &Env, path: &str) -> Result<u64, LineError> {
    let found = namespace::find(env, path)?;
    Ok(found.ok_or_else(|| InvalidLine::UnknownNamespace(path.to_owned()))?.id)
}

#[derive(Deserialize)]
pub struct SharedWith {
    group_id: NonZeroU64,
    #[serde(alias = "access_level", deserialize_with = "deserialize::role")]
    group_access_level: Role,
    #[serde(default, deserialize_with = "deserialize::expires_at")]
    expires_at: Option<Timestamp>,
}

impl From<SharedWith> for Share {
    fn from(share: SharedWith) -> Self {
        Share { group_id: share.group_id.get(), role: share.group_access_level, expires_at: share.expires_at }
    }
}
