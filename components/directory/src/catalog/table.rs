//! The tables of the catalog: rows in the order of their keys, stored as blobs of columns.
//!
//! Columns of numbers and texts as bytes, which an instance can load without parsing each row.
//!
//! A blob is `hexcol1\n`, the number of rows (u32), and a sequence of columns: a tag (u8), a length (u32), that many
//! bytes. Numbers are little-endian. The kinds of columns are:
//!
//! - numbers: 8 bytes for each row;
//! - bytes: 1 byte for each row;
//! - texts: the end of each row's text (u32 for each row), then all texts in UTF-8;
//! - sparse texts, for fields that few rows have: their number (u32), their rows (u32 each), their ends (u32 each),
//!   then all texts in UTF-8.
//!
//! A reader skips columns that it does not know. A column that a blob lacks is all zeros, or empty.

use crate::catalog::manifest::RowKey;
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

/// The cells of one field of all rows.
trait Column: Default {
    type Cell;
    fn write<'a>(writer: &mut Writer, tag: u8, cells: impl Iterator<Item = &'a Self::Cell>)
    where
        Self::Cell: 'a;
    /// Appends a blob's column to a table of `base` rows; `None` if the bytes are damaged.
    fn append(&mut self, columns: &Columns, tag: u8, base: usize) -> Option<()>;
    /// Appends rows of another column to a table of `base` rows.
    fn copy(&mut self, from: &Self, rows: &Range<usize>, base: usize);
    fn cell(&self, row: usize) -> Self::Cell;
}

macro_rules! number_column {
    ($number:ty, $write:ident, |$columns:ident, $tag:ident, $into:ident| $append:expr) => {
        impl Column for Vec<$number> {
            type Cell = $number;

            fn write<'a>(writer: &mut Writer, tag: u8, cells: impl Iterator<Item = &'a $number>) {
                writer.$write(tag, cells.copied());
            }

            fn append(&mut self, $columns: &Columns, $tag: u8, _: usize) -> Option<()> {
                let $into = self;
                $append
            }

            fn copy(&mut self, from: &Self, rows: &Range<usize>, _: usize) {
                self.extend_from_slice(from.get(rows.clone()).unwrap_or_default());
            }

            fn cell(&self, row: usize) -> $number {
                self.get(row).copied().unwrap_or_default()
            }
        }
    };
}

number_column!(u64, numbers, |columns, tag, into| columns.numbers(tag).map(|numbers| numbers.append_to(into)));
number_column!(u8, bytes, |columns, tag, into| columns.bytes(tag, into));

impl Column for Texts {
    type Cell = String;

    fn write<'a>(writer: &mut Writer, tag: u8, cells: impl Iterator<Item = &'a String>) {
        writer.texts(tag, cells.map(String::as_str));
    }

    fn append(&mut self, columns: &Columns, tag: u8, _: usize) -> Option<()> {
        columns.texts(tag, self)
    }

    fn copy(&mut self, from: &Self, rows: &Range<usize>, _: usize) {
        self.copy(from, rows.clone());
    }

    fn cell(&self, row: usize) -> String {
        self.get(row).to_owned()
    }
}

/// A column of few values: rows and their values. All other rows have the default.
pub(crate) type Sparse<T> = Vec<(u32, T)>;

/// The value of a row in a sparse column.
pub(crate) fn sparse<T>(column: &[(u32, T)], row: u32) -> Option<&T> {
    let found = column.binary_search_by_key(&row, |(row, _)| *row).ok()?;
    column.get(found).map(|(_, value)| value)
}

/// A value of a sparse column, stored as a text.
trait SparseValue: Clone + Default + PartialEq {
    fn to_text(&self) -> String;
    /// `None` if the text is damaged.
    fn parse(text: &str) -> Option<Self>;
}

impl SparseValue for String {
    fn to_text(&self) -> String {
        self.clone()
    }

