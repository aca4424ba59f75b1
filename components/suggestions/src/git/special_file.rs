//! Files of a working copy that git reads: their names, and which contents it accepts.
//!
//! `.gitmodules` files: names and addresses of submodules with which a clone would run programs, leave its folder or
//! send credentials to another server. As git's submodule-config.c and urlmatch.c.

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
            (SpecialFile::Modules, Some(contents)) => check(contents),
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

/// Checks the contents of a `.gitmodules` file. The rest behind a syntax error is not checked, as git does not read
/// it either.
pub fn check(contents: &[u8]) -> Result<(), &'static str> {
    let mut parser = ConfigParser { rest: contents.strip_prefix(b"\xef\xbb\xbf").unwrap_or(contents), section: None };
    while let Some(variable) = parser.next_variable() {
        check_variable(&variable)?;
    }
    Ok(())
}

fn check_variable(variable: &Variable) -> Result<(), &'static str> {
    let Variable { submodule, key, value } = variable;
    if submodule.is_empty() || submodule.split(|byte| is_separator(*byte)).any(|part| part == b"..") {
        return Err("gitmodulesName: disallowed submodule name");
    }
    let Some(value) = value else { return Ok(()) };
    match key.as_slice() {
        b"url" if !is_accepted_url(value) => Err("gitmodulesUrl: disallowed submodule url"),
        // git once lost such a character at the end, and wrote where the path then led (CVE-2025-48384).
        b"path" if value.starts_with(b"-") || value.iter().any(u8::is_ascii_control) => {
            Err("gitmodulesPath: disallowed submodule path")
        }
        b"update" if value.starts_with(b"!") => Err("gitmodulesUpdate: disallowed submodule update setting"),
        _ => Ok(()),
    }
}

/// Also of paths on Windows.
fn is_separator(byte: u8) -> bool {
    matches!(byte, b'/' | b'\\')
}

fn is_accepted_url(url: &[u8]) -> bool {
    let (is_relative, parents, rest) = skip_dots(url);
    if url.starts_with(b"-") {
        return false;
    }
    if is_relative || url.starts_with(b"git://") {
        // With its first parts replaced, the address of the repository itself may become that of another server.
        return !has_line_feed(url) && (parents == 0 || !matches!(rest.first(), Some(b':' | b'/')));
    }
    match http_url(url) {
        Some(http) => is_normal(http) && !has_line_feed(http),
        None => true,
    }
}

/// Whether the URL begins with `./` or `../`, how many of the latter it begins with, and the rest behind them.
fn skip_dots(url: &[u8]) -> (bool, usize, &[u8]) {
    let (mut rest, mut parents) = (url, 0);
    loop {
        rest = match rest {
            [b'.', separator, tail @ ..] if is_separator(*separator) => tail,
            [b'.', b'.', separator, tail @ ..] if is_separator(*separator) => {
                parents += 1;
                tail
            }
            _ => return (rest.len() < url.len(), parents, rest),
        };
    }
}

fn has_line_feed(url: &[u8]) -> bool {
    url.contains(&b'\n') || url.windows(3).any(|part| part.eq_ignore_ascii_case(b"%0a"))
}

/// The part of an address that git gives to curl; `None` if git does not use curl.
fn http_url(url: &[u8]) -> Option<&[u8]> {
    let helpers = [&b"http::"[..], b"https::", b"ftp::", b"ftps::"];
    let schemes = [&b"http://"[..], b"https://", b"ftp://", b"ftps://"];
    let helped = helpers.iter().find_map(|helper| url.strip_prefix(*helper));
    helped.or_else(|| schemes.iter().any(|scheme| url.starts_with(scheme)).then_some(url))
}

/// Whether git can normalize a URL.
fn is_normal(url: &[u8]) -> bool {
    let Some(colon) = url.windows(3).position(|part| part == b"://") else { return false };
    let (scheme, rest) = url.split_at(colon);
    let is_scheme = scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'.' | b'-'));
    let rest = rest.get(3..).unwrap_or_default();
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority
        .iter()
        .position(|byte| *byte == b'@')
        .map_or(authority, |at| authority.get(at + 1..).unwrap_or_default());
    is_scheme && has_good_escapes(rest) && is_host(host, scheme.eq_ignore_ascii_case(b"file")) && stays_below_root(path)
}

/// Whether this is a host with or without a port.
fn is_host(text: &[u8], is_file: bool) -> bool {
    if matches!(text.first(), None | Some(b':')) {
        return is_file && text.is_empty();
    }
    let colon = text.iter().rposition(|byte| matches!(byte, b':' | b']')).filter(|at| text.get(*at) == Some(&b':'));
    let (name, port) =
        colon.map_or((text, &[][..]), |at| (text.get(..at).unwrap_or(text), text.get(at + 1..).unwrap_or_default()));
    let is_name = name.iter().all(|byte| byte.is_ascii_alphanumeric() || b".-_[:]".contains(byte));
    let number = std::str::from_utf8(port).ok().filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    is_name && (port.is_empty() || number.and_then(|port| port.parse::<u16>().ok()).is_some_and(|port| port > 0))
}

