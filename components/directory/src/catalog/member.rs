//! Direct members by group and project. The records store them by user.

use super::manifest::{self, Part, Root, RowKey};
use super::row;
use super::snapshot::Catalog;
use super::table::Members;
use crate::member::{Source, is_current};
use crate::model::role::Role;
use crate::store::{self, Key};
use kit::store::StoreError;
use kit::{Env, Timestamp};
use std::collections::BTreeSet;

/// The most attempts of a reader that is slower than the blobs of a former revision are retained.
const MAX_ATTEMPTS: usize = 5;

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
    let mut last_error = None;
    for _ in 0..MAX_ATTEMPTS {
        let revision = store::read::<Root>(env, &Key::Catalog)?.map_or(String::new(), |root| root.revision);
        let mut members = Vec::new();
        let read = manifest::manifest(env, &revision)
            .and_then(|manifest| members_in(env, &manifest.members, sources, |member| members.push(member)));
        match read {
            Ok(()) => return Ok(members),
            // The revision's blobs were deleted meanwhile.
            Err(error) => last_error = Some(error),
        }
    }
    Err(last_error.unwrap_or_else(|| StoreError::Contended(Key::Catalog.to_string())))
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
