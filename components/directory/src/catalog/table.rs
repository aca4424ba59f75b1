//! The tables of the catalog: rows in the order of their keys, stored as blobs of columns.

use super::columns::{Columns, Numbers, Texts, Writer};
use super::manifest::RowKey;
use crate::model::incarnation::Incarnation;
use crate::namespace::Details;
use crate::store::ShareRecord;
use std::ops::Range;

pub(crate) trait Row: Clone + PartialEq {
    fn key(&self) -> RowKey;
    fn encode(rows: &[Self]) -> Vec<u8>;
    /// `None` if the bytes are damaged.
    fn decode(blob: &[u8]) -> Option<Vec<Self>>;
}

/// A table in memory: columns to which the table's blobs are appended.
pub(crate) trait Table: Default {
    fn append(&mut self, blob: &[u8]) -> Option<()>;
    fn copy(&mut self, from: &Self, rows: Range<usize>);
}

/// Flags of a personal namespace's owner.
pub(crate) const ACTIVE: u8 = 1;
pub(crate) const BOT: u8 = 2;
pub(crate) const ADMIN: u8 = 4;
pub(crate) const EXTERNAL: u8 = 8;
pub(crate) const BANNED: u8 = 16;

#[derive(Clone, PartialEq)]
pub(crate) struct NamespaceRow {
    pub id: u64,
    /// 0 at the top level.
    pub parent_id: u64,
    /// 0 for a group.
    pub owner_id: u64,
    pub owner_flags: u8,
    /// The id of a banned owner's incarnation; empty for the first one, and in rows of earlier builds.
    pub owner_incarnation: String,
    pub visibility: u8,
    pub path: String,
    pub name: String,
    pub shares: Vec<ShareRecord>,
    /// [`crate::namespace::Details`] in JSON; may be empty.
    pub details: String,
}

#[derive(Default)]
pub(crate) struct Namespaces {
    pub ids: Vec<u64>,
    pub parent_ids: Vec<u64>,
    pub owner_ids: Vec<u64>,
    pub owner_flags: Vec<u8>,
    pub visibilities: Vec<u8>,
    pub paths: Texts,
    pub names: Texts,
    pub shares: Vec<(u32, Vec<ShareRecord>)>,
    pub details: Vec<(u32, String)>,
    pub owner_incarnations: Vec<(u32, String)>,
}

impl Namespaces {
    pub fn owner_incarnation(&self, row: u32) -> Incarnation {
        let column = &self.owner_incarnations;
        let found = column.binary_search_by_key(&row, |(row, _)| *row).ok().and_then(|found| column.get(found));
        found.map_or(Incarnation::default(), |(_, id)| Incarnation::new(id.clone()))
    }
}

impl Row for NamespaceRow {
    fn key(&self) -> RowKey {
        (self.id, 0)
    }

    fn encode(rows: &[Self]) -> Vec<u8> {
        let mut writer = Writer::new(rows.len());
        writer.numbers(1, rows.iter().map(|row| row.id));
        writer.numbers(2, rows.iter().map(|row| row.parent_id));
        writer.numbers(3, rows.iter().map(|row| row.owner_id));
        writer.bytes(4, rows.iter().map(|row| row.owner_flags));
        writer.bytes(5, rows.iter().map(|row| row.visibility));
        writer.texts(6, rows.iter().map(|row| row.path.as_str()));
        writer.texts(7, rows.iter().map(|row| row.name.as_str()));
        writer.sparse(8, encode_shares(rows.iter().map(|row| &row.shares)));
        let details = rows.iter().enumerate().filter(|(_, row)| !row.details.is_empty());
        writer.sparse(9, details.map(|(at, row)| (at, row.details.clone())));
        let incarnations = rows.iter().enumerate().filter(|(_, row)| !row.owner_incarnation.is_empty());
        writer.sparse(10, incarnations.map(|(at, row)| (at, row.owner_incarnation.clone())));
        writer.finish()
    }

