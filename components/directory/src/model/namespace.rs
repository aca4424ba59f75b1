//! Groups and personal namespaces.

use super::incarnation::Incarnation;
use super::membership::Share;
use kit::Timestamp;
use serde::{Deserialize, Serialize};
use std::iter::successors;

/// The most levels of groups, as in the reference service.
pub const MAX_DEPTH: usize = 20;

/// A namespace and everything above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    pub id: u64,
    pub incarnation: Incarnation,
    /// The display name.
    pub name: String,
    /// The last segment of the full path.
    pub path: String,
    pub kind: NamespaceKind,
    pub visibility: Visibility,
    /// Groups whose members have a role in this group.
    pub shares: Vec<Share>,
    pub details: Details,
    pub parent: Option<Box<Namespace>>,
}

/// Further fields of a namespace: avatar, plan, trial, subscription, limits. Absent means unknown.
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
    /// Minutes per month.
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
    /// Members who count for the subscription, if another system has counted them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub billable_members_count: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceKind {
    Group,
    /// The personal namespace of the user with this id.
    User {
        owner: u64,
    },
}

/// The callers who may see a group or a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Visibility {
    /// Its members.
    Private,
    /// Every user who is not external.
    Internal,
    /// All callers.
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
        self.kind == NamespaceKind::Group
    }
}

/// A group to be saved.
pub struct NewGroup {
    pub id: u64,
    pub name: String,
    pub path: String,
    pub parent_id: Option<u64>,
    pub visibility: Visibility,
    pub shares: Vec<Share>,
    pub details: Details,
}
