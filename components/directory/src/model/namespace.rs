//! Groups and personal namespaces.

use crate::model::incarnation::Incarnation;
use crate::model::membership::Share;
use kit::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
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

/// The longest segment, in bytes, as in the reference service.
const MAX_SEGMENT: usize = 255;

/// The namespace or project that a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PathOwner {
    Namespace(u64),
    Project(u64),
}

impl fmt::Display for PathOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathOwner::Namespace(id) => write!(f, "namespace {id}"),
            PathOwner::Project(id) => write!(f, "project {id}"),
        }
    }
}

/// The name of a namespace, project or user in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identifier<'a> {
    /// All digits: always an id, even if a path has the same digits.
    Id(u64),
    Path(&'a str),
    /// No record can have this name, so storage is not read.
    Invalid,
}

impl<'a> Identifier<'a> {
    pub fn parse(text: &'a str) -> Self {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            // No record has an id that does not fit.
            return text.parse().map_or(Identifier::Invalid, Identifier::Id);
        }
        let possible = text.split('/').all(is_segment) && text.split('/').count() <= MAX_DEPTH + 1;
        if possible { Identifier::Path(text) } else { Identifier::Invalid }
    }
}

/// Whether `text` can be one segment of a path. It has ASCII letters, digits, `_`, `-` and `.`. It does not start with
/// a dash, and does not end in a dot, `.git` or `.atom`.
pub fn is_segment(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    (1..=MAX_SEGMENT).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
        && !text.starts_with('-')
        && ![".", ".git", ".atom"].iter().any(|end| lower.ends_with(end))
}
