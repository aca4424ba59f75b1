//! Paths and other identifiers of namespaces, projects and users.

use super::namespace::MAX_DEPTH;

/// The longest segment, in bytes, as in the reference service.
const MAX_SEGMENT: usize = 255;

/// The namespace or project that a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathOwner {
    Namespace(u64),
    Project(u64),
}

/// The name of a namespace, project or user in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identifier<'a> {
    /// All digits: always an id, even if a path has the same digits.
    Id(u64),
    Path(&'a str),
    /// No record can have this name, so storage is not read.
    Invalid,
}

impl<'a> Identifier<'a> {
    pub fn parse(text: &'a str) -> Self {
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            // No record has an id that does not fit.
            return text.parse().map_or(Identifier::Invalid, Identifier::Id);
        }
        let possible = text.split('/').all(is_segment) && text.split('/').count() <= MAX_DEPTH + 1;
        if possible { Identifier::Path(text) } else { Identifier::Invalid }
    }
}

/// Whether `text` can be one segment of a path. It has ASCII letters, digits, `_`, `-` and `.`. It does not start with
/// a dash, and does not end in a dot, `.git` or `.atom`.
pub fn is_segment(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    (1..=MAX_SEGMENT).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
        && !text.starts_with('-')
        && ![".", ".git", ".atom"].iter().any(|end| lower.ends_with(end))
}
