//! Version numbers: strict semantic versions (<https://semver.org>), kept as they were written.

use std::cmp::Ordering;
use std::fmt;

/// Longest version, in bytes: what clients can read back.
const MAX_LENGTH: usize = 256;

/// A semantic version. Ordered by precedence; versions that differ in build metadata only, by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    text: String,
    parsed: semver::Version,
}

impl Version {
    /// `None` for anything that is not exactly a version: `1.2`, `v1.2.3`, `01.2.3`, ` 1.2.3`.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_LENGTH {
            return None;
        }
        let parsed = semver::Version::parse(text).ok()?;
        Some(Version { text: text.to_owned(), parsed })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn is_prerelease(&self) -> bool {
        !self.parsed.pre.is_empty()
    }

    /// Whether a file may be called by this version: with or without its build metadata, which some clients
    /// drop from the document and keep in the name, and others drop from both.
    pub fn matches_file(&self, text: &str) -> bool {
        Version::parse(text).is_some_and(|other| {
            let has_no_other = other.parsed.build.is_empty() || self.parsed.build.is_empty();
            self.parsed.cmp_precedence(&other.parsed).is_eq() && (has_no_other || self == &other)
        })
    }

    /// Whether the version in a `package.json` is this one. Clients drop a leading `v` or `=` and build
    /// metadata when they write the document.
    pub fn matches_manifest(&self, text: &str) -> bool {
        let text = text.trim().trim_start_matches(['v', '=']).trim_start();
        semver::Version::parse(text).is_ok_and(|other| self.parsed.cmp_precedence(&other).is_eq())
    }
}

/// Whether clients read the text as a version or a range of versions
/// (<https://github.com/npm/node-semver#range-grammar>), so that it cannot name a tag.
pub fn is_range(text: &str) -> bool {
    text.len() <= MAX_LENGTH && text.split("||").all(is_conjunction)
}

/// `>=1.2 <2`, `^1`, `1 - 2`, or nothing, which is any version.
fn is_conjunction(text: &str) -> bool {
    let mut rest = text.trim();
    if let Some((low, high)) = rest.split_once(" - ")
        && is_partial(low.trim())
        && is_partial(high.trim())
    {
        return true;
    }
    while !rest.is_empty() {
        let version = ["<=", ">=", "~>", "<", ">", "=", "~", "^"].iter().find_map(|sign| rest.strip_prefix(sign));
        let version = version.unwrap_or(rest).trim_start();
        let end = version.find(char::is_whitespace).unwrap_or(version.len());
        let (first, others) = version.split_at(end);
        if !is_partial(first) {
            return false;
        }
        rest = others.trim_start();
    }
    true
}

/// A version of which the last numbers may be missing or be `x`.
fn is_partial(text: &str) -> bool {
    let text = text.trim_start_matches(['v', '=', ' ']);
    if semver::Version::parse(text).is_ok() {
        return true;
    }
    let is_number =
        |part: &str| part == "0" || !part.starts_with('0') && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = text.split('.');
    let mut is_part = |part: &str| !part.is_empty() && (matches!(part, "x" | "X" | "*") || is_number(part));
    (&mut parts).take(3).all(&mut is_part) && parts.next().is_none()
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parsed.cmp(&other.parsed)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_versions_as_they_are_written() {
        for text in
            ["0.0.0", "1.2.3", "1.0.0-rc.1", "1.0.0--", "1.0.0+build.01", "1.0.0-0a.1+b", "18446744073709551615.0.0"]
        {
            assert_eq!(Version::parse(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn refuses_other_text() {
        for text in [
            "",
            "1",
            "1.2",
            "1.2.3.4",
            "v1.2.3",
            "=1.2.3",
            "01.2.3",
            "1.02.3",
            "1.2.3-01",
            "1.2.3-",
            "1.2.3+",
            " 1.2.3",
            "1.2.3 ",
            "1.2.3-a..b",
            "1.2.x",
            "latest",
            "18446744073709551616.0.0",
            "1.2.3/../4",
        ] {
            assert!(Version::parse(text).is_none(), "{text}");
        }
        let longest = format!("1.0.0-{}", "a".repeat(250));
        assert!(Version::parse(&longest).is_some());
        assert!(Version::parse(&format!("{longest}a")).is_none());
    }

    /// As `semver.validRange` of npm 11 answers.
    #[test]
    fn ranges_are_known() {
        for text in [
            "1",
            "1.2",
            "1.2.3",
            "v1",
            "=1.2.3",
            "v1.2.3-rc.1+b",
            "x",
            "X",
            "*",
            "1.x",
            "1.*.x",
            "^1",
            "~1.2",
            "~>1",
            ">=1",
            ">= 1.2 <2",
            "<2.0.0-0",
            "1 - 2",
            "1.0 - 2.x",
            "1||2",
            " 1 || ^2.3 ",
            "||",
            "",
            " ",
            "20261122",
        ] {
            assert!(is_range(text), "{text:?}");
        }
        for text in [
            "latest",
            "beta",
            "next",
            "v",
            "rc.1",
            "1.2.3.4",
            "01",
            "1.02",
            "1-beta",
            "1.2-rc",
            "release-1.x",
            "2026-11-22",
            "x1",
            "^beta",
            "1 || beta",
            "feat/x",
            "stable 1",
            "v1.",
            "1..2",
            ">",
        ] {
            assert!(!is_range(text), "{text:?}");
        }
    }

    #[test]
    fn a_file_is_called_with_or_without_build_metadata() {
        let matches = |version: &str, file: &str| Version::parse(version).unwrap().matches_file(file);
        for (version, file) in
            [("1.0.0", "1.0.0"), ("1.0.0", "1.0.0+b.5"), ("1.0.0+b", "1.0.0"), ("1.0.0+b", "1.0.0+b")]
        {
            assert!(matches(version, file), "{version} {file}");
        }
        for (version, file) in [("1.0.0", "1.0.1"), ("1.0.0+b", "1.0.0+c"), ("1.0.0", "1.0.0-b"), ("1.0.0", "v1.0.0")] {
            assert!(!matches(version, file), "{version} {file}");
        }
    }

    #[test]
    fn order_is_precedence() {
        let ordered =
            ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.9.0", "1.10.0"];
        for pair in ordered.windows(2) {
            assert!(Version::parse(pair[0]) < Version::parse(pair[1]), "{pair:?}");
        }
    }
}
