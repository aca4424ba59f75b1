//! The ids of records that a writer changes, and of their dependents.
//!
//! Rows that refer to deleted records: groups and projects below deleted namespaces, roles of deleted users, roles in
//! deleted groups or projects, invitations of deleted groups. The next record with the id must not get such rows.
//!
//! A writer may store such a row while another writer deletes the record. The writer that updates the catalog last
//! finds the row. It reads the deleted record before it swaps the root, or it reads the row in the catalog. Groups and
//! projects below a namespace are also searched in the intents ([`super::intent_log::IntentLog::late_children`]).

use crate::catalog::manifest::{RowKey, Rows};
use crate::catalog::table::{MemberRow, NamespaceRow, ProjectRow};
use crate::catalog::{row, snapshot};
use crate::feature::Actor;
use crate::member::{self, Source};
use crate::store::Existence;
use crate::{namespace, project, user};
use kit::Env;
use kit::store::StoreError;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The ids of changed records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    #[serde(default)]
    users: BTreeSet<u64>,
    #[serde(default)]
    pub(super) namespaces: BTreeSet<u64>,
    #[serde(default)]
    pub(super) projects: BTreeSet<u64>,
    /// Source codes and users.
    #[serde(default)]
    pub(super) members: BTreeSet<RowKey>,
    /// Records about to be deleted, with their dependents ([`crate::dependents`]).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) deleted_users: BTreeSet<u64>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    deleted_groups: BTreeSet<u64>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    deleted_projects: BTreeSet<u64>,
    /// The next personal namespace of each user.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    personal: BTreeMap<u64, u64>,
}

impl Changes {
    /// A user and their next personal namespace: this one, or the default one. [`Changes::resolve`] adds the present
    /// one.
    pub fn user(&mut self, id: u64, namespace_id: Option<u64>) {
        self.users.insert(id);
        self.personal.extend(namespace_id.map(|namespace_id| (id, namespace_id)));
        self.namespaces.insert(namespace_id.unwrap_or_else(|| user::default_namespace(id)));
    }

    pub fn delete_user(&mut self, id: u64) {
        self.user(id, None);
        self.deleted_users.insert(id);
    }

    pub fn delete_group(&mut self, id: u64) {
        self.group(id);
        self.deleted_groups.insert(id);
    }

    pub fn delete_project(&mut self, id: u64) {
        self.project(id);
        self.deleted_projects.insert(id);
    }

    pub fn group(&mut self, id: u64) {
        self.namespaces.insert(id);
    }

    pub fn project(&mut self, id: u64) {
        self.projects.insert(id);
    }

    pub fn member(&mut self, source: Source, user_id: u64) {
        self.members.insert((row::source_code(source), user_id));
    }

    pub(crate) fn member_row(&mut self, key: RowKey) {
        self.members.insert(key);
    }

    pub(crate) fn has_namespace(&self, id: u64) -> bool {
        self.namespaces.contains(&id)
    }

    pub(crate) fn has_project(&self, id: u64) -> bool {
        self.projects.contains(&id)
    }

    pub(crate) fn has_member(&self, user_id: u64) -> bool {
        self.members.iter().any(|(_, member)| *member == user_id)
    }

    pub(crate) fn deleted_groups(&self) -> Vec<u64> {
        self.deleted_groups.iter().copied().collect()
    }

    pub(crate) fn deleted_projects(&self) -> Vec<u64> {
        self.deleted_projects.iter().copied().collect()
    }

    pub(super) fn deletes_namespaces(&self) -> bool {
        !self.deleted_groups.is_empty() || !self.deleted_users.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        *self == Changes::default()
    }

    pub(super) fn extend(&mut self, more: Changes) {
        self.users.extend(more.users);
        self.namespaces.extend(more.namespaces);
        self.projects.extend(more.projects);
        self.members.extend(more.members);
        self.deleted_users.extend(more.deleted_users);
        self.deleted_groups.extend(more.deleted_groups);
        self.deleted_projects.extend(more.deleted_projects);
        self.personal.extend(more.personal);
    }

