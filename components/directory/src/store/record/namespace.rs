//! The stored form of a group or personal namespace.

use super::is_default::is_default;
use super::membership::ShareRecord;
use crate::model::incarnation::Incarnation;
use crate::model::membership::Share;
use crate::model::namespace::{Details, Namespace, NamespaceKind, NewGroup, Visibility};
use crate::store::Incarnated;
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct NamespaceRecord {
    pub name: String,
    pub path: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub parent_id: Option<u64>,
    /// The user of a personal namespace; absent for a group.
    #[serde(default, skip_serializing_if = "is_default")]
    pub owner_id: Option<u64>,
    visibility: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub shares: Vec<ShareRecord>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub details: Option<Details>,
    #[serde(default, skip_serializing_if = "is_default")]
    incarnation: Incarnation,
}

impl Incarnated for NamespaceRecord {
    fn incarnation(&self) -> &Incarnation {
        &self.incarnation
    }
}

impl NamespaceRecord {
    /// Sets the incarnation.
    pub fn of(self, incarnation: Incarnation) -> Self {
        NamespaceRecord { incarnation, ..self }
    }

    pub fn visibility(&self) -> Visibility {
        Visibility::parse(&self.visibility).unwrap_or(Visibility::Private)
    }

    pub fn personal(owner: u64, username: &str, name: &str, details: Details) -> Self {
        NamespaceRecord {
            name: name.to_owned(),
            path: username.to_owned(),
            parent_id: None,
            owner_id: Some(owner),
            visibility: Visibility::Public.as_str().to_owned(),
            shares: Vec::new(),
            details: Some(details).filter(|details| !is_default(details)),
            incarnation: Incarnation::default(),
        }
    }

    pub fn group(new: NewGroup) -> Self {
        NamespaceRecord {
            name: new.name,
            path: new.path,
            parent_id: new.parent_id,
            owner_id: None,
            visibility: new.visibility.as_str().to_owned(),
            shares: new.shares.into_iter().map(ShareRecord::from).collect(),
            details: Some(new.details).filter(|details| !is_default(details)),
            incarnation: Incarnation::default(),
        }
    }

    pub fn into_namespace(self, id: u64, parent: Option<Namespace>) -> Namespace {
        Namespace {
            id,
            visibility: self.visibility(),
            name: self.name,
            path: self.path,
            kind: self.owner_id.map_or(NamespaceKind::Group, |owner| NamespaceKind::User { owner }),
            details: self.details.unwrap_or_default(),
            shares: self.shares.into_iter().map(Share::from).collect(),
            incarnation: self.incarnation,
            parent: parent.map(Box::new),
        }
    }
}
