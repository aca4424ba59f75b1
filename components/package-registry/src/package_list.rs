//! The filters and orders of version lists, which all registries of the forge share.

use crate::name::PackageName;
use kit::id;

/// The only package type here, and all types of the reference service.
pub const NPM: &str = "npm";
pub const TYPES: [&str; 14] = [
    "maven",
    NPM,
    "conan",
    "nuget",
    "pypi",
    "composer",
    "generic",
    "golang",
    "debian",
    "rubygems",
    "helm",
    "terraform_module",
    "rpm",
    "ml_model",
];

pub const DEFAULT: &str = "default";
pub const DEPRECATED: &str = "deprecated";

/// The states of the reference service. Every version here is in one of the first two.
pub const STATUSES: [&str; 6] = [DEFAULT, DEPRECATED, "hidden", "processing", "error", "pending_destruction"];

/// The fields by which a list can be ordered; the last field in groups only.
pub const ORDERS: [&str; 5] = ["created_at", "name", "version", "type", "project_path"];

/// Whether a name has each word of a text, in any letter case.
pub fn matches(name: &PackageName, text: &str) -> bool {
    let name = name.as_str().to_lowercase();
    text.to_lowercase().split_whitespace().all(|word| name.contains(word))
}

/// The largest numeric id: larger numbers are not exact in a double.
const MAX_ID: u64 = (1 << 53) - 1;

/// The numeric id that a version has unless another version had it first, from random bits of its upload's id.
pub fn number(upload: &str) -> Option<u64> {
    id::number(upload).and_then(|id| u64::try_from(id & u128::from(MAX_ID)).ok())
}

/// An id in a request. `Ok(None)` if no object can have this number, and an error if it is no number.
pub fn parse_id(text: &str) -> Result<Option<u64>, NotANumber> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NotANumber);
    }
    Ok(text.parse().ok().filter(|id| *id <= MAX_ID))
}

#[derive(Debug, PartialEq, Eq)]
pub struct NotANumber;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_stable_and_exact() {
        assert_eq!(number("0197a8c3d1e2ffffffffffffffffffff"), Some((1 << 53) - 1));
        assert_eq!(number("0197a8c3d1e200000000000000000007"), Some(7));
        assert_eq!(number("x"), None);
    }

    #[test]
    fn ids_beyond_the_largest_are_of_nothing() {
        for (text, expected) in [
            ("0", Ok(Some(0))),
            ("9007199254740991", Ok(Some(MAX_ID))),
            ("9007199254740992", Ok(None)),
            ("18446744073709551616", Ok(None)),
            ("-1", Ok(None)),
            ("", Err(NotANumber)),
            ("-", Err(NotANumber)),
            ("1.5", Err(NotANumber)),
            ("1e3", Err(NotANumber)),
            ("x", Err(NotANumber)),
        ] {
            assert_eq!(parse_id(text), expected, "{text}");
        }
    }

    #[test]
    fn a_name_matches_if_it_has_every_word() {
        let name = PackageName::parse("@acme/paint-brush").unwrap();
        for (text, expected) in [("", true), ("PAINT", true), ("brush acme", true), ("paint wall", false)] {
            assert_eq!(matches(&name, text), expected, "{text}");
        }
    }
}
