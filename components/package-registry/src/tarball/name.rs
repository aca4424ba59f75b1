//! Names of entries. A name has one accepted spelling, and a key. Names that some file system takes for one have equal
//! keys.

use unicode_normalization::UnicodeNormalization as _;

/// Longest name, in bytes: Linux's longest path.
const MAX_LENGTH: usize = 4096;

/// The most folders of a name: npm leaves out entries that are more than 1,024 deep.
const MAX_DEPTH: usize = 256;

/// The file that names the package, below the top-level folder.
pub const MANIFEST: &str = "package.json";

/// A name that every program reads in the same way: text without control characters and backslashes,
/// relative, and without `.` and `..`.
///
/// Versions 7 and 8 of pnpm pack the file that `main` names as `./…` twice: under `package/./…`, and under its usual
/// name. Programs agree where it is, unless it is a file that programs look up by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryName<'a> {
    /// As it was written.
    pub text: &'a str,
    /// The top-level folder.
    pub top: &'a str,
    /// The rest, where installers unpack the entry; empty for the folder itself.
    pub inside: &'a str,
    /// Whether `./` follows the top-level folder.
    pub is_dotted: bool,
}

impl<'a> EntryName<'a> {
    /// The error says what is wrong, as the end of a sentence about the entry.
    pub fn read(path: &'a [u8]) -> Result<Self, &'static str> {
        let text = readable(path)?;
        let whole = text.strip_suffix('/').unwrap_or(text);
        if whole.split('/').count() > MAX_DEPTH {
            return Err("is in more than 256 folders");
        }
        let (top, rest) = whole.split_once('/').unwrap_or((whole, ""));
        let inside = rest.strip_prefix("./").unwrap_or(rest);
        let is_dotted = inside.len() < rest.len();
        for (depth, segment) in whole.split('/').enumerate() {
            match segment {
                "." if depth == 1 && is_dotted => {}
                ".." => return Err("leads out of the package"),
                // Without its first folder, `a//b` is absolute.
                "" => return Err("is absolute or has an empty name"),
                "." => return Err("has the name `.`"),
                _ if names_drive(segment) => return Err("names a drive"),
                // Windows drops dots and spaces at the end of a name.
                _ if segment.bytes().all(|byte| matches!(byte, b'.' | b' ')) => {
                    return Err("has a name of dots and spaces only");
                }
                _ => {}
            }
        }
        if is_dotted && (text.ends_with('/') || key(inside) == MANIFEST) {
            return Err("has the name `.`");
        }
        Ok(EntryName { text, top, inside, is_dotted })
    }

    /// The folder that holds the entry, below the top-level folder.
    pub fn folder(&self) -> &'a str {
        self.inside.rsplit_once('/').map_or("", |(folder, _)| folder)
    }
}

/// The path as text, if programs that read bytes, UTF-8 or Windows paths read it alike.
fn readable(path: &[u8]) -> Result<&str, &'static str> {
    if path.contains(&0) {
        return Err("has a NUL in its name");
    }
    if path.len() > MAX_LENGTH {
        return Err("has a name of more than 4096 bytes");
    }
    let text = std::str::from_utf8(path).map_err(|_| "has a name that is not UTF-8")?;
    if text.contains('\\') {
        return Err("has a backslash in its name");
    }
    if text.contains(char::is_control) {
        return Err("has a control character in its name");
    }
    Ok(text)
}

fn names_drive(segment: &str) -> bool {
    matches!(segment.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic())
}

/// Where a link leads: the segments of its target, without `.`. `None` if the target is absolute, or
/// goes through `..`, which may leave the package through another link.
pub fn link_target(target: &[u8]) -> Option<Vec<&str>> {
    let text = readable(target).ok()?;
    let segments: Vec<&str> = text.strip_suffix('/').unwrap_or(text).split('/').collect();
    let leads_outside = segments.iter().any(|segment| matches!(*segment, "" | "..") || names_drive(segment));
    (!leads_outside).then(|| segments.into_iter().filter(|segment| *segment != ".").collect())
}

/// The key of each segment of a path below the top-level folder.
pub fn segment_keys(inside: &str) -> impl Iterator<Item = String> {
    inside.split('/').enumerate().map(|(depth, segment)| {
        let key = segment_key(segment);
        if depth == 0 && is_short_name_of_manifest(&key) { MANIFEST.to_owned() } else { key }
    })
}

/// The key of a path below the top-level folder.
pub fn key(inside: &str) -> String {
    segment_keys(inside).collect::<Vec<_>>().join("/")
}

/// The key of one segment. As macOS compares names, it has canonical decomposition, folded letter case, and no
/// characters without width. It lacks the parts that Windows ignores at the end of a name: a stream, dots and spaces.
fn segment_key(segment: &str) -> String {
    let name = segment.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    let visible = name.chars().filter(|character| !is_ignored(*character));
    let decomposed = visible.nfd();
    // Both ways, because some letters share only one case: `ſ` and `s`, `ς` and `σ`.
    let folded: String = decomposed.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect();
    folded.nfd().collect()
}

