//! Storage keys. The crate's documentation has the table of keys.

use crate::model::token::Fingerprint;
use kit::store::StoreError;
use std::fmt::{self, Write as _};

/// The longest key, in bytes, except keys with a longer path or blob id.
const CAPACITY: usize = 88;

pub(crate) enum Key<'a> {
    User(u64),
    Token(&'a Fingerprint),
    /// A user's personal tokens.
    UserTokens(u64),
    TokenMigration,
    Namespace(u64),
    Project(u64),
    /// A path segment, in lower case, below a namespace (0 is the top).
    Path(u64, String),
    /// A user's memberships.
    Memberships(u64),
    Settings,
    Features,
    Catalog,
    /// A blob of the catalog, by its id.
    CatalogBlob(&'a str),
    CatalogChanges,
    Demo,
}

impl Key<'_> {
    /// The prefix of the keys of path entries.
    pub const PATHS: &'static str = "directory/v1/path/";

    /// The prefix of the keys of tokens.
    pub const TOKENS: &'static str = "directory/v1/token/";

    /// The key of a token in logs and reports, which other people than its user read.
    pub const HIDDEN_TOKEN: &'static str = "directory/v1/token/(hidden)";

    /// The prefix of the keys of the lists of users' tokens.
    pub const TOKEN_LISTS: &'static str = "directory/v1/tokens/";

    pub fn path(parent_id: Option<u64>, segment: &str) -> Self {
        Key::Path(parent_id.unwrap_or(0), segment.to_ascii_lowercase())
    }

    /// The namespace id and the segment in the key of a path entry.
    pub fn parse_path(key: &str) -> Option<(Option<u64>, &str)> {
        let (parent_id, segment) = key.strip_prefix(Self::PATHS)?.split_once('/')?;
        let parent_id = parent_id.parse().ok()?;
        // The key of the counter beside a root has one more part.
        (!segment.contains('/')).then_some(((parent_id != 0).then_some(parent_id), segment))
    }

    /// The key as text. `to_string` would grow an empty text.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(CAPACITY);
        let _ = write!(text, "{self}");
        text
    }

    /// An error for the log, without the fingerprint of a token.
    pub fn redact(&self, error: StoreError) -> StoreError {
        let hidden = || Self::HIDDEN_TOKEN.to_owned();
        match (self, error) {
            (Key::Token(_), StoreError::Corrupt { why, .. }) => StoreError::Corrupt { key: hidden(), why },
            (Key::Token(_), StoreError::Contended(_)) => StoreError::Contended(hidden()),
            (Key::Token(_), StoreError::Denied(_)) => StoreError::Denied(hidden()),
            (_, error) => error,
        }
    }
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("directory/v1/")?;
        match self {
            Key::User(id) => write!(f, "user/{id}"),
            Key::Token(fingerprint) => {
                f.write_str("token/")?;
                f.write_str(&fingerprint.to_hex())
            }
            Key::UserTokens(user_id) => write!(f, "tokens/{user_id}"),
            Key::TokenMigration => f.write_str("tokens/migration"),
            Key::Namespace(id) => write!(f, "namespace/{id}"),
            Key::Project(id) => write!(f, "project/{id}"),
            Key::Path(parent_id, segment) => write!(f, "path/{parent_id}/{segment}"),
            Key::Memberships(user_id) => write!(f, "access/{user_id}"),
            Key::Settings => f.write_str("settings"),
            Key::Features => f.write_str("features"),
            Key::Catalog => f.write_str("catalog"),
            Key::CatalogBlob(id) => write!(f, "catalog/blob/{id}"),
            Key::CatalogChanges => f.write_str("catalog/changes"),
            Key::Demo => f.write_str("demo"),
        }
    }
}
