//! Passwords, from the sources of libpq: `PGPASSWORD`, or the file that `PGPASSFILE` names, or `~/.pgpass`.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use hexad_support::bounded_file;

use super::open_error::PostgresOpenError;

/// The largest password file, in bytes.
const MAX_BYTES: usize = 1024 * 1024;

/// The known passwords.
#[derive(Default)]
pub struct Passwords {
    /// For every server.
    general: Option<String>,
    lines: Vec<Line>,
}

/// A line of a password file: host, port, database and user, each text or `*`; and the password.
struct Line {
    pattern: [String; 4],
    password: String,
}

impl fmt::Debug for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passwords")
    }
}

impl Passwords {
    pub fn from_environment() -> Result<Self, PostgresOpenError> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        if let Some(password) = variable("PGPASSWORD") {
            return Ok(Self { general: Some(password), lines: Vec::new() });
        }
        match variable("PGPASSFILE") {
            Some(path) => Self::from_file(Path::new(&path)),
            None => match variable("HOME").map(|home| PathBuf::from(home).join(".pgpass")) {
                Some(path) if path.exists() => Self::from_file(&path),
                _ => Ok(Self::default()),
            },
        }
    }

    pub fn from_file(path: &Path) -> Result<Self, PostgresOpenError> {
        let unusable = |reason: String| PostgresOpenError::PasswordFile { path: path.to_owned(), reason };
        let read = || -> io::Result<(u32, String)> {
            Ok((fs::metadata(path)?.permissions().mode(), bounded_file::read_text(path, MAX_BYTES)?))
        };
        let (mode, text) = read().map_err(|error| unusable(error.to_string()))?;
        if mode & 0o077 != 0 {
            return Err(unusable("other users can read it; do `chmod 600` on it".to_owned()));
        }
        Ok(Self::from_text(&text))
    }

    /// Reads the text of a password file.
    pub fn from_text(text: &str) -> Self {
        Self { general: None, lines: text.lines().filter_map(Line::parse).collect() }
    }

    /// The password of a user of a server. `host` is a name, an address or the folder of a socket.
    pub fn find(&self, host: &str, port: u16, database: &str, user: &str) -> Option<&str> {
        if let Some(password) = &self.general {
            return Some(password);
        }
        // As in libpq, `localhost` also matches a socket's folder.
        let hosts = [host, if host.starts_with('/') { "localhost" } else { host }];
        let port = port.to_string();
        let matches = |pattern: &str, text: &str| pattern == "*" || pattern == text;
        let line = self.lines.iter().find(|line| {
            let [line_host, line_port, line_database, line_user] = &line.pattern;
            hosts.iter().any(|host| matches(line_host, host))
                && matches(line_port, &port)
                && matches(line_database, database)
                && matches(line_user, user)
        });
        line.map(|line| &*line.password)
    }
}

impl Line {
    /// `None` for a comment and for a line that is too short. A backslash escapes the next character.
    fn parse(line: &str) -> Option<Self> {
        if line.starts_with('#') {
            return None;
        }
        let (mut fields, mut field) = (Vec::new(), String::new());
        let mut characters = line.chars();
        while let Some(character) = characters.next() {
            match character {
                ':' if fields.len() < 4 => fields.push(std::mem::take(&mut field)),
                '\\' => field.extend(characters.next()),
                other => field.push(other),
            }
        }
        Some(Self { pattern: fields.try_into().ok()?, password: field })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hexad_support::private_files;

    #[test]
    fn the_first_line_that_fits_has_the_password() {
        let known = Passwords::from_text(
            "# mine\n\ndb1:5432:forge:me:one\\:two\\\\\n*:*:forge:me:other:s\nlocalhost:*:*:me:local",
        );
        assert_eq!(known.find("db1", 5432, "forge", "me"), Some("one:two\\"));
        assert_eq!(known.find("db2", 5432, "forge", "me"), Some("other:s"));
        assert_eq!(known.find("/run/postgresql", 5432, "x", "me"), Some("local"));
        assert_eq!(known.find("db2", 5432, "forge", "you"), None);
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("passwords");
        private_files::replace(&path, &[b"*:*:*:*:secret"]).unwrap();
        assert_eq!(Passwords::from_file(&path).unwrap().find("h", 1, "d", "u"), Some("secret"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let text = Passwords::from_file(&path).unwrap_err().to_string();
        assert!(text.contains("chmod 600") && !text.contains("secret"), "{text}");
    }

    #[test]
    fn a_file_without_an_end_is_refused() {
        let text = Passwords::from_file(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(text.contains("more than"), "{text}");
    }
}