    fn decode(blob: &[u8]) -> Option<Vec<Self>> {
        let mut table = Namespaces::default();
        table.append(blob)?;
        let mut shares = table.shares.into_iter().peekable();
        let mut details = table.details.into_iter().peekable();
        let mut incarnations = table.owner_incarnations.into_iter().peekable();
        let fields = table.ids.into_iter().zip(table.parent_ids).zip(table.owner_ids);
        let fields = fields.zip(table.owner_flags.into_iter().zip(table.visibilities)).enumerate();
        let row = |(at, (((id, parent_id), owner_id), (owner_flags, visibility)))| NamespaceRow {
            id,
            parent_id,
            owner_id,
            owner_flags,
            owner_incarnation: incarnations
                .next_if(|(row, _)| *row as usize == at)
                .map(|(_, id)| id)
                .unwrap_or_default(),
            visibility,
            path: table.paths.get(at).to_owned(),
            name: table.names.get(at).to_owned(),
            shares: shares.next_if(|(row, _)| *row as usize == at).map(|(_, shares)| shares).unwrap_or_default(),
            details: details.next_if(|(row, _)| *row as usize == at).map(|(_, details)| details).unwrap_or_default(),
        };
        Some(fields.map(row).collect())
    }
}

impl Table for Namespaces {
    fn append(&mut self, blob: &[u8]) -> Option<()> {
        let base = self.ids.len();
        let columns = Columns::parse(blob)?;
        columns.numbers(1)?.append_to(&mut self.ids);
        columns.numbers(2)?.append_to(&mut self.parent_ids);
        columns.numbers(3)?.append_to(&mut self.owner_ids);
        columns.bytes(4, &mut self.owner_flags)?;
        columns.bytes(5, &mut self.visibilities)?;
        columns.texts(6, &mut self.paths)?;
        columns.texts(7, &mut self.names)?;
        decode_shares(&columns, 8, base, &mut self.shares)?;
        let mut valid = true;
        columns.sparse(9, |row, details| {
            valid &= serde_json::from_str::<Details>(details).is_ok();
            self.details.push(((base + row) as u32, details.to_owned()));
        })?;
        valid.then_some(())?;
        columns.sparse(10, |row, id| self.owner_incarnations.push(((base + row) as u32, id.to_owned())))
    }

    fn copy(&mut self, from: &Self, rows: Range<usize>) {
        let base = self.ids.len();
        copy(&mut self.ids, &from.ids, &rows);
        copy(&mut self.parent_ids, &from.parent_ids, &rows);
        copy(&mut self.owner_ids, &from.owner_ids, &rows);
        copy(&mut self.owner_flags, &from.owner_flags, &rows);
        copy(&mut self.visibilities, &from.visibilities, &rows);
        self.paths.copy(&from.paths, rows.clone());
        self.names.copy(&from.names, rows.clone());
        copy_sparse(&mut self.shares, &from.shares, &rows, base);
        copy_sparse(&mut self.details, &from.details, &rows, base);
        copy_sparse(&mut self.owner_incarnations, &from.owner_incarnations, &rows, base);
    }
}

#[derive(Clone, PartialEq)]
pub(crate) struct ProjectRow {
    pub id: u64,
    pub namespace_id: u64,
    pub visibility: u8,
    /// The access to the project's issues.
    pub issues: u8,
    pub archived: u8,
    pub path: String,
    pub name: String,
    pub shares: Vec<ShareRecord>,
    /// Empty without a unique domain.
    pub pages_domain: String,
    /// The id of the project's incarnation that its issues name; empty for the first one.
    pub issues_incarnation: String,
}

#[derive(Default)]
pub(crate) struct Projects {
    pub ids: Vec<u64>,
    pub namespace_ids: Vec<u64>,
    pub visibilities: Vec<u8>,
    pub issues: Vec<u8>,
    pub archived: Vec<u8>,
    pub paths: Texts,
    pub names: Texts,
    pub shares: Vec<(u32, Vec<ShareRecord>)>,
    pub pages_domains: Vec<(u32, String)>,
    pub issues_incarnations: Vec<(u32, String)>,
}

impl Row for ProjectRow {
    fn key(&self) -> RowKey {
        (self.id, 0)
    }

    fn encode(rows: &[Self]) -> Vec<u8> {
        let mut writer = Writer::new(rows.len());
        writer.numbers(1, rows.iter().map(|row| row.id));
        writer.numbers(2, rows.iter().map(|row| row.namespace_id));
        writer.bytes(3, rows.iter().map(|row| row.visibility));
        writer.bytes(4, rows.iter().map(|row| row.issues));
        writer.bytes(5, rows.iter().map(|row| row.archived));
        writer.texts(6, rows.iter().map(|row| row.path.as_str()));
        writer.texts(7, rows.iter().map(|row| row.name.as_str()));
        writer.sparse(8, encode_shares(rows.iter().map(|row| &row.shares)));
        let domains = rows.iter().enumerate().filter(|(_, row)| !row.pages_domain.is_empty());
        writer.sparse(9, domains.map(|(at, row)| (at, row.pages_domain.clone())));
        let incarnations = rows.iter().enumerate().filter(|(_, row)| !row.issues_incarnation.is_empty());
        writer.sparse(10, incarnations.map(|(at, row)| (at, row.issues_incarnation.clone())));
        writer.finish()
    }

