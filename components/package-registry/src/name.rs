//! Package names: `lib` or `@scope/lib`.

use std::fmt;

/// Longest name, in bytes: the limit of the naming rules that clients apply
/// (<https://github.com/npm/validate-npm-package-name#naming-rules>).
const MAX_LENGTH: usize = 214;

/// A valid package name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PackageName(String);

impl PackageName {
    /// Reads a name. Letter case matters and upper case is allowed, as in the reference service.
    /// `None` if the name is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let base = match text.strip_prefix('@') {
            Some(scoped) => {
                let (scope, base) = scoped.split_once('/')?;
                is_scope(scope).then_some(base)?
            }
            None => text,
        };
        (text.len() <= MAX_LENGTH && is_base(base)).then(|| PackageName(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The scope without its `@`.
    pub fn scope(&self) -> Option<&str> {
        Some(self.0.strip_prefix('@')?.split_once('/')?.0)
    }

    /// Whether the scope is the path of this top-level namespace, as instance level requires. Letter case does not
    /// matter in paths.
    pub fn is_below(&self, root: &str) -> bool {
        self.scope().is_some_and(|scope| scope.eq_ignore_ascii_case(root))
    }

    /// The name without its scope: file names start with it.
    pub fn base(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, base)| base)
    }

    /// The name of the file of `version`, as metadata lists it: without the scope.
    pub fn file(&self, version: &str) -> String {
        format!("{}-{version}.tgz", self.base())
    }

    /// The version in a file's name, which may start with the scope. The version may be absent from the package, or
    /// invalid.
    pub fn version_of_file<'a>(&self, file: &'a str) -> Option<&'a str> {
        let without_scope = match file.strip_prefix('@') {
            Some(_) => file.strip_prefix(self.0.strip_suffix(self.base())?)?,
            None => file,
        };
        without_scope.strip_prefix(self.base())?.strip_prefix('-')?.strip_suffix(".tgz")
    }
}

impl fmt::Display for PackageName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a URL may have this text as a package's name, valid or not. The reference service refuses text that would be
/// another path.
pub fn is_file_path(text: &str) -> bool {
    let inner = text.strip_prefix('@').unwrap_or(text);
    !text.contains(char::is_control)
        && !text.contains('\\')
        && !inner.split('/').any(|part| matches!(part, "" | "." | ".."))
}

/// A scope is a namespace path: it starts with a letter, a digit, `_` or `.`, and does not end in a
/// suffix that the service reserves.
fn is_scope(scope: &str) -> bool {
    scope.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))
        && scope.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
        && ![".git", ".atom", "."].iter().any(|ending| scope.ends_with(ending))
}

/// `-` is a segment of the routes; `.` and `..` are path segments.
fn is_base(base: &str) -> bool {
    !matches!(base, "" | "-" | "." | "..")
        && base.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'+' | b'.' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_names() {
        for text in
            ["a", "A", "lib", "my.lib_1-x+y", "@acme/lib", "@Acme/Lib", "@a.b-c_d/x", "@1/1", "@_x/-x", "_", ".x"]
        {
            assert!(PackageName::parse(text).is_some(), "{text}");
        }
    }

    #[test]
    fn refuses_other_text() {
        for text in [
            "",
            " ",
            "-",
            ".",
            "..",
            "a/b",
            "@a",
            "@/a",
            "@a/",
            "@a/b/c",
            "@s/../x",
            "@../x",
            "@s/..",
            "@inv@lid/x",
            "a%2fb",
            "@a%2fb",
            "é",
            "a b",
            "a\n",
            "a\0",
            "@x.git/a",
            "@x.atom/a",
            "@x./a",
            "@-x/a",
            "~a",
            "a:b",
            "@@a/b",
        ] {
            assert!(PackageName::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn the_length_limit_is_exact() {
        assert!(PackageName::parse(&"a".repeat(214)).is_some());
        assert!(PackageName::parse(&"a".repeat(215)).is_none());
    }

    #[test]
    fn splits_scope_and_base() {
        let name = PackageName::parse("@acme/lib").unwrap();
        assert_eq!((name.scope(), name.base()), (Some("acme"), "lib"));
        let name = PackageName::parse("lib").unwrap();
        assert_eq!((name.scope(), name.base()), (None, "lib"));
    }

    #[test]
    fn files_are_found_in_both_forms() {
        let name = PackageName::parse("@acme/lib").unwrap();
        assert_eq!(name.file("1.0.0"), "lib-1.0.0.tgz");
        assert_eq!(name.version_of_file("lib-1.0.0.tgz"), Some("1.0.0"));
        assert_eq!(name.version_of_file("@acme/lib-1.0.0-rc.1+x.tgz"), Some("1.0.0-rc.1+x"));
        for file in ["@other/lib-1.0.0.tgz", "lib-1.0.0", "lib1.0.0.tgz", "lib.tgz", "other-1.0.0.tgz", "@acme/lib", ""]
        {
            assert_eq!(name.version_of_file(file), None, "{file}");
        }
        let plain = PackageName::parse("lib").unwrap();
        assert_eq!(plain.version_of_file("lib-1.0.0.tgz"), Some("1.0.0"));
        assert_eq!(plain.version_of_file("@acme/lib-1.0.0.tgz"), None);
    }

    #[test]
    fn text_that_would_be_another_path_is_no_file_path() {
        for text in ["a", "@a/b", "a b", "a/b", "~x"] {
            assert!(is_file_path(text), "{text}");
        }
        for text in ["\r\nhttp://example.com", "../x", "@a/../b", "/etc", "a//b", "a\\b", ".", "..", "@../x"] {
            assert!(!is_file_path(text), "{text}");
        }
    }
}
