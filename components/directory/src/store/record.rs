//! The stored form of each noun. Fields that a build does not know are ignored; a field that a
//! record does not have has its default; a word or number that a build does not know means the
//! least that it could allow.

mod feature;
mod project;
mod token;

pub(crate) use feature::Features;
pub(crate) use project::Project;
pub(crate) use token::Token;

use crate::access::Role;
use crate::member::{self, Membership, Source};
use crate::namespace::{self, Kind, NewGroup, Visibility};
use crate::path::PathOwner;
use crate::user;
use kit::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct User {
    username: String,
    name: String,
    #[serde(default, skip_serializing_if = "is_default")]
    commit_email: Option<String>,
    state: String,
    #[serde(default, skip_serializing_if = "is_default")]
    admin: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    external: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    bot: bool,
    namespace_id: u64,
}

impl User {
    pub fn into_user(self, id: u64) -> user::User {
        user::User {
            id,
            username: self.username,
            name: self.name,
            commit_email: self.commit_email,
            state: user::State::parse(&self.state).unwrap_or(user::State::Blocked),
            is_admin: self.admin,
            external: self.external,
            bot: self.bot,
            namespace_id: self.namespace_id,
        }
    }
}

impl From<&user::User> for User {
    fn from(user: &user::User) -> Self {
        User {
            username: user.username.clone(),
            name: user.name.clone(),
            commit_email: user.commit_email.clone(),
            state: user.state.as_str().to_owned(),
            admin: user.is_admin,
            external: user.external,
            bot: user.bot,
            namespace_id: user.namespace_id,
        }
    }
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Namespace {
    pub name: String,
    pub path: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub parent_id: Option<u64>,
    /// The user of a personal namespace; absent for a group.
    #[serde(default, skip_serializing_if = "is_default")]
    pub owner_id: Option<u64>,
    visibility: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub shares: Vec<Share>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub details: Option<namespace::Details>,
}

impl Namespace {
    pub fn visibility(&self) -> Visibility {
        Visibility::parse(&self.visibility).unwrap_or(Visibility::Private)
    }

    pub fn personal(owner: u64, username: &str, name: &str, details: namespace::Details) -> Self {
        Namespace {
            name: name.to_owned(),
            path: username.to_owned(),
            parent_id: None,
            owner_id: Some(owner),
            visibility: Visibility::Public.as_str().to_owned(),
            shares: Vec::new(),
            details: Some(details).filter(|details| !is_default(details)),
        }
    }

    pub fn group(new: NewGroup) -> Self {
        Namespace {
            name: new.name,
            path: new.path,
            parent_id: new.parent_id,
            owner_id: None,
            visibility: new.visibility.as_str().to_owned(),
            shares: new.shares.into_iter().map(Share::from).collect(),
            details: Some(new.details).filter(|details| !is_default(details)),
        }
    }

    pub fn into_namespace(self, id: u64, parent: Option<namespace::Namespace>) -> namespace::Namespace {
        namespace::Namespace {
            id,
            visibility: self.visibility(),
            name: self.name,
            path: self.path,
            kind: self.owner_id.map_or(Kind::Group, |owner| Kind::User { owner }),
            details: self.details.unwrap_or_default(),
            shares: self.shares.into_iter().map(member::Share::from).collect(),
            parent: parent.map(Box::new),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Share {
    group_id: u64,
    role: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    expires_at: Option<Timestamp>,
}

impl From<Share> for member::Share {
    fn from(share: Share) -> Self {
        let role = Role::from_level(share.role).unwrap_or(Role::None);
        member::Share { group_id: share.group_id, role, expires_at: share.expires_at }
    }
}

impl From<member::Share> for Share {
    fn from(share: member::Share) -> Self {
        Share { group_id: share.group_id, role: share.role.level(), expires_at: share.expires_at }
    }
}

/// Who lives at a path.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Entry {
    Namespace(u64),
    Project(u64),
}

impl From<Entry> for PathOwner {
    fn from(entry: Entry) -> Self {
        match entry {
            Entry::Namespace(id) => PathOwner::Namespace(id),
            Entry::Project(id) => PathOwner::Project(id),
        }
    }
}

impl From<PathOwner> for Entry {
    fn from(resident: PathOwner) -> Self {
        match resident {
            PathOwner::Namespace(id) => Entry::Namespace(id),
            PathOwner::Project(id) => Entry::Project(id),
        }
    }
}

/// Every membership of one user, by the id of the group or project.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Access {
    #[serde(default)]
    groups: BTreeMap<u64, Member>,
    #[serde(default)]
    projects: BTreeMap<u64, Member>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Member {
    role: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    expires_at: Option<Timestamp>,
}

impl From<Access> for member::Memberships {
    fn from(record: Access) -> Self {
        let groups = record.groups.into_iter().map(|(id, member)| (Source::Group(id), member));
        let projects = record.projects.into_iter().map(|(id, member)| (Source::Project(id), member));
        let membership = |member: Member| Membership {
            role: Role::from_level(member.role).unwrap_or(Role::None),
            expires_at: member.expires_at,
        };
        member::Memberships(groups.chain(projects).map(|(source, member)| (source, membership(member))).collect())
    }
}

impl From<&member::Memberships> for Access {
    fn from(memberships: &member::Memberships) -> Self {
        let mut record = Access::default();
        for (source, membership) in &memberships.0 {
            let member = Member { role: membership.role.level(), expires_at: membership.expires_at };
            match *source {
                Source::Group(id) => record.groups.insert(id, member),
                Source::Project(id) => record.projects.insert(id, member),
            };
        }
        record
    }
}
