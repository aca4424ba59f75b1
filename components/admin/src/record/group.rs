//! Groups.

use super::deserialize;
use super::reference::{NamedPath, SharedWith};
use super::unsupported;
use crate::line_error::{InvalidLine, LineError};
use directory::dependents;
use directory::member::Share;
use directory::namespace::{self, Details, NewGroup, Visibility};
use kit::Env;
use kit::store::StoreError;
use serde::Deserialize;
use serde_json::Value;
use std::num::NonZeroU64;

#[derive(Deserialize)]
pub struct Group {
    #[serde(deserialize_with = "deserialize::id")]
    pub id: NonZeroU64,
    name: Option<String>,
    path: Option<String>,
    full_path: Option<String>,
    parent_id: Option<NonZeroU64>,
    #[serde(default, deserialize_with = "deserialize::visibility")]
    visibility: Option<Visibility>,
    #[serde(default)]
    shared_with_groups: Vec<SharedWith>,
    ip_restriction_ranges: Option<Value>,
}

impl Group {
    fn named_path(&self) -> NamedPath<'_> {
        NamedPath { path: self.path.as_deref(), full_path: self.full_path.as_deref(), parent_id: self.parent_id }
    }

    /// A warning about unsupported restrictions.
    pub fn warning(&self) -> Option<String> {
        unsupported::warning(&[("ip_restriction_ranges", &self.ip_restriction_ranges)])
    }

    /// Whether the group exists and gets another parent.
    pub fn changes_parent(&self, env: &Env) -> Result<bool, StoreError> {
        let parent_id = match (self.parent_id, self.named_path().parent_path()) {
            (Some(id), _) => id.get(),
            // An unknown path always means a new parent.
            (None, Some(path)) => namespace::find(env, path)?.map_or(0, |parent| parent.id),
            (None, None) => return Ok(false),
        };
        namespace::is_elsewhere(env, self.id.get(), parent_id)
    }

    pub fn save(self, env: &Env, details: Details) -> Result<(), LineError> {
        let path = self.named_path().last()?.ok_or(InvalidLine::Fields("path or full_path is missing"))?.to_owned();
        let parent_id = self.named_path().namespace_id(env)?;
        let new = NewGroup {
            id: self.id.get(),
            name: self.name.unwrap_or_else(|| path.clone()),
            path,
            parent_id,
            visibility: self.visibility.unwrap_or(Visibility::Private),
            shares: self.shared_with_groups.into_iter().map(Share::from).collect(),
            details,
        };
        Ok(dependents::save_group(env, new)?)
    }
}
