//! Paths, and what names a namespace, project or user.

use super::namespace::MAX_DEPTH;

/// The longest segment, as in the reference service.
const MAX_SEGMENT: usize = 255;

/// Who lives at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathOwner {
    Namespace(u64),
    Project(u64),
}

/// What a client calls a namespace, project or user by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identifier<'a> {
    /// All digits: always an id, also where there is a path of digits.
    Id(u64),
    Path(&'a str),
    /// Nothing can have it; storage is not asked.
    Invalid,
}

impl<'a> Identifier<'a> {
    pub fn parse(text: &'a str) -> Self {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            // A number that does not fit is the id of nothing.
            return text.parse().map_or(Identifier::Invalid, Identifier::Id);
        }
        let possible = text.split('/').all(is_segment) && text.split('/').count() <= MAX_DEPTH + 1;
        if possible { Identifier::Path(text) } else { Identifier::Invalid }
    }
}

/// Whether `text` can be one segment of a path: letters, digits, `_`, `-` and `.` of ASCII, not
/// starting with a dash, not ending in a dot, `.git` or `.atom`.
pub fn is_segment(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    (1..=MAX_SEGMENT).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
        && !text.starts_with('-')
        && ![".", ".git", ".atom"].iter().any(|end| lower.ends_with(end))
}
