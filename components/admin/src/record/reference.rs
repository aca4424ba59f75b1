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

/// Where a line says that a group or project is: by ids, by paths, or by both.
pub struct NamedPath<'a> {
    /// The last segment of its path.
    pub path: Option<&'a str>,
    pub full_path: Option<&'a str>,
    /// Of the namespace above it.
    pub above: Option<NonZeroU64>,
}

impl<'a> NamedPath<'a> {
    /// The path above the last segment of the full path.
    pub fn path_above(&self) -> Option<&'a str> {
        self.full_path?.rsplit_once('/').map(|(above, _)| above)
    }

    /// The last segment of its path. `None` if the line has none.
    pub fn last(&self) -> Result<Option<&'a str>, InvalidLine> {
        let last = self.full_path.map(|path| path.rsplit('/').next().unwrap_or(path));
        match (self.path, last) {
            (Some(path), Some(last)) if !path.eq_ignore_ascii_case(last) => {
                Err(InvalidLine::Fields("path is not the end of the full path"))
            }
            (path, last) => Ok(path.or(last)),
        }
    }

    /// The id of the namespace above it; `None` if the line names none. One that is named by its id may have another path
    /// than the line says, because its own line comes later, unless another one has that.
    pub fn namespace_id(&self, env: &Env) -> Result<Option<u64>, LineError> {
        let Some(path) = self.path_above() else { return Ok(self.above.map(NonZeroU64::get)) };
        let found = namespace::find(env, path)?.map(|found| found.id);
        match (self.above, found) {
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
