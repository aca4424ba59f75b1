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
        let (rows, mut rest) = number(blob.strip_prefix(MAGIC)?)?;
        let mut columns = Vec::new();
        while let Some((tag, after)) = rest.split_first() {
            let (length, after) = number(after)?;
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
        let (count, content) = number(content)?;
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

fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
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