fn has_good_escapes(text: &[u8]) -> bool {
    text.iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'%')
        .all(|(at, _)| text.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)))
}

/// Whether no `..` of a path leads above its beginning.
fn stays_below_root(path: &[u8]) -> bool {
    let end = path.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(path.len());
    let mut depth = 0_usize;
    for part in path.get(..end).unwrap_or_default().split(|byte| *byte == b'/').skip(1) {
        match String::from_utf8_lossy(part).to_ascii_lowercase().replace("%2e", ".").as_str() {
            ".." if depth == 0 => return false,
            ".." => depth -= 1,
            "." => {}
            _ => depth += 1,
        }
    }
    true
}

/// A variable of a section `[submodule "…"]`.
struct Variable {
    submodule: Vec<u8>,
    /// In lower case.
    key: Vec<u8>,
    /// `None`: the name stands alone.
    value: Option<Vec<u8>>,
}

/// Reads a file in git's format of configuration (git-config).
struct ConfigParser<'a> {
    rest: &'a [u8],
    /// The section's submodule, if it has one.
    section: Option<Vec<u8>>,
}

impl ConfigParser<'_> {
    /// `None` at the end of the file and at a syntax error.
    fn next_variable(&mut self) -> Option<Variable> {
        loop {
            match self.next()? {
                b'#' | b';' => while self.next()? != b'\n' {},
                b'[' => self.section = self.parse_section()?,
                byte if byte.is_ascii_whitespace() => {}
                byte if byte.is_ascii_alphabetic() => {
                    let (key, value) = self.parse_variable(byte)?;
                    if let Some(submodule) = self.section.clone() {
                        return Some(Variable { submodule, key, value });
                    }
                }
                _ => return None,
            }
        }
    }

    fn next(&mut self) -> Option<u8> {
        if let Some(rest) = self.rest.strip_prefix(b"\r\n") {
            self.rest = rest;
            return Some(b'\n');
        }
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// Reads `submodule "name"]` or `submodule.name]`. The inner value is `None` for other sections.
    fn parse_section(&mut self) -> Option<Option<Vec<u8>>> {
        let mut name = Vec::new();
        loop {
            match self.next()? {
                b']' => return Some(name.strip_prefix(b"submodule.").map(<[u8]>::to_vec)),
                byte if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.') => {
                    name.push(byte.to_ascii_lowercase());
                }
                b'\n' => return None,
                byte if byte.is_ascii_whitespace() => break,
                _ => return None,
            }
        }
        let is_blank = |rest: &[u8]| !rest.starts_with(b"\r\n") && matches!(rest, [b' ' | b'\t' | b'\r', ..]);
        while is_blank(self.rest) {
            self.next();
        }
        if self.next()? != b'"' {
            return None;
        }
        let mut subsection = Vec::new();
        loop {
            match self.next()? {
                b'"' => break,
                b'\n' => return None,
                b'\\' => subsection.push(self.next().filter(|byte| *byte != b'\n')?),
                byte => subsection.push(byte),
            }
        }
        let is_closed = self.next()? == b']';
        is_closed.then(|| match name.strip_prefix(b"submodule")? {
            [] => Some(subsection),
            [b'.', outer @ ..] => Some([outer, b".", &subsection].concat()),
            _ => None,
        })
    }

    fn parse_variable(&mut self, first: u8) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let mut key = vec![first.to_ascii_lowercase()];
        let mut byte = self.next();
        while let Some(more) = byte.filter(|byte| byte.is_ascii_alphanumeric() || *byte == b'-') {
            key.push(more.to_ascii_lowercase());
            byte = self.next();
        }
        while matches!(byte, Some(b' ' | b'\t')) {
            byte = self.next();
        }
        match byte {
            None | Some(b'\n') => Some((key, None)),
            Some(b'=') => Some((key, Some(self.parse_value()?))),
            Some(_) => None,
        }
    }

    /// Reads the rest of the line, and the lines that continue it.
    fn parse_value(&mut self) -> Option<Vec<u8>> {
        let (mut value, mut end) = (Vec::new(), 0);
        let (mut is_quoted, mut is_comment) = (false, false);
        loop {
            match self.next().unwrap_or(b'\n') {
                b'\n' if is_quoted => return None,
                b'\n' => break,
                _ if is_comment => {}
                b'#' | b';' if !is_quoted => is_comment = true,
                byte if byte.is_ascii_whitespace() && !is_quoted => {
                    // Not at the beginning, nor at the end.
                    value.extend((!value.is_empty()).then_some(byte));
                }
                b'"' => is_quoted = !is_quoted,
                byte => {
                    let escaped = if byte == b'\\' { self.next()? } else { byte };
                    value.push(match (byte, escaped) {
                        (b'\\', b'\n') => continue,
                        (b'\\', b't') => b'\t',
                        (b'\\', b'b') => 8,
                        (b'\\', b'n') => b'\n',
                        (b'\\', b'\\' | b'"') => escaped,
                        (b'\\', _) => return None,
                        _ => byte,
                    });
                    end = value.len();
                }
            }
            end = if is_quoted { value.len() } else { end };
        }
        value.truncate(end);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn id_of(file: &str) -> String {
        let why = check(file.as_bytes()).err().unwrap_or_default();
        why.split(':').next().unwrap_or_default().to_owned()
    }

    // The expected outcomes are those of `git fsck --strict` 2.47.
    #[test]
    fn addresses_are_accepted_as_by_git() {
        for good in [
            "https://example.com/a.git",
            "../a.git",
            "./-x",
            "::x.com",
            "ext::sh",
            "file:///etc",
            "http:/:x",
            "https://a",
            "https::https://a/b",
            "./:x",
            "x%0a",
            "https://u:p@h/x",
            "https://[::1]/x",
            "https://[::1]:80/x",
            "https://a?x",
            "HTTPS://::x/y",
            "https://a:/x",
            "https://a_b/x",
            "git@h:x",
            "https://a/b/../c",
            "x # -x",
        ] {
            assert_eq!(id_of(&format!("[submodule \"a\"]\n\tpath = a\n\turl = {good}\n")), "", "{good}");
        }
        for bad in [
            "-x",
            "\"-x\"",
            "\"-\"x",
            "\\\n-x",
            "--upload-pack=x",
            "https://::example.com/x",
            "https:///x",
            "https://a:99999/x",
            "https://a:b/x",
            "https://a/x%0ay",
            "http::-x",
            "https::example.com",
            "../:x",
            "../../:x",
            "..//x",
            "./../:x",
            "..\\\\:x",
            "../x%0a",
            "git://x/%0A",
            "https://u:p@/x",
            "https://a b/x",
            "https://a/%zz",
            "https://a/x%",
            "https://%0a/x",
            "ftp://:/",
            "https://a:0/x",
            "https://ü/x",
            "https://a/../../x",
            "https://?x",
            "https://#",
            "https://a/x\\ny",
        ] {
            assert_eq!(id_of(&format!("[submodule \"a\"]\n\turl = {bad}\n")), "gitmodulesUrl", "{bad}");
        }
    }

    #[test]
    fn files_are_read_as_by_git() {
        for (file, expected) in [
            ("[submodule \"a\"] url = -x\n", "gitmodulesUrl"),
            ("[submodule.a]\nurl = -x", "gitmodulesUrl"),
            ("[submodule.a \"b\"]\nurl = -x", "gitmodulesUrl"),
            ("[submodule.a \"../../b\"]\nurl = x", "gitmodulesName"),
            ("[submodulex.a \"b\"]\nurl = -x", ""),
            ("[submodule \r\"a\"]\nurl = -x", "gitmodulesUrl"),
            ("[submodule\r \r\t\"a\"]\nurl = -x", "gitmodulesUrl"),
            ("[SUBMODULE \"a\"]\r\nURL = -x\r\n", "gitmodulesUrl"),
            ("\u{feff}[submodule   \"a\"]\nurl=-x", "gitmodulesUrl"),
            ("[submodule \"a\"]\nurl = -x\n[[[\n", "gitmodulesUrl"),
            ("[submodule \"a\"]\npath = a\nurl\n", ""),
            ("[[[\n[submodule \"a\"]\nurl = -x\n", ""),
            ("[submodule \"a\"]\n# url = -x\n; path = -x\n", ""),
            ("[other \"a\"]\nurl = -x\n", ""),
            ("[submodule]\nurl = -x\n", ""),
            ("[submodule \"../a\"]\nurl = x\n", "gitmodulesName"),
            ("[submodule \"..\"]\nurl = x\n", "gitmodulesName"),
            ("[submodule \"a\\\\..\\\\b\"]\nurl = x\n", "gitmodulesName"),
            ("[submodule \"\"]\nurl = x\n", "gitmodulesName"),
            ("[submodule \"a/../b\"]\n", ""),
            ("[submodule \"a..b\"]\nurl = x\n", ""),
            ("[submodule \"a\"]\nupdate = !x\n", "gitmodulesUpdate"),
            ("[submodule \"a\"]\nupdate = rebase\n", ""),
            ("[submodule \"a\"]\npath = -a\n", "gitmodulesPath"),
            ("", ""),
        ] {
            assert_eq!(id_of(file), expected, "{file:?}");
        }
    }
}