    fn parse(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

impl SparseValue for Vec<ShareRecord> {
    fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// [`Details`] in JSON; may be empty.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct DetailsJson(pub String);

impl SparseValue for DetailsJson {
    fn to_text(&self) -> String {
        self.0.clone()
    }

    fn parse(text: &str) -> Option<Self> {
        serde_json::from_str::<Details>(text).ok().map(|_| DetailsJson(text.to_owned()))
    }
}

impl<T: SparseValue> Column for Sparse<T> {
    type Cell = T;

    fn write<'a>(writer: &mut Writer, tag: u8, cells: impl Iterator<Item = &'a T>)
    where
        T: 'a,
    {
        let present = cells.enumerate().filter(|(_, cell)| **cell != T::default());
        writer.sparse(tag, present.map(|(row, cell)| (row, cell.to_text())));
    }

    fn append(&mut self, columns: &Columns, tag: u8, base: usize) -> Option<()> {
        let mut is_valid = true;
        columns.sparse(tag, |row, text| match T::parse(text) {
            Some(value) => self.push(((base + row) as u32, value)),
            None => is_valid = false,
        })?;
        is_valid.then_some(())
    }

    fn copy(&mut self, from: &Self, rows: &Range<usize>, base: usize) {
        let before = |bound: usize| from.partition_point(|(row, _)| (*row as usize) < bound);
        let inside = from.get(before(rows.start)..before(rows.end)).unwrap_or_default();
        self.extend(inside.iter().map(|(row, value)| ((*row as usize - rows.start + base) as u32, value.clone())));
    }

    fn cell(&self, row: usize) -> T {
        sparse(self, row as u32).cloned().unwrap_or_default()
    }
}

/// Declares a row and its table in memory. Each field has its column's tag in blobs, and the column's name and type.
macro_rules! table {
    ($Row:ident, $Table:ident {
        $( $(#[$doc:meta])* $tag:literal $field:ident: $Cell:ty => $column:ident: $Column:ty, )*
    }) => {
        #[derive(Clone, PartialEq)]
        pub(crate) struct $Row {
            $( $(#[$doc])* pub $field: $Cell, )*
        }

        #[derive(Default)]
        pub(crate) struct $Table {
            $( pub $column: $Column, )*
        }

        impl Row for $Row {
            fn key(&self) -> RowKey {
                (self.id, 0)
            }

            fn encode(rows: &[Self]) -> Vec<u8> {
                let mut writer = Writer::new(rows.len());
                $( <$Column as Column>::write(&mut writer, $tag, rows.iter().map(|row| &row.$field)); )*
                writer.finish()
            }

            fn decode(blob: &[u8]) -> Option<Vec<Self>> {
                let mut table = $Table::default();
                table.append(blob)?;
                let row = |row: usize| $Row { $( $field: Column::cell(&table.$column, row), )* };
                Some((0..table.ids.len()).map(row).collect())
            }
        }

        impl Table for $Table {
            fn append(&mut self, blob: &[u8]) -> Option<()> {
                let (base, columns) = (self.ids.len(), Columns::parse(blob)?);
                $( Column::append(&mut self.$column, &columns, $tag, base)?; )*
                Some(())
            }

            fn copy(&mut self, from: &Self, rows: Range<usize>) {
                let base = self.ids.len();
                $( Column::copy(&mut self.$column, &from.$column, &rows, base); )*
            }
        }
    };
}

/// Flags of a personal namespace's owner.
pub(crate) const ACTIVE: u8 = 1;
pub(crate) const BOT: u8 = 2;
pub(crate) const ADMIN: u8 = 4;
pub(crate) const EXTERNAL: u8 = 8;
pub(crate) const BANNED: u8 = 16;

table!(NamespaceRow, Namespaces {
    1 id: u64 => ids: Vec<u64>,
    /// 0 at the top level.
    2 parent_id: u64 => parent_ids: Vec<u64>,
    /// 0 for a group.
    3 owner_id: u64 => owner_ids: Vec<u64>,
    4 owner_flags: u8 => owner_flags: Vec<u8>,
    5 visibility: u8 => visibilities: Vec<u8>,
    6 path: String => paths: Texts,
    7 name: String => names: Texts,
    8 shares: Vec<ShareRecord> => shares: Sparse<Vec<ShareRecord>>,
    9 details: DetailsJson => details: Sparse<DetailsJson>,
    /// The id of a banned owner's incarnation; empty for the first one, and in rows of earlier builds.
    10 owner_incarnation: String => owner_incarnations: Sparse<String>,
});

impl Namespaces {
    pub fn owner_incarnation(&self, row: u32) -> Incarnation {
        sparse(&self.owner_incarnations, row).map_or(Incarnation::default(), |id| Incarnation::new(id.clone()))
    }
}

table!(ProjectRow, Projects {
    1 id: u64 => ids: Vec<u64>,
    2 namespace_id: u64 => namespace_ids: Vec<u64>,
    3 visibility: u8 => visibilities: Vec<u8>,
    /// The access to the project's issues.
    4 issues: u8 => issues: Vec<u8>,
    5 archived: u8 => archived: Vec<u8>,
    6 path: String => paths: Texts,
    7 name: String => names: Texts,
    8 shares: Vec<ShareRecord> => shares: Sparse<Vec<ShareRecord>>,
    /// Empty without a unique domain.
    9 pages_domain: String => pages_domains: Sparse<String>,
    /// The id of the project's incarnation that its issues name; empty for the first one.
    10 issues_incarnation: String => issues_incarnations: Sparse<String>,
});

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

const MAGIC: &[u8; 8] = b"hexcol1\n";

pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub fn new(rows: usize) -> Self {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(size(rows));
        Writer(bytes)
    }

    fn column(&mut self, tag: u8, content: &[u8]) {
        self.0.push(tag);
        self.0.extend(size(content.len()));
        self.0.extend(content);
    }

    pub fn numbers(&mut self, tag: u8, rows: impl Iterator<Item = u64>) {
        self.column(tag, &rows.flat_map(u64::to_le_bytes).collect::<Vec<u8>>());
    }

    pub fn bytes(&mut self, tag: u8, rows: impl Iterator<Item = u8>) {
        self.column(tag, &rows.collect::<Vec<u8>>());
    }

    pub fn texts<'a>(&mut self, tag: u8, rows: impl Iterator<Item = &'a str>) {
        let (mut ends, mut text) = (Vec::new(), String::new());
        for row in rows {
            text.push_str(row);
            ends.extend(size(text.len()));
        }
        ends.extend(text.as_bytes());
        self.column(tag, &ends);
    }

    /// The rows with a text, in ascending order, and their texts.
    pub fn sparse(&mut self, tag: u8, rows: impl Iterator<Item = (usize, String)>) {
        let (mut sparse_rows, mut ends, mut text) = (Vec::new(), Vec::new(), String::new());
        for (row, value) in rows {
            text.push_str(&value);
            sparse_rows.extend(size(row));
            ends.extend(size(text.len()));
        }
        if sparse_rows.is_empty() {
            return;
        }
        let mut content = size(sparse_rows.len() / 4).to_vec();
        content.extend(sparse_rows);
        content.extend(ends);
        content.extend(text.as_bytes());
        self.column(tag, &content);
    }

    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Sizes fit, because a blob has a few thousand rows of bounded texts.
fn size(size: usize) -> [u8; 4] {
    u32::try_from(size).unwrap_or(u32::MAX).to_le_bytes()
}

/// The columns of a blob. Every `None` below means that the bytes are damaged.
pub(crate) struct Columns<'a> {
    pub rows: usize,
    columns: Vec<(u8, &'a [u8])>,
}

impl<'a> Columns<'a> {
    pub fn parse(blob: &'a [u8]) -> Option<Self> {
        let (rows, mut rest) = read_number(blob.strip_prefix(MAGIC)?)?;
        let mut columns = Vec::new();
        while let Some((tag, after)) = rest.split_first() {
            let (length, after) = read_number(after)?;
            let (content, after) = after.split_at_checked(length)?;
            columns.push((*tag, content));
            rest = after;
        }
        Some(Columns { rows, columns })
    }

    pub fn find(&self, tag: u8) -> Option<&'a [u8]> {
        self.columns.iter().find(|(found, _)| *found == tag).map(|(_, content)| *content)
    }

    pub fn numbers(&self, tag: u8) -> Option<Numbers<'a>> {
        let content = self.find(tag).unwrap_or_default();
        (content.is_empty() || content.len() == self.rows * 8).then_some(Numbers { rows: self.rows, content })
    }

    pub fn bytes(&self, tag: u8, into: &mut Vec<u8>) -> Option<()> {
        match self.find(tag) {
            None => into.resize(into.len() + self.rows, 0),
            Some(content) if content.len() == self.rows => into.extend(content),
            Some(_) => return None,
        }
        Some(())
    }

    pub fn texts(&self, tag: u8, into: &mut Texts) -> Option<()> {
        let Some(content) = self.find(tag) else {
            let end = into.end();
            into.ends.resize(into.ends.len() + self.rows, end);
            return Some(());
        };
        let (ends, text) = content.split_at_checked(self.rows * 4)?;
        into.extend(ends, text)
    }

    /// Calls `each` with every row that has a text, and the text.
    pub fn sparse(&self, tag: u8, mut each: impl FnMut(usize, &str)) -> Option<()> {
        let Some(content) = self.find(tag) else { return Some(()) };
        let (count, content) = read_number(content)?;
        let (rows, content) = content.split_at_checked(count.checked_mul(4)?)?;
        let (ends, text) = content.split_at_checked(count.checked_mul(4)?)?;
        let text = std::str::from_utf8(text).ok()?;
        let (mut start, mut next) = (0, 0);
        for (row, end) in numbers(rows).zip(numbers(ends)) {
            // Rows must ascend, because readers search them by bisection.
            let row = (next..self.rows).contains(&(row as usize)).then_some(row as usize)?;
            each(row, text.get(start..end as usize)?);
            (start, next) = (end as usize, row + 1);
        }
        Some(())
    }
}

fn read_number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*number) as usize, rest))
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks::<4>().0.iter().map(|number| u32::from_le_bytes(*number))
}

