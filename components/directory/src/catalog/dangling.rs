//! Rows that refer to deleted records: groups and projects below deleted namespaces, roles of deleted users, roles in
//! deleted groups or projects, invitations of deleted groups. The next record with the id must not get such rows.
//!
//! A writer may store such a row while another writer deletes the record. The writer that updates the catalog last
//! finds the row. It reads the deleted record before it swaps the root, or it reads the row in the catalog. Groups and
//! projects below a namespace are also searched in the intents ([`super::intent_log::IntentLog::late_children`]).

use super::changes::Changes;
use super::manifest::Rows;
use super::row;
use super::table::{MemberRow, NamespaceRow, ProjectRow};
use crate::feature::Actor;
use crate::model::membership::Source;
use crate::namespace;
use crate::project;
use crate::store::Existence;
use crate::user;
use kit::Env;
use kit::store::StoreError;
use std::collections::BTreeMap;

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
pub struct DeletedRecords {
    sources: BTreeMap<Source, bool>,
    users: BTreeMap<u64, bool>,
}

impl DeletedRecords {
    /// Whether a namespace or a project is deleted.
    pub fn source(&mut self, env: &Env, source: Source) -> Result<bool, StoreError> {
        let existence = || match source {
            Source::Group(id) => namespace::existence(env, id),
            Source::Project(id) => project::existence(env, id),
        };
        check_once(&mut self.sources, source, existence)
    }

    pub fn actor(&mut self, env: &Env, actor: Actor) -> Result<bool, StoreError> {
        match actor {
            Actor::User(id) => self.user(env, id),
            Actor::Group(id) => self.source(env, Source::Group(id)),
            Actor::Project(id) => self.source(env, Source::Project(id)),
        }
    }

    pub fn user(&mut self, env: &Env, id: u64) -> Result<bool, StoreError> {
        check_once(&mut self.users, id, || user::existence(env, id))
    }
}

fn check_once<T: Ord>(
    known: &mut BTreeMap<T, bool>,
    key: T,
    existence: impl FnOnce() -> Result<Existence, StoreError>,
) -> Result<bool, StoreError> {
    if let Some(is_deleted) = known.get(&key) {
        return Ok(*is_deleted);
    }
    let is_deleted = match existence() {
        Err(StoreError::Corrupt { .. }) => false,
        existence => existence? == Existence::Deleted,
    };
    known.insert(key, is_deleted);
    Ok(is_deleted)
}