/// Whether HFS+ ignores the character in names: it has no width, or sets a direction.
fn is_ignored(character: char) -> bool {
    matches!(character,
        '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

/// Whether Windows may give `package.json` this short name (8.3): `PACKAG~1.JSO`, or, after collisions, two letters and
/// four hexadecimal digits.
fn is_short_name_of_manifest(key: &str) -> bool {
    let Some((base, number)) = key.strip_suffix(".jso").and_then(|name| name.split_once('~')) else { return false };
    let is_hashed = |digits: &str| digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    !number.is_empty()
        && number.bytes().all(|digit| digit.is_ascii_digit())
        && (base == "packag" || base.strip_prefix("pa").is_some_and(is_hashed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_at_the_first_folder() {
        let name = |text: &'static str| EntryName::read(text.as_bytes()).unwrap();
        let is = |text, top, inside, is_dotted| assert_eq!(name(text), EntryName { text, top, inside, is_dotted });
        is("package/a/b", "package", "a/b", false);
        is("package/./a/b", "package", "a/b", true);
        is("x/", "x", "", false);
        assert_eq!((name("package/a/b").folder(), name("package/a").folder()), ("a", ""));
    }

    #[test]
    fn names_with_several_readings_are_refused() {
        for (name, why) in [
            ("package/./package.json", "has the name `.`"),
            ("./package/package.json", "has the name `.`"),
            ("package/./Package.JSON", "has the name `.`"),
            ("package/.", "has the name `.`"),
            ("package/./", "has the name `.`"),
            ("package/./a/", "has the name `.`"),
            ("package/././a", "has the name `.`"),
            ("package/a/./b", "has the name `.`"),
            ("package/.//a", "is absolute or has an empty name"),
            ("package/./../a", "leads out of the package"),
            ("package\\package.json", "has a backslash in its name"),
            ("package/a\\..\\b", "has a backslash in its name"),
            ("package/../x", "leads out of the package"),
            ("package//x", "is absolute or has an empty name"),
            ("/x", "is absolute or has an empty name"),
            ("", "is absolute or has an empty name"),
            ("/", "is absolute or has an empty name"),
            ("package//", "is absolute or has an empty name"),
            ("c:/x", "names a drive"),
            ("package/c:x", "names a drive"),
            ("package/...", "has a name of dots and spaces only"),
            ("package/ /x", "has a name of dots and spaces only"),
            ("package/. ./x", "has a name of dots and spaces only"),
            ("package/a\n", "has a control character in its name"),
            ("package/\u{85}", "has a control character in its name"),
            ("package/a\0b", "has a NUL in its name"),
        ] {
            assert_eq!(EntryName::read(name.as_bytes()), Err(why), "{name:?}");
        }
        assert_eq!(EntryName::read(b"package/\xff"), Err("has a name that is not UTF-8"));
        assert_eq!(EntryName::read(&[b'a'; 4097]), Err("has a name of more than 4096 bytes"));
        assert_eq!(EntryName::read("a/".repeat(300).as_bytes()), Err("is in more than 256 folders"));
        assert!(EntryName::read(&[b'a'; 4096]).is_ok());
        for valid in ["package/..x", "package/x..", "package/ab:c", "package/é", "package/.npmrc", "package/a b"] {
            assert!(EntryName::read(valid.as_bytes()).is_ok(), "{valid}");
        }
    }

    #[test]
    fn names_of_one_file_have_one_key() {
        for (one, other) in [
            ("package.json", "Package.JSON"),
            ("package.json", "package.j\u{17f}on"),
            ("package.json", "pac\u{212a}age.json"),
            ("package.json", "package.json. ."),
            ("package.json", "package.json::$DATA"),
            ("package.json", "package\u{200c}.json"),
            ("package.json", "\u{feff}package.json"),
            ("package.json", "PACKAG~1.JSO"),
            ("package.json", "packag~12.jso"),
            ("package.json", "PA3F0C~1.JSO"),
            ("a/\u{e9}", "a/e\u{301}"),
            ("A/b", "a./B"),
            ("stra\u{df}e", "STRASSE"),
            ("\u{3c3}", "\u{3c2}"),
            ("\u{1e9b}\u{323}", "\u{1e69}"),
        ] {
            assert_eq!(key(one), key(other), "{one} {other}");
        }
        for other in [
            "package-json",
            "packagejson",
            "package.jsonx",
            ".package.json",
            "a/PACKAG~1.JSO",
            "packag~x.jso",
            "~1.jso",
            "pazzzz~1.jso",
            "packag~.jso",
        ] {
            assert_ne!(key("package.json"), key(other), "{other}");
        }
    }

    #[test]
    fn a_key_is_its_own_key() {
        for name in ["\u{130}", "\u{390}", "\u{1fb3}", "\u{fb01}", "\u{345}\u{301}", "\u{1f80}", "A\u{30a}. "] {
            assert_eq!(segment_key(&segment_key(name)), segment_key(name), "{name}");
        }
    }

    #[test]
    fn targets_of_links() {
        assert_eq!(link_target(b"./a/./b/"), Some(vec!["a", "b"]));
        assert_eq!(link_target(b"."), Some(vec![]));
        for target in ["", "/", "/a", "a//b", "..", "a/../b", "c:/x", "c:x", "a\\b", "a\0"] {
            assert_eq!(link_target(target.as_bytes()), None, "{target:?}");
        }
    }
}