/// A column of numbers, read without a copy.
#[derive(Clone, Copy)]
pub(crate) struct Numbers<'a> {
    rows: usize,
    content: &'a [u8],
}

impl Numbers<'_> {
    pub fn get(&self, row: usize) -> u64 {
        self.content.as_chunks::<8>().0.get(row).map_or(0, |number| u64::from_le_bytes(*number))
    }

    pub fn append_to(&self, into: &mut Vec<u64>) {
        match self.content.is_empty() {
            true => into.resize(into.len() + self.rows, 0),
            false => into.extend(self.content.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number))),
        }
    }
}

/// A column of texts.
#[derive(Debug, Default)]
pub struct Texts {
    /// The end of each row's text in `text`. A text begins at the end of the previous one.
    ends: Vec<u32>,
    text: String,
}

impl Texts {
    fn end(&self) -> u32 {
        self.ends.last().copied().unwrap_or(0)
    }

    fn extend(&mut self, ends: &[u8], text: &[u8]) -> Option<()> {
        let base = self.end();
        let text = std::str::from_utf8(text).ok()?;
        let mut last = 0;
        for end in numbers(ends) {
            if end < last || !text.is_char_boundary(end as usize) {
                return None;
            }
            last = end;
            self.ends.push(base.checked_add(end)?);
        }
        self.text.push_str(text);
        (last as usize == text.len()).then_some(())
    }

