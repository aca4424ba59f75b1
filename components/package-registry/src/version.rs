//! Version numbers: strict semantic versions (<https://semver.org>), kept as they were written.

use std::cmp::Ordering;
use std::fmt;

/// Longest version that clients can read back, in bytes.
const MAX_LENGTH: usize = 256;

/// The largest number in a version that clients written in JavaScript read: 2^53 - 1.
const MAX_NUMBER: u64 = (1 << 53) - 1;

/// A semantic version, ordered by precedence and then by build metadata.
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

    /// Whether all clients can read it. Some clients fail on a whole package because of one unreadable version, so it
    /// is refused. Earlier builds accepted it.
    pub fn is_portable(&self) -> bool {
        let semver::Version { major, minor, patch, .. } = self.parsed;
        major.max(minor).max(patch) <= MAX_NUMBER
    }

    pub fn is_prerelease(&self) -> bool {
        !self.parsed.pre.is_empty()
    }

    /// Whether a file's name may have this version as `text`, with or without build metadata. Some clients drop build
    /// metadata from the document only, and others from the name, too.
    pub fn matches_file(&self, text: &str) -> bool {
        Version::parse(text).is_some_and(|other| {
            let has_no_other = other.parsed.build.is_empty() || self.parsed.build.is_empty();
            self.parsed.cmp_precedence(&other.parsed).is_eq() && (has_no_other || self == &other)
        })
    }

    /// Whether the version in a `package.json` is this version. Clients write a strict form into the document: they
    /// drop a leading `v` or `=`, and build metadata.
    pub fn matches_manifest(&self, text: &str) -> bool {
        strict(text).is_some_and(|other| self.parsed.cmp_precedence(&other).is_eq())
    }
}

/// The strict version that npm reads from a loose text (`semver.clean(text, true)`). Numbers may begin with zeros, and
/// the hyphen before a prerelease may be missing.
fn strict(text: &str) -> Option<semver::Version> {
    let text = text.trim().trim_start_matches(['v', '=']).trim_start();
    let (version, build) = text.split_at(text.find('+').unwrap_or(text.len()));
    let mut parts = version.splitn(3, '.');
    let (major, minor, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let (patch, prerelease) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
    let mut strict = [major, minor, patch].map(without_zeros).join(".");
    if !prerelease.is_empty() {
        // A hyphen alone is a prerelease itself.
        let prerelease = prerelease.strip_prefix('-').filter(|rest| !rest.is_empty()).unwrap_or(prerelease);
        let identifiers: Vec<&str> = prerelease.split('.').map(without_zeros).collect();
        strict = format!("{strict}-{}", identifiers.join("."));
    }
    semver::Version::parse(&(strict + build)).ok()
}

/// A number without the zeros that it begins with; any other text as it is.
fn without_zeros(text: &str) -> &str {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text;
    }
    let digits = text.trim_start_matches('0');
    if digits.is_empty() { text.get(..1).unwrap_or_default() } else { digits }
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
    fn numbers_that_a_double_does_not_hold_are_not_portable() {
        let is_portable = |text: &str| Version::parse(text).unwrap().is_portable();
        assert!(is_portable("9007199254740991.9007199254740991.9007199254740991-18446744073709551615"));
        for text in ["9007199254740992.0.0", "0.9007199254740992.0", "0.0.18446744073709551615"] {
            assert!(!is_portable(text), "{text}");
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

    /// Clients publish `semver.clean(version, true)` of the file's version.
    #[test]
    fn a_manifest_may_have_a_loose_form_of_the_version() {
        let matches = |version: &str, text: &str| Version::parse(version).unwrap().matches_manifest(text);
        for (version, text) in [
            ("1.0.0", "1.0.0"),
            ("1.0.0", " =v1.0.0+b "),
            ("1.0.0", "v 1.0.0"),
            ("1.0.0", "01.00.000"),
            ("1.0.0-beta", "1.0.0beta"),
            ("1.0.0-beta.1", "1.0.0beta.01"),
            ("1.0.0-1", "1.0.0-01"),
            ("1.0.0-0a", "1.0.0-0a"),
            ("1.0.0--", "1.0.0-"),
            ("1.0.0-x", "1.0.0x+b.1"),
        ] {
            assert!(matches(version, text), "{version} {text}");
        }
        for (version, text) in [
            ("1.0.0", "1.0"),
            ("1.0.0", "1.0.0beta"),
            ("1.0.0-beta", "1.0.0-beta."),
            ("1.0.0", "1.0.0.0"),
            ("1.0.0", "1. 0.0"),
            ("1.0.0", "1.0.0+"),
            ("1.0.0", "+1.0.0"),
            ("1.0.0", "1.0.x"),
            ("1.0.0", ""),
            ("10.0.0", "1.0.0"),
        ] {
            assert!(!matches(version, text), "{version} {text}");
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
