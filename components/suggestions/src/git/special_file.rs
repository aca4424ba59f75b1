//! Files of a working copy that git reads: their names, and which contents it accepts.

use super::gitmodules;

/// A file of a working copy that git reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialFile {
    /// `.gitattributes`
    Attributes,
    /// `.gitmodules`
    Modules,
}

/// The longest line of a `.gitattributes` that git reads, in bytes.
const MAX_ATTRIBUTES_LINE: usize = 2047;

impl SpecialFile {
    /// The most bytes of such a file.
    pub const MAX_SIZE: u64 = 1 << 20;

    /// The special files that some file system takes a name in a tree for.
    pub fn named(name: &[u8]) -> impl Iterator<Item = Self> {
        [SpecialFile::Attributes, SpecialFile::Modules].into_iter().filter(|file| file.is_named(name))
    }

    pub fn is_named(self, name: &[u8]) -> bool {
        match self {
            SpecialFile::Attributes => is_alias(name, "gitattributes", "gi7d29"),
            SpecialFile::Modules => is_alias(name, "gitmodules", "gi7eba"),
        }
    }

    /// Checks the contents. They are `None` for a file with more than [`SpecialFile::MAX_SIZE`] bytes, which need not
    /// be read.
    pub fn check(self, contents: Option<&[u8]>) -> Result<(), &'static str> {
        match (self, contents.filter(|contents| contents.len() as u64 <= Self::MAX_SIZE)) {
            (SpecialFile::Attributes, None) => Err("gitattributesLarge: .gitattributes too large to parse"),
            (SpecialFile::Modules, None) => Err("gitmodulesLarge: .gitmodules too large to parse"),
            (SpecialFile::Attributes, Some(contents)) => check_attributes(contents),
            (SpecialFile::Modules, Some(contents)) => gitmodules::check(contents),
        }
    }
}

fn check_attributes(contents: &[u8]) -> Result<(), &'static str> {
    match contents.split(|byte| *byte == b'\n').any(|line| line.len() > MAX_ATTRIBUTES_LINE) {
        true => Err("gitattributesLineLength: .gitattributes has too long lines to parse"),
        false => Ok(()),
    }
}

/// Whether a name is `.` and `word`, or a name that HFS+ or NTFS takes for it. HFS+ ignores some characters. NTFS
/// ignores spaces and dots at the end, and text behind a colon, and has short names. `short` is the short name, or the
/// first letters of the short name that NTFS makes of a hash.
pub fn is_alias(name: &[u8], word: &str, short: &str) -> bool {
    let plain = name.strip_prefix(b".").is_some_and(|rest| rest.eq_ignore_ascii_case(word.as_bytes()));
    let visible: String = String::from_utf8_lossy(name).chars().filter(|c| !is_ignored_by_hfs(*c)).collect();
    let hfs = visible.strip_prefix('.').is_some_and(|rest| rest.to_lowercase() == word);
    // A backslash separates folders on Windows.
    let ntfs = name.split(|byte| *byte == b'\\').any(|part| is_ntfs_alias(part, word, short));
    plain || hfs || ntfs
}

fn is_ntfs_alias(part: &[u8], word: &str, short: &str) -> bool {
    let part = part.split(|byte| *byte == b':').next().unwrap_or_default();
    let end = part.iter().rposition(|byte| !matches!(byte, b' ' | b'.')).map_or(0, |last| last + 1);
    let part = String::from_utf8_lossy(part.get(..end).unwrap_or_default()).to_ascii_lowercase();
    if part.strip_prefix('.') == Some(word) || part == short {
        return true;
    }
    // The names of eight letters that NTFS makes of longer ones: `GITMOD~1` to `~4`, then of a hash.
    let Some((letters, number)) = part.split_once('~').filter(|_| word.len() > 6) else { return false };
    let is_number =
        number.starts_with(|c: char| ('1'..='9').contains(&c)) && number.bytes().all(|b| b.is_ascii_digit());
    let is_first = word.get(..6) == Some(letters) && matches!(number, "1" | "2" | "3" | "4");
    is_first || is_number && !letters.is_empty() && part.len() == 8 && short.starts_with(letters)
}

/// Zero-width and formatting characters (`next_hfs_char` in git's utf8.c).
fn is_ignored_by_hfs(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}