    /// Appends rows of another column.
    pub(crate) fn copy(&mut self, from: &Texts, rows: std::ops::Range<usize>) {
        let start = rows.start.checked_sub(1).and_then(|before| from.ends.get(before)).copied().unwrap_or(0);
        let ends = from.ends.get(rows).unwrap_or_default();
        let base = self.end();
        self.ends.extend(ends.iter().map(|end| base + (end - start)));
        let end = ends.last().copied().unwrap_or(start);
        self.text.push_str(from.text.get(start as usize..end as usize).unwrap_or_default());
    }

    pub fn get(&self, row: usize) -> &str {
        self.text.get(self.range(row)).unwrap_or_default()
    }

    /// The range of a row's text in [`Texts::all`].
    pub fn range(&self, row: usize) -> std::ops::Range<usize> {
        let end_of = |row: usize| self.ends.get(row).map_or(0, |end| *end as usize);
        row.checked_sub(1).map_or(0, end_of)..end_of(row)
    }

    /// All texts, concatenated.
    pub fn all(&self) -> &str {
        &self.text
    }
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
            details: DetailsJson(details.into()),
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

#[cfg(test)]
mod columns_tests {
    use super::*;

    fn blob() -> Vec<u8> {
        let mut writer = Writer::new(3);
        writer.numbers(1, [7, 8, u64::MAX].into_iter());
        writer.texts(2, ["ä", "", "xyz"].into_iter());
        writer.bytes(3, [1, 2, 3].into_iter());
        writer.sparse(4, [(1, "n".to_owned()), (2, String::new())].into_iter());
        writer.finish()
    }