    fn decode(blob: &[u8]) -> Option<Vec<Self>> {
        let mut table = Projects::default();
        table.append(blob)?;
        let mut shares = table.shares.into_iter().peekable();
        let mut domains = table.pages_domains.into_iter().peekable();
        let mut incarnations = table.issues_incarnations.into_iter().peekable();
        let fields = table.ids.into_iter().zip(table.namespace_ids);
        let flags = table.visibilities.into_iter().zip(table.issues).zip(table.archived);
        let row = |(at, ((id, namespace_id), ((visibility, issues), archived)))| ProjectRow {
            id,
            namespace_id,
            visibility,
            issues,
            archived,
            path: table.paths.get(at).to_owned(),
            name: table.names.get(at).to_owned(),
            shares: shares.next_if(|(row, _)| *row as usize == at).map(|(_, shares)| shares).unwrap_or_default(),
            pages_domain: domains.next_if(|(row, _)| *row as usize == at).map(|(_, text)| text).unwrap_or_default(),
            issues_incarnation: incarnations
                .next_if(|(row, _)| *row as usize == at)
                .map(|(_, id)| id)
                .unwrap_or_default(),
        };
        Some(fields.zip(flags).enumerate().map(row).collect())
    }
}

impl Table for Projects {
    fn append(&mut self, blob: &[u8]) -> Option<()> {
        let base = self.ids.len();
        let columns = Columns::parse(blob)?;
        columns.numbers(1)?.append_to(&mut self.ids);
        columns.numbers(2)?.append_to(&mut self.namespace_ids);
        columns.bytes(3, &mut self.visibilities)?;
        columns.bytes(4, &mut self.issues)?;
        columns.bytes(5, &mut self.archived)?;
        columns.texts(6, &mut self.paths)?;
        columns.texts(7, &mut self.names)?;
        decode_shares(&columns, 8, base, &mut self.shares)?;
        columns.sparse(9, |row, domain| self.pages_domains.push(((base + row) as u32, domain.to_owned())))?;
        columns.sparse(10, |row, id| self.issues_incarnations.push(((base + row) as u32, id.to_owned())))
    }

    fn copy(&mut self, from: &Self, rows: Range<usize>) {
        let base = self.ids.len();
        copy(&mut self.ids, &from.ids, &rows);
        copy(&mut self.namespace_ids, &from.namespace_ids, &rows);
        copy(&mut self.visibilities, &from.visibilities, &rows);
        copy(&mut self.issues, &from.issues, &rows);
        copy(&mut self.archived, &from.archived, &rows);
        self.paths.copy(&from.paths, rows.clone());
        self.names.copy(&from.names, rows.clone());
        copy_sparse(&mut self.shares, &from.shares, &rows, base);
        copy_sparse(&mut self.pages_domains, &from.pages_domains, &rows, base);
        copy_sparse(&mut self.issues_incarnations, &from.issues_incarnations, &rows, base);
    }
}

/// A direct member of a group or project.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MemberRow {
    pub source: u64,
    pub user_id: u64,
    pub role: u8,
    /// Milliseconds since 1970; `i64::MAX` without an expiry.
    pub expires_at: i64,
}

impl Row for MemberRow {
    fn key(&self) -> RowKey {
        (self.source, self.user_id)
    }

    fn encode(rows: &[Self]) -> Vec<u8> {
        let mut writer = Writer::new(rows.len());
        writer.numbers(1, rows.iter().map(|row| row.source));
        writer.numbers(2, rows.iter().map(|row| row.user_id));
        writer.bytes(3, rows.iter().map(|row| row.role));
        writer.numbers(4, rows.iter().map(|row| row.expires_at.cast_unsigned()));
        writer.finish()
    }

    fn decode(blob: &[u8]) -> Option<Vec<Self>> {
        Members::parse(blob).map(|members| members.of(0..u64::MAX).collect())
    }
}

/// A blob of members, read without a copy.
pub(crate) struct Members<'a> {
    rows: usize,
    sources: Numbers<'a>,
    users: Numbers<'a>,
    roles: &'a [u8],
    ends: Numbers<'a>,
}