    /// Adds the users' present personal namespaces, and the dependents of deleted records and moved namespaces.
    pub(super) fn resolve(&mut self, env: &Env) -> Result<(), StoreError> {
        let (mut deleted, mut moved) = (self.deleted_groups.clone(), Vec::new());
        for id in &self.users {
            let user = match user::by_id(env, *id) {
                // A record that cannot be read cannot be changed either.
                Err(StoreError::Corrupt { .. }) => None,
                user => user?,
            };
            let Some(user) = user else { continue };
            self.namespaces.insert(user.namespace_id);
            if self.deleted_users.contains(id) {
                deleted.insert(user.namespace_id);
            }
            if self.personal.get(id).is_some_and(|next| *next != user.namespace_id) {
                moved.push(user.namespace_id);
            }
        }
        for id in &self.deleted_users {
            let memberships = match member::of_user(env, *id) {
                Err(StoreError::Corrupt { .. }) => continue,
                memberships => memberships?,
            };
            self.members.extend(memberships.0.into_keys().map(|source| (row::source_code(source), *id)));
        }
        if deleted.is_empty() && self.deleted_projects.is_empty() && moved.is_empty() {
            return Ok(());
        }
        let catalog = snapshot::read(env)?;
        for namespace in moved.iter().filter_map(|id| catalog.namespace(*id)) {
            self.projects.extend(namespace.projects().map(|project| project.id()));
        }
        let mut sources: Vec<Source> = self.deleted_projects.iter().copied().map(Source::Project).collect();
        // A group below a deleted group is not in the catalog, but its members are.
        let mut groups = deleted.clone();
        for namespace in deleted.iter().filter_map(|id| catalog.namespace(*id)) {
            groups.extend(namespace.descendants().map(|group| group.id()));
            for project in namespace.projects_below() {
                self.projects.insert(project.id());
                sources.push(Source::Project(project.id()));
            }
        }
        for id in groups {
            let (inviting_groups, inviting_projects) = catalog.inviting(id);
            self.namespaces.extend(inviting_groups);
            self.projects.extend(inviting_projects);
            self.namespaces.insert(id);
            sources.push(Source::Group(id));
        }
        for source in sources {
            catalog.members(env, &[source], |member| {
                self.members.insert((row::source_code(source), member.user_id));
            })?;
        }
        Ok(())
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Dangling {
    /// The groups and projects directly below deleted namespaces, as deletions.
    pub orphans: Changes,
    /// Groups or projects, and the users with the roles.
    pub roles: Vec<(Source, u64)>,
    /// A group or project, and the deleted group that is invited into it.
    pub invitations: Vec<(Source, u64)>,
}

impl From<Changes> for Dangling {
    fn from(orphans: Changes) -> Self {
        Dangling { orphans, ..Dangling::default() }
    }
}

impl Dangling {
    /// Finds the dangling rows. 1 read for each namespace, user, group and project that the rows name.
    pub(crate) fn of(
        env: &Env,
        namespaces: &Rows<NamespaceRow>,
        projects: &Rows<ProjectRow>,
        members: &Rows<MemberRow>,
    ) -> Result<Self, StoreError> {
        let (mut found, mut deleted) = (Dangling::default(), DeletedRecords::default());
        for row in namespaces.values().flatten() {
            if row.parent_id != 0 && deleted.source(env, Source::Group(row.parent_id))? {
                found.orphans.delete_group(row.id);
            }
            for share in &row.shares {
                if deleted.source(env, Source::Group(share.group_id))? {
                    found.invitations.push((Source::Group(row.id), share.group_id));
                }
            }
        }
        for row in projects.values().flatten() {
            if deleted.source(env, Source::Group(row.namespace_id))? {
                found.orphans.delete_project(row.id);
            }
            for share in &row.shares {
                if deleted.source(env, Source::Group(share.group_id))? {
                    found.invitations.push((Source::Project(row.id), share.group_id));
                }
            }
        }
        for row in members.values().flatten() {
            let source = row::source_of_code(row.source);
            if deleted.user(env, row.user_id)? || deleted.source(env, source)? {
                found.roles.push((source, row.user_id));
            }
        }
        Ok(found)
    }

    pub fn is_empty(&self) -> bool {
        *self == Dangling::default()
    }

    /// The changes that delete all these rows.
    pub fn changes(&self) -> Changes {
        let mut changes = self.orphans.clone();
        self.roles.iter().for_each(|(source, user_id)| changes.member(*source, *user_id));
        self.invitations.iter().for_each(|(inviting, _)| match inviting {
            Source::Group(id) => changes.group(*id),
            Source::Project(id) => changes.project(*id),
        });
        changes
    }
}

/// The known deletions. Each record is read once. A record that cannot be read does not count as deleted.
#[derive(Default)]
pub struct DeletedRecords(BTreeMap<Actor, bool>);

impl DeletedRecords {
    /// Whether a namespace or a project is deleted.
    pub fn source(&mut self, env: &Env, source: Source) -> Result<bool, StoreError> {
        self.actor(env, source.into())
    }

    pub fn user(&mut self, env: &Env, id: u64) -> Result<bool, StoreError> {
        self.actor(env, Actor::User(id))
    }

    pub fn actor(&mut self, env: &Env, actor: Actor) -> Result<bool, StoreError> {
        if let Some(is_deleted) = self.0.get(&actor) {
            return Ok(*is_deleted);
        }
        let is_deleted = match existence(env, actor) {
            Err(StoreError::Corrupt { .. }) => false,
            existence => existence? == Existence::Deleted,
        };
        self.0.insert(actor, is_deleted);
        Ok(is_deleted)
    }
}

/// Whether a user, group or project with this id exists or existed. 1 read.
pub(crate) fn existence(env: &Env, actor: Actor) -> Result<Existence, StoreError> {
    match actor {
        Actor::User(id) => user::existence(env, id),
        Actor::Group(id) => namespace::existence(env, id),
        Actor::Project(id) => project::existence(env, id),
    }
}