    #[test]
    fn columns_are_read_as_written() {
        let blob = blob();
        let columns = Columns::parse(&blob).unwrap();
        let (mut numbers, mut bytes, mut texts, mut sparse) = (vec![], vec![], Texts::default(), vec![]);
        columns.numbers(1).unwrap().append_to(&mut numbers);
        assert_eq!(columns.numbers(1).unwrap().get(1), 8);
        columns.bytes(3, &mut bytes).unwrap();
        columns.texts(2, &mut texts).unwrap();
        columns.texts(2, &mut texts).unwrap();
        columns.sparse(4, |row, text| sparse.push((row, text.to_owned()))).unwrap();
        assert_eq!((numbers, bytes), (vec![7, 8, u64::MAX], vec![1, 2, 3]));
        assert_eq!([0, 1, 2, 3, 4, 5, 6].map(|row| texts.get(row)), ["ä", "", "xyz", "ä", "", "xyz", ""]);
        assert_eq!(sparse, [(1, "n".to_owned()), (2, String::new())]);
        let mut copy = Texts::default();
        copy.copy(&texts, 2..4);
        copy.copy(&texts, 4..6);
        assert_eq!([0, 1, 2, 3].map(|row| copy.get(row)), ["xyz", "ä", "", "xyz"]);
    }

    #[test]
    fn an_absent_column_is_zero_or_empty() {
        let blob = blob();
        let columns = Columns::parse(&blob).unwrap();
        let (mut numbers, mut bytes, mut texts) = (vec![], vec![], Texts::default());
        columns.numbers(9).unwrap().append_to(&mut numbers);
        columns.bytes(9, &mut bytes).unwrap();
        columns.texts(9, &mut texts).unwrap();
        columns.sparse(9, |_, _| panic!("no text")).unwrap();
        assert_eq!((numbers, bytes, texts.get(2)), (vec![0; 3], vec![0; 3], ""));
    }

    #[test]
    fn damaged_bytes_never_panic() {
        let blob = blob();
        assert!(Columns::parse(b"hexcol2\n\0\0\0\0").is_none());
        for at in 0..blob.len() {
            assert!(at == 12 || Columns::parse(&blob[..at]).is_none_or(|cut| cut.columns.len() < 4), "{at}");
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = blob.clone();
                damaged[at] = value;
                let Some(columns) = Columns::parse(&damaged).filter(|columns| columns.rows < 100) else { continue };
                let (mut texts, mut bytes) = (Texts::default(), vec![]);
                let _ = columns.numbers(1).map(|numbers| numbers.get(2));
                let _ = columns.bytes(3, &mut bytes);
                let _ = columns.texts(2, &mut texts).map(|()| (0..4).map(|row| texts.get(row).len()).sum::<usize>());
                let _ = columns.sparse(4, |_, _| {});
            }
        }
    }
}