impl<'a> Members<'a> {
    pub fn parse(blob: &'a [u8]) -> Option<Self> {
        let columns = Columns::parse(blob)?;
        Some(Members {
            rows: columns.rows,
            sources: columns.numbers(1)?,
            users: columns.numbers(2)?,
            // The column is absent if all roles are 0.
            roles: columns.find(3).map_or(Some(&[][..]), |roles| (roles.len() == columns.rows).then_some(roles))?,
            ends: columns.numbers(4)?,
        })
    }

    /// The members of the sources in a range.
    pub fn of(&self, sources: Range<u64>) -> impl Iterator<Item = MemberRow> {
        let first = |bound: u64| partition(self.rows, |row| self.sources.get(row) < bound);
        (first(sources.start)..first(sources.end)).map(|at| MemberRow {
            source: self.sources.get(at),
            user_id: self.users.get(at),
            role: self.roles.get(at).copied().unwrap_or(0),
            expires_at: self.ends.get(at).cast_signed(),
        })
    }
}

/// The index of the first of `len` rows for which `before` is false. It must be true for a prefix of the rows.
pub(crate) fn partition(len: usize, before: impl Fn(usize) -> bool) -> usize {
    let mut range = 0..len;
    while !range.is_empty() {
        let middle = range.start + range.len() / 2;
        range = if before(middle) { middle + 1..range.end } else { range.start..middle };
    }
    range.start
}

fn encode_shares<'a>(rows: impl Iterator<Item = &'a Vec<ShareRecord>>) -> impl Iterator<Item = (usize, String)> {
    let json = |shares: &Vec<ShareRecord>| serde_json::to_string(shares).unwrap_or_default();
    rows.enumerate().filter(|(_, shares)| !shares.is_empty()).map(move |(at, shares)| (at, json(shares)))
}

fn decode_shares(columns: &Columns, tag: u8, base: usize, into: &mut Vec<(u32, Vec<ShareRecord>)>) -> Option<()> {
    let mut valid = true;
    columns.sparse(tag, |row, json| match serde_json::from_str(json) {
        Ok(shares) => into.push(((base + row) as u32, shares)),
        Err(_) => valid = false,
    })?;
    valid.then_some(())
}

fn copy<T: Copy>(into: &mut Vec<T>, from: &[T], rows: &Range<usize>) {
    into.extend_from_slice(from.get(rows.clone()).unwrap_or_default());
}

fn copy_sparse<T: Clone>(into: &mut Vec<(u32, T)>, from: &[(u32, T)], rows: &Range<usize>, base: usize) {
    let before = |bound: usize| from.partition_point(|(row, _)| (*row as usize) < bound);
    let inside = from.get(before(rows.start)..before(rows.end)).unwrap_or_default();
    into.extend(inside.iter().map(|(row, value)| ((*row as usize - rows.start + base) as u32, value.clone())));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_columns_are_no_rows() {
        let row = |details: &str| NamespaceRow {
            id: 1,
            parent_id: 0,
            owner_id: 0,
            owner_flags: 0,
            owner_incarnation: String::new(),
            visibility: 0,
            path: "a".into(),
            name: "A".into(),
            shares: Vec::new(),
            details: details.into(),
        };
        for (details, is_read) in [("", true), ("{}", true), ("{", false), ("x", false), ("[1", false)] {
            let blob = NamespaceRow::encode(&[row("{}"), row(details)]);
            assert_eq!(NamespaceRow::decode(&blob).is_some(), is_read, "{details}");
        }
        for (roles, is_read) in [(&[10, 20][..], true), (&[10], false), (&[10, 20, 30], false)] {
            let mut writer = Writer::new(2);
            writer.numbers(1, [1, 2].into_iter());
            writer.numbers(2, [1, 2].into_iter());
            writer.bytes(3, roles.iter().copied());
            assert_eq!(MemberRow::decode(&writer.finish()).is_some(), is_read, "{roles:?}");
        }
        for (rows, is_read) in [([0, 1], true), ([1, 0], false), ([1, 1], false), ([0, 2], false)] {
            let mut writer = Writer::new(2);
            writer.sparse(9, rows.into_iter().map(|row| (row, "{}".to_owned())));
            assert_eq!(NamespaceRow::decode(&writer.finish()).is_some(), is_read, "{rows:?}");
        }
    }
}
