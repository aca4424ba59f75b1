//! References of records to groups, projects and users.

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
