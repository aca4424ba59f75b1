//! Groups and personal namespaces: what projects live in. They share one series of ids and one
//! tree of paths.

use crate::member::Share;
use crate::path::{self, Identifier};
use crate::save_error::{Rejection, SaveError};
use crate::store::{self, Key};
use kit::store::StoreError;
use kit::{Env, Timestamp};
use serde::{Deserialize, Serialize};
use std::iter::successors;

/// Groups nest at most this deep, as in the reference service.
pub const MAX_DEPTH: usize = 20;

/// A namespace and everything above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    pub id: u64,
    /// For people.
    pub name: String,
    /// The last segment of the full path.
    pub path: String,
    pub kind: Kind,
    pub visibility: Visibility,
    /// Groups whose members have a role in this group.
    pub shares: Vec<Share>,
    pub details: Details,
    pub parent: Option<Box<Namespace>>,
}

/// What few areas ask about a namespace: its picture, and what was bought for it. Absent means
/// that it is not known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Details {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub avatar_url: Option<String>,
    /// The plan's name, for example `premium`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial_ends_on: Option<Timestamp>,
    /// The last day of the subscription.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_date: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seats_in_use: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_seats_used: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_seats_used_changed_at: Option<Timestamp>,
    /// Minutes a month.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_runners_minutes_limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_shared_runners_minutes_limit: Option<u64>,
    /// Mebibytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_purchased_storage_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_purchased_storage_ends_on: Option<Timestamp>,
    /// Bytes of everything below a top-level namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_repository_size: Option<u64>,
    /// Those who count for the subscription, if somebody else has counted them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub billable_members_count: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Group,
    /// The personal namespace of the user with this id.
    User {
        owner: u64,
    },
}

/// Who may see a group or a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Visibility {
    /// Its members.
    Private,
    /// Every user who is not external.
    Internal,
    /// Everybody.
    Public,
}

impl Visibility {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "private" => Some(Visibility::Private),
            "internal" => Some(Visibility::Internal),
            "public" => Some(Visibility::Public),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Visibility::Private => "private",
            Visibility::Internal => "internal",
            Visibility::Public => "public",
        }
    }
}

impl Namespace {
    /// This namespace, its parent, and so on up to the top level.
    pub fn lineage(&self) -> impl Iterator<Item = &Namespace> {
        successors(Some(self), |namespace| namespace.parent.as_deref())
    }

    /// The top-level namespace above this one, or itself.
    pub fn root(&self) -> &Namespace {
        self.lineage().last().unwrap_or(self)
    }

    pub fn full_path(&self) -> String {
        match &self.parent {
            Some(parent) => format!("{}/{}", parent.full_path(), self.path),
            None => self.path.clone(),
        }
    }

    pub fn is_group(&self) -> bool {
        self.kind == Kind::Group
    }
}

/// The namespace with this id. One read for each level.
pub fn by_id(env: &Env, id: u64) -> Result<Option<Namespace>, StoreError> {
    let mut records = Vec::new();
    let mut next = Some(id);
    while let Some(id) = next {
        if records.len() > MAX_DEPTH {
            return Err(StoreError::corrupt(&Key::Namespace(id).to_string(), "its ancestors never end"));
        }
        // What is below a deleted namespace is deleted with it.
        let Some(record) = store::read::<store::Namespace>(env, &Key::Namespace(id))? else {
            return Ok(None);
        };
        next = record.parent_id;
        records.push((id, record));
    }
    let above =
        |parent: Option<Namespace>, (id, record): (u64, store::Namespace)| Some(record.into_namespace(id, parent));
    Ok(records.into_iter().rev().fold(None, above))
}

/// The namespace named by an id (all digits) or by a full path in any letter case. By path, two
/// reads for each level. An old path does not lead anywhere.
pub fn find(env: &Env, id_or_path: &str) -> Result<Option<Namespace>, StoreError> {
    match Identifier::parse(id_or_path) {
        Identifier::Id(id) => by_id(env, id),
        Identifier::Path(path) => path::namespace(env, path),
        Identifier::Impossible => Ok(None),
    }
}

/// The id of the namespace right below `parent_id` (at the top, without one) that has this path, in
/// any letter case. 2 reads.
pub fn child(env: &Env, parent_id: Option<u64>, path: &str) -> Result<Option<u64>, StoreError> {
    path::child(env, parent_id, path)
}

/// The same as [`find`] for groups only.
pub fn find_group(env: &Env, id_or_path: &str) -> Result<Option<Namespace>, StoreError> {
    Ok(find(env, id_or_path)?.filter(Namespace::is_group))
}

/// A group as it is to be.
pub struct NewGroup {
    pub id: u64,
    pub name: String,
    pub path: String,
    pub parent_id: Option<u64>,
    pub visibility: Visibility,
    pub shares: Vec<Share>,
    pub details: Details,
}

/// Creates or replaces a group. Renaming or moving one moves everything below it, because a path
/// is never stored: what is below names its parent by id.
pub fn save_group(env: &Env, new: NewGroup) -> Result<(), SaveError> {
    if let Some(parent_id) = new.parent_id {
        let parent = by_id(env, parent_id)?.ok_or(Rejection::NoNamespace(parent_id))?;
        if !parent.is_group() {
            return Err(Rejection::NotAGroup(parent_id).into());
        }
        if parent.lineage().any(|ancestor| ancestor.id == new.id) {
            return Err(Rejection::OwnAncestor(new.id).into());
        }
        if parent.lineage().count() >= MAX_DEPTH {
            return Err(Rejection::TooDeep.into());
        }
    }
    store::save_namespace(env, new.id, store::Namespace::group(new))
}

/// Forgets a group, and with it everything below.
pub fn delete_group(env: &Env, id: u64) -> Result<(), StoreError> {
    match by_id(env, id)? {
        Some(namespace) if !namespace.is_group() => Ok(()),
        _ => store::write::<store::Namespace>(env, &Key::Namespace(id), None),
    }
}
