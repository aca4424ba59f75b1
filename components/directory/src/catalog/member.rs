//! Direct members by group and project. The records store them by user.

use crate::catalog::manifest::{self, Part, RowKey};
use crate::catalog::row;
use crate::catalog::snapshot::Catalog;
use crate::catalog::table::Members;
use crate::member::{Share, Source, is_current};
use crate::model::membership::Role;
use crate::store::Key;
use kit::store::StoreError;
use kit::{Env, Timestamp};
use std::collections::BTreeSet;

/// A direct member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    pub user_id: u64,
    pub role: Role,
    pub expires_at: Option<Timestamp>,
}

impl Member {
    /// Whether the membership is valid at the moment `now`.
    pub fn is_current(&self, now: Timestamp) -> bool {
        is_current(self.expires_at, now)
    }
}

/// The present direct members of all `sources`, without the tables of namespaces and projects. Reads: the root, and
/// uncached ones of the manifest and the parts of the members' table.
pub fn of_sources(env: &Env, sources: &[Source]) -> Result<Vec<Member>, StoreError> {
    manifest::read_latest(env, |revision| {
        let mut members = Vec::new();
        let manifest = manifest::manifest(env, revision)?;
        members_in(env, &manifest.members, sources, |member| members.push(member))?;
        Ok(members)
    })
}

impl Catalog {
    /// Calls `each` for every direct member of `sources`, in no particular order. 1 read for each uncached part of the
    /// table that has some.
    pub fn members(&self, env: &Env, sources: &[Source], each: impl FnMut(Member)) -> Result<(), StoreError> {
        members_in(env, &self.manifest.members, sources, each)
    }
}

/// The keys of all rows of these users. 1 read for each uncached part, if there are users.
pub(super) fn rows_of_users(env: &Env, parts: &[Part], users: &BTreeSet<u64>) -> Result<Vec<RowKey>, StoreError> {
    let mut keys = Vec::new();
    for part in parts.iter().filter(|_| !users.is_empty()) {
        let blob = member_blob(env, part)?;
        let corrupt = || StoreError::corrupt(&Key::CatalogBlob(&part.blob).to_string(), "no such rows");
        let members = Members::parse(&blob).ok_or_else(corrupt)?;
        let rows = members.of(0..u64::MAX).filter(|row| users.contains(&row.user_id));
        keys.extend(rows.map(|row| (row.source, row.user_id)));
    }
    Ok(keys)
}

fn members_in(env: &Env, parts: &[Part], sources: &[Source], mut each: impl FnMut(Member)) -> Result<(), StoreError> {
    let mut codes: Vec<u64> = sources.iter().map(|source| row::source_code(*source)).collect();
    codes.sort_unstable();
    let mut next = codes.as_slice();
    for (at, part) in parts.iter().enumerate() {
        let end = parts.get(at + 1).map_or(u64::MAX, |after| after.first.0);
        let before = next.partition_point(|code| *code < part.first.0);
        next = next.get(before..).unwrap_or_default();
        let (inside, _) = next.split_at(next.partition_point(|code| *code <= end));
        if inside.is_empty() {
            continue;
        }
        let blob = member_blob(env, part)?;
        let corrupt = || StoreError::corrupt(&Key::CatalogBlob(&part.blob).to_string(), "no such rows");
        let members = Members::parse(&blob).ok_or_else(corrupt)?;
        for code in inside {
            for row in members.of(*code..code.saturating_add(1)) {
                each(Member {
                    user_id: row.user_id,
                    role: Role::from_level(row.role.into()).unwrap_or(Role::None),
                    expires_at: (row.expires_at != i64::MAX).then(|| Timestamp::from_millis(row.expires_at)),
                });
            }
        }
    }
    Ok(())
}

fn member_blob(env: &Env, part: &Part) -> Result<bytes::Bytes, StoreError> {
    let key = Key::CatalogBlob(&part.blob).to_string();
    match env.blob(&key)? {
        Some(blob) => Ok(blob),
        None => manifest::blob(env, &part.blob).map(bytes::Bytes::from),
    }
}

impl Catalog {
    /// The users with a role in some project, by the rules of [`crate::access`]. The role is direct, inherited from a
    /// group above, given by an invitation, or the namespace owner's. Administrators' rights in all projects do not
    /// count. Inactive users count. Reads the tables of namespaces, projects and members.
    pub fn users_with_projects(&self, env: &Env) -> Result<BTreeSet<u64>, StoreError> {
        let mut users: BTreeSet<u64> = BTreeSet::new();
        let mut sources: BTreeSet<Source> = self.projects().map(|project| Source::Project(project.id())).collect();
        let mut invite = |shares: Vec<Share>| {
            let invited = |share: &Share| share.role >= Role::Guest && is_current(share.expires_at, env.now);
            for group in shares.iter().filter(|share| invited(share)).filter_map(|share| self.namespace(share.group_id))
            {
                sources.extend(group.lineage().map(|above| Source::Group(above.id())));
            }
        };
        self.projects().for_each(|project| invite(project.shares()));
        let with_projects = || self.namespaces().filter(|namespace| namespace.projects_below().len() > 0);
        with_projects().for_each(|namespace| invite(namespace.shares()));
        for namespace in with_projects() {
            match namespace.owner() {
                Some(owner) => drop(users.insert(owner)),
                None => drop(sources.insert(Source::Group(namespace.id()))),
            }
        }
        let sources: Vec<Source> = sources.into_iter().collect();
        self.members(env, &sources, |member| {
            if member.role >= Role::Guest && member.is_current(env.now) {
                users.insert(member.user_id);
            }
        })?;
        Ok(users)
    }
}
